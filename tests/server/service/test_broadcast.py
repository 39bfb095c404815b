"""Broadcast groups: sessions with equal watches get the same bytes, and each session exactly what it has to get."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from itertools import pairwise
from typing import Any

import pytest

from service_machine import Machine
from service_peers import ALICE, BOB, CAROL, Peer, ServiceHarness, Wire, patch, put, remove, service_harness
from stemmadb.protocol.errors import Unavailable
from stemmadb.protocol.model.query.query import Query, Root
from stemmadb.protocol.model.values.ids import Local, Version
from stemmadb.protocol.model.values.limits import DEFAULTS
from stemmadb.protocol.wire.messages.commit import RejectedVerdict
from stemmadb.protocol.wire.messages.reading import QueryAnswer, QueryRequest, UnwatchRequest
from stemmadb.protocol.wire.messages.sync import Sync
from stemmadb.protocol.wire.version import JSON, MSGPACK
from stemmadb.server.service.base.settings import ServiceSettings
from stemmadb.server.service.base.transport import DRAIN_BYTES
from stemmadb.server.service.stream import broadcast, frame_changes
from stemmadb.server.service.stream.broadcast import BroadcastGroup
from stemmadb.server.service.stream.frames import Frame
from stemmadb.server.service.stream.outbox import Outbox
from stemmadb.server.service.stream.watcher_states import WatcherState

DOC = "urn:doc"
LARGE = "x" * (DRAIN_BYTES // 4)


@pytest.fixture
async def home() -> AsyncIterator[ServiceHarness]:
    async with service_harness() as made:
        yield made


async def watchers(home: ServiceHarness, count: int, **more: str) -> list[Peer]:
    made = [await home.peer(CAROL, **more).open() for _ in range(count)]  # type: ignore[arg-type]
    for peer in made:
        await peer.watch(1, DOC)
    return made


async def subscribers(home: ServiceHarness, writer: Peer, count: int = 4) -> list[Peer]:
    """Watchers that are in one broadcast group, after one event."""
    made = await watchers(home, count)
    await writer.commit(put(DOC, {"n": 0}))
    assert len({id(broadcast_of(peer)) for peer in made}) == 1
    assert broadcast_of(made[0]) is not None
    return made


def outbox_of(peer: Peer) -> Outbox:
    return peer.handler.outbox


def broadcast_of(peer: Peer) -> BroadcastGroup | None:
    return outbox_of(peer)._broadcast


def told(peer: Peer, since: int = 0) -> list[tuple[int, int]]:
    """From where to where each frame with something in it goes."""
    return [(frame.from_, frame.to) for frame in peer.frames[since:] if frame.commits or frame.entered or frame.left]


def contiguous(frames: list[Sync]) -> bool:
    return all(before.to == frame.from_ for before, frame in pairwise(frames))


@pytest.mark.rule("WATCH-2", "SYNC-1")
async def test_many_watchers_of_the_same_are_told_every_event_once_and_in_order(home: ServiceHarness) -> None:
    writer = await home.peer(ALICE).open()
    peers = await subscribers(home, writer)
    for number in range(1, 6):
        await writer.commit(patch(DOC, {"op": "replace", "path": "/n", "value": number}))
    for peer in peers:
        assert contiguous(peer.frames)
        assert peer.frames[-1].to == writer.frames[-1].to == outbox_of(peer).to
        assert [len(frame.commits) for frame in peer.frames[-5:]] == [1] * 5
    assert len({id(broadcast_of(peer)) for peer in peers}) == 1


@pytest.mark.rule("WATCH-2")
async def test_watchers_of_two_encodings_are_in_two_broadcast_groups(home: ServiceHarness) -> None:
    writer = await home.peer(ALICE).open()
    peers = [await watchers(home, 3, subprotocol=one) for one in (MSGPACK, JSON)]
    for number in range(4):
        await writer.commit(put(DOC, {"n": number}))
    first, second = (broadcast_of(some[0]) for some in peers)
    assert first is not None
    assert second is not None
    assert first is not second
    assert [told(peer, -3) for some in peers for peer in some] == [told(peers[0][0], -3)] * 6


@pytest.mark.rule("WATCH-2", "SYNC-1", "SYNC-3")
async def test_sessions_with_equal_watches_get_one_frame_however_many_watches_they_have(
    home: ServiceHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = await home.peer(ALICE).open()
    peers = [await home.peer(CAROL).open() for _ in range(4)]
    for place, peer in enumerate(peers):
        for number in (1, 2, 3) if place % 2 else (3, 1, 2):  # in whichever order
            await peer.watch(number, f"urn:{number}:*")
    await writer.commit(*(put(f"urn:{number}:a", 0) for number in (1, 2, 3)))
    assert len({id(broadcast_of(peer)) for peer in peers}) == 1
    assert broadcast_of(peers[0]) is not None

    built: list[int] = []
    add_changes = frame_changes.add_changes

    def counting(frame: Frame, *more: Any) -> None:
        built.append(frame.to)
        add_changes(frame, *more)

    monkeypatch.setattr(frame_changes, "add_changes", counting)
    await writer.commit(put("urn:1:a", 1), remove("urn:2:a"), put("urn:3:b", 1))
    await writer.commit(put("urn:2:a", 2))
    assert len(built) == 2
    for peer in peers:
        assert contiguous(peer.frames)
        one, other = peer.frames[-2:]
        assert [(fact.id) for commit in one.commits for fact in commit.facts] == ["urn:1:a"]
        assert [(left.watch, left.id) for left in one.left] == [(2, "urn:2:a")]
        assert [(entered.watch, entered.id) for entered in one.entered] == [(3, "urn:3:b")]
        assert [(entered.watch, entered.id) for entered in other.entered] == [(2, "urn:2:a")]


@pytest.mark.rule("WATCH-2", "SYNC-1")
async def test_a_watch_more_or_less_makes_another_group(home: ServiceHarness) -> None:
    writer = await home.peer(ALICE).open()
    first, second, third = await watchers(home, 3)
    for peer in (first, second):
        await peer.watch(2, "urn:other")
    await writer.commit(put(DOC, {"n": 0}))
    assert broadcast_of(first) is broadcast_of(second) is not broadcast_of(third)
    assert broadcast_of(first) is not None
    await second.ask(UnwatchRequest, watch=2)
    for number in range(1, 3):
        await writer.commit(put(DOC, {"n": number}), put("urn:other", number))
    assert broadcast_of(first) is not broadcast_of(second) is broadcast_of(third) is not None
    for peer, facts in ((first, 2), (second, 1), (third, 1)):
        assert contiguous(peer.frames)
        assert [len(commit.facts) for frame in peer.frames[-1:] for commit in frame.commits] == [facts]


@pytest.mark.rule("WATCH-1", "SYNC-1")
async def test_a_watch_that_is_behind_holds_up_the_frames_after_its_version_only(home: ServiceHarness) -> None:
    writer = await home.peer(ALICE).open()
    peers = [await home.peer(CAROL).open() for _ in range(2)]
    for peer in peers:
        await peer.watch(1, DOC)
        await peer.watch(2, "urn:slow")
    await writer.commit(put(DOC, {"n": 0}))
    assert broadcast_of(peers[0]) is broadcast_of(peers[1]) is not None
    slow = outbox_of(peers[0]).watches[2].group
    version = slow.at
    for ahead in (1, 2):
        slow.stand_at(Version(version + ahead - 1))  # as if it read
        await writer.commit(put(DOC, {"n": ahead}))
        assert {told(peer)[-1][1] for peer in peers} == {version + ahead - 1}
    slow.stand_at(None)
    for member in slow.members:
        member.stepped(slow)
    await home.settle()
    for peer in peers:
        assert contiguous(peer.frames)
        assert told(peer)[-1][1] == version + 2
        assert broadcast_of(peer) is broadcast_of(peers[0]) is not None


@pytest.mark.rule("WATCH-2", "SYNC-1", "SYNC-2")
@pytest.mark.parametrize("leaving", range(4))
async def test_a_frame_for_many_takes_several_turns_and_any_member_may_leave_between_them(
    home: ServiceHarness, monkeypatch: pytest.MonkeyPatch, leaving: int
) -> None:
    writer = await home.peer(ALICE).open()
    peers = await subscribers(home, writer)
    peer = peers[leaving]
    monkeypatch.setattr(broadcast, "TURN_WRITES", 1)
    for number in range(1, 3):  # the second one comes while the first one is being sent
        writer.send(put(DOC, {"n": number}))
    sent, turns, has_left = {one: len(one.wire.sent) for one in peers}, [], False
    for _ in range(200):
        await asyncio.sleep(0)
        now = {one: len(one.wire.sent) for one in peers}
        turns.append(sum(now[one] > sent[one] for one in peers))
        sent = now
        if not has_left and sum(turns) == 2:
            outbox_of(peer).decide(RejectedVerdict(local=Local(1), code="conflict", message=""), outbox_of(peer).to)
            has_left = True
    assert has_left
    assert max(turns) <= 2, "one by the group, and the one that left"
    await home.settle()
    await writer.commit(put(DOC, {"n": 3}))
    for one in peers:
        assert contiguous(one.frames)
        assert one.frames[-1].to == writer.frames[-1].to
        assert [frame.to for frame in one.frames if frame.commits][-1] == writer.frames[-1].to
    assert [len(frame.verdicts) for frame in peer.frames if frame.verdicts] == [1]


@pytest.mark.rule("WATCH-2", "SYNC-1")
async def test_what_comes_while_a_frame_is_being_sent_follows_it_at_once(
    home: ServiceHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = await home.peer(ALICE).open()
    peers = await subscribers(home, writer, 12)
    monkeypatch.setattr(broadcast, "TURN_WRITES", 1)
    for reached in range(1, 13):
        before = [len(peer.wire.sent) for peer in peers]
        writer.send(put(DOC, {"n": reached}))
        while sum(len(peer.wire.sent) > had for peer, had in zip(peers, before, strict=True)) < reached:
            await asyncio.sleep(0)
        writer.send(put(DOC, {"n": -reached}))
        async with asyncio.timeout(60):
            while {told(peer)[-1][1] for peer in peers} != {2 + 2 * reached}:
                await home.settle()
    assert all(contiguous(peer.frames) for peer in peers)


@pytest.mark.rule("WATCH-2")
async def test_a_frame_that_was_sent_to_all_is_not_kept(
    home: ServiceHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A group may be there for one session alone, and nothing may happen for days."""
    events: list[str] = []

    class Framed(bytes):
        def __del__(self) -> None:
            events.append("let go")

    def framed(_: Wire, data: bytes) -> bytes:
        events.append("framed")
        return Framed(data)

    writer = await home.peer(ALICE).open()
    await subscribers(home, writer)
    monkeypatch.setattr(Wire, "framed", framed)
    await writer.commit(put(DOC, {"n": LARGE}))
    assert events == ["framed", "let go"]


