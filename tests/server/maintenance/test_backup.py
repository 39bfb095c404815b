"""A backup is consistent while the space goes on, copies what has changed, and verifies as it is."""

from __future__ import annotations

import shutil
import threading
from pathlib import Path
from typing import Any

import apsw
import pytest

from appends import append_to
from kept_spaces import LARGE, SECRET, SMALL, blob_of, fill, make
from logs import LogMaker
from space import BOB, SPACE, set_
from stemmadb.protocol.errors import BrokenChain, DirectoryHeld, NotEmpty, Unavailable, UnknownSpace
from stemmadb.protocol.model.values import reference
from stemmadb.protocol.model.values.ids import Did, TimeMs, Version
from stemmadb.server.maintenance import backup as backing_up
from stemmadb.server.maintenance import manifest, sqlite_copy
from stemmadb.server.maintenance.backup import BackedUp, back_up
from stemmadb.server.maintenance.progress import MaintenanceProgress
from stemmadb.server.maintenance.sqlite_copy import copy_database
from stemmadb.server.maintenance.verify import Verified, verify_space
from stemmadb.server.storage.directory import hold
from stemmadb.server.storage.port import StoredBlob
from stemmadb.server.storage.sqlite import SqliteLog, SqliteStorage

LARGE_NAME = reference.write(blob_of(LARGE).hash)


@pytest.fixture
def storage(tmp_path: Path) -> Any:
    made = SqliteStorage(tmp_path / "data")
    yield made
    made.close()


@pytest.fixture
def log(storage: SqliteStorage) -> SqliteLog:
    made = storage.open(SPACE, create=True)
    fill(made)
    return made


def backup(tmp_path: Path, **how: Any) -> list[BackedUp]:
    return back_up(tmp_path / "data", tmp_path / "backup", now=lambda: TimeMs(42), **how)


def verified(directory: Path, space: Did = SPACE) -> Verified:
    storage = SqliteStorage(directory, read_only=True)
    try:
        return verify_space(storage, space)
    finally:
        storage.close()


def copy_of(tmp_path: Path) -> Path:
    return tmp_path / "backup" / "spaces" / SPACE


def files(directory: Path) -> dict[str, int]:
    """Each file of a copy, and when it was written."""
    return {path.name: path.stat().st_mtime_ns for path in directory.rglob("*") if path.is_file()}


@pytest.mark.rule("KEEP-2")
def test_a_backup_of_a_space_in_use_verifies_as_a_data_directory(log: SqliteLog, tmp_path: Path) -> None:
    told: list[MaintenanceProgress] = []
    (done,) = backup(tmp_path, on_progress=told.append)
    assert (done.space, done.version, done.is_new) == (SPACE, 23, True)
    copy = verified(tmp_path / "backup")
    assert (copy.version, copy.hash, copy.facts, copy.blobs) == (23, done.hash, 22, 2)
    assert {"copying the log", "copying blobs", "walking the chain"} <= {progress.stage for progress in told}


def test_a_long_copy_tells_how_far_it_is_and_can_be_stopped(
    log: SqliteLog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_copy, "STEPS", 10)
    told: list[MaintenanceProgress] = []
    backup(tmp_path, on_progress=told.append)
    assert len(told) > 20
    assert all(0 <= progress.done <= (progress.total or 0) for progress in told if progress.total is not None)

    def interrupt(_: MaintenanceProgress) -> None:
        raise KeyboardInterrupt

    log.put_blob(blob_of(b"moved on"), b"moved on")
    with pytest.raises(KeyboardInterrupt):
        backup(tmp_path, on_progress=interrupt)
    assert verified(tmp_path / "backup").blobs == 2


def test_the_manifest_says_what_is_in_it(log: SqliteLog, tmp_path: Path) -> None:
    (done,) = backup(tmp_path)
    found = manifest.load(tmp_path / "backup")
    assert found is not None
    (kept,) = found.spaces
    assert (kept.space, kept.version, kept.hash, kept.time) == (SPACE, 23, reference.write(done.hash), 42)


def test_a_backup_does_not_change_the_source(log: SqliteLog, tmp_path: Path) -> None:
    before = {path: path.read_bytes() for path in (tmp_path / "data").rglob("space.db*") if "shm" not in path.name}
    backup(tmp_path)
    assert {path: path.read_bytes() for path in before} == before


@pytest.mark.rule("KEEP-2")
def test_a_space_that_has_not_moved_is_not_copied_again(log: SqliteLog, tmp_path: Path) -> None:
    backup(tmp_path)
    before = files(copy_of(tmp_path))
    assert [one.is_new for one in backup(tmp_path)] == [False]
    assert files(copy_of(tmp_path)) == before


def test_a_space_that_has_moved_is_copied_again_and_its_blob_files_are_not(log: SqliteLog, tmp_path: Path) -> None:
    backup(tmp_path)
    before = files(copy_of(tmp_path))
    log.put_blob(blob_of(b"one more"), b"one more")  # a blob takes no version
    assert [one.is_new for one in backup(tmp_path)] == [True]
    after = files(copy_of(tmp_path))
    assert after["space.db"] != before["space.db"]
    assert after[LARGE_NAME] == before[LARGE_NAME]
    assert verified(tmp_path / "backup").blobs == 3


