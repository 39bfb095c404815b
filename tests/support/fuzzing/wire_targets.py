"""Fuzz targets of the wire: what a peer may send before and after the session is open, at both ends (WIRE-1..4).

The first byte of an input says which subprotocol and which state; the rest is one message, or several with a mark
between them.
"""

from __future__ import annotations

from functools import cache
from typing import Final

from fuzzing.vectors import client_messages
from stemmadb.client.nursery.nursery import Nursery
from stemmadb.protocol.errors import StemmaError, Unavailable
from stemmadb.protocol.model.commit.proposal import prepare_or_refuse
from stemmadb.protocol.model.log.commit_record import LocalIdentity
from stemmadb.protocol.model.values.ids import Hash, Local, Version
from stemmadb.protocol.wire.codec.msgpack_codec import Data, MsgpackCodec, encode_content, read_content
from stemmadb.protocol.wire.codec.subprotocols import codec_for
from stemmadb.protocol.wire.connection.base import Closed
from stemmadb.protocol.wire.connection.client_side import Answered, ClientConnection, SessionPosition
from stemmadb.protocol.wire.connection.server_events import RefusedMessage
from stemmadb.protocol.wire.connection.server_side import ServerConnection
from stemmadb.protocol.wire.messages.base import Request
from stemmadb.protocol.wire.messages.commit import CommitMessage
from stemmadb.protocol.wire.messages.sync import Sync
from stemmadb.protocol.wire.version import JSON, MSGPACK, Subprotocol
from stemmadb.server.serving import front_page
from stemmadb.server.serving.listeners.handshake import HandshakeReply, Upgrade, answer_request, refuse
from stemmadb.server.serving.listeners.http import (
    HEAD_END,
    BadRequest,
    HttpAnswer,
    HttpRequest,
    body_length,
    read_head,
)
from stemmadb.server.serving.listeners.origins import AllowedOrigins
from wire_peers import ALICE, SESSION, Peers, did_of

TEXT, GREETED, HELD, MARK = 0x01, 0x02, 0x04, b"\xc1\xc1"
"""Bits of the first byte, and what divides messages: no msgpack and no UTF-8 has these bytes."""
MESSAGES_MAX: Final = 8
_ORIGINS: Final = AllowedOrigins(["https://app.example"])


def server_side(data: bytes) -> None:
    """A server that is sent this answers, refuses or closes; what it says to the client can be read by one."""
    kind, messages = _split(data)
    peers = Peers(_subprotocol(kind))
    _ = peers.greeted() if kind & GREETED else peers.opened(_standing(kind))
    for message in messages:
        _serve(peers.server, message)


def client_side(data: bytes) -> None:
    """A client that is sent this takes it or closes; a frame it takes is integrated whole, or not at all."""
    kind, messages = _split(data)
    peers = Peers(_subprotocol(kind))
    if not kind & GREETED:
        peers.opened(_standing(kind))
        _ask_everything(peers.client)
    nursery = Nursery(did_of(ALICE))
    if kind & HELD:
        nursery.stand_at(Version(2), Hash(bytes(32)))
    for message in messages:
        for event in peers.client.receive(message):
            if isinstance(event, Sync):
                _integrate(nursery, event)
            elif isinstance(event, Answered) and isinstance(event.result, StemmaError):
                event.result.message.encode()
            elif isinstance(event, Closed):
                event.error.message.encode()


def contents(data: bytes) -> None:
    """The content of a commit is refused, or read, and then it is ready to be decided or says why not (MODEL-4)."""
    try:
        content = read_content(data)
    except StemmaError as error:
        error.message.encode()
        return
    # What is read is written in one way, and that is read as the same.
    assert read_content(encode_content(content)) == content
    identity = LocalIdentity(did_of(ALICE), SESSION, Local(1))
    proposal = prepare_or_refuse(identity, Hash(bytes(32)), content)
    if proposal.refusal is None:
        assert len(proposal.steps) == len(content.operations)


def handshakes(data: bytes) -> None:
    """The head of a request gets a WebSocket or a plain answer, whatever it says (WIRE-1)."""
    answer: Upgrade | HandshakeReply
    try:
        request = read_head(data + HEAD_END)
        body_length(request)
    except BadRequest as bad:
        answer = refuse(bad.status, str(bad))
    else:
        answer = answer_request(request, origins=_ORIGINS, http=_pages)
    if isinstance(answer, Upgrade):
        assert answer.response.startswith(b"HTTP/1.1 101 "), answer.response
    else:
        assert isinstance(answer, HandshakeReply)
        head, _, _ = answer.data.partition(HEAD_END)
        assert answer.data.startswith(b"HTTP/1.1 "), answer.data
        assert all(b"\n" not in line and b": " in line for line in head.split(b"\r\n")[1:]), head


# ---------------------------------------------------------------- how they are driven


def _split(data: bytes) -> tuple[int, list[Data]]:
    kind, rest = (data[0], data[1:]) if data else (0, b"")
    parts = rest.split(MARK)[:MESSAGES_MAX]
    return kind, [part.decode("utf-8", "replace") for part in parts] if kind & TEXT else list(parts)


def _subprotocol(kind: int) -> Subprotocol:
    return JSON if kind & TEXT else MSGPACK


def _standing(kind: int) -> SessionPosition | None:
    return SessionPosition(to=Version(2), hash=Hash(bytes(32))) if kind & HELD else None


def _serve(server: ServerConnection, message: Data) -> None:
    """Everything that is said to the client can be read by one."""
    read = codec_for(server.subprotocol).read_server
    for event in server.receive(message):
        if isinstance(event, RefusedMessage):
            read(event.reply)
        elif isinstance(event, Closed):
            assert event.farewell is not None
            read(event.farewell)
        elif isinstance(event, CommitMessage):
            contents(event.content)
        elif isinstance(event, Request):
            failed = server.fail(event.id, Unavailable())
            assert failed is not None
            read(failed)


def _ask_everything(client: ClientConnection) -> None:
    """One request of each kind waits, as the vectors number them, so that every answer can be tried."""
    for request in _requests():
        client.request(request)


@cache
def _requests() -> tuple[Request, ...]:
    read = [MsgpackCodec().read_client(bytes.fromhex(case["msgpack_hex"])) for case in client_messages()]
    first = {message.id: message for message in reversed(read) if isinstance(message, Request)}
    return tuple(first.values())  # a second example of a kind has the id of the first


def _integrate(nursery: Nursery, frame: Sync) -> None:
    before = nursery.to
    try:
        nursery.integrate(frame, session=SESSION, issued=3)
    except StemmaError:
        assert nursery.to == before


def _pages(request: HttpRequest) -> HttpAnswer | None:
    """The front page too, which reads headers."""
    return front_page.answer(request, ("/health",), is_tls=False) if request.path == "/" else None
