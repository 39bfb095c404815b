"""Streams in rare moments: reads ahead of the feed, shared frames, erasures, older sessions, storage that fails."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

import msgspec
import pytest

from graphs import link
from service_holder import Holder
from service_peers import ALICE, BOB, CAROL, Peer, put, remove, service_harness
from stemmadb.protocol import errors
from stemmadb.protocol.model.query.query import Query, Root
from stemmadb.protocol.model.values.body import encode
from stemmadb.protocol.model.values.ids import MAIN, EntityId, Local, Version
from stemmadb.protocol.model.values.limits import DEFAULTS
from stemmadb.protocol.wire.connection.client_side import Answered
from stemmadb.protocol.wire.messages.commit import AcceptedVerdict
from stemmadb.protocol.wire.messages.reading import QueryRequest, UnwatchRequest, WatchAnswer, WatchRequest
from stemmadb.protocol.wire.messages.session import HeldWatch
from stemmadb.protocol.wire.messages.structure import EraseRequest, Survivor
from stemmadb.server.engine.base.executors import Executors, Inline
from stemmadb.server.service.base.settings import ServiceSettings
from stemmadb.server.storage.memory import MemoryStorage
from stemmadb.server.storage.port import StorageFailed

EVERYTHING = Query(roots=(Root("urn:*"),))
SMALL_PARTS = msgspec.structs.replace(DEFAULTS, part_bytes_max=600)
T = TypeVar("T")


class Late(Inline):
    """Workers that do the work at once and return when the gate is open."""

    def __init__(self) -> None:
        self.gate = asyncio.Event()
        self.gate.set()

    async def run(self, work: Callable[[], T]) -> T:
        done = work()
        await self.gate.wait()
        return done


class Unpublished(MemoryStorage):
    """While it is armed, what is appended can be read, and the service does not hear of it."""

    def __init__(self, workers: Late) -> None:
        super().__init__(self._hold)
        self.is_armed = False
        self._workers = workers

    def _hold(self, operation: str) -> None:
        if self.is_armed and operation == "appended":
            self._workers.gate.clear()

    def publish(self) -> None:
        self.is_armed = False
        self._workers.gate.set()


class Failing(MemoryStorage):
    """Fails so many times at each operation."""

    def __init__(self) -> None:
        super().__init__(self._fail)
        self.left: dict[str, int] = {}

    def _fail(self, operation: str) -> None:
        if self.left.get(operation, 0):
            self.left[operation] -= 1
            raise StorageFailed


def erasing(peer: Peer, id_: str, version: int, *survivors: Survivor) -> EraseRequest:
    number, operation = peer.connection.next_id(), bytes(15) + b"e"
    return EraseRequest(
        id=number,
        operation=operation,
        nonce=bytes(16),
        entity=EntityId(id_),
        versions=(Version(version),),
        survivors=survivors,
    )


@pytest.mark.rule("SYNC-7")
@pytest.mark.parametrize("watching", [False, True])
async def test_a_query_that_read_ahead_of_the_feed_waits_for_it_without_a_flood_of_empty_frames(
    watching: bool,
) -> None:
    workers = Late()
    storage = Unpublished(workers)
    settings = ServiceSettings(unsent_bytes_max=100_000)  # so that a flood ends
    async with service_harness(storage=storage, workers=Executors(workers, Inline()), settings=settings) as home:
        alice, bob = await home.peer(ALICE).open(), await home.peer(BOB).open()
        if watching:
            await alice.watch(1, "urn:*")
        storage.is_armed = True
        bob.send(put("urn:x", 1))
        await home.settle()
        before = len(alice.frames)
        alice.stop_reading()
        request = QueryRequest(id=alice.connection.next_id(), query=EVERYTHING)
        alice.give(alice.connection.request(request))
        await home.settle()
        sent = len(alice.wire.sent)
        storage.publish()
        await home.settle()
        alice.read_on()
        await home.settle()
        assert alice.answers(request) == [None]
        assert sent <= 1
        assert len(alice.frames) <= before + 2


@pytest.mark.rule("SYNC-3", "WATCH-2")
async def test_a_frame_with_values_names_the_watch_of_the_one_who_gets_it() -> None:
    async with service_harness() as home:
        alice, bob, carol = [await home.peer(key).open() for key in (ALICE, BOB, CAROL)]
        await alice.commit(put("urn:x", 1))
        await bob.watch(1, "urn:x")
        await carol.watch(2, "urn:x")
        await alice.commit(put("urn:other", 1))
        alice.give(alice.connection.request(erasing(alice, "urn:other", 3, Survivor(branch=MAIN))))
        await home.settle()
        await alice.commit(put("urn:x", 2))
        assert [(one.watch, one.version) for one in bob.frames[-1].entered] == [(1, 5)]
        assert [(one.watch, one.version) for one in carol.frames[-1].entered] == [(2, 5)]


@pytest.mark.rule("SYNC-2")
async def test_what_one_client_needs_not_be_told_is_not_kept_from_another() -> None:
    async with service_harness() as home:
        alice = await home.peer(ALICE).open()
        await alice.commit(put("urn:x", 1))
        bob = await home.peer(BOB, session=b"b" * 16).open()
        await bob.watch(1, "urn:x")
        to, hash_ = bob.connection.to, bob.connection.hash
        await bob.commit(put("urn:x", 2))
        bob.lose()
        held = HeldWatch(watch=1, query=Query(roots=(Root("urn:x"),)), filled=True)
        standing = {"to": to, "hash": hash_, "watches": (held,)}
        again = home.peer(BOB, session=b"b" * 16)
        await again.open(**standing, lowest=Local(9), held=(Local(1),))
        carol = await home.peer(CAROL).open(**standing)
        assert [one.version for one in carol.frames[0].commits] == [3]


@pytest.mark.rule("SYNC-2", "COMMIT-5")
async def test_who_sends_a_commit_of_an_older_session_learns_its_verdict_while_that_session_is_open_elsewhere() -> (
    None
):
    async with service_harness() as home:
        old, new = await home.peer(BOB, session=b"1" * 16).open(), await home.peer(BOB, session=b"2" * 16).open()
        await old.commit(put("urn:x", 0))
        await new.watch(1, "urn:*")
        new.send(put("urn:x", 1), session=b"1" * 16, local=Local(2))
        await home.settle()
        told = [(one.session, one.local) for frame in new.frames for one in frame.verdicts]
        assert told == [(b"1" * 16, 2)]
        assert [one.local for frame in old.frames for one in frame.verdicts] == [1, 2]


@pytest.mark.rule("WATCH-1", "ERASE-1", "RESUME-1")
async def test_one_who_comes_back_after_an_erasure_does_not_keep_what_is_gone() -> None:
    async with service_harness(settings=ServiceSettings(feed_batches_max=1)) as home:
        alice, carol = await home.peer(ALICE).open(), await home.peer(CAROL).open()
        await alice.commit(put("urn:x", "secret"))
        await carol.watch(1, "urn:*")
        holder = Holder()
        for frame in carol.frames:
            holder.apply(frame)
        assert holder.held
        carol.lose()
        await alice.commit(remove("urn:x"))
        alice.give(alice.connection.request(erasing(alice, "urn:x", 2)))
        await home.settle()
        again = home.peer(CAROL, session=carol.session)
        await again.open(to=holder.to, hash=holder.hash, watches=(HeldWatch(watch=1, query=EVERYTHING, filled=True),))
        for frame in again.frames:
            holder.apply(frame)
        assert not holder.held


@pytest.mark.rule("WATCH-1", "SYNC-7")
async def test_a_page_that_was_read_ahead_of_an_erasure_leaves_nothing_out() -> None:
    workers = Late()
    storage = Unpublished(workers)
    async with service_harness(storage=storage, workers=Executors(workers, Inline()), limits=SMALL_PARTS) as home:
        alice, bob, carol = [await home.peer(key).open() for key in (ALICE, BOB, CAROL)]
        for number in range(4):
            await alice.commit(put(f"urn:{number}", "s" * 400))
        await bob.watch(1, "urn:*")
        storage.is_armed = True
        survivor = Survivor(branch=MAIN, body=encode("left"))
        alice.give(alice.connection.request(erasing(alice, "urn:3", 5, survivor)))
        await home.settle()
        request = WatchRequest(id=carol.connection.next_id(), watch=1, query=EVERYTHING)
        carol.give(carol.connection.request(request))
        await home.settle()
        storage.publish()
        await home.settle(3)
        holder = Holder()
        for frame in carol.frames:
            holder.apply(frame)
        assert holder.held[MAIN, EntityId("urn:3")].value == "left"


@pytest.mark.rule("WATCH-3")
async def test_a_watch_from_the_past_leaves_out_nothing_that_came_while_it_joined() -> None:
    async with service_harness(settings=ServiceSettings(feed_batches_max=1)) as home:
        alice, carol = await home.peer(ALICE).open(), await home.peer(CAROL).open()
        await alice.commit(put("urn:x", 0))
        request = WatchRequest(id=carol.connection.next_id(), watch=1, query=EVERYTHING, since=Version(1))
        carol.stop_reading()
        carol.give(carol.connection.request(request))
        carol.wire.unsent = 5 * 2**20
        await home.settle()
        for number in (1, 2, 3):
            await alice.commit(put("urn:x", number))
        carol.read_on()
        await home.settle()
        (answer,) = [one.result for one in carol.events if isinstance(one, Answered) and one.request is request]
        assert isinstance(answer, WatchAnswer)
        assert [one.version for one in answer.commits] == list(range(2, answer.version + 1))


@pytest.mark.rule("COMMIT-10")
async def test_those_that_were_deferred_are_awaited_in_their_order() -> None:
    async with service_harness(settings=ServiceSettings(commits_per_second=3)) as home:
        home.clock.now += 1_000
        alice = await home.peer(ALICE).open()
        for number in range(6):
            alice.send(put("urn:x", number))
        await home.settle()
        assert [one.local for one in alice.deferred] == [4, 5, 6]
        home.clock.now += 1_000
        assert isinstance(await alice.commit(put("urn:x", 3), local=Local(4)), AcceptedVerdict)
        alice.send(put("urn:x", 6), local=Local(7))
        await home.settle()
        assert isinstance(await alice.commit(put("urn:x", 4), local=Local(5)), AcceptedVerdict)


@pytest.mark.rule("COMMIT-10", "COMMIT-5")
async def test_a_commit_that_was_deferred_and_turns_out_accepted_holds_up_no_later_one() -> None:
    storage = Failing()
    async with service_harness(storage=storage) as home:
        alice = await home.peer(ALICE).open()
        storage.left["appended"] = 1
        alice.send(put("urn:x", 1))
        await home.settle(3)
        assert [one.local for one in alice.deferred] == [1]
        assert isinstance(alice.verdict(1), AcceptedVerdict)
        assert isinstance(await alice.commit(put("urn:x", 2), local=Local(2)), AcceptedVerdict)


@pytest.mark.rule("COMMIT-10")
async def test_a_watch_that_could_not_be_read_once_holds_up_no_verdict_for_ever() -> None:
    storage = Failing()
    async with service_harness(storage=storage) as home:
        alice = await home.peer(ALICE).open()
        await alice.commit(put("urn:y", 1))
        await alice.commit(put("urn:x", {"n": 0}))
        await alice.watch(1, Root("urn:x", "", True))
        feed = home.service.hubs[home.space].feed
        told = feed.on_batch

        def fail_after(batch: object) -> None:
            storage.left["reader"] = 2
            told(batch)  # type: ignore[arg-type]

        feed.on_batch = fail_after
        alice.send(put("urn:x", {"to": link("urn:y")}))
        await home.settle(3)
        await asyncio.sleep(0.5)
        await home.settle(3)
        assert isinstance(alice.verdict(3), AcceptedVerdict)


@pytest.mark.rule("ACL-2", "WIRE-4")
async def test_a_watch_that_is_joining_when_its_reader_is_revoked_is_answered() -> None:
    async with service_harness() as home:
        alice, carol = await home.peer(ALICE).open(), await home.peer(CAROL).open()
        await alice.commit(put("urn:x", 1))
        carol.stop_reading()
        one = WatchRequest(id=carol.connection.next_id(), watch=1, query=EVERYTHING)
        carol.give(carol.connection.request(one))
        carol.wire.unsent = 5 * 2**20
        await home.settle()
        await alice.commit(put(home.space, {ALICE.did: "own"}))
        carol.read_on()
        await home.settle()
        two = UnwatchRequest(id=carol.connection.next_id(), watch=1)
        carol.give(carol.connection.request(two))
        await home.settle()
        assert [type(error) for error in carol.answers(one)] == [errors.Forbidden]
        assert carol.answers(two) == [None]
