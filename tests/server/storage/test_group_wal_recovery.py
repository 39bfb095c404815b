"""A group WAL that a killed process left, and one that another process still writes: no commit is missed."""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import apsw
import pytest

from appends import append_to
from group_wals import IDS, AtOnce, LogDriver, checkpointer_of, file_of, in_file, segment_files
from logs import LogMaker
from space import ALICE, BOB, SPACE, set_
from stemmadb.protocol.errors import UnknownSpace
from stemmadb.protocol.model.log import chain
from stemmadb.protocol.model.values.ids import Did, Version
from stemmadb.server.storage import directory as directories
from stemmadb.server.storage.port import StorageFailed
from stemmadb.server.storage.sqlite import SqliteLog, SqliteStorage
from stemmadb.server.storage.sqlite import storage as storage_module
from stemmadb.server.storage.sqlite.storage import FILE
from stemmadb.server.storage.sqlite.wal import wait_for_checkpoint
from stemmadb.server.storage.sqlite.wal.checkpointer import WORTH_IT

SECONDS_MAX = 20.0
PRIVATE = "a private text that nothing else in any file looks like"


def verified(log: SqliteLog) -> int:
    with log.reader() as reader:
        version = max(one.version for one in chain.verify(log.space, reader.history()))
    assert log.integrity() == []
    return version


def tick(storage: SqliteStorage) -> bool:
    return checkpointer_of(storage).tick()


def holds(directory: Path, text: str) -> list[str]:
    """The names of files with a text in them."""
    return [
        file.name for file in sorted(directory.rglob("*")) if file.is_file() and text.encode() in file.read_bytes()
    ]


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "data"


@pytest.fixture
def storage(directory: Path) -> Iterator[SqliteStorage]:
    """One that goes on, and of which a copy is what a killed process would have left."""
    with directories.hold(directory):
        storage = SqliteStorage(directory, wal_writer=AtOnce())
        assert checkpointer_of(storage).make()
        yield storage
        storage.close()


@pytest.fixture
def drivers(storage: SqliteStorage) -> list[LogDriver]:
    """Each with more in the group WAL than in its file."""
    drivers = [LogDriver(storage, space) for space in (SPACE, ALICE, BOB)]
    for number in range(6):
        for driver in drivers[: 1 + number % 3]:
            assert driver.commit(f"{PRIVATE} {number}", commits=number % 3 + 1)
    return drivers


@pytest.fixture
def left(tmp_path: Path, directory: Path, drivers: list[LogDriver]) -> Path:
    """What was left by a process that was killed."""
    copy = tmp_path / "left"
    shutil.copytree(directory, copy)
    assert [in_file(copy, driver.space) for driver in drivers] == [1, 1, 1]
    return copy


