"""Power loss and errors of the disk in a life with a group WAL: nothing acknowledged is lost, what is found is whole.

Batches are handed over where the group WAL takes them and appended where it does not, as the writer does it.
"""

from __future__ import annotations

import random
import shutil
import threading
import time
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import pairwise
from pathlib import Path

import msgspec
import pytest

from appends import append_to
from faulty_vfs import Deleted, Event, FaultyVfs, Marked, Operation, Written, faulty, io_error, never
from group_wals import AtOnce, LogDriver, append_to_wal, checkpointer_of
from logs import LogMaker
from power_images import Disk, after_marks, anywhere, put
from random_logs import RandomLog
from space import ALICE, SPACE, set_
from stemmadb.protocol.errors import BrokenChain
from stemmadb.protocol.model.log import chain
from stemmadb.protocol.model.log.facts import Fact
from stemmadb.protocol.model.values.ids import Hash, Version
from stemmadb.server.storage.port import AcceptedWrite, Done, StorageFailed
from stemmadb.server.storage.sqlite import SqliteStorage, connection
from stemmadb.server.storage.sqlite.log import SqliteLog
from stemmadb.server.storage.sqlite.storage import SPACES
from stemmadb.server.storage.sqlite.wal import segments
from stemmadb.server.storage.sqlite.wal.segments import NAMES, SegmentFile

LIVES = 4
BATCHES = 48
IMAGES = 145  # of each life
IMAGES_TWICE = 25
SEGMENT_BYTES = 32 * 1024
BLOCKS = 8
"""Small ones that fit into a segment."""
WAL_PAGES = 24
ATTEMPTS_MAX = 12
SECONDS_MAX = 20.0
IDS = ["urn:x:1", "urn:x:2", "urn:x:3"]


# ---------------------------------------------------------------- images


class Moment(msgspec.Struct):
    """What the log holds after a batch."""

    hash: Hash
    facts: list[Fact]


def moment(maker: LogMaker) -> Moment:
    return Moment(maker.tip.hash, list(maker.facts))


class Life(msgspec.Struct):
    """Everything a disk was told, and what the log held after each batch; versions acknowledged are marked."""

    events: list[Event]
    moments: dict[Version, Moment]
    in_wal: int

    @property
    def turned_over(self) -> int:
        """How often a block was written to another segment than the one before it."""
        blocks = [event.file for event in self.events if isinstance(event, Written) and is_segment(event)]
        return sum(one != other for one, other in pairwise(blocks))


Image = tuple[dict[str, bytes], dict[str, bytes]]
"""The files of the data directory and those of the space."""


def is_segment(event: Event) -> bool:
    return not isinstance(event, Marked) and event.file in NAMES


def images(
    events: Sequence[Event], points: Sequence[int], seed: int, found: Image = ({}, {})
) -> Iterator[tuple[int, Image]]:
    """Power failures after so many events each. The two directories do not wait for each other: each is a disk."""
    dice = random.Random(seed)
    segments, space, at = Disk(dice, found[0]), Disk(dice, found[1]), 0
    for point in sorted(points):
        for event in events[at:point]:
            (segments if is_segment(event) else space).take(event)
        at = point
        yield space.marked, (segments.after_power_loss(), space.after_power_loss())


def place(directory: Path, image: Image, wal: Path | None = None) -> None:
    """`wal` is where the group WAL is, if it is a worker's."""
    segments, space = image
    put(directory / SPACES / SPACE, space)
    for name in NAMES:
        ((wal or directory) / name).unlink(missing_ok=True)
    for name, content in segments.items():
        ((wal or directory) / name).write_bytes(content)


def check(
    directory: Path, moments: Mapping[Version, Moment], acknowledged: int, wal_directory: Path | None = None
) -> Version:
    """Whatever was acknowledged is there, in whole batches, and verifies; gives where the log ends."""
    storage = SqliteStorage(directory, wal_directory=wal_directory)
    try:
        assert not list(directory.rglob("group_wal.*"))
        log = storage.open(SPACE, create=True)
        with log.reader() as reader:
            tip = reader.tip()
            assert acknowledged <= tip.version, "an acknowledged batch is lost"
            history = list(reader.history())
        list(chain.verify(SPACE, history))
        expected = moments[tip.version]
        assert tip.hash == expected.hash
        assert [fact for _, facts in history for fact in facts] == expected.facts
        assert log.integrity() == []
    finally:
        storage.close()
    return tip.version