def test_a_lost_file_of_a_backup_is_copied_again(log: SqliteLog, tmp_path: Path) -> None:
    backup(tmp_path)
    (copy_of(tmp_path) / "blobs" / LARGE_NAME).unlink()
    assert [one.is_new for one in backup(tmp_path)] == [False]
    assert verified(tmp_path / "backup").blobs == 2
    (copy_of(tmp_path) / "space.db").unlink()
    assert [one.is_new for one in backup(tmp_path)] == [True]
    assert verified(tmp_path / "backup").version == 23


@pytest.mark.rule("KEEP-2", "ERASE-1")
def test_what_was_erased_is_in_no_file_of_a_backup_made_later(storage: SqliteStorage, tmp_path: Path) -> None:
    log = storage.open(SPACE, create=True)
    maker = LogMaker()
    append_to(log, Version(0), [maker.commit(set_("urn:secret", SECRET * 100, blind=True))])
    log.put_blob(blob_of(SMALL), SMALL)
    put_file(log, LARGE)
    backup(tmp_path)
    entry = maker.erase("urn:secret", [1], blobs=[blob_of(LARGE).hash, blob_of(SMALL).hash])
    append_to(log, Version(1), [entry])  # and not scrubbed yet: the bytes may still be in the file
    backup(tmp_path)
    held = b"".join(path.read_bytes() for path in (tmp_path / "backup").rglob("*") if path.is_file())
    assert SECRET.encode() not in held
    assert SMALL not in held
    assert LARGE[:300] not in held


def put_file(log: SqliteLog, data: bytes) -> StoredBlob:
    blob = blob_of(data, in_file=True)
    (log.directory / "blobs").mkdir(exist_ok=True)
    (log.directory / "blobs" / reference.write(blob.hash)).write_bytes(data)
    log.put_blob(blob, None)
    return blob


@pytest.mark.rule("KEEP-2")
def test_a_backup_while_the_space_is_written_is_one_version_of_it(storage: SqliteStorage, tmp_path: Path) -> None:
    log = storage.open(SPACE, create=True)
    maker = LogMaker()
    stop = threading.Event()

    def write() -> None:
        while not stop.is_set() and maker.version < 5_000:
            entry = maker.commit(*(set_(f"urn:{n}", maker.version, blind=True) for n in range(3)))
            append_to(log, Version(entry.commit.version - 1), [entry])

    writer = threading.Thread(target=write)
    writer.start()
    versions: list[int] = []
    try:
        while len(versions) < 5:
            if maker.version > 0:
                versions.append(backup(tmp_path)[0].version)
                assert verified(tmp_path / "backup").version == versions[-1]
    finally:
        stop.set()
        writer.join()
    assert versions == sorted(versions)


def test_all_spaces_are_copied_or_the_one_named(log: SqliteLog, storage: SqliteStorage, tmp_path: Path) -> None:
    storage.open(BOB, create=True)
    assert [one.space for one in backup(tmp_path, spaces=[BOB])] == [BOB]
    assert [one.space for one in backup(tmp_path)] == sorted([SPACE, BOB])
    backup(tmp_path, spaces=[SPACE])
    found = manifest.load(tmp_path / "backup")
    assert found is not None
    assert [kept.space for kept in found.spaces] == sorted([SPACE, BOB])


def test_a_space_that_is_not_there_is_refused_before_anything_is_made(log: SqliteLog, tmp_path: Path) -> None:
    with pytest.raises(UnknownSpace):
        backup(tmp_path, spaces=[SPACE, BOB])
    assert not (tmp_path / "backup").exists()


def test_a_target_with_something_else_in_it_is_refused(log: SqliteLog, tmp_path: Path) -> None:
    (tmp_path / "backup").mkdir()
    (tmp_path / "backup" / "letter.txt").write_text("dear reader")
    with pytest.raises(NotEmpty):
        backup(tmp_path)
    assert sorted(path.name for path in (tmp_path / "backup").iterdir()) == ["letter.txt", "lock"]
    with pytest.raises(NotEmpty):
        back_up(tmp_path / "data", tmp_path / "data", now=lambda: TimeMs(1))


def test_a_target_in_use_is_refused(log: SqliteLog, tmp_path: Path) -> None:
    with hold(tmp_path / "backup"), pytest.raises(DirectoryHeld):
        backup(tmp_path)


def test_a_blob_file_that_is_damaged_or_missing_fails_the_backup(log: SqliteLog, tmp_path: Path) -> None:
    file = log.directory / "blobs" / LARGE_NAME
    file.write_bytes(b"x" + LARGE[1:])
    with pytest.raises(BrokenChain, match="was changed"):
        backup(tmp_path)
    file.unlink()
    with pytest.raises(BrokenChain, match="is missing"):
        backup(tmp_path)
    assert not (copy_of(tmp_path) / "space.db").exists()
    file.write_bytes(LARGE)
    assert backup(tmp_path)[0].is_new


