"""The files of a daybook: two volumes in the data directory, and what a process that was killed has left in them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Protocol

import apsw

from stemmadb.protocol.model.ids import Did
from stemmadb.server.storage.port import StorageFailed, StorageFull
from stemmadb.server.storage.sqlite import daybook_pages as pages
from stemmadb.server.storage.sqlite.connection import REWRITTEN_BYTES, is_no_room, sync_path, translated
from stemmadb.server.storage.sqlite.daybook_pages import Record

NAMES: Final = ("daybook.0", "daybook.1")
VOLUME_BYTES: Final = 2 * 1024 * 1024
"""Of each volume at first: what is in one is posted while the other fills."""
VOLUME_BYTES_MAX: Final = 32 * 1024 * 1024
"""Where many spaces are written at once."""
LOG_BYTES: Final = 128 * 1024
"""What a volume should have room for, for each log that is written in it."""


class VolumeFile(Protocol):
    def write(self, data: bytes, at: int) -> None: ...

    def sync(self) -> None: ...

    def close(self) -> None: ...


class OsFile:
    """As the operating system has it; the interpreter is not held while the disk is waited for."""

    def __init__(self, path: Path) -> None:
        self.descriptor: Final = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self.direct: Final = _direct(path)
        """Writes whole blocks past the system's memory, each durable when it ends; None where that cannot be done."""

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
    except (OSError, AttributeError):  # a file system, or a system, that knows no such thing
        return None


class VfsFile:
    """In a file system of SQLite's, with which tests make a disk fail."""

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
    """Errors of the operating system and of SQLite's file systems become those of the port."""
    try:
        yield
    except apsw.Error as error:
        raise translated(error, None) from error
    except OSError as error:
        raise failed(error) from error


def failed(error: OSError) -> StorageFailed:
    return (StorageFull if is_no_room(error.errno) else StorageFailed)(str(error))


def size_for(logs: int) -> int:
    """Of a volume in which so many logs are written: with little of each, each would be a transaction of its own."""
    return max(VOLUME_BYTES, min(LOG_BYTES * logs, VOLUME_BYTES_MAX))


def make(directory: Path, vfs: str | None, size: int) -> list[VolumeFile]:
    """Both volumes, empty, all of their room taken and durable: a page is written over what is there.

    A write that makes a file longer costs a sync half as much again.
    """
    remove(directory)  # older ones may be longer
    files: list[VolumeFile] = []
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


def clear(file: VolumeFile, size: int, at: int = 0) -> None:
    """Nothing is left of what was written in so many bytes, which are room that is taken from then on."""
    file.write(bytes(size), at)
    file.sync()


def read(directory: Path) -> dict[Did, list[Record]]:
    """All records there are, by space, in the order in which they were written; posted ones may be among them."""
    found: list[tuple[int, list[Record]]] = []
    for name in NAMES:
        try:
            found += pages.read((directory / name).read_bytes())
        except FileNotFoundError:
            continue
    by_space: dict[Did, list[Record]] = {}
    for _, records in sorted(found, key=lambda page: page[0]):
        for record in records:
            by_space.setdefault(record.space, []).append(record)
    return by_space


def remove(directory: Path) -> None:
    """Once all that is in them is posted, durably."""
    with disk_failures():
        is_there = [name for name in NAMES if (directory / name).exists()]
        for name in is_there:
            (directory / name).unlink()
        if is_there:
            sync_path(directory)
