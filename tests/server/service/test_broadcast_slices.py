"""Large frames take several turns of the loop, and what may happen to a subscriber between them (WATCH-2, SYNC-1)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import msgspec
import pytest

from service_peers import ALICE, BOB, CAROL, Peer, ServiceHarness, put, service_harness
from stemmadb.protocol.model.commit.request import Operation
from stemmadb.protocol.model.values.body import encode
from stemmadb.protocol.model.values.ids import BranchName
from stemmadb.protocol.model.values.limits import DEFAULTS
from stemmadb.protocol.wire.messages.reading import UnwatchRequest
from stemmadb.protocol.wire.messages.structure import CreateBranch, DeleteBranch
from stemmadb.server.service.base.settings import ServiceSettings
from stemmadb.server.service.base.transport import DRAIN_BYTES
from stemmadb.server.service.session.space_hub import TURN_BYTES
from stemmadb.server.service.stream import broadcast, frame_changes
from stemmadb.server.service.stream.broadcast import BroadcastGroup
from stemmadb.server.service.stream.frames import Frame

DOC = "urn:doc"
DRAFT = BranchName("draft")
SUBSCRIBERS = 24
NEWS = b"the news"
THREE = ("urn:1", "urn:2", "urn:3")
SMALL_PARTS = msgspec.structs.replace(DEFAULTS, part_bytes_max=4_000)


async def sending(home: ServiceHarness, monkeypatch: pytest.MonkeyPatch, branch: str = "main") -> list[Peer]:
    """A writer, and subscribers of which some were sent the frame of a commit, and most were not yet."""
    writer = await home.peer(ALICE).open()
    peers = [await home.peer(CAROL).open() for _ in range(SUBSCRIBERS)]
    for peer in peers:
        await peer.watch(1, DOC, branch=branch)
    await writer.commit(put(DOC, {"n": 0}), branch=branch)
    monkeypatch.setattr(broadcast, "TURN_WRITES", 1)
    writer.send(put(DOC, NEWS.decode()), branch=branch)
    async with asyncio.timeout(60):
        while sum(map(has_news, peers)) < 4:
            await asyncio.sleep(0)
    assert sum(map(has_news, peers)) < SUBSCRIBERS // 2
    return [writer, *peers]


def has_news(peer: Peer) -> bool:
    return any(NEWS in data for data in peer.wire.sent if isinstance(data, bytes))


def is_contiguous(peer: Peer) -> bool:
    return all(before.to == frame.from_ for before, frame in pairwise(peer.frames))


async def finish(home: ServiceHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    await home.settle(2)


def unwatch(peer: Peer) -> None:
    peer.give(peer.connection.request(UnwatchRequest(id=peer.connection.next_id(), watch=1)))


def clog(peer: Peer) -> None:
    peer.wire.clog(DRAIN_BYTES + 1)


@pytest.mark.rule("WATCH-2", "SYNC-1")
@pytest.mark.parametrize("place", [0, -1])
@pytest.mark.parametrize("leave", [unwatch, Peer.lose, clog])
async def test_a_subscriber_that_leaves_takes_nothing_from_the_others(
    monkeypatch: pytest.MonkeyPatch, leave: Callable[[Peer], None], place: int
) -> None:
    async with service_harness() as home:
        writer, *peers = await sending(home, monkeypatch)
        (leaver, *others) = peers if place == 0 else reversed(peers)  # one that has the frame, or one that has not
        had = has_news(leaver)
        assert had == (place == 0)
        leave(leaver)
        await finish(home, monkeypatch)
        await writer.commit(put(DOC, {"n": 2}))
        for peer in others:
            assert is_contiguous(peer)
            assert [len(frame.commits) for frame in peer.frames[-2:]] == [1, 1]
            assert peer.frames[-1].to == writer.frames[-1].to
        if leave is clog:
            leaver.read_on()
            await home.settle()
            assert is_contiguous(leaver)
            assert leaver.frames[-1].to == writer.frames[-1].to
        else:
            told = [one.version for frame in leaver.frames for one in frame.commits]
            assert 4 not in told
            if had or leave is Peer.lose:  # an unwatch is served some turns later, and the slice may come first
                assert told == ([3] if had else [])


@pytest.mark.rule("ACL-2", "WATCH-2")
async def test_subscribers_that_are_revoked_get_no_more_of_the_frame(monkeypatch: pytest.MonkeyPatch) -> None:
    async with service_harness() as home:
        writer, *peers = await sending(home, monkeypatch)
        local = writer.send(put(home.space, {ALICE.did: "own", BOB.did: "write"}))
        async with asyncio.timeout(60):
            while not any(one.local == local for frame in writer.frames for one in frame.verdicts):
                await asyncio.sleep(0)
                writer.take()
        had = sum(map(has_news, peers))
        assert had < SUBSCRIBERS, "the list is accepted while the frame is being sent"
        for _ in range(4 * SUBSCRIBERS):
            await asyncio.sleep(0)
        assert sum(map(has_news, peers)) == had
        await finish(home, monkeypatch)
        for peer in peers:
            assert is_contiguous(peer)
            assert peer.closed is not None or [one.code for one in peer.frames[-1].ended] == ["forbidden"]


@pytest.mark.rule("WATCH-1", "BRANCH-1")
async def test_a_branch_that_is_deleted_ends_the_watches_after_the_frame(monkeypatch: pytest.MonkeyPatch) -> None:
    async with service_harness() as home:
        owner = await home.peer(ALICE).open()
        await owner.ask(CreateBranch, operation=bytes(16), nonce=bytes(16), name=DRAFT)
        writer, *peers = await sending(home, monkeypatch, branch=DRAFT)
        deleted = DeleteBranch(id=owner.connection.next_id(), operation=bytes(15) + b"d", nonce=bytes(16), name=DRAFT)
        owner.give(owner.connection.request(deleted))
        await finish(home, monkeypatch)
        assert owner.answers(deleted) == [None]
        for peer in peers:
            assert is_contiguous(peer)
            assert [[fact.id for fact in one.facts] for frame in peer.frames for one in frame.commits][-1:] == [[DOC]]
            assert [one.code for frame in peer.frames for one in frame.ended] == ["branch_deleted"]
            assert peer.frames[-1].ended
        assert writer.closed is None


@pytest.mark.rule("WATCH-2")
async def test_a_frame_whose_subscribers_have_all_left_ends_its_group(monkeypatch: pytest.MonkeyPatch) -> None:
    async with service_harness() as home:
        writer, *peers = await sending(home, monkeypatch)
        group = peers[0].handler.outbox.watches[1].group
        for peer in peers:
            peer.lose()
        await finish(home, monkeypatch)
        assert not group.members
        late = await home.peer(CAROL).open()
        await late.watch(1, DOC)
        for number in range(3):
            await writer.commit(put(DOC, {"n": number}))
        assert is_contiguous(late)
        assert late.frames[-1].to == writer.frames[-1].to


@pytest.mark.rule("WATCH-2")
async def test_large_frames_that_differ_take_several_turns_too() -> None:
    """Each session watches something else, so that none of their frames is shared."""
    async with service_harness() as home:
        writer = await home.peer(ALICE).open()
        peers = [await home.peer(CAROL).open() for _ in range(12)]
        for place, peer in enumerate(peers):
            await peer.watch(1, DOC, f"urn:other:{place}")
        large = NEWS.decode() + "x" * (TURN_BYTES // 2)
        writer.send(put(DOC, large))
        turns, before = [], 0
        async with asyncio.timeout(60):
            while before < len(peers):
                await asyncio.sleep(0)
                now = sum(map(has_news, peers))
                turns.append(now - before)
                before = now
        assert max(turns) <= 2, "a turn ends with the frame that exceeds its bytes"


def counting(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The versions of the frames that are built from now on."""
    built: list[int] = []
    add_changes = frame_changes.add_changes

    def count(frame: Frame, *more: Any) -> None:
        built.append(frame.to)
        add_changes(frame, *more)

    monkeypatch.setattr(frame_changes, "add_changes", count)
    return built


