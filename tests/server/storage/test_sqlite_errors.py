"""Errors of the storage: each becomes one of the port's, nothing of the batch stays, and the log can be reopened."""

# ruff: noqa: N802  # the methods of a file system have the names that apsw gives them

from __future__ import annotations

import errno
from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest

from appends import append_to
from logs import LogMaker
from space import SPACE, set_
from stemmadb.protocol.model.values.ids import Version
from stemmadb.server.storage.port import DiskFull, LogMoved, StorageFailed
from stemmadb.server.storage.sqlite import SqliteLog, SqliteStorage, connection, log, truncate_wal

VFS = "stemma-faulty"
BIG = "b" * 200_000


class Faults:
    """What goes wrong next, by the name of the operation."""

    def __init__(self) -> None:
        self.errors: dict[str, int] = {}
        self.errno = 0

    def check(self, operation: str) -> None:
        if operation in self.errors:
            raise apsw.exception_for(self.errors[operation])


class FaultyFile(apsw.VFSFile):
    def __init__(self, inherit: str, name: str | apsw.URIFilename | None, flags: list[int], faults: Faults) -> None:
        super().__init__(inherit, name, flags)
        self._faults = faults

    def xRead(self, amount: int, offset: int) -> bytes:
        self._faults.check("read")
        return super().xRead(amount, offset)

    def xWrite(self, data: bytes, offset: int) -> None:
        self._faults.check("write")
        super().xWrite(data, offset)

    def xSync(self, flags: int) -> None:
        self._faults.check("sync")
        super().xSync(flags)


class FaultyVfs(apsw.VFS):
    """The usual file system, with faults. It has no shared memory of its own: that goes to the real one."""

    def __init__(self, faults: Faults) -> None:
        self._faults = faults
        super().__init__(VFS, "", iVersion=3)

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> FaultyFile:
        self._faults.check("open")
        return FaultyFile("", name, flags, self._faults)

    def xGetLastError(self) -> tuple[int, str]:
        return self._faults.errno, ""


@pytest.fixture
def faults() -> Iterator[Faults]:
    made = Faults()
    vfs = FaultyVfs(made)
    yield made
    made.errors.clear()
    vfs.unregister()


@pytest.fixture
def backend(tmp_path: Path, faults: Faults) -> Iterator[SqliteStorage]:
    made = SqliteStorage(tmp_path, vfs=VFS)
    yield made
    faults.errors.clear()
    made.close()


@pytest.fixture
def faulty(backend: SqliteStorage) -> SqliteLog:
    return backend.open(SPACE, create=True)


@pytest.mark.rule("COMMIT-1", "COMMIT-10")
def test_a_failed_sync_fails_the_append_and_the_reopened_log_says_what_is_there(
    backend: SqliteStorage, faulty: SqliteLog, faults: Faults
) -> None:
    maker = LogMaker()
    append_to(faulty, Version(0), [maker.commit(set_("urn:x", 1, blind=True))])
    second = maker.commit(set_("urn:x", 2, blind=True))
    faults.errors["sync"] = apsw.SQLITE_IOERR_FSYNC
    with pytest.raises(StorageFailed) as caught:
        append_to(faulty, Version(1), [second])
    assert not isinstance(caught.value, DiskFull)
    with faulty.reader() as reader:
        assert reader.tip().version == 1, "what is not durable is not seen"
    faults.errors.clear()
    with pytest.raises(StorageFailed, match="opened again"):
        append_to(faulty, Version(1), [second])
    faulty.close()
    reopened = backend.open(SPACE)
    with reopened.reader() as reader:
        found = reader.tip().version
    assert found in (1, 2)
    with pytest.raises(LogMoved):
        append_to(reopened, Version(3 - found), [])
    assert reopened.integrity() == []