@pytest.fixture(autouse=True)
def _small_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "WAL_PAGES_MAX", WAL_PAGES)
    monkeypatch.setattr(segments, "LOG_BYTES", 0)
    monkeypatch.setattr(segments, "SEGMENT_BYTES", SEGMENT_BYTES)


Recording = Callable[[FaultyVfs], None]


@pytest.fixture
def record_removal(monkeypatch: pytest.MonkeyPatch) -> Recording:
    """Volumes are removed past SQLite's file system: that a file is gone is recorded as well."""
    remove = segments.remove

    def record(vfs: FaultyVfs) -> None:
        def removed(directory: Path) -> None:
            there = [name for name in NAMES if (directory / name).exists()]
            for name in there:  # power may fail before it is durable
                vfs.events.append(Deleted(name, is_durable=False))
            remove(directory)
            if there:
                vfs.events.append(Deleted(there[-1], is_durable=True))

        monkeypatch.setattr(segments, "remove", removed)

    return record


# ---------------------------------------------------------------- lives


class MostlyFastPath(RandomLog):
    """Appends batches, most of them fast-path commits, which the group WAL takes."""

    in_wal = 0

    def append(self) -> list[AcceptedWrite]:
        expected = self.maker.version
        is_fast_path = self.random.random() < 0.8
        batch = [self._commit() if is_fast_path else self.entry() for _ in range(self.random.randint(1, 4))]
        destroys = any(entry.destroyed for entry in batch)
        snapshots = [] if destroys or is_fast_path else self.snapshots(self.maker.facts[-4:])
        if snapshots:
            append_to(self.log, expected, batch, snapshots)
        else:
            told: list[BaseException | None] = []
            assert isinstance(self.log, SqliteLog)
            self.in_wal += append_to_wal(self.log, expected, batch, told.append)
            assert told == [None]
        return batch


def opened(directory: Path, vfs: FaultyVfs, wal_writer: AtOnce) -> tuple[SqliteStorage, SqliteLog]:
    storage = SqliteStorage(directory, vfs=vfs.name, wal_writer=wal_writer)
    assert checkpointer_of(storage).make()
    return storage, storage.open(SPACE, create=True)


def tick(storage: SqliteStorage, times: int) -> None:
    for _ in range(times):
        if checkpointer_of(storage).wal is not None:
            checkpointer_of(storage).tick()


def live(seed: int, directory: Path, record: Recording, *, syncs: bool = True) -> Life:
    """Batches of all kinds, looks of the checkpointer, readers, scrubs, a log that is opened again, and a restart."""
    with faulty() as vfs:
        record(vfs)
        storage, log = opened(directory, vfs, AtOnce(syncs=syncs))
        random_log = MostlyFastPath(seed, log)
        maker, dice = random_log.maker, random.Random(seed)
        moments = {Version(0): moment(maker)}
        for number in range(BATCHES):
            random_log.append()
            vfs.mark(maker.version)
            moments[maker.version] = moment(maker)
            if dice.random() < 0.2:
                tick(storage, dice.randint(1, 3))
            if dice.random() < 0.1:
                log.tip()
            if log.owes_scrub and dice.random() < 0.2:
                log.scrub()
            if number == BATCHES // 3:
                log.close()
                log = random_log.log = storage.open(SPACE)
            if number == BATCHES * 2 // 3:
                storage.close()
                storage, log = opened(directory, vfs, AtOnce(syncs=syncs))
                random_log.log = log
        storage.close()
        return Life(vfs.events, moments, random_log.in_wal)


