"""The client's end of a connection: the stream has no gap, answers belong to requests (SYNC-1, SYNC-7, WIRE-4)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from stemmadb.protocol import errors
from stemmadb.protocol.errors import Malformed, OutOfOrder, UnsupportedProtocol
from stemmadb.protocol.model.query.query import Query, Root
from stemmadb.protocol.model.values.body import encode
from stemmadb.protocol.model.values.ids import BranchName, EntityId, Hash, Local, Version
from stemmadb.protocol.wire import version
from stemmadb.protocol.wire.codec.msgpack_codec import MsgpackCodec
from stemmadb.protocol.wire.connection.base import Closed, ConnectionState, Frames, close_code
from stemmadb.protocol.wire.connection.client_side import Answered, SessionPosition, Unread
from stemmadb.protocol.wire.messages.commit import CommitMessage, Deferred
from stemmadb.protocol.wire.messages.reading import QueryAnswer, QueryRequest
from stemmadb.protocol.wire.messages.session import Hello, Ping, Pong
from stemmadb.protocol.wire.messages.sync import Ended, Entered, Kept, Left, Sync
from wire_peers import CHALLENGE, SERVER, Peers, sent

CODEC = MsgpackCodec()
HASH, OTHER = Hash(b"h" * 32), Hash(b"o" * 32)


def frame(from_: int, to: int, *, hash_: Hash = HASH, **more: Any) -> Sync:
    return Sync(from_=Version(from_), to=Version(to), hash=hash_, **more)


def over(events: list[Any], error: type[errors.StemmaError]) -> str:
    [event] = events
    assert isinstance(event, Closed)
    assert type(event.error) is error
    return event.error.message


@pytest.mark.rule("SYNC-1")
def test_frames_follow_one_another_from_where_the_client_stood() -> None:
    client = Peers().opened(SessionPosition(to=Version(4), hash=OTHER)).client
    for part in (frame(4, 6), frame(6, 6), frame(6, 9, hash_=OTHER)):
        assert client.receive(CODEC.encode(part)) == [part]
    assert (client.to, client.hash) == (9, OTHER)


BROKEN: list[tuple[str, Sync]] = [
    ("a gap", frame(6, 7)),
    ("a repeat", frame(3, 5)),
    ("going back", frame(5, 4)),
    ("another hash for the same version", frame(5, 5, hash_=OTHER)),
    ("starting over from elsewhere", frame(5, 6, reset="floor")),
]


@pytest.mark.rule("SYNC-1")
@pytest.mark.parametrize("part", [case[1] for case in BROKEN], ids=[case[0] for case in BROKEN])
def test_a_stream_that_breaks_its_order_ends_the_connection(part: Sync) -> None:
    client = Peers().opened(SessionPosition(to=Version(5), hash=HASH)).client
    over(client.receive(CODEC.encode(part)), OutOfOrder)
    assert client.state is ConnectionState.CLOSED
    assert client.receive(CODEC.encode(frame(5, 6))) == []
    assert client.to == 5


@pytest.mark.rule("RESUME-1", "RESUME-4")
@pytest.mark.parametrize("reset", ["floor", "history"])
def test_a_frame_that_starts_over_begins_at_0_whatever_the_client_held(reset: Any) -> None:
    client = Peers().opened(SessionPosition(to=Version(50), hash=OTHER)).client
    [event] = client.receive(CODEC.encode(frame(0, 7, reset=reset)))
    assert isinstance(event, Sync)
    assert (client.to, event.reset) == (7, reset)


@pytest.mark.rule("SYNC-1")
def test_the_parts_of_a_frame_are_put_together_and_applied_at_the_last() -> None:
    client = Peers().opened().client
    entered = [
        Entered(watch=n, branch=BranchName("main"), id=EntityId("urn:a:1"), version=Version(1), hash=HASH)
        for n in (1, 2)
    ]
    left = Left(watch=1, branch=BranchName("main"), id=EntityId("urn:a:2"))
    ended = Ended(watch=3, code="branch_deleted", message="")
    kept = Kept(local=Local(1), version=Version(1), hash=HASH)
    parts = [
        frame(0, 3, entered=(entered[0],), filled=(1,), more=True),
        frame(0, 3, kept=(kept,), more=True),
        frame(0, 3, entered=(entered[1],), left=(left,), ended=(ended,), filled=(2,)),
    ]
    assert client.receive(CODEC.encode(parts[0])) == []
    assert client.to == 0
    deferred = Deferred(local=Local(1), code="unavailable")
    assert client.receive(CODEC.encode(deferred)) == [deferred]
    assert client.receive(CODEC.encode(parts[1])) == []
    [whole] = client.receive(CODEC.encode(parts[2]))
    assert whole == frame(0, 3, entered=tuple(entered), left=(left,), ended=(ended,), filled=(1, 2), kept=(kept,))
    assert client.to == 3
    assert client.receive(CODEC.encode(frame(3, 4))) == [frame(3, 4)]


@pytest.mark.rule("SYNC-1")
@pytest.mark.parametrize("second", [frame(3, 4), frame(0, 4), frame(0, 3, hash_=OTHER), frame(0, 3, reset="floor")])
def test_a_frame_is_not_begun_inside_another(second: Sync) -> None:
    client = Peers().opened().client
    client.receive(CODEC.encode(frame(0, 3, more=True)))
    over(client.receive(CODEC.encode(second)), OutOfOrder)


@pytest.mark.rule("SYNC-1")
def test_the_parts_of_a_frame_are_bounded() -> None:
    frames = Frames(bytes_max=10)
    assert frames.take(frame(0, 1, more=True), 6) is None
    assert frames.take(frame(0, 1), 4) is not None
    with pytest.raises(OutOfOrder, match="more than 10 bytes"):
        frames.take(frame(1, 2), 11)
    assert frames.to == 1, "a frame that is not given out has not been reached"


@pytest.mark.rule("SYNC-7")
def test_state_does_not_come_before_the_frame_that_reaches_it() -> None:
    client = Peers().opened().client
    request = QueryRequest(id=client.next_id(), query=Query(roots=(Root("urn:a:1"),)))
    client.request(request)
    client.receive(CODEC.encode(frame(0, 3)))
    answer = QueryAnswer(version=Version(3))
    assert client.receive(CODEC.encode_answer(1, answer)) == [Answered(request, answer)]
    client.request(request)
    over(client.receive(CODEC.encode_answer(1, QueryAnswer(version=Version(4)))), OutOfOrder)


@pytest.mark.rule("WIRE-4")
def test_an_error_is_the_same_class_again() -> None:
    peers = Peers().opened()
    peers.server.receive(peers.client.request(Ping(id=1)))
    [event] = peers.client.receive(sent(peers.server.fail(1, errors.FutureVersion(version=9, head=3))))
    assert isinstance(event, Answered)
    assert isinstance(event.result, errors.FutureVersion)
    assert event.result.facts == {"version": 9, "head": 3}


@pytest.mark.rule("WIRE-4")
def test_an_answer_nobody_waits_for_ends_the_connection() -> None:
    client = Peers().opened().client
    client.request(Ping(id=1))
    client.receive(CODEC.encode_answer(1, Pong(version=Version(0))))
    over(client.receive(CODEC.encode_answer(1, Pong(version=Version(0)))), OutOfOrder)


@pytest.mark.rule("WIRE-4")
def test_an_error_for_a_request_nobody_made_ends_the_connection() -> None:
    client = Peers().opened().client
    over(client.receive(encode({"type": "error", "id": 5, "code": "internal", "message": ""})), OutOfOrder)


@pytest.mark.rule("WIRE-4")
def test_a_result_of_the_wrong_shape_fails_its_request_alone() -> None:
    client = Peers().opened().client
    client.request(Ping(id=1))
    [event] = client.receive(encode({"type": "ok", "id": 1, "result": {"x": 1}}))
    assert isinstance(event, Answered)
    assert isinstance(event.result, Malformed)
    assert client.state is ConnectionState.OPEN


@pytest.mark.rule("WIRE-4")
def test_an_error_without_a_number_says_what_could_not_be_read() -> None:
    client = Peers().opened().client
    [event] = client.receive(encode({"type": "error", "local": 4, "code": "malformed", "message": "m"}))
    assert isinstance(event, Unread)
    assert (event.local, type(event.error), event.error.message) == (4, Malformed, "m")


@pytest.mark.rule("WIRE-5")
def test_a_server_of_another_protocol_is_left() -> None:
    client = Peers().client
    assert "protocol 2" in over(
        client.receive(CODEC.encode(Hello(protocol=2, server=SERVER, challenge=CHALLENGE))), UnsupportedProtocol
    )


@pytest.mark.rule("WIRE-2")
@pytest.mark.parametrize(
    "data", [CODEC.encode(frame(0, 0)), encode({"type": "ok", "id": 1, "result": {}}), b"", "text"]
)
def test_a_server_that_does_not_say_hello_first_is_left(data: Any) -> None:
    client = Peers().client
    [event] = client.receive(data)
    assert isinstance(event, Closed)


@pytest.mark.rule("WIRE-2")
def test_a_server_says_hello_once_and_nothing_more_until_the_session_opens() -> None:
    peers = Peers().greeted()
    over(peers.client.receive(CODEC.encode(Hello(protocol=1, server=SERVER, challenge=CHALLENGE))), OutOfOrder)
    peers = Peers().greeted()
    over(peers.client.receive(CODEC.encode(frame(0, 0))), OutOfOrder)


@pytest.mark.rule("WIRE-2")
def test_the_bounds_a_server_announces_are_kept_to_and_unknown_ones_ignored() -> None:
    client = Peers().client
    limits = {"message_bytes_max": 300, "moons_max": 3}
    client.receive(CODEC.encode(Hello(protocol=1, server=SERVER, challenge=CHALLENGE, limits=limits)))
    assert (client.limits.message_bytes_max, client.limits.depth_max) == (300, 64)


@pytest.mark.rule("WIRE-2")
def test_a_bound_below_1_is_malformed() -> None:
    hello = Hello(protocol=1, server=SERVER, challenge=CHALLENGE, limits={"depth_max": 0})
    assert "limits/depth_max" in over(Peers().client.receive(CODEC.encode(hello)), Malformed)


@pytest.mark.rule("WIRE-2")
def test_our_own_order_is_an_internal_error() -> None:
    peers = Peers()
    commit = CommitMessage(local=Local(1), nonce=bytes(16), content=b"")
    early: list[Callable[[], object]] = [
        peers.opening,
        lambda: peers.client.request(Ping(id=1)),
        lambda: peers.client.commit(commit),
    ]
    for step in early:
        with pytest.raises(AssertionError):
            step()
    peers.opened()
    peers.client.request(Ping(id=1))
    with pytest.raises(AssertionError):
        peers.client.request(Ping(id=1))
    with pytest.raises(AssertionError):
        peers.opening()


@pytest.mark.rule("WIRE-4")
def test_every_error_has_a_close_code() -> None:
    assert {close_code(cls("m")) for cls in errors.BY_CODE.values()} <= {
        1001,
        1002,
        1008,
        1009,
        1011,
        1013,
        4000,
        4001,
    }


@pytest.mark.rule("WIRE-1")
def test_a_session_works_the_same_in_both_encodings() -> None:
    heard = []
    for subprotocol in version.SUBPROTOCOLS:
        peers = Peers(subprotocol).opened()
        peers.server.receive(peers.client.request(QueryRequest(id=1, query=Query(roots=(Root("*", schema=True),)))))
        events = peers.client.receive(sent(peers.server.send(frame(0, 3))))
        events += peers.client.receive(sent(peers.server.answer(1, QueryAnswer(version=Version(3)))))
        heard.append(events)
    assert heard[0] == heard[1]