@pytest.mark.rule("WATCH-2", "SYNC-1")
async def test_those_that_wait_for_their_slice_are_no_quiet_sessions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each got a frame of its own, built for it alone, whenever the timer of quiet sessions ended."""
    async with service_harness(settings=ServiceSettings(quiet_ms=0)) as home:
        writer, *peers = await sending(home, monkeypatch)
        built = counting(monkeypatch)
        group = peers[-1].handler.outbox._broadcast
        assert group is not None
        async with asyncio.timeout(60):
            while not all(map(has_news, peers)):
                await asyncio.sleep(0)
        assert built == []
        assert {peer.handler.outbox._broadcast for peer in peers} == {group}
        await home.settle()
        await writer.commit(put("urn:other", 1))  # of which they are told nothing but the version
        await home.settle(4)
        for peer in peers:
            assert is_contiguous(peer)
            assert peer.frames[-1].to == writer.frames[-1].to == 4


@pytest.mark.rule("WATCH-2", "SYNC-1")
async def test_what_is_too_much_for_one_frame_goes_out_batch_by_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    """While a frame was sent, more came than fits into one. Then each subscriber got frames of its own."""
    async with service_harness(limits=SMALL_PARTS) as home:
        writer, *peers = await sending(home, monkeypatch)
        group = peers[-1].handler.outbox._broadcast
        assert group is not None
        built = counting(monkeypatch)
        monkeypatch.setattr(broadcast, "PARTS_MAX", 1)
        for number in range(4):
            await writer_commits(writer, put(DOC, f"{number}" * 2_500))
            await writer_commits(writer, put("urn:other", number))
        monkeypatch.undo()
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(broadcast, "PARTS_MAX", 1)
            await home.settle(2)
        assert built, "they were built by the group"
        assert len(built) <= 2 * 4
        for peer in peers:
            assert is_contiguous(peer)
            assert [one.version for frame in peer.frames for one in frame.commits] == [3, 4, 6, 8, 10]
            assert [fact.body for one in peer.frames[-1].commits for fact in one.facts] == [encode("3" * 2_500)]
            assert peer.handler.outbox._broadcast is group


@pytest.mark.rule("WATCH-2", "SYNC-1")
@pytest.mark.parametrize("unsent_bytes_max", [DRAIN_BYTES, 4 * DRAIN_BYTES])
async def test_a_group_sends_a_frame_in_a_few_parts_too(unsent_bytes_max: int) -> None:
    """Unless that is more than a client may leave unread: then each gets it by itself, as it reads."""
    settings = ServiceSettings(unsent_bytes_max=unsent_bytes_max)
    async with service_harness(
        limits=msgspec.structs.replace(DEFAULTS, part_bytes_max=DRAIN_BYTES), settings=settings
    ) as home:
        writer, peers, group = await grouped(home)
        for number in range(2):
            await writer.commit(*(put(id_, f"{number}" * (DRAIN_BYTES // 2)) for id_ in THREE))
            for peer in peers:
                assert is_contiguous(peer)
                assert peer.frames[-1].to == writer.frames[-1].to
                told = {fact.id: fact.body for one in peer.frames[-1].commits for fact in one.facts}
                assert told == {id_: encode(f"{number}" * (DRAIN_BYTES // 2)) for id_ in THREE}
        is_shared = {peer.handler.outbox._broadcast for peer in peers} == {group}
        assert is_shared == (unsent_bytes_max > DRAIN_BYTES)


@pytest.mark.rule("SYNC-1")
async def test_a_connection_that_fails_between_two_parts_ends_and_costs_no_other() -> None:
    async with service_harness(limits=SMALL_PARTS) as home:
        writer, (first, failing, third), group = await grouped(home)
        write, written = group._members[failing.handler.outbox], list[bytes]()

        def fail(part: bytes) -> None:
            if written:
                raise RuntimeError
            written.append(part)
            write(part)

        group._members[failing.handler.outbox] = fail
        await writer.commit(*(put(id_, "x" * 2_500) for id_ in THREE))
        assert failing.wire.closed == 1011
        for peer in (first, third):
            assert is_contiguous(peer)
            assert peer.frames[-1].to == writer.frames[-1].to
            assert peer.handler.outbox._broadcast is group


async def grouped(home: ServiceHarness) -> tuple[Peer, list[Peer], BroadcastGroup]:
    """A writer, and three sessions that watch three entities in one group."""
    writer = await home.peer(ALICE).open()
    peers = [await home.peer(CAROL).open() for _ in range(3)]
    for peer in peers:
        await peer.watch(1, *THREE)
    await writer.commit(*(put(id_, 0) for id_ in THREE))
    group = peers[0].handler.outbox._broadcast
    assert group is not None
    return writer, peers, group


async def writer_commits(writer: Peer, operation: Operation) -> None:
    """In a batch of its own, and without waiting for anybody to be sent it."""
    hub = writer.handler._hub
    assert hub is not None
    version = hub.feed.version
    writer.send(operation)
    async with asyncio.timeout(60):
        while hub.feed.version == version:
            await asyncio.sleep(0)


@pytest.mark.rule("WATCH-2", "SYNC-1")
async def test_those_whose_watch_waits_for_a_read_are_no_quiet_sessions() -> None:
    async with service_harness(settings=ServiceSettings(quiet_ms=0)) as home:
        writer = await home.peer(ALICE).open()
        peers = [await home.peer(CAROL).open() for _ in range(3)]
        for peer in peers:
            await peer.watch(1, DOC)
        await writer.commit(put(DOC, 0))
        group, watched = peers[0].handler.outbox._broadcast, peers[0].handler.outbox.watches[1].group
        assert group is not None
        watched.stand_at(watched.at)  # as if it read
        await writer.commit(put(DOC, 1))
        await home.settle(2)
        assert {peer.handler.outbox._broadcast for peer in peers} == {group}
        watched.stand_at(None)
        for member in watched.members:
            member.stepped(watched)
        await home.settle(2)
        for peer in peers:
            assert is_contiguous(peer)
            assert peer.frames[-1].to == 3
