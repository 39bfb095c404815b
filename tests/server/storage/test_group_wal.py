"""The group WAL: batches of many spaces become durable by one sync, and every reader of a file sees them."""

from __future__ import annotations

import hashlib
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from appends import append_to
from group_wals import IDS, AtOnce, HeldBack, LogDriver, append_to_wal, checkpointer_of, in_file, segment_files
from snapshots import drop_snapshots
from space import ALICE, BOB, SPACE, set_
from stemmadb.protocol.model.log import chain
from stemmadb.protocol.model.values.body import encode
from stemmadb.protocol.model.values.ids import Did, Hash, TimeMs, Version
from stemmadb.server.storage.port import Done, LogMoved, StoredBlob
from stemmadb.server.storage.sqlite import SqliteStorage
from stemmadb.server.storage.sqlite.wal import checkpointer, segments
from stemmadb.server.storage.sqlite.wal.group_wal import RECORD_BYTES_MAX
from stemmadb.server.storage.sqlite.wal.segments import SegmentFile

SEGMENT_BYTES = 32 * 1024
BLOCKS = 8
"""Small ones that fit into a segment."""
SECONDS_MAX = 20.0
PIECE = 48
"""A trace of a secret counts from this length on."""


def made(directory: Path, wal_writer: AtOnce) -> SqliteStorage:
    storage = SqliteStorage(directory, wal_writer=wal_writer, scrub_wait_ms=20)
    assert checkpointer_of(storage).make()
    return storage


def apply_all(storage: SqliteStorage) -> None:
    """Ticks until no other tick is needed: at first a batch has come since the last tick."""
    assert any(not checkpointer_of(storage).tick() for _ in range(checkpointer.TICKS_MAX)), (
        "the checkpointer never gets quiet"
    )


def after_kill(directory: Path, copy: Path, space: Did = SPACE) -> int:
    """What is found, verified, by a process that comes after this one was killed now."""
    shutil.copytree(directory, copy)
    storage = SqliteStorage(copy)
    log = storage.open(space)
    try:
        with log.reader() as reader:
            return max(one.version for one in chain.verify(space, reader.history()))
    finally:
        storage.close()
        shutil.rmtree(copy)


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "data"


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    return tmp_path / "copy"


@pytest.fixture
def storage(directory: Path) -> Iterator[SqliteStorage]:
    directory.mkdir()
    storage = made(directory, AtOnce())
    yield storage
    storage.close()


@pytest.fixture
def held_back() -> HeldBack:
    return HeldBack()


@pytest.fixture
def holding(directory: Path, held_back: HeldBack) -> Iterator[SqliteStorage]:
    """A storage whose blocks are held back."""
    directory.mkdir()
    storage = made(directory, held_back)
    yield storage
    storage.close()


@pytest.fixture
def _small_segments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segments, "LOG_BYTES", 0)
    monkeypatch.setattr(segments, "SEGMENT_BYTES", SEGMENT_BYTES)


# ---------------------------------------------------------------- durable, and to be seen


@pytest.mark.rule("COMMIT-1")
@pytest.mark.parametrize("commits", [1, 3, 60])
def test_what_was_handed_over_is_seen_by_any_reader_once_that_is_told(
    directory: Path, holding: SqliteStorage, held_back: HeldBack, commits: int
) -> None:
    driver = LogDriver(holding)
    with driver.log.reader() as before:
        assert driver.append(driver.batch(commits=commits))
        assert driver.told == []
        with driver.log.reader() as reader:
            assert reader.tip().version == 1
        held_back.release()
        assert driver.told == [None]
        assert in_file(directory) == 1, "it is in the file once somebody looks"
        driver.check()
        assert in_file(directory) == driver.version == 1 + commits
        assert before.tip().version == 1


@pytest.mark.rule("COMMIT-1")
def test_a_batch_is_durable_when_it_is_told_and_not_before(
    directory: Path, copy: Path, holding: SqliteStorage, held_back: HeldBack
) -> None:
    driver = LogDriver(holding)
    assert driver.append(driver.batch())
    assert after_kill(directory, copy) == 1
    held_back.release()
    assert driver.told == [None]
    assert after_kill(directory, copy) == 2
    assert in_file(directory) == 1