@pytest.mark.parametrize(
    ("error", "number", "kind"),
    [
        (apsw.SQLITE_FULL, 0, DiskFull),
        (apsw.SQLITE_IOERR_WRITE, errno.ENOSPC, DiskFull),
        (apsw.SQLITE_IOERR_WRITE, errno.EDQUOT, DiskFull),
        (apsw.SQLITE_IOERR_WRITE, errno.EIO, StorageFailed),
    ],
)
@pytest.mark.rule("COMMIT-10")
def test_a_failed_write_is_told_as_what_it_is_and_nothing_is_written(
    backend: SqliteStorage, faulty: SqliteLog, faults: Faults, error: int, number: int, kind: type[StorageFailed]
) -> None:
    maker = LogMaker()
    append_to(faulty, Version(0), [maker.commit(set_("urn:x", 1, blind=True))])
    entry = maker.commit(set_("urn:x", BIG, blind=True))
    faults.errors["write"], faults.errno = error, number
    with pytest.raises(StorageFailed) as caught:
        append_to(faulty, Version(1), [entry])
    assert type(caught.value) is kind
    with faulty.reader() as reader:
        assert reader.ids("", None, 9) == ["urn:x"], "reads go on"
    faulty.close()
    if error == apsw.SQLITE_FULL:  # the log can be opened while there is still no room
        again = backend.open(SPACE)
        with again.reader() as reader:
            assert reader.tip().version == 1
        again.close()
    faults.errors.clear()
    again = backend.open(SPACE)
    append_to(again, Version(1), [entry])
    assert again.integrity() == []


def test_a_disk_that_is_full_when_a_log_is_opened_does_not_keep_it_from_being_read(
    tmp_path: Path, backend: SqliteStorage, faulty: SqliteLog, faults: Faults
) -> None:
    append_to(faulty, Version(0), [LogMaker().commit(set_("urn:x", BIG, blind=True))])
    kept = apsw.Connection(str(tmp_path / "spaces" / SPACE / "space.db"), flags=apsw.SQLITE_OPEN_READONLY)
    kept.execute("SELECT count(*) FROM fact").fetchall()  # so that closing does not empty the write-ahead log
    faulty.close()
    faults.errors["write"] = apsw.SQLITE_FULL
    with backend.open(SPACE).reader() as reader:
        assert reader.tip().version == 1
    kept.close()


def test_what_an_earlier_process_left_in_the_write_ahead_log_is_moved_before_it_is_read(
    tmp_path: Path, backend: SqliteStorage, faulty: SqliteLog
) -> None:
    """A commit whose sync failed may be there all the same, and whoever reads it relies on it."""
    file = tmp_path / "spaces" / SPACE / "space.db"
    append_to(faulty, Version(0), [LogMaker().commit(set_("urn:x", BIG, blind=True))])
    kept = apsw.Connection(str(file), flags=apsw.SQLITE_OPEN_READONLY)
    kept.execute("SELECT count(*) FROM fact").fetchall()
    faulty.close()
    assert BIG.encode()[:3_000] not in file.read_bytes()
    backend.open(SPACE)
    assert BIG.encode()[:3_000] in file.read_bytes()
    kept.close()


@pytest.mark.rule("COMMIT-10")
def test_what_a_failed_sync_left_is_made_durable_before_it_is_read_also_beside_a_reader(
    tmp_path: Path, backend: SqliteStorage, faulty: SqliteLog, faults: Faults
) -> None:
    """What the sync lost can be read until the power fails; nobody may rely on it or append behind it before."""
    maker = LogMaker()
    append_to(faulty, Version(0), [maker.commit(set_("urn:x", BIG, blind=True))])
    reading = SqliteStorage(tmp_path, read_only=True)
    with reading.open(SPACE).reader() as reader:
        faults.errors["sync"] = apsw.SQLITE_IOERR_FSYNC
        with pytest.raises(StorageFailed):
            append_to(faulty, Version(1), [maker.commit(set_("urn:x", 2, blind=True))])
        faulty.close()
        for _ in range(2):
            with pytest.raises(StorageFailed):
                backend.open(SPACE)
        faults.errors.clear()
        assert backend.open(SPACE).integrity() == []
        assert reader.tip().version == 1
    reading.close()


