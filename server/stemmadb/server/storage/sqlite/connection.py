"""Connections to the file of a space: how they are opened, and what their errors become."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final, TypeAlias

import apsw
import msgspec

from stemmadb.server.storage.port import DiskFull, NoDescriptors, StorageFailed

Row: TypeAlias = tuple[Any, ...]
Cell: TypeAlias = int | str | bytes | None
Values: TypeAlias = Sequence[Cell] | Mapping[str, Cell]

WRITER_CACHE_KIB: Final = 8 * 1024
READER_CACHE_KIB: Final = 2 * 1024
WAL_PAGES_MAX: Final = 4_000
"""The write-ahead log is moved into the database when it has this many pages: 16 MB."""
WAL_BYTES_MAX: Final = WAL_PAGES_MAX * 4_096
"""The file of the log is truncated to this size when it begins anew."""
BUSY_MS: Final = 5_000
STATEMENTS_MAX: Final = 128
REWRITTEN_BYTES: Final = 64 * 1024
"""At once: SQLite's own files take no more than 128 KiB, and say that the disk is full."""

_SYNCS: Final = (apsw.SQLITE_IOERR_FSYNC, apsw.SQLITE_IOERR_DIR_FSYNC)
_LOG_FLAGS: Final = apsw.SQLITE_OPEN_WAL | apsw.SQLITE_OPEN_READWRITE
_NO_ROOM: Final = (errno.ENOSPC, errno.EDQUOT)


_encoder = msgspec.json.Encoder()


def as_json(values: Sequence[object]) -> str:
    """Many values as one parameter, for `json_each`."""
    return _encoder.encode(values).decode()


def query(connection: apsw.Connection, sql: str, values: Values = ()) -> list[Row]:
    """All rows; tables are strictly typed, so that a column holds what the schema says."""
    return connection.execute(sql, values).fetchall()


class DamagedFile(StorageFailed):
    """What is in the file cannot be read as what it should be."""


def sqlite_version() -> str:
    """The version of SQLite that is used: the one that comes with apsw, not the system's."""
    return apsw.sqlite_lib_version()


def open_writer(file: Path, vfs: str | None) -> apsw.Connection:
    """The connection that may write. It changes nothing, not even by closing, before `begin_writing`."""
    with failures():
        flags = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE
        connection = apsw.Connection(str(file), flags=flags, vfs=vfs, statementcachesize=STATEMENTS_MAX)
    with failures(connection):
        connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
        _set_up(connection, WRITER_CACHE_KIB)
        connection.pragma("synchronous", "FULL")
    return connection


def begin_writing(connection: apsw.Connection) -> None:
    """Turns the write-ahead log on, and moves what an earlier process left there into the database.

    So what is read from now on is durable, whether or not its own sync was waited for (COMMIT-10). On a full disk the
    log stays where it is and can be read.
    """
    with failures(connection):
        _write_again(connection)
        connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 0)
        mode = connection.pragma("journal_mode", "WAL")
        assert mode == "wal", f"the file system cannot keep a write-ahead log: {mode}"
        connection.pragma("wal_autocheckpoint", WAL_PAGES_MAX)
        connection.pragma("journal_size_limit", WAL_BYTES_MAX)
    with suppress(DiskFull):
        checkpoint(connection, "PASSIVE")


def empty_log(connection: apsw.Connection) -> None:
    """Moves all of the write-ahead log into the database and truncates it, waiting a bounded time for readers."""
    if not checkpoint(connection, "TRUNCATE"):
        raise StorageFailed("readers hold on to the write-ahead log; try again when they have ended")


def _write_again(connection: apsw.Connection) -> None:
    """Writes a write-ahead log that was left once more, byte for byte, and syncs it.

    After a sync that failed its end may be in memory only, and a later sync would not say so. Moved into the database
    like that, it would be undone after a power failure by the older pages that are in the log before it.
    """
    name = connection.filename_wal
    if not Path(name).exists():
        return
    log = apsw.VFSFile(connection.open_vfs, name, [_LOG_FLAGS, 0])
    try:
        size = log.xFileSize()
        with suppress(apsw.FullError):  # where there is a hole at its end, which is no part of a commit
            for at in range(0, size, REWRITTEN_BYTES):
                log.xWrite(log.xRead(min(REWRITTEN_BYTES, size - at), at), at)
        log.xSync(apsw.SQLITE_SYNC_NORMAL)
    finally:
        log.xClose()