@pytest.mark.rule("COMMIT-1")
def test_batches_that_come_while_a_block_is_under_way_are_one_block(
    directory: Path, copy: Path, holding: SqliteStorage, held_back: HeldBack
) -> None:
    first, *others = [LogDriver(holding, space) for space in (SPACE, ALICE, BOB)]
    assert first.append(first.batch())
    assert all(other.append(other.batch(commits=2)) for other in others)
    held_back.release()
    assert [driver.told for driver in (first, *others)] == [[None], [], []]
    assert first.append(first.batch()), "which comes too late for the second block"
    held_back.release()
    assert [driver.told for driver in (first, *others)] == [[None], [None], [None]]
    assert held_back.written == 2
    held_back.release()
    assert [driver.told for driver in (first, *others)] == [[None, None], [None], [None]]
    assert held_back.written == 3
    assert [after_kill(directory, copy, driver.space) for driver in (first, *others)] == [3, 3, 3]
    for driver in (first, *others):
        driver.check()


def test_a_batch_that_comes_before_the_one_before_it_is_durable_waits_for_the_next_block(
    holding: SqliteStorage, held_back: HeldBack
) -> None:
    driver = LogDriver(holding)
    first, second = driver.batch(), driver.batch()
    assert driver.append(first)
    assert driver.append(second)
    held_back.release()
    assert driver.told == [None]
    held_back.release()
    assert driver.told == [None, None]
    driver.check()


@pytest.mark.rule("COMMIT-1")
def test_a_log_of_many_blocks_and_appends_is_whole(storage: SqliteStorage, directory: Path, copy: Path) -> None:
    driver = LogDriver(storage)
    for number in range(30):
        if number % 4:
            assert driver.commit(number, commits=number % 5 + 1)
        else:
            assert not driver.append([driver.maker.commit(set_(f"urn:new:{number}", 1, blind=True))])
        if number % 7 == 0:
            apply_all(storage)
    assert after_kill(directory, copy) == driver.version
    driver.check()


# ---------------------------------------------------------------- refused


def test_a_batch_whose_rows_cannot_be_made_from_memory_is_not_taken(storage: SqliteStorage) -> None:
    driver = LogDriver(storage)
    assert not driver.append([driver.maker.commit(set_("urn:new", 1, blind=True))])
    assert not driver.append([driver.maker.create_branch("b")])
    assert driver.told == []
    assert driver.commit()
    driver.check()


def test_versions_that_do_not_follow_are_not_taken(storage: SqliteStorage) -> None:
    driver = LogDriver(storage)
    batch = driver.batch()
    for expected in (0, 2, 5):
        assert not append_to_wal(driver.log, Version(expected), batch, driver.told.append)
        assert isinstance(driver.told.pop(), LogMoved)
    assert not driver.append(batch), "what memory had of the log was forgotten"
    skipped, after = driver.batch(), driver.batch()
    assert not append_to_wal(driver.log, Version(3), after, driver.told.append), "one is missing before it"
    assert isinstance(driver.told.pop(), LogMoved)
    assert not driver.append([*skipped, *after])
    assert driver.commit()
    driver.check()


@pytest.mark.rule("COMMIT-1")
def test_a_batch_that_is_too_large_is_appended(storage: SqliteStorage) -> None:
    driver = LogDriver(storage)
    assert driver.commit("x" * (RECORD_BYTES_MAX - 1_000))
    assert not driver.commit("x" * RECORD_BYTES_MAX)
    assert driver.told == [None]
    assert driver.commit()
    driver.check()