@pytest.mark.rule("SYNC-2")
@pytest.mark.parametrize("place", range(4))
async def test_a_member_that_commits_has_its_verdict_in_the_frame_of_its_commit(
    home: ServiceHarness, place: int
) -> None:
    owner = await home.peer(ALICE).open()
    await owner.commit(put(DOC, {"n": 9}))
    peers = [await home.peer(BOB).open() for _ in range(4)]
    for peer in peers:
        await peer.watch(1, DOC)
    for number in range(3):
        await owner.commit(put(DOC, {"n": number}))
        await peers[place].commit(put(DOC, {"n": -number}))
    for peer in peers:  # of its own commits it has the bytes
        assert contiguous(peer.frames)
        assert [len(frame.commits) + len(frame.verdicts) for frame in peer.frames[-6:]] == [1] * 6
    assert [len(frame.verdicts) for frame in peers[place].frames[-6:]] == [0, 1] * 3


@pytest.mark.rule("SYNC-2")
@pytest.mark.parametrize("place", range(4))
async def test_a_member_whose_commit_is_refused_gets_the_verdict_before_later_events(
    home: ServiceHarness, place: int
) -> None:
    writer = await home.peer(ALICE).open()
    peers = await subscribers(home, writer)
    outbox_of(peers[place]).decide(
        RejectedVerdict(local=Local(1), code="conflict", message=""), outbox_of(peers[place]).to
    )
    assert broadcast_of(peers[place]) is None
    await writer.commit(put(DOC, {"n": 8}))
    for peer in peers:
        assert contiguous(peer.frames)
    assert [len(frame.verdicts) for frame in peers[place].frames[-1:]] == [1]


