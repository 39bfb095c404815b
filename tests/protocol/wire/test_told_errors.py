"""Every error is told, within bounds, to who waits for it; what is over needs no answer (WIRE-4)."""

from __future__ import annotations

from typing import Any

import pytest

from stemmadb.protocol import errors
from stemmadb.protocol.errors import Conflict, GoingAway, InvalidValue, Malformed, TakenOver
from stemmadb.protocol.model.commit.stale_reads import StaleRead
from stemmadb.protocol.model.query.query import Query, Root
from stemmadb.protocol.model.values.ids import BranchName, EntityId, Hash, Local, Version
from stemmadb.protocol.model.values.limits import Limits
from stemmadb.protocol.wire import version
from stemmadb.protocol.wire.codec.json_codec import JsonCodec
from stemmadb.protocol.wire.codec.msgpack_codec import MsgpackCodec, read_content
from stemmadb.protocol.wire.connection import problems
from stemmadb.protocol.wire.connection.base import Closed, ConnectionState, close_code
from stemmadb.protocol.wire.connection.client_side import Answered, Unread
from stemmadb.protocol.wire.messages.commit import CommitMessage, Deferred
from stemmadb.protocol.wire.messages.reading import QueryRequest
from stemmadb.protocol.wire.messages.session import ErrorMessage, Ping, Pong
from stemmadb.protocol.wire.messages.sync import Sync
from wire_peers import Peers, sent

COMMIT = CommitMessage(local=Local(4), nonce=bytes(16), content=b"x")


def stale(path: str) -> StaleRead:
    return StaleRead(
        branch=BranchName("main"), id=EntityId("urn:a:1"), path=path, read=Version(1), head=Version(3),
        winner=Version(2),
    )  # fmt: skip


def failed(peers: Peers, error: errors.StemmaError) -> errors.StemmaError:
    """The error of a request that failed, as the client has it."""
    peers.server.receive(peers.client.request(Ping(id=1)))
    [event] = peers.client.receive(sent(peers.server.fail(1, error)))
    assert isinstance(event, Answered)
    assert isinstance(event.result, type(error))
    assert peers.server.receive(peers.client.request(Ping(id=1))) == [Ping(id=1)]
    return event.result


@pytest.mark.rule("WIRE-4")
@pytest.mark.parametrize("subprotocol", version.SUBPROTOCOLS)
def test_a_request_that_fails_for_very_many_reads_is_answered_with_a_page_of_them(
    subprotocol: version.Subprotocol,
) -> None:
    found = failed(Peers(subprotocol).opened(), Conflict(count=40_000, stale=(stale("/x" * 200),) * 40_000))
    assert found.facts == {"count": 40_000, "stale": (stale("/x" * 200),) * 1_000}


@pytest.mark.rule("WIRE-4")
def test_the_path_of_a_stale_read_stays_whole() -> None:
    found = failed(Peers().opened(), Conflict(count=1, stale=(stale("/x" * 5_000),)))
    assert found.facts["stale"] == (stale("/x" * 5_000),)


@pytest.mark.rule("WIRE-4")
@pytest.mark.parametrize("subprotocol", version.SUBPROTOCOLS)
def test_an_error_that_does_not_fit_is_told_without_its_details(subprotocol: version.Subprotocol) -> None:
    peers = Peers(subprotocol, Limits(message_bytes_max=6_000)).opened()
    error = Malformed("It is bad.", path="x", why=["y" * 900] * 10)
    found = failed(peers, error)
    assert (found.message, found.facts) == ("It is bad.", {})
    last = peers.server.close(error).farewell
    assert last is not None
    [event] = peers.client.receive(last)
    assert isinstance(event, Closed)
    assert (event.error.message, event.error.facts) == ("It is bad.", {})


@pytest.mark.rule("WIRE-4")
def test_what_is_quoted_in_an_error_is_bounded() -> None:
    error = InvalidValue(path="/" + "k" * 900_000, why="it is bad")
    for codec in (MsgpackCodec(), JsonCodec()):
        assert len(codec.encode(problems.error_message(error))) < 3_000
        assert len(codec.encode(problems.goodbye(error))) < 3_000
    assert len(problems.rejected(Local(1), error).message) == 1_003
    assert problems.plain_text("x" * 1_000) == "x" * 1_000


