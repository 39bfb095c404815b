"""Failures of the storage under the writer: no verdict, nothing lost, nothing twice (COMMIT-10)."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import pytest

from engines import Clock, Engine, Held, LonelyStorage, Wandering, engine, turns
from snapshots import drop_snapshots
from space import SPACE, patch_, read_, set_
from stemmadb.protocol import errors
from stemmadb.protocol.model.commit.admission import Accepted, Outcome, Repeated
from stemmadb.protocol.model.commit.proposal import Proposal
from stemmadb.protocol.model.log import chain
from stemmadb.protocol.model.log.commit_record import Erase
from stemmadb.protocol.model.values.ids import Did, EntityId, TimeMs, Version
from stemmadb.server.counters import Counts
from stemmadb.server.engine.base import executors
from stemmadb.server.engine.base.executors import Executors
from stemmadb.server.engine.base.open_log import OpenLog
from stemmadb.server.engine.base.settings import Settings
from stemmadb.server.engine.write.in_flight import InFlight
from stemmadb.server.engine.write.queue import QueueEntry
from stemmadb.server.storage.memory import MemoryLog, MemoryStorage
from stemmadb.server.storage.port import Destroyed, DiskFull, FactPosition, LogReader, StorageFailed, Worker
from verdicts import X, Y, code, replace

T = TypeVar("T")


class Faults:
    """Fails the operations it is told to, each as often as it is told to."""

    def __init__(self) -> None:
        self.planned: dict[str, int] = {}
        self.kind: type[StorageFailed] = StorageFailed
        self.seen: list[str] = []

    def __call__(self, operation: str) -> None:
        self.seen.append(operation)
        if self.planned.get(operation, 0) > 0:
            self.planned[operation] -= 1
            raise self.kind


def later(it: Engine, *operations: Any, **how: Any) -> asyncio.Task[Outcome]:
    return asyncio.ensure_future(it.commit(*operations, **how))


@pytest.fixture
def faults() -> Faults:
    return Faults()


@pytest.mark.rule("COMMIT-10")
async def test_an_append_that_fails_gives_no_verdict_and_leaves_nothing(faults: Faults) -> None:
    async with engine(LonelyStorage(faults)) as it:
        faults.planned["append"] = 1
        proposal = it.propose(set_(X, 1, blind=True))
        with pytest.raises(errors.Unavailable):
            await it.space.decide(proposal)
        assert await it.value(X) is None
        assert isinstance(await it.space.decide(proposal), Accepted)
        assert await it.value(X) == 1


@pytest.mark.rule("COMMIT-5", "COMMIT-10")
async def test_a_commit_whose_append_failed_after_it_was_durable_is_accepted_once(faults: Faults) -> None:
    async with engine(LonelyStorage(faults)) as it:
        told: list[list[int]] = []
        it.space.subscribe(lambda batch: told.append([one.commit.version for one in batch]))
        faults.planned["appended"] = 1
        proposal = it.propose(set_(X, 1, blind=True))
        with pytest.raises(errors.Unavailable):
            await it.space.decide(proposal)
        assert it.space.version == 2
        assert told == [[]]  # there is something to be read from the log
        assert await it.space.decide(proposal) == Repeated(Version(2))
        assert await it.must(set_(X, 2, blind=True)) == 3
        assert told == [[], [3]]


@pytest.mark.rule("COMMIT-10")
@pytest.mark.parametrize("moment", ["append", "appended"])
async def test_what_was_decided_on_a_batch_that_fails_is_never_told(faults: Faults, moment: str) -> None:
    writing = Held()
    async with engine(LonelyStorage(faults), workers=Executors(writing, executors.Inline())) as it:
        await it.must(set_(X, {"a": 1}, blind=True))
        writing.is_held = True
        first = later(it, patch_(X, replace("/a", 2)), reads=[read_(X, 2, "/a")], session="one")
        await turns()
        stale = later(it, patch_(X, replace("/a", 3)), reads=[read_(X, 2, "/a")], session="two")
        await turns()
        queued = later(it, set_(Y, 1, blind=True), session="three")
        await turns()
        faults.planned[moment] = 1
        writing.release()
        told = await asyncio.gather(first, stale, queued, return_exceptions=True)
        assert [type(one) for one in told] == [errors.Unavailable] * 3
        again = await it.commit(patch_(X, replace("/a", 3)), reads=[read_(X, 2, "/a")], session="two", local=1)
        assert code(again) == ("accepted" if moment == "append" else "conflict")


@pytest.mark.rule("COMMIT-10")
async def test_those_who_wait_for_room_fail_with_those_in_the_queue(faults: Faults) -> None:
    writing = Held()
    sizes = Settings(ahead_min=1, queue_max=1, batch_commits_max=1)
    async with engine(LonelyStorage(faults), workers=Executors(writing, executors.Inline()), sizes=sizes) as it:
        writing.is_held = True
        commits = [later(it, set_(X, number, blind=True)) for number in range(5)]
        await turns()
        faults.planned["append"] = 1
        writing.release()
        told = await asyncio.gather(*commits, return_exceptions=True)
        assert [type(one) for one in told] == [errors.Unavailable] * 5
        again = [it.commit(set_(X, number, blind=True), local=number + 1) for number in range(5)]
        assert [code(one) for one in await asyncio.gather(*again)] == ["accepted"] * 5


@pytest.mark.rule("COMMIT-5", "COMMIT-10")
async def test_what_comes_before_those_who_failed_know_of_it_fails_too(faults: Faults) -> None:
    """Otherwise a later commit of a session would be accepted, and the one that failed be overtaken by it."""
    async with engine(LonelyStorage(faults)) as it:
        first, second = it.propose(set_(X, 1, blind=True)), it.propose(set_(X, 2, blind=True))
        faults.planned["append"] = 1
        failed = it.space.submit(first)

        async def comes_at_once() -> Outcome:
            while not failed.done():
                await asyncio.sleep(0)
            return await it.space.decide(second)

        told = await asyncio.gather(comes_at_once(), failed, return_exceptions=True)
        assert [type(one) for one in told] == [errors.Unavailable] * 2
        assert [code(await it.space.decide(one)) for one in (first, second)] == ["accepted"] * 2


async def test_a_caller_who_gave_up_is_not_told_of_a_failure_either(faults: Faults) -> None:
    writing = Held()
    async with engine(LonelyStorage(faults), workers=Executors(writing, executors.Inline())) as it:
        writing.is_held = True
        commits = [later(it, set_(X, number, blind=True)) for number in range(2)]
        await turns()
        commits[0].cancel()
        faults.planned["append"] = 1
        await turns()
        writing.release()
        with pytest.raises(asyncio.CancelledError):
            await commits[0]
        with pytest.raises(errors.Unavailable):
            await commits[1]


@pytest.mark.parametrize("ending", [InFlight.completed, InFlight.forget])
async def test_a_flight_that_has_just_landed_is_told_before_anything_else_is_done(
    ending: Callable[[InFlight], Awaitable[object]],
) -> None:
    """Its task is done, and the call that tells it is still on its way."""
    log = OpenLog(LonelyStorage(), SPACE, executors.Inline(), lambda _: None)
    await log.ready(create=True)
    writing = Held()
    writing.is_held = True
    in_flight = InFlight(log, writing, lambda: None, Counts().space(SPACE).append_seconds)
    told: list[str] = []
    in_flight.start([QueueEntry(lambda _: None, None)], lambda _: "done", told.append)

    async def meanwhile() -> tuple[object, list[str], bool]:
        await writing.run(lambda: None)
        return await ending(in_flight), list(told), in_flight.is_under_way

    soon = asyncio.ensure_future(meanwhile())
    await turns()
    writing.release()
    assert await soon in [(None, ["done"], False), ((), ["done"], False)]
    await turns()
    assert told == ["done"]
    await log.close()


async def test_many_who_find_the_log_broken_open_it_once(faults: Faults) -> None:
    versions: list[Version] = []
    storage = LonelyStorage(faults)
    log = OpenLog(storage, SPACE, Wandering(1), versions.append)
    await log.ready(create=True)
    log.broke()
    faults.seen.clear()
    assert await asyncio.gather(*[log.run(Wandering(2), lambda log: log.is_alone) for _ in range(3)]) == [True] * 3
    assert (faults.seen.count("open"), log.generation, versions) == (1, 2, [0, 0])
    await log.close()
    with pytest.raises(StorageFailed, match="closed"):
        await log.ready()


async def test_the_log_is_not_closed_under_those_who_work_on_it(faults: Faults) -> None:
    """A failure closes it only once the last one has ended, and whoever comes meanwhile waits for the new one."""
    log = OpenLog(LonelyStorage(faults), SPACE, executors.Inline(), lambda _: None)
    await log.ready(create=True)
    held = Held()
    held.is_held = True
    slow = asyncio.ensure_future(log.run(held, drop_snapshots))
    await turns()
    log.broke()
    faults.seen.clear()
    again = asyncio.ensure_future(log.ready())
    await turns()
    assert (faults.seen, again.done()) == ([], False)
    held.release()
    await asyncio.gather(slow, again)
    assert faults.seen == ["drop_snapshots", "open", "reader"]
    await log.close()


async def test_a_question_that_waits_while_the_log_is_opened_again_is_asked_of_the_new_one(faults: Faults) -> None:
    writing, reading = Held(), Held()
    async with engine(LonelyStorage(faults), workers=Executors(writing, reading)) as it:
        reading.is_held = True
        slow = asyncio.ensure_future(it.value(X))
        await turns()
        faults.planned["append"] = 1
        with pytest.raises(errors.Unavailable):
            await it.commit(set_(X, 1, blind=True), local=1)
        assert code(await it.commit(set_(X, 1, blind=True), local=1)) == "accepted"
        reading.release()
        assert await slow == 1


async def test_a_cut_that_fails_after_the_log_was_opened_again_does_not_break_the_new_one(faults: Faults) -> None:
    log = OpenLog(LonelyStorage(faults), SPACE, executors.Inline(), lambda _: None)
    await log.ready(create=True)
    generations: list[int] = []

    class Between(executors.Inline):
        """The log breaks and is opened again while a question is on its way back."""

        async def run(self, work: Callable[[], T]) -> T:
            try:
                return await super().run(work)
            finally:
                log.broke()
                await log.ready()
                generations.append(log.generation)

    def fails(_reader: LogReader) -> None:
        raise StorageFailed

    with pytest.raises(StorageFailed):
        await log.read(Between(), fails)
    await log.ready()
    assert (generations, log.generation) == ([2], 2)
    with pytest.raises(StorageFailed):
        await log.read(executors.Inline(), fails)
    await log.ready()
    assert log.generation == 3
    await log.close()


async def test_a_log_that_cannot_be_closed_is_opened_again_all_the_same() -> None:
    class Stuck(MemoryLog):
        def close(self) -> None:
            super().close()
            raise StorageFailed

    class StuckStorage(LonelyStorage):
        def open(self, space: Did, *, create: bool = False, workers: Worker | None = None) -> MemoryLog:
            log = super().open(space, create=create, workers=workers)
            log.__class__ = Stuck
            return log

    faults = Faults()
    async with engine(StuckStorage(faults)) as it:
        faults.planned["append"] = 1
        with pytest.raises(errors.Unavailable):
            await it.commit(set_(X, 1, blind=True), local=1)
        assert code(await it.commit(set_(X, 1, blind=True), local=1)) == "accepted"


@pytest.mark.rule("COMMIT-10")
async def test_a_full_disk_is_told_as_such_and_writes_work_again_when_there_is_room(faults: Faults) -> None:
    async with engine(LonelyStorage(faults)) as it:
        await it.must(set_(X, 1, blind=True))
        faults.kind = DiskFull
        faults.planned["append"] = 3
        proposal = it.propose(set_(X, 2, blind=True))
        for _ in range(3):
            with pytest.raises(errors.StorageFull):
                await it.space.decide(proposal)
            assert await it.value(X) == 1
        assert isinstance(await it.space.decide(proposal), Accepted)
        assert await it.value(X) == 2


@pytest.mark.rule("COMMIT-10")
async def test_a_gathering_that_fails_gives_no_verdict_but_the_write_before_it_stands(faults: Faults) -> None:
    writing = Held()
    async with engine(LonelyStorage(faults), workers=Executors(writing, executors.Inline())) as it:
        await it.must(set_(X, 1, blind=True))
        writing.is_held = True
        first = later(it, set_(X, 2, blind=True), session="s")
        await turns()
        cold = later(it, set_(Y, 2, blind=True), session="s")
        await turns()
        assert len(writing) == 2
        faults.planned["reader"] = 1
        writing.step(newest=True)
        await turns()
        assert not first.done()
        writing.release()
        assert isinstance(await first, Accepted)
        with pytest.raises(errors.Unavailable):
            await cold
        assert code(await it.commit(set_(Y, 2, blind=True), local=3)) == "accepted"


@pytest.mark.rule("COMMIT-10")
async def test_a_space_that_cannot_be_opened_again_is_unavailable_until_it_can(faults: Faults) -> None:
    async with engine(LonelyStorage(faults)) as it:
        await it.must(set_(X, 1, blind=True))
        faults.planned.update(append=1, open=4)
        for _ in range(2):
            with pytest.raises(errors.Unavailable):
                await it.commit(set_(X, 2, blind=True), local=9)
        with pytest.raises(errors.Unavailable):
            await it.value(X)
        assert faults.planned["open"] == 0
        assert await it.value(X) == 1
        assert isinstance(await it.commit(set_(X, 2, blind=True), local=9), Accepted)


async def test_a_space_that_is_gone_when_it_is_opened_again_is_unavailable() -> None:
    reported: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: reported.append(context))
    faults = Faults()
    storage = LonelyStorage(faults)
    async with engine(storage) as it:
        shelves, storage._spaces = storage._spaces, {}
        faults.planned["append"] = 1
        for _ in range(2):
            with pytest.raises(errors.Unavailable):
                await it.commit(set_(X, 1, blind=True), local=1)
        with pytest.raises(errors.UnknownSpace):
            await it.value(X)
        storage._spaces = shelves
        assert isinstance(await it.commit(set_(X, 1, blind=True), local=1), Accepted)
    assert {type(context["exception"]) for context in reported} == {errors.UnknownSpace}


async def test_an_internal_error_gives_no_verdict_and_the_space_goes_on() -> None:
    reported: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: reported.append(context))

    class Broken(Clock):
        is_broken = False

        def __call__(self) -> TimeMs:
            assert not self.is_broken, "a mistake"
            return super().__call__()

    clock = Broken()
    async with engine(clock=clock) as it:
        clock.is_broken = True
        with pytest.raises(errors.Unavailable):
            await it.commit(set_(X, 1, blind=True), local=1)
        assert [type(context["exception"]) for context in reported] == [AssertionError]
        clock.is_broken = False
        assert isinstance(await it.commit(set_(X, 1, blind=True), local=1), Accepted)


async def test_a_failed_read_is_unavailable_and_the_log_is_opened_again(faults: Faults) -> None:
    async with engine(LonelyStorage(faults)) as it:
        await it.must(set_(X, 1, blind=True))
        faults.planned["reader"] = 1
        with pytest.raises(errors.Unavailable):
            await it.value(X)
        faults.seen.clear()
        assert await it.value(X) == 1
        assert faults.seen[0] == "open"
        faults.seen.clear()
        assert await it.must(set_(X, 2, blind=True)) == 3
        assert faults.seen[0] == "reader"  # what was known of the log before is read again


async def test_each_who_asked_on_a_cut_that_could_not_be_opened_gets_an_error_of_its_own(faults: Faults) -> None:
    storage = LonelyStorage(faults)
    async with engine(storage) as it:
        faults.planned["reader"] = 1
        with pytest.raises(errors.Unavailable):
            await it.value(X)
        shelves, storage._spaces = storage._spaces, {}
        told = await asyncio.gather(it.value(X), it.value(Y), return_exceptions=True)
        assert told[0] is not told[1]
        for one in told:
            assert isinstance(one, errors.UnknownSpace)
            assert one.facts == {"space": SPACE}
        storage._spaces = shelves


async def test_a_failure_within_one_question_leaves_the_others_their_answers(faults: Faults) -> None:
    async with engine(LonelyStorage(faults)) as it:

        def fails(_reader: LogReader) -> None:
            raise StorageFailed

        answers = await asyncio.gather(
            it.space.read(lambda reader: reader.tip().version),
            it.space.read(fails),
            it.space.read(lambda reader: reader.tip().version),
            return_exceptions=True,
        )
        assert [type(one) for one in answers] == [int, errors.Unavailable, int]
        faults.seen.clear()
        assert await it.value(X) is None
        assert "open" in faults.seen


async def test_work_in_turn_that_meets_a_failure_is_unavailable(faults: Faults) -> None:
    async with engine(LonelyStorage(faults)) as it:
        faults.planned["drop_snapshots"] = 1
        work = asyncio.ensure_future(it.space.in_turn(drop_snapshots))
        behind = later(it, set_(X, 1, blind=True))
        for one in (work, behind):
            with pytest.raises(errors.Unavailable):
                await one
        await it.space.in_turn(drop_snapshots)
        assert code(await it.commit(set_(X, 1, blind=True), local=1)) == "accepted"


async def test_a_read_that_broke_the_log_costs_no_commit_its_verdict(faults: Faults) -> None:
    """The log is opened again once what is in flight has completed, and memory is read anew."""
    writing = Held()
    async with engine(LonelyStorage(faults), workers=Executors(writing, executors.Inline())) as it:
        await it.must(set_(X, 1, blind=True))
        writing.is_held = True
        first = later(it, set_(X, 2, blind=True))
        await turns()
        faults.planned["reader"] = 1
        with pytest.raises(errors.Unavailable):
            await it.value(X)
        second = later(it, set_(X, 3), reads=[read_(X, 3)])
        await turns()
        writing.step()
        await turns()
        writing.release()
        assert [code(await one) for one in (first, second)] == ["accepted", "accepted"]
        assert await it.value(X) == 3


# ---------------------------------------------------------------- erasure


def erase_x(version: int) -> tuple[Erase, Destroyed]:
    destroyed = Destroyed(facts=[FactPosition(Version(version), 0)], snapshots_of=[EntityId(X)])
    return Erase(id=EntityId(X), versions=(Version(version),)), destroyed


@pytest.mark.rule("ERASE-1")
async def test_what_is_destroyed_is_scrubbed_before_it_is_told_and_forgotten_by_memory(faults: Faults) -> None:
    async with engine(LonelyStorage(faults)) as it:
        version = await it.must(set_(X, {"secret": 1}, blind=True))
        details, destroyed = erase_x(version)
        faults.seen.clear()
        before = later(it, set_(Y, 1, blind=True))
        erased = asyncio.ensure_future(it.structure(details, destroyed=destroyed))
        after = later(it, patch_(X, replace("/secret", 2), blind=True))
        assert [code(await one) for one in (before, erased, after)] == ["accepted", "accepted", "erased"]
        assert [one for one in faults.seen if one != "reader"] == [
            "append",
            "appended",
            "append",
            "appended",
            "scrub",
        ]


@pytest.mark.rule("ERASE-1", "SNAP-1")
async def test_no_snapshot_of_what_was_destroyed_is_written_afterwards() -> None:
    storage = MemoryStorage()  # not alone, so that snapshots wait for the next append
    async with engine(storage) as it:
        await it.must(set_(X, {"secret": 0}, blind=True))
        for _ in range(64):
            await it.must(patch_(X, {"op": "increment", "path": "/secret", "by": 1}))
        places = [FactPosition(Version(version), 0) for version in range(2, 67)]
        details = Erase(id=EntityId(X), versions=tuple(place.version for place in places))
        destroyed = Destroyed(facts=places, snapshots_of=[EntityId(X)])
        assert code(await it.structure(details, destroyed=destroyed)) == "accepted"
        await it.must(set_(Y, 1, blind=True))
        assert await it.space.read(lambda reader: list(reader.snapshots())) == []


# ---------------------------------------------------------------- any failure at any time


class Client:
    """Sends its commits in order, a few at a time, and again from the first without a verdict."""

    def __init__(self, it: Callable[[], Engine], name: str, count: int) -> None:
        self._it = it
        self.name = name
        self.count = count
        self.decided: dict[int, Outcome] = {}

    def proposal(self, local: int) -> Proposal:
        step = patch_(X, {"op": "increment", "path": "/n", "by": 1})
        return self._it().propose(step, session=self.name, local=local)

    async def run(self) -> None:
        while len(self.decided) < self.count:
            first = len(self.decided) + 1
            locals_ = range(first, min(first + 4, self.count + 1))
            sent = [self._it().space.decide(self.proposal(local)) for local in locals_]
            for local, told in zip(locals_, await asyncio.gather(*sent, return_exceptions=True), strict=True):
                if isinstance(told, errors.Unready):
                    break
                assert isinstance(told, Accepted | Repeated), told
                self.decided[local] = told
            await asyncio.sleep(0)


@pytest.mark.rule("COMMIT-1", "COMMIT-5", "COMMIT-10")
@pytest.mark.parametrize("storage_kind", [MemoryStorage, LonelyStorage])
async def test_whatever_fails_each_commit_is_accepted_exactly_once(storage_kind: type[MemoryStorage]) -> None:
    for seed in range(15):
        chance = random.Random(seed)
        rate = 0.0

        def fail(_operation: str, chance: random.Random = chance) -> None:
            if chance.random() < rate:  # noqa: B023
                raise chance.choice([StorageFailed, DiskFull])

        storage = storage_kind(fail)
        workers = Executors(Wandering(seed), Wandering(seed + 1))
        sizes = Settings(
            ahead_min=1, cache_bytes_max=chance.choice([0, 100_000]), batch_commits_max=chance.choice([1, 3, 100])
        )
        async with engine(storage, workers=workers, sizes=sizes) as it:
            await it.must(set_(X, {"n": 0}, blind=True))
            rate = 0.2
            clients = [Client(lambda: it, f"c{number}", 12) for number in range(3)]
            await asyncio.gather(*[client.run() for client in clients])
            rate = 0.0
            assert await it.value(X) == {"n": 36}
            await it.space.read(lambda reader: list(chain.verify(SPACE, reader.history())))
            versions = [_version(told) for client in clients for told in client.decided.values()]
            assert sorted(versions) == list(range(3, 39))


def _version(told: Outcome) -> Version:
    assert isinstance(told, Accepted | Repeated)
    return told.commit.version if isinstance(told, Accepted) else told.version