@pytest.mark.rule("SYNC-7", "SYNC-1")
async def test_an_answer_with_a_state_ahead_of_a_member_follows_its_frame(home: ServiceHarness) -> None:
    writer = await home.peer(ALICE).open()
    first, *others = await subscribers(home, writer)
    await writer.commit(put("urn:other", 1))  # of which the watchers are not told
    assert outbox_of(first).to < writer.frames[-1].to
    answer = await first.ask(QueryRequest, query=Query(roots=(Root("urn:other"),)))
    assert isinstance(answer, QueryAnswer)
    assert first.frames[-1].to == answer.version
    await writer.commit(put(DOC, {"n": 7}))
    assert all(contiguous(peer.frames) and told(peer)[-1][1] == writer.frames[-1].to for peer in (first, *others))


@pytest.mark.rule("SYNC-6")
async def test_a_member_that_does_not_read_leaves_and_goes_on_with_one_frame(home: ServiceHarness) -> None:
    writer = await home.peer(ALICE).open()
    first, slow, *others = await subscribers(home, writer)
    others.append(first)
    slow.stop_reading()
    for number in range(12):
        await writer.commit(put(DOC, {"n": number, "text": LARGE}))
    assert all(len(told(peer, 1)) == 13 for peer in others)
    assert broadcast_of(slow) is None
    assert broadcast_of(others[0]) is not None
    slow.read_on()
    await home.settle()
    await writer.commit(put(DOC, {"n": "after"}))
    assert contiguous(slow.frames)
    assert slow.frames[-1].to == writer.frames[-1].to