@pytest.mark.rule("BLOB-2")
def test_a_blob_that_goes_away_meanwhile_makes_the_copy_again(
    log: SqliteLog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    really = copy_database

    def copy(*arguments: Any) -> None:
        really(*arguments)
        log.drop_blobs([blob_of(LARGE).hash])
        (log.directory / "blobs" / LARGE_NAME).unlink(missing_ok=True)

    monkeypatch.setattr(backing_up, "copy_database", copy)
    backup(tmp_path)
    assert verified(tmp_path / "backup").blobs == 1


def test_a_backup_gives_up_if_blobs_go_away_again_and_again(
    log: SqliteLog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    really = copy_database
    number = 0

    def copy(*arguments: Any) -> None:
        nonlocal number
        number += 1
        data = LARGE + bytes([number])
        put_file(log, data)
        really(*arguments)
        log.drop_blobs([blob_of(data).hash])
        (log.directory / "blobs" / reference.write(blob_of(data).hash)).unlink()

    monkeypatch.setattr(backing_up, "copy_database", copy)
    with pytest.raises(Unavailable):
        backup(tmp_path)
    assert number == backing_up.COPIES_MAX


@pytest.mark.parametrize("step", ["copy_database", "hash_of", "sync_directory"])
def test_an_interrupted_backup_leaves_the_older_one_as_it_was(
    log: SqliteLog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    backup(tmp_path)
    maker = fill_more(log)

    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    put_file(log, LARGE + b"more")
    monkeypatch.setattr(backing_up, step, interrupt)
    with pytest.raises(KeyboardInterrupt):
        backup(tmp_path)
    monkeypatch.undo()
    assert verified(tmp_path / "backup").version in (23, maker.version)
    assert not list((tmp_path / "backup").glob(".incoming-*"))
    assert backup(tmp_path)[0].version == maker.version
    assert verified(tmp_path / "backup").blobs == 3


def test_a_first_backup_that_was_interrupted_while_it_wrote_its_manifest_can_be_made_again(
    log: SqliteLog, tmp_path: Path
) -> None:
    target = tmp_path / "backup"
    target.mkdir()
    (target / ".manifest.json").write_bytes(b"{")
    assert len(backup(tmp_path)) == 1
    assert verified(target).version == 23


def fill_more(log: SqliteLog) -> LogMaker:
    maker, *_ = make()
    entry = maker.commit(set_("urn:more", 1, blind=True))
    append_to(log, Version(23), [entry])
    return maker


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"{}",
        b"not json",
        b'{"stemmadb": "backup", "format": 2, "spaces": []}',
        b'{"stemmadb": "backup", "format": 1, "spaces": ['
        b'{"space": "../x", "version": 1, "hash": "", "time": 1, "blobs": ""}]}',
    ],
)
def test_a_manifest_that_cannot_be_read_is_found(log: SqliteLog, tmp_path: Path, text: bytes) -> None:
    (tmp_path / "backup").mkdir()
    (tmp_path / "backup" / "manifest.json").write_bytes(text)
    with pytest.raises(BrokenChain) as found:
        backup(tmp_path)
    assert found.value.facts["place"] == "file manifest.json"


@pytest.mark.rule("KEEP-2")
def test_a_copy_that_does_not_verify_does_not_replace_a_good_one(log: SqliteLog, tmp_path: Path) -> None:
    backup(tmp_path)
    fill_more(log)
    damage = apsw.Connection(str(log.directory / "space.db"))
    damage.execute("UPDATE fact SET hash = zeroblob(32) WHERE place = 5 << 20")
    damage.close()
    with pytest.raises(BrokenChain):
        backup(tmp_path)
    assert verified(tmp_path / "backup").version == 23


@pytest.mark.rule("KEEP-2")
@pytest.mark.parametrize("count", [0, 1, 30])
def test_another_history_of_the_space_does_not_replace_the_known_one(
    log: SqliteLog, storage: SqliteStorage, tmp_path: Path, count: int
) -> None:
    backup(tmp_path)
    log.close()
    shutil.rmtree(log.directory)
    maker = LogMaker()
    other = storage.open(SPACE, create=True)
    append_to(other, Version(0), [maker.commit(set_("urn:x", number, blind=True)) for number in range(count)])
    with pytest.raises(NotEmpty, match="version 23"):
        backup(tmp_path)
    assert verified(tmp_path / "backup").version == 23


@pytest.mark.rule("KEEP-2")
def test_the_other_spaces_are_copied_if_one_cannot_be(log: SqliteLog, storage: SqliteStorage, tmp_path: Path) -> None:
    storage.open(BOB, create=True)
    (log.directory / "blobs" / LARGE_NAME).unlink()
    failed: list[tuple[Did, type[Exception]]] = []
    done = backup(tmp_path, failed=lambda space, error: failed.append((space, type(error))))
    assert [one.space for one in done] == [BOB]
    assert failed == [(SPACE, BrokenChain)]
    assert backup(tmp_path, spaces=[BOB])[0].is_new is False


def test_a_copy_is_for_its_owner_only(log: SqliteLog, tmp_path: Path) -> None:
    backup(tmp_path)
    assert (copy_of(tmp_path) / "space.db").stat().st_mode & 0o777 == 0o600
