"""The server's end of a connection: order and signatures (WIRE-2, WIRE-3)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from stemmadb.protocol import errors
from stemmadb.protocol.errors import (
    GoingAway,
    Malformed,
    OutOfOrder,
    TakenOver,
    Unauthenticated,
)
from stemmadb.protocol.model.values.body import encode
from stemmadb.protocol.model.values.ids import Hash, Local, Version
from stemmadb.protocol.wire import version
from stemmadb.protocol.wire.codec.json_codec import JsonCodec
from stemmadb.protocol.wire.codec.msgpack_codec import MsgpackCodec
from stemmadb.protocol.wire.connection.base import Closed, ConnectionState
from stemmadb.protocol.wire.connection.client_side import ClientConnection, SessionPosition
from stemmadb.protocol.wire.connection.server_side import CHALLENGE_MS
from stemmadb.protocol.wire.messages.commit import CommitMessage, Deferred
from stemmadb.protocol.wire.messages.session import Goodbye, Hello, Ping, SessionOpen
from stemmadb.protocol.wire.messages.sync import Sync
from wire_peers import ALICE, BOB, SERVER, SESSION, SPACE, Peers, did_of, sent

CODEC = MsgpackCodec()
COMMIT = CommitMessage(local=Local(1), nonce=bytes(16), content=b"x")
HASH = Hash(bytes(32))


def ping(id_: int = 1) -> bytes:
    return CODEC.encode(Ping(id=id_))


def closed(events: list[Any], error: type[errors.StemmaError]) -> Closed:
    """The one event, that the connection is over for this reason; the farewell says the same."""
    [event] = events
    assert isinstance(event, Closed)
    assert type(event.error) is error
    assert isinstance(event.farewell, bytes)
    farewell = CODEC.read_server(event.farewell)
    assert isinstance(farewell, Goodbye)
    assert farewell.code == error.code
    return event


@pytest.mark.rule("WIRE-2")
@pytest.mark.parametrize("subprotocol", version.SUBPROTOCOLS)
def test_the_server_speaks_first_and_lets_in_who_signed_its_challenge(subprotocol: version.Subprotocol) -> None:
    peers = Peers(subprotocol)
    [hello] = peers.client.receive(peers.server.hello())
    assert isinstance(hello, Hello)
    assert (hello.protocol, hello.server, hello.features) == (1, SERVER, ("blobs",))
    [opened] = peers.server.receive(peers.opening())
    assert isinstance(opened, SessionOpen)
    assert (peers.server.principal, peers.server.session) == (did_of(ALICE), SESSION)
    assert peers.server.state is ConnectionState.OPEN


@pytest.mark.rule("WIRE-2")
def test_hello_is_said_once_and_before_anything_is_read() -> None:
    peers = Peers()
    with pytest.raises(AssertionError):
        peers.server.receive(ping())
    peers.server.hello()
    with pytest.raises(AssertionError):
        peers.server.hello()


@pytest.mark.rule("WIRE-2")
def test_a_signature_of_someone_else_opens_nothing() -> None:
    peers = Peers().greeted()
    event = closed(peers.server.receive(peers.opening(key=BOB)), Unauthenticated)
    assert event.close_code == 1008
    assert peers.server.state is ConnectionState.CLOSED
    assert peers.server.receive(ping()) == []


def _other_server(opening: SessionOpen) -> SessionOpen:
    peers = Peers()
    peers.client.receive(CODEC.encode(Hello(protocol=1, server=SPACE, challenge=bytes(range(32)))))
    return _opening(peers)


def _other_challenge(opening: SessionOpen) -> SessionOpen:
    peers = Peers()
    peers.client.receive(CODEC.encode(Hello(protocol=1, server=SERVER, challenge=bytes(32))))
    return _opening(peers)


def _other_space(opening: SessionOpen) -> SessionOpen:
    peers = Peers()
    peers.client = ClientConnection(subprotocol=version.MSGPACK, space=did_of(BOB))
    return msgspec.structs.replace(_opening(peers.greeted()), space=None)


def _opening(peers: Peers) -> SessionOpen:
    message = CODEC.read_client(peers.opening())
    assert isinstance(message, SessionOpen)
    return message


STOLEN: list[tuple[str, Callable[[SessionOpen], SessionOpen]]] = [
    ("for another server", _other_server),
    ("for another challenge", _other_challenge),
    ("for another space", _other_space),
    ("with another space named", lambda opening: msgspec.structs.replace(opening, space=did_of(BOB))),
    ("with another session", lambda opening: msgspec.structs.replace(opening, session=bytes(16))),
    ("with another principal", lambda opening: msgspec.structs.replace(opening, principal=did_of(BOB))),
    ("with a bit changed", lambda opening: msgspec.structs.replace(opening, signature=bytes(64))),
]


@pytest.mark.rule("WIRE-2")
@pytest.mark.parametrize("change", [case[1] for case in STOLEN], ids=[case[0] for case in STOLEN])
def test_a_signature_made_for_anything_else_opens_nothing(change: Callable[[SessionOpen], SessionOpen]) -> None:
    peers = Peers().greeted()
    closed(peers.server.receive(CODEC.encode(change(_opening(peers)))), Unauthenticated)


@pytest.mark.rule("WIRE-2")
def test_the_space_need_not_be_named_again() -> None:
    peers = Peers().greeted()
    [event] = peers.server.receive(CODEC.encode(msgspec.structs.replace(_opening(peers), space=None)))
    assert isinstance(event, SessionOpen)


@pytest.mark.rule("WIRE-2")
def test_a_principal_that_is_no_did_opens_nothing() -> None:
    peers = Peers().greeted()
    opening = msgspec.structs.replace(_opening(peers), principal=did_of(ALICE)[:-1])
    assert closed(peers.server.receive(CODEC.encode(opening)), errors.InvalidDid).close_code == 1008


@pytest.mark.rule("WIRE-2")
@pytest.mark.parametrize(("late", "opens"), [(0, True), (1, False)])
def test_a_challenge_expires(late: int, opens: bool) -> None:
    peers = Peers().greeted()
    peers.now += CHALLENGE_MS + late
    [event] = peers.server.receive(peers.opening())
    assert isinstance(event, SessionOpen) is opens


@pytest.mark.rule("WIRE-2")
def test_a_challenge_lives_as_long_as_a_client_has_to_open_its_session() -> None:
    assert CHALLENGE_MS == 10_000


@pytest.mark.rule("WIRE-2")
def test_a_challenge_is_used_once() -> None:
    peers = Peers().greeted()
    data = peers.opening()
    peers.server.receive(data)
    closed(peers.server.receive(data), OutOfOrder)


@pytest.mark.rule("WIRE-2")
@pytest.mark.parametrize("data", [ping(), CODEC.encode(COMMIT)])
def test_nothing_is_taken_before_the_session_is_open(data: bytes) -> None:
    peers = Peers().greeted()
    assert closed(peers.server.receive(data), OutOfOrder).close_code == 1002


@pytest.mark.rule("WIRE-2")
@pytest.mark.parametrize("data", [b"", b"\xc1", encode({"type": "session.open"})])
def test_who_cannot_open_a_session_gets_no_second_try(data: bytes) -> None:
    closed(Peers().greeted().server.receive(data), Malformed)


@pytest.mark.rule("RESUME-1")
def test_a_client_that_holds_a_version_names_its_hash() -> None:
    peers = Peers().greeted()
    closed(peers.server.receive(peers.opening(standing=SessionPosition(to=Version(3)))), Malformed)
    peers = Peers().greeted()
    [event] = peers.server.receive(peers.opening(standing=SessionPosition(to=Version(3), hash=HASH)))
    assert isinstance(event, SessionOpen)


@pytest.mark.rule("WIRE-1")
@pytest.mark.parametrize(
    ("subprotocol", "data"), [(version.MSGPACK, '{"type":"ping","id":1}'), (version.JSON, ping())]
)
def test_text_and_binary_are_not_mixed(subprotocol: version.Subprotocol, data: Any) -> None:
    [event] = Peers(subprotocol).opened().server.receive(data)
    assert isinstance(event, Closed)
    assert isinstance(event.error, Malformed)


@pytest.mark.rule("WIRE-1")
def test_a_commit_is_handed_on_as_it_is() -> None:
    peers = Peers().opened()
    assert peers.server.receive(peers.client.commit(COMMIT)) == [COMMIT]


@pytest.mark.rule("RESUME-2", "RESUME-4")
def test_a_client_that_holds_something_waits_for_the_first_frame_before_it_commits() -> None:
    standing = SessionPosition(to=Version(3), hash=HASH)
    peers = Peers().opened(standing)
    assert not peers.client.may_commit
    with pytest.raises(AssertionError):
        peers.client.commit(COMMIT)
    closed(peers.server.receive(CODEC.encode(COMMIT)), OutOfOrder)
    peers = Peers().opened(standing)
    peers.client.receive(sent(peers.server.send(Sync(from_=Version(3), to=Version(3), hash=HASH, more=True))))
    assert not peers.client.may_commit
    peers.client.receive(sent(peers.server.send(Sync(from_=Version(3), to=Version(3), hash=HASH))))
    assert peers.server.receive(peers.client.commit(COMMIT)) == [COMMIT]


@pytest.mark.rule("SYNC-1")
def test_our_own_frames_are_in_order_or_it_is_an_internal_error() -> None:
    peers = Peers().opened()
    peers.server.send(Sync(from_=Version(0), to=Version(2), hash=HASH))
    peers.server.send(Sync(from_=Version(2), to=Version(2), hash=HASH, more=True))
    with pytest.raises(AssertionError, match="not a part"):
        peers.server.send(Sync(from_=Version(2), to=Version(3), hash=HASH))
    peers.server.send(Sync(from_=Version(2), to=Version(2), hash=HASH))
    with pytest.raises(AssertionError, match="begins at 3"):
        peers.server.send(Sync(from_=Version(3), to=Version(4), hash=HASH))
    peers.server.send(Sync(from_=Version(2), to=Version(4), hash=HASH))


@pytest.mark.rule("WIRE-4")
def test_a_deferral_reaches_the_client_beside_the_stream() -> None:
    peers = Peers().opened()
    deferred = Deferred(local=Local(1), code="unavailable", retry_after_ms=50)
    assert peers.client.receive(sent(peers.server.send(deferred))) == [deferred]


@pytest.mark.rule("WIRE-2")
def test_no_frame_is_sent_before_the_session_is_open() -> None:
    with pytest.raises(AssertionError):
        Peers().greeted().server.send(Deferred(local=Local(1), code="unavailable"))


@pytest.mark.rule("WIRE-3")
@pytest.mark.parametrize(
    ("error", "code"), [(TakenOver(), 4001), (GoingAway(), 1001), (errors.Internal(reference="1"), 1011)]
)
def test_a_connection_that_ends_says_why(error: errors.StemmaError, code: int) -> None:
    peers = Peers().opened()
    peers.client.request(Ping(id=1))
    last = peers.server.close(error, retry_after_ms=500)
    assert last.close_code == code
    assert last.farewell is not None
    [event] = peers.client.receive(last.farewell)
    assert isinstance(event, Closed)
    assert (type(event.error), event.retry_after_ms, event.close_code) == (type(error), 500, code)
    assert peers.client.receive(b"") == []


@pytest.mark.rule("WIRE-1")
def test_the_json_farewell_is_text() -> None:
    last = Peers(version.JSON).opened().server.close(TakenOver())
    assert isinstance(last.farewell, str)
    assert isinstance(JsonCodec().read_server(last.farewell), Goodbye)