@pytest.mark.rule("WATCH-1")
async def test_members_come_and_go_and_the_last_one_leaves_nothing_behind(home: ServiceHarness) -> None:
    writer = await home.peer(ALICE).open()
    first, second, third, fourth = await subscribers(home, writer)
    group = next(iter(outbox_of(first).watches.values())).group
    await first.ask(UnwatchRequest, watch=1)
    second.lose()
    await writer.commit(put(DOC, {"n": 1}))
    assert (len(told(first)), len(told(third)), len(told(fourth))) == (1, 2, 2)
    late = await home.peer(CAROL).open()
    await late.watch(1, DOC)
    for number in range(2, 4):
        await writer.commit(put(DOC, {"n": number}))
    assert broadcast_of(late) is broadcast_of(third) is not None
    for peer in (late, third, fourth):
        peer.lose()
    assert not group.members


@pytest.mark.rule("ACL-2")
async def test_members_that_may_not_read_any_more_are_told_so_and_nothing_else(home: ServiceHarness) -> None:
    writer = await home.peer(ALICE).open()
    peers = await subscribers(home, writer)
    await writer.commit(put(home.space, {ALICE.did: "own"}))
    before = [len(peer.frames) for peer in peers]
    await writer.commit(put(DOC, {"n": "secret"}))
    assert all(told(peer, since) == [] for peer, since in zip(peers, before, strict=True))
    assert all(peer.frames[-1].ended or peer.closed for peer in peers)