def test_nothing_is_taken_while_the_disk_has_little_room(
    storage: SqliteStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver = LogDriver(storage)
    assert driver.commit()
    with monkeypatch.context() as little:
        little.setattr(checkpointer, "ROOM_BYTES_MIN", 1 << 62)
        checkpointer_of(storage).tick()
        assert not driver.commit()
        assert not driver.commit()
    checkpointer_of(storage).tick()
    assert driver.commit()
    driver.check()


def test_there_is_no_group_wal_while_the_disk_is_nearly_full(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory.mkdir()
    storage = SqliteStorage(directory, wal_writer=AtOnce())
    driver = LogDriver(storage)
    with monkeypatch.context() as little:
        little.setattr(checkpointer, "ROOM_BYTES_MIN", 1 << 62)
        assert not checkpointer_of(storage).make()
        assert segment_files(directory) == []
        assert not driver.commit()
    assert checkpointer_of(storage).make()
    assert driver.commit()
    driver.check()
    storage.close()


# ---------------------------------------------------------------- applier


@pytest.mark.rule("COMMIT-1")
def test_whatever_is_written_to_the_file_comes_after_what_was_handed_over(
    storage: SqliteStorage, directory: Path
) -> None:
    driver = LogDriver(storage)
    log = driver.log

    def put_blob() -> None:
        log.put_blob(StoredBlob(Hash(b"b" * 32), 4, "text/plain", TimeMs(1), in_file=False), b"blob")

    def append() -> None:
        assert not driver.append([driver.maker.commit(set_("urn:new", 1, blind=True))])

    def keep() -> None:
        snapshot = driver.maker.snapshot(driver.maker.facts[-1])
        assert snapshot is not None
        log.store_snapshots([snapshot])

    for write in (
        put_blob,
        append,
        keep,
        lambda: drop_snapshots(log),
        log.scrub,
        lambda: append_to(log, driver.version, []),
    ):
        assert driver.commit()
        assert in_file(directory) == driver.version - 1
        write()
        assert in_file(directory) == driver.version
    driver.check()


@pytest.mark.rule("COMMIT-1")
def test_records_are_applied_when_it_is_quiet_or_after_so_many_ticks(storage: SqliteStorage, directory: Path) -> None:
    driver = LogDriver(storage)
    assert driver.commit()
    assert checkpointer_of(storage).tick(), "something has come, and more may follow"
    assert in_file(directory) == 1
    assert not checkpointer_of(storage).tick()
    assert in_file(directory) == 2
    ticks = 0
    while in_file(directory) == 2:
        assert driver.commit()
        checkpointer_of(storage).tick()
        ticks += 1
        assert ticks <= checkpointer.TICKS_MAX
    assert ticks > 1
    driver.check()


@pytest.mark.rule("STORE-1")
def test_after_close_the_files_have_all_and_there_is_no_group_wal(directory: Path) -> None:
    directory.mkdir()
    storage = made(directory, AtOnce())
    drivers = [LogDriver(storage, space) for space in (SPACE, ALICE)]
    for driver in drivers:
        assert driver.commit()
        assert driver.commit(commits=3)
    assert len(segment_files(directory)) == 2
    storage.close()
    assert segment_files(directory) == []
    assert [in_file(directory, driver.space) for driver in drivers] == [5, 5]


@pytest.mark.rule("STORE-1")
def test_a_log_that_is_closed_has_all_of_it_and_can_be_opened_again(storage: SqliteStorage, directory: Path) -> None:
    driver = LogDriver(storage)
    assert driver.commit(commits=2)
    driver.log.close()
    assert in_file(directory) == 3
    driver.log = storage.open(SPACE)
    assert not driver.commit(), "nothing of it is in memory"
    assert driver.commit()
    driver.check()


# ---------------------------------------------------------------- segments


@pytest.mark.rule("COMMIT-1")
@pytest.mark.usefixtures("_small_segments")
def test_a_full_segment_is_free_again_after_a_checkpoint(storage: SqliteStorage, directory: Path, copy: Path) -> None:
    driver = LogDriver(storage)
    assert all(driver.commit() for _ in range(2 * BLOCKS))
    assert in_file(directory) == 1
    assert after_kill(directory, copy) == driver.version
    assert not driver.commit(), "both are full"
    assert driver.told == [None] * (2 * BLOCKS)
    assert driver.version == in_file(directory), "it was appended, and earlier records were applied"
    assert not driver.commit()
    checkpointer_of(storage).tick()
    assert all(driver.commit() for _ in range(BLOCKS))
    assert not driver.commit()
    assert after_kill(directory, copy) == driver.version
    driver.check()


@pytest.mark.rule("COMMIT-1")
@pytest.mark.usefixtures("_small_segments")
def test_whoever_is_killed_in_any_pass_has_lost_nothing(storage: SqliteStorage, directory: Path, copy: Path) -> None:
    drivers = [LogDriver(storage, space) for space in (SPACE, ALICE)]
    for number in range(6 * BLOCKS):
        assert drivers[number % 3 == 0].commit(number, commits=number % 4 + 1)
        if number % 5 == 4:
            checkpointer_of(storage).tick()
        assert [after_kill(directory, copy, one.space) for one in drivers] == [one.version for one in drivers]
    for driver in drivers:
        driver.check()


@pytest.mark.rule("COMMIT-1")
@pytest.mark.usefixtures("_small_segments")
def test_a_block_that_does_not_fit_into_the_rest_of_a_segment_begins_the_other(
    storage: SqliteStorage, directory: Path, copy: Path
) -> None:
    driver = LogDriver(storage)
    assert driver.commit("x" * (SEGMENT_BYTES // 2))
    assert driver.commit("y" * (SEGMENT_BYTES // 2))
    assert not driver.commit("z" * SEGMENT_BYTES), "it fits into none"
    assert driver.commit()
    assert after_kill(directory, copy) == driver.version
    driver.check()


@pytest.mark.rule("STORE-6")
def test_volumes_are_made_as_long_as_the_open_spaces_need(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segments, "LOG_BYTES", SEGMENT_BYTES)
    monkeypatch.setattr(segments, "SEGMENT_BYTES", SEGMENT_BYTES)
    directory.mkdir()
    storage = SqliteStorage(directory, wal_writer=AtOnce())
    drivers = [LogDriver(storage, space) for space in (SPACE, ALICE)]
    assert checkpointer_of(storage).make()
    assert [file.stat().st_size for file in segment_files(directory)] == [2 * SEGMENT_BYTES] * 2
    for driver in drivers:
        assert driver.commit()
        driver.check()
    storage.close()


@pytest.mark.rule("COMMIT-1")
@pytest.mark.usefixtures("_small_segments")
def test_volumes_of_many_spaces_grow(
    storage: SqliteStorage, directory: Path, copy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(segments, "LOG_BYTES", SEGMENT_BYTES)
    monkeypatch.setattr(segments, "SEGMENT_BYTES_MAX", 2 * SEGMENT_BYTES)
    drivers = [LogDriver(storage, space) for space in (SPACE, ALICE)]
    for number in range(12 * BLOCKS - 4):
        assert drivers[number % 2].commit(number)
        checkpointer_of(storage).tick()
        if number % 3 == 0:
            assert [after_kill(directory, copy, one.space) for one in drivers] == [one.version for one in drivers]
    assert [file.stat().st_size for file in segment_files(directory)] == [2 * SEGMENT_BYTES] * 2
    taken = 0
    while drivers[0].commit():
        taken += 1
    assert 2 * BLOCKS < taken <= 4 * BLOCKS
    assert after_kill(directory, copy) == drivers[0].version
    for driver in drivers:
        driver.check()


@pytest.mark.rule("STORE-6")
@pytest.mark.usefixtures("_small_segments")
def test_volumes_do_not_grow_where_the_disk_has_little_room(
    storage: SqliteStorage, directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(segments, "LOG_BYTES", 2 * SEGMENT_BYTES)
    monkeypatch.setattr(checkpointer, "SEGMENT_BYTES_MAX", 1 << 62)
    driver = LogDriver(storage)
    for number in range(4 * BLOCKS):
        assert driver.commit(number)
        checkpointer_of(storage).tick()
    assert [file.stat().st_size for file in segment_files(directory)] == [SEGMENT_BYTES] * 2
    driver.check()


# ---------------------------------------------------------------- erasure


def secret(name: str, size: int) -> str:
    """Text that nothing else in the files can look like, different in every part."""
    parts = (hashlib.sha256(f"{name} {number}".encode()).hexdigest() for number in range(size // 64 + 1))
    return "".join(parts)[:size]


def traces(files: list[Path], text: str) -> int:
    data = [file.read_bytes() for file in files if file.is_file()]
    pieces = [text[start : start + PIECE].encode() for start in range(0, len(text), PIECE)]
    return sum(any(piece in held for held in data) for piece in pieces)


@pytest.mark.rule("ERASE-1")
@pytest.mark.parametrize("size", [200, 3_000, 9_000])
@pytest.mark.usefixtures("_small_segments")
def test_a_scrub_leaves_no_trace_in_any_file(storage: SqliteStorage, directory: Path, copy: Path, size: int) -> None:
    """Be it in a segment that is written, in one that is full, or behind what was written in a later pass."""
    driver, other = LogDriver(storage), LogDriver(storage, ALICE)
    secrets = [secret(f"body {number}", size) for number in range(4)]
    versions = []
    for text in secrets:
        checkpointer_of(storage).tick()
        assert driver.commit(text)
        versions.append(driver.version)
        while not driver.commit("public"):
            checkpointer_of(storage).tick()
    assert other.commit(secret("kept", 3_000))
    assert sum(traces(segment_files(directory), text) for text in secrets) > 0
    erasure = [driver.maker.erase(IDS[0], versions)]
    append_to(driver.log, Version(driver.version - 1), erasure)
    assert driver.log.owes_scrub
    driver.log.scrub()
    assert [traces(list(directory.rglob("*")), text) for text in secrets] == [0, 0, 0, 0]
    assert driver.commit()
    assert other.commit()
    assert [after_kill(directory, copy, one.space) for one in (driver, other)] == [driver.version, other.version]
    driver.check()
    other.check()


# ---------------------------------------------------------------- the checkpointer's thread


def wait_for(done: Callable[[], bool]) -> None:
    end = time.monotonic() + SECONDS_MAX
    while not done():
        assert time.monotonic() < end, "it does not come"
        time.sleep(0.002)


@pytest.mark.rule("COMMIT-1")
def test_the_group_wal_is_created_once_it_pays_off_and_applied_when_it_is_quiet(directory: Path) -> None:
    directory.mkdir()
    storage = SqliteStorage(directory, wal_writer=AtOnce())
    driver = LogDriver(storage)
    assert not any(driver.commit() for _ in range(checkpointer.WORTH_IT - 1))
    assert segment_files(directory) == []
    wait_for(driver.commit)
    wait_for(lambda: in_file(directory) == driver.version)
    assert driver.commit(), "which wakes the checkpointer again"
    wait_for(lambda: in_file(directory) == driver.version)
    driver.check()
    storage.close()
    assert segment_files(directory) == []


# ---------------------------------------------------------------- between a block and the word of it


class Between(HeldBack):
    """Does something when a block takes off."""

    def __init__(self) -> None:
        super().__init__()
        self.on_write: Callable[[], object] = int

    def write(self, file: SegmentFile, block: bytes, at: int, done: Done) -> None:
        super().write(file, block, at, done)
        self.on_write()


@pytest.mark.rule("COMMIT-1")
@pytest.mark.usefixtures("_small_segments")
def test_a_segment_is_not_free_before_all_that_is_in_it_was_told(directory: Path, copy: Path) -> None:
    """The checkpointer ticks when a segment is full, before the caller of its last block is told."""
    directory.mkdir()
    wal_writer = Between()
    storage = made(directory, wal_writer)
    driver, other = LogDriver(storage), LogDriver(storage, ALICE)
    for _ in range(BLOCKS - 1):
        assert other.commit()
        wal_writer.release()
    assert driver.commit()  # the last block of the segment
    assert other.commit()  # waits for it
    wal_writer.on_write = checkpointer_of(storage).tick
    wal_writer.release()
    assert driver.told == [None]
    wal_writer.on_write = int
    wal_writer.release()
    for _ in range(BLOCKS):  # fills the other segment, and begins the first anew
        assert other.commit()
        wal_writer.release()
    found = after_kill(directory, copy)
    storage.close()
    assert found == driver.version, "an acknowledged batch is lost"


@pytest.mark.rule("COMMIT-1")
def test_a_scrub_does_not_forget_what_is_durable_and_not_told_yet(directory: Path, copy: Path) -> None:
    """A block of two spaces is durable; the first is told, another thread scrubs it, then the second is told."""
    directory.mkdir()
    wal_writer = HeldBack()
    storage = made(directory, wal_writer)
    first, driver, third = [LogDriver(storage, space) for space in (SPACE, ALICE, BOB)]
    assert third.commit()  # a block that the others wait for
    batch = first.batch()

    def scrub(_: BaseException | None) -> None:
        thread = threading.Thread(target=first.log.scrub)
        thread.start()
        thread.join(SECONDS_MAX)

    assert append_to_wal(first.log, Version(1), batch, scrub)
    assert driver.commit()
    wal_writer.release()
    wal_writer.release()
    assert driver.told == [None]
    found = after_kill(directory, copy, ALICE)
    storage.close()
    assert found == driver.version, "an acknowledged batch is lost"


@pytest.mark.rule("COMMIT-1")
def test_a_note_goes_with_its_commit(storage: SqliteStorage, directory: Path, copy: Path) -> None:
    driver = LogDriver(storage)
    batch = [driver.maker.commit(set_(IDS[0], 5, blind=True), note=encode(["why", None]))]
    assert driver.append(batch)
    assert after_kill(directory, copy) == 2
    with driver.log.reader() as reader:
        assert [commit.note for commit, _ in reader.history()] == [None, encode(["why", None])]