def test_a_sync_that_finds_no_room_leaves_open_what_was_written(faulty: SqliteLog, faults: Faults) -> None:
    faults.errors["sync"], faults.errno = apsw.SQLITE_IOERR_FSYNC, errno.ENOSPC
    with pytest.raises(StorageFailed) as caught:
        append_to(faulty, Version(0), [LogMaker().commit(set_("urn:x", 1, blind=True))])
    assert type(caught.value) is StorageFailed


def test_a_reader_that_cannot_read_says_so_and_the_next_one_can(faulty: SqliteLog, faults: Faults) -> None:
    append_to(faulty, Version(0), [LogMaker().commit(set_("urn:x", BIG, blind=True))])
    faults.errors["read"] = apsw.SQLITE_IOERR_READ
    with pytest.raises(StorageFailed), faulty.reader() as reader:
        reader.facts([Version(1)])
    with pytest.raises(StorageFailed), faulty.reader() as reader:
        list(reader.history())
    faults.errors.clear()
    with faulty.reader() as reader:
        assert len(list(reader.history())) == 1


def test_a_file_that_cannot_be_opened_is_a_failure(backend: SqliteStorage, faulty: SqliteLog, faults: Faults) -> None:
    faults.errors["open"] = apsw.SQLITE_CANTOPEN
    with pytest.raises(StorageFailed), faulty.reader():
        pass
    faulty.close()
    with pytest.raises(StorageFailed):
        backend.open(SPACE)


def test_a_log_that_cannot_be_taken_up_leaves_no_connection_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    backend = SqliteStorage(tmp_path)
    backend.open(SPACE, create=True).close()
    opened: list[apsw.Connection] = []

    def fail(writer: apsw.Connection, _room: object) -> None:
        opened.append(writer)
        raise apsw.IOError("no")

    monkeypatch.setattr(log, "Appender", fail)
    with pytest.raises(StorageFailed):
        backend.open(SPACE)
    with pytest.raises(apsw.ConnectionClosedError):
        opened[0].execute("SELECT 1")


def test_an_error_of_a_closed_connection_is_a_failure() -> None:
    closed = apsw.Connection(":memory:")
    closed.close()
    assert type(connection.translated(apsw.IOError("gone"), closed)) is StorageFailed
    assert type(connection.translated(apsw.IOError("gone"), None)) is StorageFailed


def test_a_log_that_moved_is_no_error_and_can_be_appended_to(faulty: SqliteLog) -> None:
    entry = LogMaker().commit(set_("urn:x", 1, blind=True))
    with pytest.raises(LogMoved):
        append_to(faulty, Version(1), [entry])
    append_to(faulty, Version(0), [entry])


def must_truncate_wal(log_: SqliteLog) -> None:
    assert log_._writer is not None
    log_._wal_truncation = truncate_wal.WalTruncation(log_._writer, long_bytes=1, wait_ms=1)


@pytest.mark.rule("COMMIT-10")
def test_a_write_ahead_log_that_finds_no_room_in_the_database_stays_and_grows(
    faulty: SqliteLog, faults: Faults
) -> None:
    maker = LogMaker()
    append_to(faulty, Version(0), [maker.commit(set_("urn:x", BIG, blind=True))])
    must_truncate_wal(faulty)
    faults.errors["write"] = apsw.SQLITE_FULL
    faulty._truncate_wal()
    faults.errors.clear()
    append_to(faulty, Version(1), [maker.commit(set_("urn:x", 2, blind=True))])


@pytest.mark.rule("COMMIT-10")
def test_a_sync_of_the_database_that_failed_fails_the_next_write_and_not_the_one_that_is_durable(
    backend: SqliteStorage, faulty: SqliteLog, faults: Faults
) -> None:
    maker = LogMaker()
    append_to(faulty, Version(0), [maker.commit(set_("urn:x", BIG, blind=True))])
    must_truncate_wal(faulty)
    faults.errors["sync"] = apsw.SQLITE_IOERR_FSYNC
    faulty._truncate_wal()
    faults.errors.clear()
    with pytest.raises(StorageFailed, match="opened again"):
        append_to(faulty, Version(1), [])
    faulty.close()
    with backend.open(SPACE).reader() as reader:
        assert reader.tip().version == 1