@pytest.mark.rule("WATCH-1")
async def test_a_group_that_is_over_is_over_for_every_member(home: ServiceHarness) -> None:
    writer = await home.peer(ALICE).open()
    peers = await subscribers(home, writer)
    watch = next(iter(outbox_of(peers[0]).watches.values()))
    hub = peers[0].handler._hub
    assert hub is not None
    hub.feed.groups._stepper.end(watch.group, Unavailable(), at=watch.group.at)
    for member in watch.group.members:
        member.stepped(watch.group)
    await home.settle()
    assert [[one.code for frame in peer.frames for one in frame.ended] for peer in peers] == [["unavailable"]] * 4


@pytest.mark.rule("SYNC-3")
async def test_what_enters_and_leaves_is_told_to_members_too(home: ServiceHarness) -> None:
    writer = await home.peer(ALICE).open()
    peers = await subscribers(home, writer)
    await writer.commit(remove(DOC))
    await writer.commit(put(DOC, {"n": 1}))
    for peer in peers:
        assert [(len(frame.left), len(frame.entered)) for frame in peer.frames[-2:]] == [(1, 0), (0, 1)]


@pytest.mark.parametrize("place", [1, 3])
async def test_an_internal_error_with_one_member_costs_no_other(home: ServiceHarness, place: int) -> None:
    writer = await home.peer(ALICE).open()
    peers = await subscribers(home, writer)

    def fail(_: object) -> bool:
        raise RuntimeError

    broadcast = broadcast_of(peers[place])
    assert broadcast is not None
    broadcast._members[outbox_of(peers[place])] = fail
    for number in range(1, 3):
        await writer.commit(put(DOC, {"n": number}))
    assert all(contiguous(peer.frames) for peer in peers)
    assert {told(peer)[-1][1] for peer in peers} == {writer.frames[-1].to}


@pytest.mark.rule("SYNC-1")
async def test_a_frame_that_a_group_cannot_build_is_built_for_each_alone(
    home: ServiceHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = await home.peer(ALICE).open()
    peers = await subscribers(home, writer)

    def fail(_: BroadcastGroup, *_more: object) -> None:
        raise ZeroDivisionError

    with monkeypatch.context() as patched:
        patched.setattr(BroadcastGroup, "_publish", fail)
        await writer.commit(put(DOC, {"n": 1}))
    await writer.commit(put(DOC, {"n": 2}))
    for peer in peers:
        assert peer.closed is None
        assert contiguous(peer.frames)
        assert told(peer)[-2:] == [(2, 3), (3, 4)]


@pytest.mark.rule("WATCH-2", "SYNC-6")
async def test_a_session_that_watches_is_current_behind_or_stalled(home: ServiceHarness) -> None:
    writer = await home.peer(ALICE).open()
    first, second = await watchers(home, 2)
    await writer.commit(put(DOC, {"n": 0}))
    assert [outbox_of(peer).state for peer in (first, second)] == [WatcherState.CURRENT] * 2
    outbox_of(first).owe()
    assert outbox_of(first).state is WatcherState.BEHIND
    second.stop_reading()
    unsent_bytes_max = ServiceSettings().unsent_bytes_max
    while second.handler.socket.unsent <= unsent_bytes_max:
        await writer.commit(put(DOC, {"text": LARGE * 64}))
    assert outbox_of(second).state is WatcherState.STALLED
    second.read_on()
    await home.settle()
    await writer.commit(put(DOC, {"n": 1}))
    assert [outbox_of(peer).state for peer in (first, second)] == [WatcherState.CURRENT] * 2
    assert all(contiguous(peer.frames) and peer.frames[-1].to == writer.frames[-1].to for peer in (first, second))


@pytest.mark.rule("WATCH-1", "SYNC-1", "SYNC-2", "SYNC-3", "SYNC-6", "RESUME-1")
@pytest.mark.parametrize("seed", range(100, 112))
async def test_what_a_watcher_holds_equals_the_query_afresh_in_broadcast_groups_of_any_size(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(broadcast, "TURN_WRITES", 256 if seed % 2 else 1)
    async with service_harness(
        limits=DEFAULTS, settings=ServiceSettings(feed_batches_max=3 if seed % 3 else 64)
    ) as made:
        machine = Machine(made, seed)
        await machine.run(60)
        assert machine.checked
