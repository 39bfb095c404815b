"""The server's end of a connection: order, signatures, one answer for each request (WIRE-2..4)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from stemmadb.protocol import errors
from stemmadb.protocol.errors import (
    GoingAway,
    LimitExceeded,
    Malformed,
    NotFound,
    OutOfOrder,
    TakenOver,
    Unauthenticated,
    UnknownMessage,
)
from stemmadb.protocol.model.body import encode
from stemmadb.protocol.model.ids import Hash, Local, Version
from stemmadb.protocol.model.limits import Limits
from stemmadb.protocol.wire import version
from stemmadb.protocol.wire.client_side import ClientConnection, Standing, Unread
from stemmadb.protocol.wire.codec import MsgpackCodec
from stemmadb.protocol.wire.connection import UNANSWERED_MAX, Closed, State
from stemmadb.protocol.wire.json_codec import JsonCodec
from stemmadb.protocol.wire.messages.base import Done
from stemmadb.protocol.wire.messages.commit import CommitMessage, Deferred
from stemmadb.protocol.wire.messages.session import ErrorMessage, Goodbye, Hello, Ping, Pong, SessionOpen
from stemmadb.protocol.wire.messages.sync import Sync
from stemmadb.protocol.wire.server_side import CHALLENGE_MS, Refused
from wire_peers import ALICE, BOB, SERVER, SESSION, SPACE, Peers, did_of

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
    assert peers.server.state is State.OPEN


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
    assert peers.server.state is State.CLOSED
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
    closed(peers.server.receive(peers.opening(standing=Standing(to=Version(3)))), Malformed)
    peers = Peers().greeted()
    [event] = peers.server.receive(peers.opening(standing=Standing(to=Version(3), hash=HASH)))
    assert isinstance(event, SessionOpen)


@pytest.mark.rule("WIRE-1")
@pytest.mark.parametrize(
    ("subprotocol", "data"), [(version.MSGPACK, '{"type":"ping","id":1}'), (version.JSON, ping())]
)
def test_text_and_binary_are_not_mixed(subprotocol: version.Subprotocol, data: Any) -> None:
    [event] = Peers(subprotocol).opened().server.receive(data)
    assert isinstance(event, Closed)
    assert isinstance(event.error, Malformed)


@pytest.mark.rule("WIRE-4")
@pytest.mark.parametrize("subprotocol", version.SUBPROTOCOLS)
def test_a_request_gets_exactly_one_answer(subprotocol: version.Subprotocol) -> None:
    peers = Peers(subprotocol).opened()
    [request] = peers.server.receive(peers.client.request(Ping(id=7)))
    assert request == Ping(id=7)
    [answered] = peers.client.receive(peers.server.answer(7, Pong(version=Version(3))))
    assert getattr(answered, "result", None) == Pong(version=Version(3))
    with pytest.raises(AssertionError):
        peers.server.answer(7, Pong(version=Version(3)))
    with pytest.raises(AssertionError):
        peers.server.fail(7, NotFound(id="urn:a:1", branch="main"))


@pytest.mark.rule("WIRE-4")
def test_an_answer_is_of_the_type_the_request_names() -> None:
    peers = Peers().opened()
    peers.server.receive(ping(7))
    with pytest.raises(AssertionError):
        peers.server.answer(7, Done())
    peers.server.answer(7, Pong(version=Version(3)))


@pytest.mark.rule("WIRE-4")
def test_an_answer_that_is_too_large_leaves_the_request_to_be_answered() -> None:
    peers = Peers(limits=Limits(message_bytes_max=1_200)).opened()
    peers.server.receive(CODEC.encode(Ping(id=7)))
    peers.server._codec.limits = Limits(message_bytes_max=5)
    with pytest.raises(LimitExceeded) as caught:
        peers.server.answer(7, Pong(version=Version(3)))
    peers.server._codec.limits = Limits()
    assert peers.server.fail(7, caught.value)


@pytest.mark.rule("WIRE-4")
def test_the_number_of_a_request_is_free_again_once_it_is_answered() -> None:
    peers = Peers().opened()
    peers.server.receive(ping(7))
    peers.server.answer(7, Pong(version=Version(1)))
    assert peers.server.receive(ping(7)) == [Ping(id=7)]


@pytest.mark.rule("WIRE-4")
def test_a_number_that_waits_for_its_answer_is_not_used_twice() -> None:
    peers = Peers().opened()
    peers.server.receive(ping(7))
    closed(peers.server.receive(ping(7)), OutOfOrder)


@pytest.mark.rule("WIRE-4")
def test_requests_that_wait_are_bounded() -> None:
    peers = Peers().opened()
    for number in range(1, UNANSWERED_MAX + 1):
        assert peers.server.receive(ping(number)) == [Ping(id=number)]
    [refused] = peers.server.receive(ping(5_000))
    assert isinstance(refused, Refused)
    assert (refused.id, type(refused.error)) == (5_000, LimitExceeded)
    peers.server.answer(1, Pong(version=Version(1)))
    assert peers.server.receive(ping(5_000)) == [Ping(id=5_000)]


def told(refused: Any) -> ErrorMessage:
    assert isinstance(refused, Refused)
    reply = CODEC.read_server(refused.reply)
    assert isinstance(reply, ErrorMessage)
    assert reply.code == refused.error.code
    return reply


@pytest.mark.rule("WIRE-4")
def test_a_bad_message_in_an_open_session_is_answered_and_the_session_goes_on() -> None:
    peers = Peers().opened()
    [refused] = peers.server.receive(encode({"type": "acl", "id": 5, "version": -1}))
    reply = told(refused)
    assert (reply.id, reply.local, reply.code) == (5, None, "malformed")
    [refused] = peers.server.receive(encode({"type": "dance", "id": 6}))
    assert (told(refused).id, told(refused).code) == (6, UnknownMessage.code)
    [refused] = peers.server.receive(b"\xc1")
    assert (told(refused).id, told(refused).local) == (None, None)
    assert peers.server.receive(ping()) == [Ping(id=1)]


@pytest.mark.rule("WIRE-4")
def test_a_bad_message_does_not_answer_the_request_whose_number_it_took() -> None:
    peers = Peers().opened()
    peers.server.receive(ping(5))
    [refused] = peers.server.receive(encode({"type": "acl", "id": 5, "version": -1}))
    assert told(refused).id is None


@pytest.mark.rule("WIRE-4")
@pytest.mark.parametrize(("local", "said"), [(9, 9), (2**63 - 1, 2**63 - 1), (0, None), (2**63, None), ("x", None)])
def test_a_commit_that_cannot_be_read_is_named(local: Any, said: int | None) -> None:
    peers = Peers().opened()
    [refused] = peers.server.receive(encode({"type": "commit", "local": local}))
    assert (told(refused).local, told(refused).id) == (said, None)


@pytest.mark.rule("WIRE-4")
def test_a_commit_of_an_older_session_that_cannot_be_read_is_named_with_it() -> None:
    peers = Peers().opened()
    [refused] = peers.server.receive(encode({"type": "commit", "local": 4, "session": b"o" * 16}))
    assert (told(refused).local, told(refused).session) == (4, b"o" * 16)
    assert isinstance(refused, Refused)
    [unread] = peers.client.receive(refused.reply)
    assert isinstance(unread, Unread)
    assert (unread.local, unread.session) == (4, b"o" * 16)


@pytest.mark.rule("WIRE-4")
def test_a_commit_whose_json_content_is_bad_is_named() -> None:
    peers = Peers(version.JSON).opened()
    text = '{"type":"commit","local":4,"nonce":"AAAAAAAAAAAAAAAAAAAAAA==","content":{"operations":[{"op":"x"}]}}'
    [refused] = peers.server.receive(text)
    assert isinstance(refused, Refused)
    assert refused.local == 4
    [unread] = peers.client.receive(refused.reply)
    assert getattr(unread, "local", None) == 4


@pytest.mark.rule("WIRE-1")
def test_a_commit_is_handed_on_as_it_is() -> None:
    peers = Peers().opened()
    assert peers.server.receive(peers.client.commit(COMMIT)) == [COMMIT]


@pytest.mark.rule("RESUME-2", "RESUME-4")
def test_a_client_that_holds_something_waits_for_the_first_frame_before_it_commits() -> None:
    standing = Standing(to=Version(3), hash=HASH)
    peers = Peers().opened(standing)
    assert not peers.client.may_commit
    with pytest.raises(AssertionError):
        peers.client.commit(COMMIT)
    closed(peers.server.receive(CODEC.encode(COMMIT)), OutOfOrder)
    peers = Peers().opened(standing)
    peers.client.receive(peers.server.send(Sync(from_=Version(3), to=Version(3), hash=HASH, more=True)))
    assert not peers.client.may_commit
    peers.client.receive(peers.server.send(Sync(from_=Version(3), to=Version(3), hash=HASH)))
    assert peers.server.receive(peers.client.commit(COMMIT)) == [COMMIT]


@pytest.mark.rule("SYNC-1")
def test_our_own_frames_are_in_order_or_it_is_our_mistake() -> None:
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
    assert peers.client.receive(peers.server.send(deferred)) == [deferred]


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
    assert peers.client.unanswered() == (Ping(id=1),)
    assert peers.client.receive(b"") == []


@pytest.mark.rule("WIRE-1")
def test_the_json_farewell_is_text() -> None:
    last = Peers(version.JSON).opened().server.close(TakenOver())
    assert isinstance(last.farewell, str)
    assert isinstance(JsonCodec().read_server(last.farewell), Goodbye)
