"""Messages to bytes or text and back, with every bound enforced: one codec for each subprotocol (WIRE-1).

Reading goes from cheap to exact: the size, the shape (typed, in C), the counts, and that nothing was written twice.
What is bad is answered by one typed error and costs no more than what is good.
"""

from __future__ import annotations

from typing import Any, Final, Protocol, TypeAlias, TypeVar

import msgspec

from stemmadb.protocol.errors import StemmaError
from stemmadb.protocol.model.commit.request import Content
from stemmadb.protocol.model.values.limits import DEFAULTS, Limits
from stemmadb.protocol.wire.codec import bounds, exact, failures
from stemmadb.protocol.wire.codec.peek import Peeked, peek_binary, peek_large_binary
from stemmadb.protocol.wire.messages import ClientMessage, ServerMessage
from stemmadb.protocol.wire.messages.base import Message, Part
from stemmadb.protocol.wire.messages.commit import CommitMessage
from stemmadb.protocol.wire.messages.session import Ok

Data: TypeAlias = bytes | str
A = TypeVar("A", bound=Part)

_ENVELOPE_DEPTH: Final = 16  # how deep the typed part of any message can be, around a value
_encoder: Final = msgspec.msgpack.Encoder()
_client: Final = msgspec.msgpack.Decoder(ClientMessage)
_server: Final = msgspec.msgpack.Decoder(ServerMessage)
_content: Final = msgspec.msgpack.Decoder(Content)


class OkEnvelope(Message, frozen=True, kw_only=True, tag="ok"):
    """An `ok` on its way out, its result still an object, so that it is encoded in one go."""

    id: int
    result: Any


class Codec(Protocol):
    """What both subprotocols do."""

    limits: Limits

    def encode(self, message: Message) -> Data:
        """Our own message as it is sent."""
        ...

    def encode_answer(self, id_: int, result: Part) -> Data:
        """The `ok` to a request."""
        ...

    def read_client(self, data: Data) -> ClientMessage:
        """What a client sent."""
        ...

    def read_server(self, data: Data) -> ServerMessage:
        """What a server sent; the result of an `ok` is read by `read_result`."""
        ...

    def read_result(self, ok: Ok, answer: type[A]) -> A:
        """The result of an `ok`, once it is known to which request it belongs."""
        ...

    def peek(self, data: Data) -> Peeked:
        """What can be told of a message that could not be read; never fails."""
        ...


class MsgpackCodec:
    """`stemma.v1.msgpack`: binary messages."""

    def __init__(self, limits: Limits = DEFAULTS) -> None:
        self.limits = limits
        self._light_max = min(limits.message_bytes_max, limits.schema_bytes_max)
        self._depth_max = limits.depth_max + _ENVELOPE_DEPTH
        self._results: dict[type[Part], msgspec.msgpack.Decoder[Any]] = {}

    def encode(self, message: Message) -> bytes:
        data = _encoder.encode(message)
        if len(data) > self.limits.message_bytes_max:
            bounds.check_size(len(data), self.limits)
        return data

    def encode_answer(self, id_: int, result: Part) -> bytes:
        return self.encode(OkEnvelope(id=id_, result=result))

    def read_client(self, data: Data) -> ClientMessage:
        assert isinstance(data, bytes), "the connection lets no text through"
        if len(data) > self._light_max:
            bounds.check_size(len(data), self.limits)
            bounds.check_light(len(data), self.peek(data).type, self.limits)
        try:
            message: ClientMessage = _client.decode(data)
            if not isinstance(message, CommitMessage):
                bounds.check_client(message, self.limits)
            if _encoder.encode(message) != data:
                exact.check(data, depth_max=self._depth_max)
        except failures.DecoderFailures as failure:
            raise self._failed(failure, data) from None
        return message

    def read_server(self, data: Data) -> ServerMessage:
        assert isinstance(data, bytes), "the connection lets no text through"
        if len(data) > self.limits.message_bytes_max:
            bounds.check_size(len(data), self.limits)
        try:
            message: ServerMessage = _server.decode(data)
            bounds.check_server(message, self.limits)
            if _encoder.encode(message) != data:
                exact.check(data, depth_max=self._depth_max)
        except failures.DecoderFailures as failure:
            raise self._failed(failure, data) from None
        return message

    def read_result(self, ok: Ok, answer: type[A]) -> A:
        decoder = self._results.get(answer)
        if decoder is None:
            decoder = self._results[answer] = msgspec.msgpack.Decoder(answer)
        data = bytes(ok.result)
        try:
            result: A = decoder.decode(data)
            if _encoder.encode(result) != data:
                exact.check(data, depth_max=self._depth_max)
        except failures.DecoderFailures as failure:
            raise failures.malformed(failure, inside="result") from None
        return result

    def peek(self, data: Data) -> Peeked:
        assert isinstance(data, bytes), "the connection lets no text through"
        return peek_large_binary(data) if len(data) > self.limits.message_bytes_max else peek_binary(data)

    def _failed(self, failure: Exception, data: bytes) -> StemmaError:
        return failures.malformed(failure, type_=self.peek(data).type)


def read_content(content: bytes, limits: Limits = DEFAULTS) -> Content:
    """The content of a commit; its operations' bodies stay bytes (MODEL-4)."""
    try:
        read: Content = _content.decode(content)
        bounds.check_content(read, limits)
        if _encoder.encode(read) != content:
            exact.check(content, depth_max=limits.depth_max)
    except failures.DecoderFailures as failure:
        raise failures.malformed(failure, inside="content") from None
    return read


def encode_content(content: Content) -> bytes:
    """What a client sends and signs for with its nonce: kept as bytes, so that a retry sends the same."""
    return _encoder.encode(content)