def sync_log(connection: apsw.Connection) -> None:
    """Makes all of the write-ahead log durable: what was committed without a sync, too."""
    if connection.open_vfs == apsw.vfs_names()[0]:
        _sync_file(connection.filename_wal)
        return
    log = apsw.VFSFile(connection.open_vfs, connection.filename_wal, [_LOG_FLAGS, 0])
    try:
        log.xSync(apsw.SQLITE_SYNC_NORMAL)
    finally:
        log.xClose()


def sync_path(path: Path) -> None:
    """Makes a file, or the names in a directory, durable."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _sync_file(name: str) -> None:
    """By the operating system's own call, since SQLite's holds the interpreter while it waits for the disk.

    Its directory as well: the file may be a new one.
    """
    try:
        sync_path(Path(name))
        sync_path(Path(name).parent)
    except OSError as error:
        raise StorageFailed(str(error)) from error


def open_reader(file: Path, vfs: str | None) -> apsw.Connection:
    """A connection that can only read, and never moves the write-ahead log."""
    with failures():
        flags = apsw.SQLITE_OPEN_READONLY
        connection = apsw.Connection(str(file), flags=flags, vfs=vfs, statementcachesize=STATEMENTS_MAX)
    with failures(connection):
        _set_up(connection, READER_CACHE_KIB)
        connection.pragma("query_only", 1)
    return connection


def _set_up(connection: apsw.Connection, cache_kib: int) -> None:
    # Without this every range of places is planned anew for each pair of bounds, at ten times the cost of the answer.
    connection.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)
    connection.set_busy_timeout(BUSY_MS)
    connection.pragma("cache_size", -cache_kib)
    connection.pragma("mmap_size", 0)
    connection.pragma("foreign_keys", 0)
    connection.pragma("trusted_schema", 0)


def checkpoint(connection: apsw.Connection, mode: str) -> bool:
    """Moves the write-ahead log into the database; False if readers kept it from being done in full."""
    with failures(connection):
        busy, _, _ = query(connection, f"PRAGMA wal_checkpoint({mode})")[0]
    return not busy


def close(connection: apsw.Connection) -> None:
    """Closes it for good. What could not be moved out of the write-ahead log stays there, and nothing is lost."""
    with suppress(apsw.Error):
        connection.close()


@contextmanager
def transaction(connection: apsw.Connection) -> Iterator[None]:
    """All or nothing, and durable once left (COMMIT-1)."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        roll_back(connection)
        raise


def roll_back(connection: apsw.Connection) -> None:
    """Undoes what is open, if SQLite has not done so by itself. The first error is told, not one made by undoing."""
    with suppress(apsw.Error):
        if connection.in_transaction:
            connection.execute("ROLLBACK")


@contextmanager
def failures(connection: apsw.Connection | None = None) -> Iterator[None]:
    """Errors of SQLite become errors of the port."""
    try:
        yield
    except (apsw.Error, UnicodeDecodeError) as error:
        raise translated(error, connection) from error


def translated(error: apsw.Error | UnicodeDecodeError, connection: apsw.Connection | None) -> StorageFailed:
    """The port's error for one of SQLite's; text that is not UTF-8 is damage as well."""
    if isinstance(error, UnicodeDecodeError | apsw.CorruptError | apsw.NotADBError):
        return DamagedFile(f"the file is damaged: {error}")
    if isinstance(error, apsw.FullError):
        return DiskFull(str(error))
    if isinstance(error, apsw.IOError) and connection is not None and is_no_room(_system_errno(connection)):
        # A sync comes after the writes, so that it is not certain then that nothing was written.
        return StorageFailed(str(error)) if getattr(error, "extendedresult", 0) in _SYNCS else DiskFull(str(error))
    if isinstance(error, apsw.CantOpenError | apsw.IOError) and has_no_descriptors():
        return NoDescriptors(str(error))
    return StorageFailed(f"{type(error).__name__}: {error}")


def is_no_room(number: int | None) -> bool:
    """Whether an error of the operating system says that the disk, or what we may use of it, is full."""
    return number in _NO_ROOM


def is_no_descriptor(number: int | None) -> bool:
    """Whether an error of the operating system says that the process, or the system, has no file descriptor left."""
    return number in (errno.EMFILE, errno.ENFILE)


def has_no_descriptors() -> bool:
    """Whether a file cannot be opened for want of a descriptor: SQLite does not say why it could not open one."""
    try:
        os.close(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))
    except OSError as error:
        return is_no_descriptor(error.errno)
    return False


def _system_errno(connection: apsw.Connection) -> int:
    try:
        return connection.system_errno
    except apsw.ConnectionClosedError:
        return 0
