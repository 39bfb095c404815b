"""What was built or read before an erasure and is not sent yet goes to nobody once that is answered (ERASE-1)."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from service_peers import ALICE, BOB, CAROL, Peer, ServiceHarness, put, read, service_harness
from stemmadb.protocol.errors import GoingAway, Unavailable
from stemmadb.protocol.model.query.query import Query, Root
from stemmadb.protocol.model.values.ids import EntityId, Version
from stemmadb.protocol.model.values.limits import DEFAULTS
from stemmadb.protocol.wire.connection.client_side import Answered
from stemmadb.protocol.wire.messages.reading import QueryRequest, WatchAnswer, WatchRequest
from stemmadb.protocol.wire.messages.structure import EraseRequest
from stemmadb.server.service.base.settings import ServiceSettings
from stemmadb.server.service.stream import broadcast

DOC = "urn:doc"
SECRET = "s" * 100
EVERYTHING = Query(roots=(Root("urn:*"),))
SMALL_PARTS = msgspec.structs.replace(DEFAULTS, part_bytes_max=600)
FULL = 5 * 2**20
"""More bytes than a client may leave unread."""


def erase(peer: Peer, version: int) -> EraseRequest:
    """Asked at once; the answer comes some turns of the loop later."""
    number, operation = peer.connection.next_id(), bytes(15) + b"e"
    request = EraseRequest(
        id=number, operation=operation, nonce=bytes(16), entity=EntityId(DOC), versions=(Version(version),)
    )
    peer.give(peer.connection.request(request))
    return request


async def erased(home: ServiceHarness, peer: Peer, version: int) -> None:
    request = erase(peer, version)
    await home.settle()
    assert peer.answers(request) == [None]


def has_secret(peer: Peer, since: int = 0) -> bool:
    return any(SECRET.encode() in data for data in peer.wire.sent[since:] if isinstance(data, bytes))


@pytest.mark.rule("ERASE-1", "SYNC-1")
async def test_a_frame_in_slices_goes_to_nobody_after_an_erasure(monkeypatch: pytest.MonkeyPatch) -> None:
    async with service_harness() as home:
        alice = await home.peer(ALICE).open()
        peers = [await home.peer(CAROL).open() for _ in range(60)]
        for peer in peers:
            await peer.watch(1, DOC)
        await alice.commit(put(DOC, 0))
        monkeypatch.setattr(broadcast, "TURN_WRITES", 1)
        alice.send(put(DOC, SECRET))
        while not any(map(has_secret, peers)):
            await asyncio.sleep(0)
        request = erase(alice, 3)
        while not alice.answers(request):
            await asyncio.sleep(0)
            alice.take()
        sent = [len(peer.wire.sent) for peer in peers]
        assert 0 < sum(map(has_secret, peers)) < len(peers), "the erasure is answered while the frame is being sent"
        for _ in range(200):
            await asyncio.sleep(0)
        assert not any(has_secret(peer, had) for peer, had in zip(peers, sent, strict=True))
        monkeypatch.undo()
        await home.settle()
        await alice.commit(put(DOC, 1))
        for peer in peers:
            assert peer.closed is None
            assert [frame.to for frame in peer.frames][-1] == 5
            assert all(one.to == next_.from_ for one, next_ in zip(peer.frames, peer.frames[1:], strict=False))


@pytest.mark.rule("ERASE-1", "SYNC-1", "SYNC-6")
async def test_a_session_that_is_in_the_middle_of_a_large_frame_is_ended_by_an_erasure() -> None:
    async with service_harness(limits=SMALL_PARTS, settings=ServiceSettings(unsent_bytes_max=500)) as home:
        alice, carol = await home.peer(ALICE).open(), await home.peer(CAROL).open()
        await carol.watch(1, "urn:*")
        carol.stop_reading()
        await alice.commit(*(put(f"urn:a{number}", "a" * 400) for number in range(3)), put(DOC, SECRET))
        assert carol.handler.outbox.is_in_parts
        assert not has_secret(carol)
        await erased(home, alice, 2)
        carol.wire.unsent = 0
        carol.handler.drained()
        for _ in range(20):
            await asyncio.sleep(0)
        assert not has_secret(carol)
        carol.read_on()
        assert carol.closed is not None
        assert isinstance(carol.closed.error, GoingAway)


@pytest.mark.rule("ERASE-1", "SYNC-7")
async def test_an_answer_that_waits_for_its_frame_is_asked_for_again_after_an_erasure() -> None:
    async with service_harness() as home:
        alice, carol = await home.peer(ALICE).open(), await home.peer(CAROL).open()
        await carol.watch(1, "urn:slow")
        slow = carol.handler.outbox.watches[1].group
        slow.stand_at(slow.at)  # as if it read: the stream of carol waits for it
        await alice.commit(put(DOC, SECRET))
        request = QueryRequest(id=carol.connection.next_id(), query=EVERYTHING)
        carol.give(carol.connection.request(request))
        await home.settle()
        assert carol.answers(request) == []
        carol.stop_reading()
        await erased(home, alice, 2)
        slow.stand_at(None)
        for member in slow.members:
            member.stepped(slow)
        await home.settle()
        assert not has_secret(carol)
        carol.read_on()
        (answer,) = carol.answers(request)
        assert isinstance(answer, Unavailable)


@pytest.mark.rule("ERASE-1", "SYNC-5")
async def test_a_rejection_that_waits_for_its_frame_has_no_values_after_an_erasure() -> None:
    async with service_harness() as home:
        alice, bob = await home.peer(ALICE).open(), await home.peer(BOB).open()
        await alice.commit(put(DOC, SECRET))
        local = bob.send(put("urn:other", 1), reads=(read(DOC, 1),))
        bob.stop_reading()
        bob.wire.unsent = FULL
        await home.settle()
        assert bob.handler.outbox.verdict_bytes > len(SECRET)
        await erased(home, alice, 2)
        bob.wire.unsent = 0
        bob.handler.drained()
        for _ in range(20):
            await asyncio.sleep(0)
        assert not has_secret(bob)
        bob.read_on()
        verdict = bob.verdict(local)
        assert (verdict.code, [stale.id for stale in verdict.stale], verdict.current) == ("conflict", [DOC], ())


@pytest.mark.rule("ERASE-1", "WATCH-3")
async def test_a_page_of_the_past_is_asked_for_again_if_something_was_erased_while_the_watch_joined() -> None:
    async with service_harness() as home:
        alice, carol = await home.peer(ALICE).open(), await home.peer(CAROL).open()
        await alice.commit(put("urn:other", 1))
        await alice.commit(put(DOC, SECRET))
        request = WatchRequest(id=carol.connection.next_id(), watch=1, query=EVERYTHING, since=Version(1))
        carol.stop_reading()
        carol.give(carol.connection.request(request))
        carol.wire.unsent = FULL
        await home.settle()
        await erased(home, alice, 3)
        carol.wire.unsent = 0
        carol.handler.drained()
        for _ in range(20):
            await asyncio.sleep(0)
        assert not has_secret(carol)
        carol.read_on()
        (answer,) = [one.result for one in carol.events if isinstance(one, Answered) and one.request is request]
        assert isinstance(answer, WatchAnswer)
        assert answer.commits == ()
        again = await carol.ask(WatchRequest, watch=1, query=EVERYTHING, since=Version(1), after=answer.next)
        assert isinstance(again, WatchAnswer)
        assert [one.version for one in again.commits] == [2, 3, 4]
        assert [fact.body for one in again.commits for fact in one.facts if one.version == 3] == [None]
        assert again.next is None
