"""What was destroyed and cannot be scrubbed yet: no answer to the one who asked, and all else goes on (ERASE-1)."""

from __future__ import annotations

import asyncio
from pathlib import Path
from threading import Event

import pytest

from asking import asked
from destroying import bytes_of_files
from engines import Engine, Held, LonelyStorage, engine, turns
from space import SPACE, set_
from stemmadb.protocol import errors
from stemmadb.protocol.model.commit.admission import Outcome, Repeated
from stemmadb.protocol.model.log.commit_record import Erase
from stemmadb.protocol.model.values.ids import BranchName, EntityId, Version
from stemmadb.server.engine.base import executors
from stemmadb.server.engine.base.executors import Executors
from stemmadb.server.engine.plan import erasure
from stemmadb.server.engine.write import scrub
from stemmadb.server.engine.write.writer import SCRUB_AGAIN_MS
from stemmadb.server.storage.memory import MemoryStorage
from stemmadb.server.storage.port import Destroyed, DiskFull, FactPosition, LogReader, StorageFailed
from stemmadb.server.storage.sqlite import SqliteStorage
from verdicts import X, Y, code

NO_SURVIVORS: dict[BranchName, bytes | None] = {}
SECRET = Version(2)


class Stuck:
    """A storage that cannot scrub until it is told that it can."""

    def __init__(self) -> None:
        self.kind: type[StorageFailed] | None = StorageFailed
        self.tries = 0

    def __call__(self, operation: str) -> None:
        if operation == "scrub":
            self.tries += 1
            if self.kind is not None:
                raise self.kind


@pytest.fixture
def stuck() -> Stuck:
    return Stuck()


@pytest.fixture(params=[LonelyStorage, MemoryStorage])
def storage(request: pytest.FixtureRequest, stuck: Stuck) -> MemoryStorage:
    """Alone, and as one of several nodes."""
    made: MemoryStorage = request.param(stuck)
    return made


async def write_secret(it: Engine) -> None:
    assert await it.must(set_(X, "the secret", blind=True)) == SECRET
    await it.must(set_(Y, "other", blind=True))


async def erase(it: Engine, operation: str = "erase") -> Outcome:
    destroyed = Destroyed(facts=[FactPosition(SECRET, 0)], snapshots_of=[EntityId(X)])
    details = Erase(id=EntityId(X), versions=(SECRET,))
    return await it.structure(details, operation=operation, destroyed=destroyed)


@pytest.mark.rule("ERASE-1", "COMMIT-11")
async def test_an_erasure_has_no_verdict_before_it_is_scrubbed_however_often_it_is_asked(
    storage: MemoryStorage, stuck: Stuck
) -> None:
    async with engine(storage) as it:
        await write_secret(it)
        for tries in (1, 2, 3):
            with pytest.raises(errors.Unavailable, match="still hold bytes that were destroyed"):
                await erase(it)
            assert stuck.tries == tries
            assert storage.open(SPACE).owes_scrub
            assert await it.value(Y) == "other"
        stuck.kind = None
        assert await erase(it) == Repeated(Version(4))
        assert not storage.open(SPACE).owes_scrub
        assert await erase(it) == Repeated(Version(4))
        assert stuck.tries == 4


@pytest.mark.rule("ERASE-1", "COMMIT-10")
async def test_those_who_wait_behind_an_erasure_that_cannot_be_scrubbed_get_their_verdicts(
    storage: MemoryStorage,
) -> None:
    async with engine(storage) as it:
        await write_secret(it)
        told: list[Version] = []
        it.space.subscribe(lambda _: told.append(it.space.version))
        before = asyncio.ensure_future(it.commit(set_(Y, 1, blind=True)))
        erased = asyncio.ensure_future(erase(it))
        after = [asyncio.ensure_future(it.commit(set_(Y, number, blind=True))) for number in (2, 3)]
        assert [code(await one) for one in (before, *after)] == ["accepted"] * 3
        with pytest.raises(errors.Unavailable):
            await erased
        assert (await it.value(Y), it.space.version) == (3, 7)
        assert told == [4, 5, 7]  # the erasure is durable, and watchers know


@pytest.mark.rule("ERASE-1")
async def test_what_was_decided_while_a_scrub_failed_is_decided_again(stuck: Stuck) -> None:
    writing = Held()
    async with engine(LonelyStorage(stuck), workers=Executors(writing, executors.Inline())) as it:
        await write_secret(it)
        with pytest.raises(errors.Unavailable):
            await erase(it)
        writing.is_held = True
        again = asyncio.ensure_future(erasure.erase(it.space, asked("e"), {EntityId(X): [SECRET]}, NO_SURVIVORS))
        await turns()
        behind = asyncio.ensure_future(it.commit(set_(Y, 1, blind=True)))
        await turns()
        writing.release()
        assert code(await behind) == "accepted"
        with pytest.raises(errors.Unavailable):
            await again
        assert await it.value(Y) == 1


@pytest.mark.rule("ERASE-1", "COMMIT-10")
async def test_work_in_turn_that_cannot_scrub_costs_nobody_else_a_verdict(
    storage: MemoryStorage, stuck: Stuck
) -> None:
    writing = Held()
    async with engine(storage, workers=Executors(writing, executors.Inline())) as it:
        await write_secret(it)
        writing.is_held = True
        compaction = asyncio.ensure_future(it.space.in_turn(scrub.scrub))
        await turns()
        behind = asyncio.ensure_future(it.commit(set_(Y, 1, blind=True)))
        await turns()
        writing.release()
        assert code(await behind) == "accepted"
        with pytest.raises(errors.Unavailable):
            await compaction
        assert stuck.tries == 1