@pytest.mark.rule("STORE-6")
@pytest.mark.parametrize("threads", [1, 3])
def test_spaces_are_recovered_in_parallel(
    left: Path, drivers: list[LogDriver], threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(storage_module, "SPACES_PER_RECOVERY_THREAD", 4 if threads == 1 else 1)
    again = SqliteStorage(left)
    try:
        assert [in_file(left, driver.space) for driver in drivers] == [driver.version for driver in drivers]
        assert not segment_files(left)
    finally:
        again.close()


# ---------------------------------------------------------------- nobody holds the directory


@pytest.mark.rule("COMMIT-1", "STORE-1")
@pytest.mark.parametrize("has_wal_writer", [False, True])
def test_opening_the_directory_recovers_all_that_was_left(
    left: Path, drivers: list[LogDriver], has_wal_writer: bool
) -> None:
    storage = SqliteStorage(left, wal_writer=AtOnce() if has_wal_writer else None)
    assert [in_file(left, driver.space) for driver in drivers] == [driver.maker.version for driver in drivers]
    assert segment_files(left) == []
    for driver in drivers:
        log = storage.open(driver.space)
        assert verified(log) == driver.maker.version
        with log.reader() as reader:
            assert reader.tip().hash == driver.maker.tip.hash
    storage.close()


@pytest.mark.rule("COMMIT-1")
def test_a_recovered_log_uses_the_group_wal_again(left: Path, drivers: list[LogDriver]) -> None:
    storage = SqliteStorage(left, wal_writer=AtOnce())
    assert checkpointer_of(storage).make()
    driver = drivers[0]
    driver.log.close()
    driver.log = storage.open(SPACE)
    assert not driver.commit(commits=4), "nothing of it is in memory"
    assert driver.commit(commits=2)
    assert verified(driver.log) == driver.maker.version
    storage.close()
    assert segment_files(left) == []


@pytest.mark.rule("COMMIT-1", "STORE-1")
def test_a_read_only_storage_recovers_it_as_well(left: Path, drivers: list[LogDriver]) -> None:
    storage = SqliteStorage(left, read_only=True)
    for driver in drivers:
        assert verified(storage.open(driver.space)) == driver.maker.version
    storage.close()
    assert segment_files(left) == []
    assert not directories.is_held(left)


@pytest.mark.rule("COMMIT-1")
def test_records_applied_before_the_kill_are_not_recovered_twice(
    tmp_path: Path, directory: Path, storage: SqliteStorage, drivers: list[LogDriver]
) -> None:
    tick(storage)
    tick(storage)
    assert [in_file(directory, driver.space) for driver in drivers] == [one.maker.version for one in drivers]
    assert drivers[0].commit()
    shutil.copytree(directory, tmp_path / "left")
    later = SqliteStorage(tmp_path / "left")
    assert [verified(later.open(one.space)) for one in drivers] == [one.maker.version for one in drivers]
    later.close()


@pytest.mark.rule("COMMIT-1")
def test_a_process_killed_during_recovery_leaves_it_to_the_next(
    tmp_path: Path, left: Path, drivers: list[LogDriver]
) -> None:
    """Some spaces have all of it then, and the group WAL is still there."""
    kept = [file.read_bytes() for file in segment_files(left)]
    SqliteStorage(left).close()
    for name, content in zip(("group_wal.0", "group_wal.1"), kept, strict=True):
        (left / name).write_bytes(content)
    storage = SqliteStorage(left)
    assert segment_files(left) == []
    assert [verified(storage.open(one.space)) for one in drivers] == [one.maker.version for one in drivers]
    storage.close()


# ---------------------------------------------------------------- of another log


@pytest.mark.rule("STORE-1")
def test_what_does_not_follow_a_log_that_was_put_in_its_place_is_dropped(
    tmp_path: Path, directory: Path, storage: SqliteStorage
) -> None:
    driver = LogDriver(storage)
    older, left = tmp_path / "older", tmp_path / "left"
    driver.log.close()
    shutil.copytree(directory, older)
    driver.log = storage.open(SPACE)
    new = [driver.maker.commit(*(set_(f"urn:new:{number}", 0, blind=True) for number in range(3)))]
    append_to(driver.log, Version(1), new)
    assert driver.append([driver.maker.commit(set_("urn:new:1", 1, blind=True))])
    shutil.copytree(directory, left)
    shutil.rmtree(file_of(left).parent)
    shutil.copytree(file_of(older).parent, file_of(left).parent)
    for read_only in (True, False):
        again = SqliteStorage(left, read_only=read_only)
        assert verified(again.open(SPACE)) == 1
        assert segment_files(left) == []
        again.close()


@pytest.mark.rule("STORE-1", "STORE-6")
def test_what_follows_another_log_at_the_same_version_is_dropped(tmp_path: Path, left: Path) -> None:
    """Of the same space, with the same numbers for its entities and sessions."""
    other = SqliteStorage(tmp_path / "other")
    log, maker = other.open(SPACE, create=True), LogMaker()
    append_to(log, Version(0), [maker.commit(*(set_(id_, "another value", blind=True) for id_ in IDS))])
    other.close()
    shutil.rmtree(file_of(left).parent)
    shutil.copytree(file_of(tmp_path / "other").parent, file_of(left).parent)
    storage = SqliteStorage(left)
    assert verified(storage.open(SPACE)) == 1
    assert segment_files(left) == []
    storage.close()


@pytest.mark.rule("STORE-1")
def test_rows_of_entities_that_another_file_of_the_same_log_does_not_have_are_dropped(left: Path) -> None:
    """By hand every entity got another number there."""
    file = apsw.Connection(str(file_of(left)))
    file.execute("UPDATE fact SET entity = entity + 100; UPDATE entity SET entity = entity + 100")
    file.close()
    storage = SqliteStorage(left)
    assert verified(storage.open(SPACE)) == 1
    assert segment_files(left) == []
    storage.close()


@pytest.mark.rule("STORE-1")
@pytest.mark.parametrize("read_only", [False, True])
def test_what_a_space_has_left_that_is_gone_is_dropped(left: Path, drivers: list[LogDriver], read_only: bool) -> None:
    shutil.rmtree(file_of(left, ALICE).parent)
    storage = SqliteStorage(left, read_only=read_only)
    assert verified(storage.open(SPACE)) == drivers[0].maker.version
    assert segment_files(left) == []
    with pytest.raises(UnknownSpace):
        storage.open(ALICE)
    storage.close()


# ---------------------------------------------------------------- a space that cannot be opened


def damaged(directory: Path, space: Did) -> Callable[[], None]:
    """Damages the file of a space; what is returned repairs it."""
    place, sound = file_of(directory, space).parent, directory.parent / "sound"
    place.rename(sound)
    place.mkdir()
    (place / FILE).write_bytes(b"no database at all" * 1_000)

    def repair() -> None:
        shutil.rmtree(place)
        sound.rename(place)

    return repair


@pytest.mark.rule("COMMIT-1", "STORE-1")
def test_the_group_wal_is_retained_for_a_space_that_cannot_be_opened(left: Path, drivers: list[LogDriver]) -> None:
    repair = damaged(left, ALICE)
    storage = SqliteStorage(left, wal_writer=AtOnce())
    assert len(segment_files(left)) == 2
    driver = drivers[0]
    driver.log.close()
    driver.log = storage.open(SPACE)
    assert not any(driver.commit(commits=4) for _ in range(2 * WORTH_IT)), "no block is written over what is kept"
    assert verified(driver.log) == driver.maker.version
    with pytest.raises(StorageFailed):
        storage.open(ALICE)
    storage.close()
    assert len(segment_files(left)) == 2
    repair()
    again = SqliteStorage(left)
    assert [verified(again.open(one.space)) for one in drivers] == [one.maker.version for one in drivers]
    assert segment_files(left) == []
    again.close()


@pytest.mark.rule("COMMIT-1")
def test_a_space_that_can_be_opened_again_is_recovered_and_then_there_is_a_group_wal(
    left: Path, drivers: list[LogDriver]
) -> None:
    repair = damaged(left, ALICE)
    storage = SqliteStorage(left, wal_writer=AtOnce())
    repair()
    assert verified(storage.open(ALICE)) == drivers[1].maker.version
    driver = drivers[0]
    driver.log.close()
    driver.log = storage.open(SPACE)
    end = time.monotonic() + SECONDS_MAX
    while not driver.commit(commits=4):
        assert time.monotonic() < end, "there is no group WAL"
    assert verified(driver.log) == driver.maker.version
    storage.close()
    assert segment_files(left) == []


@pytest.mark.rule("ERASE-1")
def test_no_scrub_succeeds_while_a_group_wal_that_was_left_has_a_trace(left: Path, drivers: list[LogDriver]) -> None:
    repair = damaged(left, ALICE)
    storage = SqliteStorage(left, wal_writer=AtOnce())
    log, maker = storage.open(SPACE), drivers[0].maker
    written = sorted({fact.version for fact in maker.facts if fact.id in IDS[:3] and fact.version > 1})
    for id_ in IDS[:3]:
        append_to(log, maker.version, [maker.erase(id_, written)])
    assert log.owes_scrub
    with pytest.raises(StorageFailed):
        log.scrub()
    log.close()
    shutil.rmtree(file_of(left, BOB).parent)  # they have the same in theirs
    repair()
    storage.open(ALICE).close()
    shutil.rmtree(file_of(left, ALICE).parent)
    log = storage.open(SPACE)
    assert log.owes_scrub
    log.scrub()
    assert holds(left, PRIVATE) == []
    assert verified(log) == maker.version
    storage.close()


# ---------------------------------------------------------------- another holds the directory


class Reading(threading.Thread):
    """Opens a space read-only, beside whoever holds the directory."""

    def __init__(self, directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__()
        self._directory = directory
        self.waits = threading.Event()
        self.found = 0
        is_held = directories.is_held

        def asked(asked_for: Path) -> bool:
            self.waits.set()
            return is_held(asked_for)

        monkeypatch.setattr(directories, "is_held", asked)

    def run(self) -> None:
        storage = SqliteStorage(self._directory, read_only=True)
        self.found = verified(storage.open(SPACE))
        storage.close()


@pytest.mark.rule("COMMIT-1", "STORE-2")
def test_a_reader_in_another_process_waits_until_the_group_wal_is_applied(
    directory: Path, storage: SqliteStorage, drivers: list[LogDriver], monkeypatch: pytest.MonkeyPatch
) -> None:
    reading = Reading(directory, monkeypatch)
    reading.start()
    assert reading.waits.wait(SECONDS_MAX)
    assert in_file(directory) == 1
    assert tick(storage)
    assert not tick(storage)
    reading.join(SECONDS_MAX)
    assert reading.found == drivers[0].maker.version
    assert len(segment_files(directory)) == 2


def test_a_reader_in_another_process_does_not_wait_if_the_group_wal_is_applied(
    directory: Path, storage: SqliteStorage, drivers: list[LogDriver], monkeypatch: pytest.MonkeyPatch
) -> None:
    tick(storage)
    tick(storage)
    reading = Reading(directory, monkeypatch)
    reading.start()
    reading.join(SECONDS_MAX)
    assert reading.found == drivers[0].maker.version
    assert not reading.waits.is_set()


@pytest.mark.usefixtures("drivers")
def test_a_reader_in_another_process_gets_an_error_if_the_group_wal_is_never_applied(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wait_for_checkpoint, "WAIT_SECONDS_MAX", 0.02)
    reader = SqliteStorage(directory, read_only=True)
    with pytest.raises(StorageFailed, match="try again"):
        reader.open(SPACE)
    reader.close()