def lose_power(life: Life, scratch: Path, count: int, seed: int) -> int:
    """How many images there were, all of which are what they must be."""
    done = 0
    for acknowledged, image in images(life.events, anywhere(life.events, count, seed), seed):
        place(scratch, image)
        check(scratch, life.moments, acknowledged)
        done += 1
    return done


@pytest.mark.rule("COMMIT-1", "STORE-4", "STORE-6")
@pytest.mark.parametrize("by_worker", [True, False], ids=["by the worker", "by the next parent"])
def test_no_power_loss_loses_a_commit_in_the_group_wal_of_a_worker(
    tmp_path: Path, scratch: Path, record_removal: Recording, by_worker: bool
) -> None:
    """The worker that is started again recovers its own; whoever takes the directory recovers all."""
    life = live(LIVES, tmp_path, record_removal)
    wal = scratch / "workers" / "1"
    wal.mkdir(parents=True)
    for acknowledged, image in images(life.events, anywhere(life.events, IMAGES, LIVES), LIVES):
        place(scratch, image, wal)
        check(scratch, life.moments, acknowledged, wal if by_worker else None)


@pytest.mark.rule("COMMIT-1", "STORE-1")
@pytest.mark.parametrize("seed", range(LIVES))
def test_no_power_loss_loses_a_commit_that_the_group_wal_acknowledged(
    tmp_path: Path, scratch: Path, record_removal: Recording, seed: int
) -> None:
    life = live(seed, tmp_path, record_removal)
    assert life.in_wal > BATCHES // 3
    assert life.turned_over > 3
    assert lose_power(life, scratch, IMAGES, seed) == IMAGES