@pytest.mark.rule("ERASE-1")
async def test_a_full_disk_is_told_as_such_to_the_one_who_erases(storage: MemoryStorage, stuck: Stuck) -> None:
    stuck.kind = DiskFull
    async with engine(storage) as it:
        await write_secret(it)
        for _ in range(2):
            with pytest.raises(errors.StorageFull):
                await erase(it)
        assert await it.must(set_(Y, 1, blind=True)) == 5


@pytest.mark.rule("ERASE-1")
async def test_another_write_that_destroys_waits_for_the_scrub_that_is_owed(
    storage: MemoryStorage, stuck: Stuck
) -> None:
    async with engine(storage) as it:
        await write_secret(it)
        for operation in ("one", "two"):
            with pytest.raises(errors.Unavailable):
                await erase(it, operation)
        assert it.space.version == 4  # the second was not even decided
        stuck.kind = None
        assert code(await erase(it, "two")) == "accepted"
        assert stuck.tries == 4


@pytest.mark.rule("ERASE-1")
async def test_a_scrub_is_tried_again_when_nothing_waits_and_not_all_the_time(
    storage: MemoryStorage, stuck: Stuck
) -> None:
    async with engine(storage) as it:
        await write_secret(it)
        with pytest.raises(errors.Unavailable):
            await erase(it)
        it.clock.tick(SCRUB_AGAIN_MS - 1)
        await it.must(set_(Y, 1, blind=True))
        await turns()
        assert stuck.tries == 1
        for tries in (2, 3):
            it.clock.tick(SCRUB_AGAIN_MS)
            await it.must(set_(Y, 1, blind=True))
            await it.must(set_(Y, 2, blind=True))
            await turns()
            assert stuck.tries == tries
        stuck.kind = None
        it.clock.tick(SCRUB_AGAIN_MS)
        await it.must(set_(Y, 3, blind=True))
        await turns()
        assert (stuck.tries, storage.open(SPACE).owes_scrub) == (4, False)


@pytest.mark.rule("ERASE-1")
async def test_a_space_that_owes_a_scrub_opens_and_serves_whether_or_not_it_can_be_done(
    storage: MemoryStorage, stuck: Stuck
) -> None:
    async with engine(storage) as it:
        await write_secret(it)
        with pytest.raises(errors.Unavailable):
            await erase(it)
    assert stuck.tries == 1
    async with engine(storage) as it:
        assert await it.value(Y) == "other"
        assert await it.must(set_(Y, 1, blind=True), session="t") == 5
        assert (stuck.tries, storage.open(SPACE).owes_scrub) == (2, True)
    stuck.kind = None
    async with engine(storage):
        await turns()
        assert (stuck.tries, storage.open(SPACE).owes_scrub) == (3, False)


@pytest.mark.rule("ERASE-1", "COMMIT-11")
async def test_erasing_answers_only_once_it_is_scrubbed_also_from_its_record(
    storage: MemoryStorage, stuck: Stuck
) -> None:
    async with engine(storage) as it:
        await write_secret(it)
        for tries in (1, 2):
            with pytest.raises(errors.Unavailable):
                await erasure.erase(it.space, asked("e"), {EntityId(X): [SECRET]}, NO_SURVIVORS)
            assert stuck.tries == tries
        stuck.kind = None
        done = await erasure.erase(it.space, asked("e"), {EntityId(X): [SECRET]}, NO_SURVIVORS)
        assert (done.version, done.erased, storage.open(SPACE).owes_scrub) == (4, 1, False)


@pytest.mark.rule("ERASE-1", "COMMIT-10")
async def test_a_long_read_of_our_own_keeps_nobody_but_the_erasure_waiting(tmp_path: Path) -> None:
    has_begun, may_end = Event(), Event()

    def slow(reader: LogReader) -> list[Version]:
        before = reader.tip().version
        has_begun.set()
        assert may_end.wait(60)
        return [before, max(commit.version for commit, _ in reader.history())]

    async with engine(
        SqliteStorage(tmp_path, scrub_wait_ms=20), workers=executors.threads(writers=2, readers=2)
    ) as it:
        await write_secret(it)
        reading = asyncio.ensure_future(it.space.read(slow))
        await asyncio.to_thread(has_begun.wait, 60)
        try:
            with pytest.raises(errors.Unavailable):
                await erasure.erase(it.space, asked("e"), {EntityId(X): [SECRET]}, NO_SURVIVORS)
            assert await it.value(Y) == "other"
            assert await it.must(set_("urn:z", 1, blind=True)) == 5
        finally:
            may_end.set()
        assert await reading == [3, 3]
        assert (await erasure.erase(it.space, asked("e"), {EntityId(X): [SECRET]}, NO_SURVIVORS)).version == 4
        assert b"the secret" not in bytes_of_files(tmp_path)


@pytest.mark.rule("ERASE-1")
async def test_another_process_that_reads_an_older_state_keeps_nobody_but_the_erasure_waiting(tmp_path: Path) -> None:
    workers = executors.threads(writers=2, readers=2)
    async with engine(SqliteStorage(tmp_path, scrub_wait_ms=20), workers=workers) as it:
        await write_secret(it)
        other = SqliteStorage(tmp_path, read_only=True)
        with other.open(SPACE).reader() as reader:
            assert reader.tip().version == 3
            for _ in range(2):
                with pytest.raises(errors.Unavailable):
                    await erasure.erase(it.space, asked("e"), {EntityId(X): [SECRET]}, NO_SURVIVORS)
                assert await it.value(Y) == "other"
            assert await it.must(set_("urn:z", 1, blind=True)) == 5
        done = await erasure.erase(it.space, asked("e"), {EntityId(X): [SECRET]}, NO_SURVIVORS)
        assert done.version == 4
        assert b"the secret" not in bytes_of_files(tmp_path)
        other.close()
