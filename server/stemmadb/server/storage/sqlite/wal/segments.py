"""The segments of the group WAL: two files in the data directory, and the records a killed process left in them."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Protocol

import apsw

from stemmadb.protocol.model.values.ids import Did
from stemmadb.server.storage.directory import worker_directories
from stemmadb.server.storage.port import DiskFull, NoDescriptors, StorageFailed
from stemmadb.server.storage.sqlite.connection import (
    REWRITTEN_BYTES,
    is_no_descriptor,
    is_no_room,
    sync_path,
    translated,
)
from stemmadb.server.storage.sqlite.wal import blocks
from stemmadb.server.storage.sqlite.wal.blocks import Record

NAMES: Final = ("group_wal.0", "group_wal.1")
SEGMENT_BYTES: Final = 2 * 1024 * 1024
"""The initial size of each segment: one is checkpointed while the other fills."""
SEGMENT_BYTES_MAX: Final = 32 * 1024 * 1024
"""The size when many spaces are written at once."""
LOG_BYTES: Final = 128 * 1024
"""The space a segment should have for each log with records in it."""


class SegmentFile(Protocol):
    def write(self, data: bytes, at: int) -> None: ...

    def sync(self) -> None: ...

    def close(self) -> None: ...


class OsFile:
    """A file of the operating system; the GIL is released while it waits for the disk."""

    def __init__(self, path: Path) -> None:
        self.descriptor: Final = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self.direct: Final = _direct(path)
        """Opened with O_DIRECT and O_DSYNC: each write is durable when it returns; None where unsupported."""

    def write(self, data: bytes, at: int) -> None:
        view = memoryview(data)
        while view:
            done = os.pwrite(self.descriptor, view, at)
            view, at = view[done:], at + done

    def sync(self) -> None:
        os.fdatasync(self.descriptor)

    def close(self) -> None:
        os.close(self.descriptor)
        if self.direct is not None:
            os.close(self.direct)


def _direct(path: Path) -> int | None:
    try:
        return os.open(path, os.O_WRONLY | os.O_DIRECT | os.O_DSYNC | os.O_CLOEXEC)
    except (OSError, AttributeError):  # not supported by the file system or the operating system
        return None


class VfsFile:
    """A file in a VFS of SQLite; tests use one to make the disk fail."""

    def __init__(self, path: Path, vfs: str) -> None:
        flags = apsw.SQLITE_OPEN_MAIN_JOURNAL | apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE
        found = [one for one in apsw.vfs_details() if one["zName"] == vfs]
        assert found, f"there is no file system {vfs}"
        self._file = _opened(vfs, path, flags)

    def write(self, data: bytes, at: int) -> None:
        for start in range(0, len(data), REWRITTEN_BYTES):
            self._file.xWrite(data[start : start + REWRITTEN_BYTES], at + start)

    def sync(self) -> None:
        self._file.xSync(apsw.SQLITE_SYNC_NORMAL)

    def close(self) -> None:
        self._file.xClose()


def _opened(vfs: str, path: Path, flags: int) -> apsw.VFSFile:
    return apsw.VFSFile(vfs, str(path), [flags, 0])


@contextmanager
def disk_failures() -> Iterator[None]:
    """Turns errors of the operating system and of SQLite's VFS into `StorageFailed`."""
    try:
        yield
    except apsw.Error as error:
        raise translated(error, None) from error
    except OSError as error:
        raise failed(error) from error


def failed(error: OSError) -> StorageFailed:
    if is_no_descriptor(error.errno):
        return NoDescriptors(str(error))
    return (DiskFull if is_no_room(error.errno) else StorageFailed)(str(error))


def size_for(logs: int) -> int:
    """The size of a segment for so many logs: too little space for each would mean many small transactions."""
    return max(SEGMENT_BYTES, min(LOG_BYTES * logs, SEGMENT_BYTES_MAX))


def make(directory: Path, vfs: str | None, size: int) -> list[SegmentFile]:
    """Creates both segments at their full size, zeroed and durable, so that blocks overwrite existing bytes.

    Syncing a write that makes a file longer takes half as long again.
    """
    remove(directory)  # older segments may be longer
    files: list[SegmentFile] = []
    try:
        with disk_failures():
            for name in NAMES:
                files.append(OsFile(directory / name) if vfs is None else VfsFile(directory / name, vfs))
                clear(files[-1], size)
            sync_path(directory)
    except BaseException:
        for file in files:
            file.close()
        raise
    return files


def clear(file: SegmentFile, size: int, at: int = 0) -> None:
    """Overwrites so many bytes with zeros, which allocates them, and syncs."""
    file.write(bytes(size), at)
    file.sync()


def read(directory: Path) -> dict[Did, list[Record]]:
    """All records by space, in the order they were written; some may be applied already."""
    found: list[tuple[int, list[Record]]] = []
    for name in NAMES:
        try:
            found += blocks.read((directory / name).read_bytes())
        except FileNotFoundError:
            continue
    by_space: dict[Did, list[Record]] = {}
    for _, records in sorted(found, key=lambda block: block[0]):
        for record in records:
            by_space.setdefault(record.space, []).append(record)
    return by_space


def directories(directory: Path) -> list[Path]:
    """All directories with a group WAL of a data directory: its own, and those of its workers."""
    return [directory, *worker_directories(directory)]


def read_all(places: Sequence[Path]) -> dict[Did, list[Record]]:
    """The records of several group WALs: a space may have gone on in another one."""
    by_space: dict[Did, list[Record]] = {}
    for place in places:
        for space, records in read(place).items():
            by_space.setdefault(space, []).extend(records)
    if len(places) > 1:
        for records in by_space.values():
            records.sort(key=lambda record: record.first)
    return by_space


def remove_all(places: Sequence[Path]) -> None:
    """As `remove`, of several group WALs."""
    for place in places:
        remove(place)


def remove(directory: Path) -> None:
    """Removes the segments, once all their records are durable in the files of their spaces."""
    with disk_failures():
        is_there = [name for name in NAMES if (directory / name).exists()]
        for name in is_there:
            (directory / name).unlink()
        if is_there:
            sync_path(directory)
