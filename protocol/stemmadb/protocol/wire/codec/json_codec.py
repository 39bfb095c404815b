"""The JSON subprotocol: text messages of the same shapes, for consoles, debugging and small clients (WIRE-1)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final, NoReturn, cast

import msgspec

from stemmadb.protocol.errors import Malformed, UnknownMessage
from stemmadb.protocol.model.values.body import encode
from stemmadb.protocol.model.values.limits import DEFAULTS, Limits
from stemmadb.protocol.wire.codec import bounds, failures
from stemmadb.protocol.wire.codec.json_form import convert, form_of
from stemmadb.protocol.wire.codec.msgpack_codec import A, Data, OkEnvelope
from stemmadb.protocol.wire.codec.peek import Peeked, peek_large_text, peek_text
from stemmadb.protocol.wire.messages import CLIENT_MESSAGES, SERVER_MESSAGES, ClientMessage, ServerMessage, type_of
from stemmadb.protocol.wire.messages.base import Message, Part
from stemmadb.protocol.wire.messages.session import Ok

_CLIENT: Final = {type_of(cls): cls for cls in CLIENT_MESSAGES}
_SERVER: Final = {type_of(cls): cls for cls in SERVER_MESSAGES}

JSON_SWELLS: Final = 6
"""How much larger than its msgpack a text can be: a control character, or `false`, takes six bytes for one."""


class JsonCodec:
    """`stemma.v1.json`: text messages."""

    def __init__(self, limits: Limits = DEFAULTS) -> None:
        self.limits = limits

    def encode(self, message: Message) -> str:
        data = msgspec.json.encode(form_of(type(message)).write(message))
        # A server's message is bounded by its msgpack: what one client can store, every other one can be sent.
        bounds.check_size(len(data) if type_of(type(message)) in _CLIENT else len(encode(message)), self.limits)
        return data.decode()

    def encode_answer(self, id_: int, result: Part) -> str:
        bounds.check_size(len(encode(OkEnvelope(id=id_, result=result))), self.limits)
        answer = {"type": type_of(Ok), "id": id_, "result": form_of(type(result)).write(result)}
        return msgspec.json.encode(answer).decode()

    def read_client(self, data: Data) -> ClientMessage:
        size = _size(data, self.limits.message_bytes_max)
        if size > self.limits.schema_bytes_max:
            bounds.check_light(size, self.peek(data).type, self.limits)
        message: ClientMessage = _read_message(parse(data), _CLIENT, self.limits)
        bounds.check_client(message, self.limits)
        return message

    def read_server(self, data: Data) -> ServerMessage:
        _size(data, self.limits.message_bytes_max * JSON_SWELLS)
        message: ServerMessage = _read_message(parse(data), _SERVER, self.limits)
        bounds.check_server(message, self.limits)
        return message

    def read_result(self, ok: Ok, answer: type[A]) -> A:
        parsed = parse(bytes(ok.result).decode())
        return cast("A", convert(form_of(answer).read(parsed, "result", self.limits), answer, inside="result"))

    def peek(self, data: Data) -> Peeked:
        assert isinstance(data, str), "the connection lets no binary through"
        return peek_large_text(data) if len(data) > self.limits.message_bytes_max else peek_text(data)


def _size(data: Data, maximum: int) -> int:
    assert isinstance(data, str), "the connection lets no binary through"
    # A character takes one byte at least, so a text that is too long need not be encoded to be measured.
    bounds.check_text(len(data), maximum)
    try:
        size = len(data.encode())
    except UnicodeError as failure:
        raise failures.malformed(failure) from None
    bounds.check_text(size, maximum)
    return size


def _read_message(parsed: Any, classes: Mapping[str, type[Message]], limits: Limits) -> Any:
    if not isinstance(parsed, dict):
        raise Malformed(path=failures.WHOLE, why="it is not an object")
    type_ = parsed.get("type")
    if not isinstance(type_, str):
        raise Malformed(path="type", why="it is missing" if "type" not in parsed else "it is not a string")
    cls = classes.get(type_)
    if cls is None:
        raise UnknownMessage(type=failures.shown(type_))
    return convert(form_of(cls).read(parsed, "", limits), cls)


def parse(data: Data) -> Any:
    """The JSON of a text, in which no object repeats a key and no number is not a number."""
    try:
        return json.loads(data, object_pairs_hook=_object, parse_constant=_no_constant)
    except RecursionError as failure:
        raise failures.malformed(failure) from None
    except ValueError as wrong:  # not JSON, or a number with thousands of digits
        raise Malformed(path=failures.WHOLE, why=failures.shown(wrong)) from None


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        seen: set[str] = set()
        repeated = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise Malformed(path=failures.shown(repeated), why="the key occurs twice in one object")
    return made


def _no_constant(name: str) -> NoReturn:
    raise Malformed(path=failures.WHOLE, why=f"{name} is not a JSON number")