@pytest.mark.rule("MODEL-3")
@pytest.mark.parametrize("depth_max", [1, 2, 5, 64])
def test_the_facts_of_an_error_are_no_deeper_than_the_peer_reads(depth_max: int) -> None:
    deep: Any = 1
    for _ in range(depth_max):
        deep = [deep]
    limits = Limits(depth_max=depth_max)
    for codec in (MsgpackCodec(limits), JsonCodec(limits)):
        read = codec.read_server(codec.encode(problems.error_message(Malformed("m", why=deep), limits=limits)))
        assert isinstance(read, ErrorMessage)
        assert "..." in str(read.details)


@pytest.mark.rule("WIRE-4")
@pytest.mark.parametrize("session", [None, b"o" * 16])
def test_a_commit_whose_content_cannot_be_read_is_refused_by_its_local(session: bytes | None) -> None:
    peers = Peers().opened()
    commit = CommitMessage(local=Local(4), nonce=bytes(16), content=b"\xc1", session=session)
    [taken] = peers.server.receive(peers.client.commit(commit))
    assert isinstance(taken, CommitMessage)
    with pytest.raises(Malformed) as caught:
        read_content(taken.content)
    [event] = peers.client.receive(sent(peers.server.refuse(taken, caught.value)))
    assert isinstance(event, Unread)
    assert (event.local, event.session, type(event.error)) == (4, session, Malformed)
    assert peers.server.receive(peers.client.request(Ping(id=1))) == [Ping(id=1)]


@pytest.mark.rule("WIRE-4")
@pytest.mark.parametrize("subprotocol", version.SUBPROTOCOLS)
def test_work_that_ends_after_the_connection_has_nothing_to_send(subprotocol: version.Subprotocol) -> None:
    peers = Peers(subprotocol).opened()
    opening = peers.client._codec.encode(Ping(id=1))
    peers.server.receive(opening)
    [event] = peers.server.receive(opening)
    assert isinstance(event, Closed)
    assert event.farewell is not None
    server = peers.server
    assert server.answer(1, Pong(version=Version(1))) is None
    assert server.fail(1, errors.NotFound(id="urn:a:1", branch="main")) is None
    assert server.refuse(COMMIT, Malformed(path="content", why="it is bad")) is None
    assert server.send(Deferred(local=Local(1), code="unavailable")) is None
    assert server.send(Sync(from_=Version(7), to=Version(9), hash=Hash(bytes(32)))) is None


@pytest.mark.rule("WIRE-4")
def test_goodbye_is_said_once() -> None:
    server = Peers().opened().server
    assert server.close(TakenOver()).farewell is not None
    again = server.close(GoingAway(), retry_after_ms=5)
    assert (again.farewell, again.close_code, again.retry_after_ms) == (None, 1001, 5)
    assert server.state is ConnectionState.CLOSED


@pytest.mark.rule("WIRE-4")
def test_who_may_come_back_later_is_told_so_by_the_close_code() -> None:
    later = {cls.code for cls in errors.BY_CODE.values() if close_code(cls("m")) == 1013}
    assert later == {"unavailable", "rate_limited", "storage_full", "merge_busy", "timed_out"}
    assert {cls.code for cls in errors.BY_CODE.values() if cls.retriable} - later == {"going_away", "unreachable"}


@pytest.mark.rule("WIRE-4")
def test_a_bad_body_in_a_result_fails_its_request_alone() -> None:
    peers = Peers(version.JSON).opened()
    entity = f'{{"id":"urn:a:1","version":1,"hash":"b3:{"a" * 52}","body":"\\ud800"}}'
    peers.client.request(QueryRequest(id=2, query=Query(roots=(Root("*"),))))
    [event] = peers.client.receive(f'{{"type":"ok","id":2,"result":{{"version":0,"entities":[{entity}]}}}}')
    assert isinstance(event, Answered)
    assert isinstance(event.result, InvalidValue)
    assert event.result.facts["path"] == "result/entities/0/body"
    assert peers.client.state is ConnectionState.OPEN