@pytest.mark.rule("COMMIT-1", "STORE-6")
def test_a_segment_is_written_over_only_once_the_files_have_what_was_in_it(
    tmp_path: Path, scratch: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing else syncs the file here: all commits take the fast path, and its write-ahead log is not moved."""
    monkeypatch.setattr(connection, "WAL_PAGES_MAX", 4_000)
    with faulty() as vfs:
        storage = SqliteStorage(tmp_path, vfs=vfs.name, wal_writer=AtOnce())
        assert checkpointer_of(storage).make()
        driver = LogDriver(storage)
        moments = {driver.version: moment(driver.maker)}
        vfs.mark(driver.version)
        for number in range(5 * BLOCKS):
            assert driver.commit(number)
            vfs.mark(driver.version)
            moments[driver.version] = moment(driver.maker)
            checkpointer_of(storage).tick()
        events = list(vfs.events)
        for acknowledged, image in images(events, after_marks(events)[1:], 0):
            place(scratch, image)
            assert check(scratch, moments, acknowledged) == acknowledged
        storage.close()


@pytest.mark.rule("COMMIT-1")
def test_power_that_fails_right_after_a_verdict_takes_nothing(
    tmp_path: Path, scratch: Path, record_removal: Recording
) -> None:
    life = live(100, tmp_path, record_removal)
    for acknowledged, image in images(life.events, after_marks(life.events) * 2, 0):
        place(scratch, image)
        check(scratch, life.moments, acknowledged)


@pytest.mark.rule("COMMIT-1", "STORE-1")
@pytest.mark.parametrize("seed", range(2))
def test_a_second_power_loss_during_recovery_loses_nothing(
    tmp_path: Path, scratch: Path, record_removal: Recording, seed: int
) -> None:
    life = live(seed, tmp_path, record_removal)
    points = anywhere(life.events, IMAGES_TWICE, seed)
    for number, (acknowledged, image) in enumerate(images(life.events, points, seed)):
        place(scratch, image)
        with faulty() as vfs:
            record_removal(vfs)
            storage = SqliteStorage(scratch, vfs=vfs.name)
            storage.open(SPACE, create=True)
            storage.close()
        for _, left in images(vfs.events, anywhere(vfs.events, 4, number), number, image):
            place(scratch, left)
            check(scratch, life.moments, acknowledged)


@pytest.mark.rule("COMMIT-1")
def test_a_block_that_is_not_waited_for_does_lose_something(
    tmp_path: Path, scratch: Path, record_removal: Recording
) -> None:
    """The images can be bad, and the check sees it: without a sync for each block they are."""
    life = live(0, tmp_path, record_removal, syncs=False)
    bad = 0
    for acknowledged, image in images(life.events, anywhere(life.events, 200, 0), 0):
        place(scratch, image)
        try:
            check(scratch, life.moments, acknowledged)
        except (AssertionError, KeyError, BrokenChain, StorageFailed):
            bad += 1
    assert bad > 20


# ---------------------------------------------------------------- errors of the disk


class Failing:
    """Operations of a kind on files of a kind fail, counted from 1."""

    def __init__(self, operation: Operation, failing: Container[int], only: Callable[[str], bool]) -> None:
        self._operation = operation
        self._failing = failing
        self._only = only
        self.seen = 0

    def __call__(self, operation: Operation, file: str, _size: int) -> None:
        if operation == self._operation and self._only(file):
            self.seen += 1
            if self.seen in self._failing:
                raise io_error()


class Work:
    """Sends batches as a server does: what has no verdict is sent again to a log that was opened again."""

    def __init__(self, directory: Path, vfs: FaultyVfs) -> None:
        directory.mkdir(exist_ok=True)
        self._vfs = vfs
        self.storage = SqliteStorage(directory, vfs=vfs.name, wal_writer=AtOnce())
        self._log: SqliteLog | None = None
        self.maker = LogMaker()
        self.moments = {Version(0): moment(self.maker)}
        self.failed = 0
        """Pages of which nobody was told that they are durable."""
        self.acknowledged = Version(0)

    def run(self, rounds: int) -> None:
        for number in range(rounds):
            checkpointer_of(self.storage).make()  # at last, if it failed before
            self.send(1 + number % 3)
            if number % 4 == 3:
                tick(self.storage, 2)
            if number % 10 == 6:
                self.scrub()

    def send(self, commits: int) -> None:
        expected = self.maker.version
        operations = [set_(id_, expected, blind=True) for id_ in IDS]
        batch = [self.maker.commit(*operations) for _ in range(commits)]
        self.moments[self.maker.version] = moment(self.maker)
        for _ in range(ATTEMPTS_MAX):
            with suppress(StorageFailed):
                if self._is_sent(expected, batch):
                    self.acknowledged = self.maker.version
                    self._vfs.mark(self.acknowledged)
                    return
            self.close()
        raise AssertionError("the log did not come back")

    def _is_sent(self, expected: Version, batch: list[AcceptedWrite]) -> bool:
        log = self.log()
        found = log.tip()
        assert found in (expected, self.maker.version), "a batch is there in whole or not at all"
        if found != expected:
            return True
        told: list[BaseException | None] = []
        is_taken = append_to_wal(log, expected, batch, told.append)
        (failure,) = told
        if failure is not None and not is_taken:
            raise failure
        if failure is not None:
            self.failed += 1
            self._check_broken(log, expected, batch)
        return failure is None

    def _check_broken(self, log: SqliteLog, expected: Version, batch: list[AcceptedWrite]) -> None:
        told: list[BaseException | None] = []
        assert not append_to_wal(log, expected, batch, told.append)
        assert "opened again" in str(told[0])

    def scrub(self) -> None:
        """As the engine does it: one that failed is done again later, on a log that was opened again."""
        try:
            self.log().scrub()
        except StorageFailed:
            self.close()

    def log(self) -> SqliteLog:
        if self._log is None:
            self._log = self.storage.open(SPACE, create=True)
        return self._log

    def close(self) -> None:
        if self._log is not None:
            self._log.close()
            self._log = None


def a_segment(file: str) -> bool:
    return file in NAMES


def no_segment(file: str) -> bool:
    return file not in NAMES


ROUNDS = 22


def count_operations(directory: Path, operation: Operation, only: Callable[[str], bool]) -> int:
    """How many there are when nothing fails."""
    with faulty() as vfs:
        vfs.before = counter = Failing(operation, (), only)
        work = Work(directory, vfs)
        work.run(ROUNDS)
        work.storage.close()
    return counter.seen


def sweep(
    scratch: Path,
    operation: Operation,
    only: Callable[[str], bool],
    *,
    times: int,
    step: int = 1,
    power_step: int = 1,
) -> int:
    """The same work for each operation of a kind: that one fails, and for some of them power fails later too.

    How many blocks failed.
    """
    failed = 0
    for nth in range(1, count_operations(scratch / "none fails", operation, only) + 1, step):
        with faulty() as vfs:
            vfs.before = Failing(operation, range(nth, nth + times), only)
            work = Work(scratch / "all", vfs)
            work.run(ROUNDS)
            killed = scratch / "killed"
            shutil.copytree(scratch / "all", killed)
            work.storage.close()
        for directory in (scratch / "all", killed):
            assert check(directory, work.moments, work.acknowledged) == work.maker.version
            shutil.rmtree(directory)
        if nth % power_step == 0:
            for acknowledged, image in images(vfs.events, after_marks(vfs.events), nth):
                place(scratch / "image", image)
                check(scratch / "image", work.moments, acknowledged)
        failed += work.failed
    return failed


@pytest.mark.rule("COMMIT-1", "COMMIT-10")
@pytest.mark.parametrize("operation", ["sync", "write"])
@pytest.mark.parametrize("times", [1, 3])
def test_a_block_that_fails_is_told_to_nobody_and_costs_nothing_acknowledged(
    scratch: Path, operation: Operation, times: int
) -> None:
    assert sweep(scratch, operation, a_segment, times=times, power_step=9) > ROUNDS // 2


@pytest.mark.rule("COMMIT-1", "COMMIT-10")
@pytest.mark.parametrize(("operation", "step"), [("sync", 3), ("write", 23), ("truncate", 1), ("delete", 1)])
@pytest.mark.parametrize("times", [1, 3])
def test_an_error_while_applying_loses_nothing_acknowledged(
    scratch: Path, operation: Operation, step: int, times: int
) -> None:
    sweep(scratch, operation, no_segment, times=times, step=step, power_step=10)


@pytest.mark.rule("COMMIT-1", "COMMIT-10")
@pytest.mark.parametrize("operation", ["sync", "write"])
@pytest.mark.parametrize("again", range(1, 30))
def test_records_that_could_not_be_applied_are_recovered_even_if_that_fails_at_first(
    scratch: Path, operation: Operation, again: int
) -> None:
    with faulty() as vfs:
        storage, log = opened(scratch, vfs, AtOnce())
        maker = LogMaker()
        append_to(log, Version(0), [maker.commit(set_(IDS[0], 0, blind=True))])
        for number in range(1, 4):
            assert is_in_wal(log, Version(number), [maker.commit(set_(IDS[0], number, blind=True))])
        vfs.before = Failing(operation, {1, again}, no_segment)
        with suppress(StorageFailed):
            log.store_snapshots([])  # which applies the records, and syncs
        for _ in range(ATTEMPTS_MAX):
            log.close()
            with suppress(StorageFailed):
                log = storage.open(SPACE)
                if log.tip() == 4:
                    break
        assert log.tip() == 4
        vfs.before = never
        append_to(log, Version(4), [maker.commit(set_(IDS[0], 4, blind=True))])
        for number in range(5, 5 + 3 * BLOCKS):  # what failed keeps no segment from being written again
            assert is_in_wal(log, Version(number), [maker.commit(set_(IDS[0], number, blind=True))])
            tick(storage, 1)
        storage.close()
    assert not list(scratch.glob("group_wal.*"))
    assert check(scratch, {maker.version: moment(maker)}, maker.version) == 5 + 3 * BLOCKS


@pytest.mark.rule("COMMIT-1", "COMMIT-10")
def test_a_block_that_failed_stays_away_once_the_log_was_opened_again(scratch: Path) -> None:
    """It was written, and its sync failed: what the log says when it is opened again holds from then on."""
    with faulty() as vfs:
        (scratch / "all").mkdir()
        storage, log = opened(scratch / "all", vfs, AtOnce())
        maker = LogMaker()
        append_to(log, Version(0), [maker.commit(set_(IDS[0], 0, blind=True))])
        assert is_in_wal(log, Version(1), [maker.commit(set_(IDS[0], 1, blind=True))])
        moments = {Version(2): moment(maker)}
        vfs.before = Failing("sync", [1], a_segment)
        assert not is_in_wal(log, Version(2), [maker.commit(set_(IDS[0], 2, blind=True))])
        log.close()
        assert storage.open(SPACE).tip() == 2
        shutil.copytree(scratch / "all", scratch / "killed")
        storage.close()
    for directory in (scratch / "killed", scratch / "all"):
        assert check(directory, moments, 2) == 2


def is_in_wal(log: SqliteLog, expected: Version, batch: list[AcceptedWrite]) -> bool:
    told: list[BaseException | None] = []
    return append_to_wal(log, expected, batch, told.append) and told == [None]


# ---------------------------------------------------------------- a scrub that meets an error


@pytest.mark.rule("COMMIT-1", "COMMIT-10")
@pytest.mark.parametrize("operation", ["sync", "write"])
@pytest.mark.parametrize("nth", [1, 2])
def test_what_comes_after_a_scrub_that_could_not_clear_the_segments_is_not_lost(
    scratch: Path, operation: Operation, nth: int
) -> None:
    with faulty() as vfs:
        work = Work(scratch / "all", vfs)
        work.run(4)
        vfs.before = Failing(operation, [nth], a_segment)
        work.scrub()
        work.run(3)
        shutil.copytree(scratch / "all", scratch / "killed")
        work.storage.close()
    assert check(scratch / "killed", work.moments, work.acknowledged) == work.acknowledged


class FailsWhenReleased(AtOnce):
    """Holds a block back, and then does not write it."""

    def __init__(self) -> None:
        super().__init__()
        self.held: Done | None = None
        self.holds = False

    def write(self, file: SegmentFile, block: bytes, at: int, done: Done) -> None:
        if self.holds:
            self.held = done
        else:
            super().write(file, block, at, done)

    def release(self) -> None:
        assert self.held is not None
        self.held(StorageFailed("the disk had an error"))


@pytest.mark.rule("COMMIT-1", "COMMIT-10")
def test_a_block_that_fails_while_a_scrub_waits_for_it_costs_nothing_that_comes_later(scratch: Path) -> None:
    """The scrub of one space, and the block of another."""
    (scratch / "all").mkdir()
    wal_writer = FailsWhenReleased()
    storage = SqliteStorage(scratch / "all", wal_writer=wal_writer)
    assert checkpointer_of(storage).make()
    wal = checkpointer_of(storage).wal
    assert wal is not None
    log, maker, other = storage.open(SPACE, create=True), LogMaker(), storage.open(ALICE, create=True)
    told: list[BaseException | None] = []

    def commit(value: int) -> bool:
        expected, batch = maker.version, [maker.commit(set_(IDS[0], value, blind=True))]
        return append_to_wal(log, expected, batch, told.append)

    assert not commit(0)
    told.clear()
    assert commit(1)
    wal_writer.holds = True
    lost = [maker.commit(set_(IDS[0], 2, blind=True))]
    assert append_to_wal(log, Version(2), lost, told.append)

    def scrub() -> None:
        with suppress(StorageFailed):
            other.scrub()

    scrubbing = threading.Thread(target=scrub)
    scrubbing.start()
    end = time.monotonic() + SECONDS_MAX
    while wal._is_open:
        assert time.monotonic() < end, "the scrub does not come to it"
        time.sleep(0.001)
    wal_writer.release()
    scrubbing.join(SECONDS_MAX)
    wal_writer.holds = False
    assert told[0] is None
    assert isinstance(told[1], StorageFailed)
    log.close()
    log = storage.open(SPACE)
    append_to(log, Version(2), lost)
    assert commit(3)
    moments = {maker.version: moment(maker)}
    shutil.copytree(scratch / "all", scratch / "killed")
    storage.close()
    assert check(scratch / "killed", moments, maker.version) == maker.version
