"""A file system for SQLite that records every write and sync, and fails where a test wants it to.

    with faulty() as vfs:
        vfs.before = FailNth("sync", 3)
        log = SqliteStorage(directory, vfs=vfs.name).open(SPACE, create=True)

All work is done by the file system that is really there. Only the database and its journals are recorded: shared
memory is not a file that outlives a crash, and temporary files are nobody's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Literal, TypeAlias

import apsw
import msgspec

Operation = Literal["write", "truncate", "sync", "delete"]
JOURNALS = apsw.SQLITE_OPEN_MAIN_JOURNAL | apsw.SQLITE_OPEN_WAL
RECORDED = apsw.SQLITE_OPEN_MAIN_DB | JOURNALS
_numbers = count(1)


class Created(msgspec.Struct, frozen=True):
    """A new file; of a journal SQLite syncs the directory with its first sync."""

    file: str
    is_journal: bool


class Written(msgspec.Struct, frozen=True):
    file: str
    offset: int
    data: bytes


class Truncated(msgspec.Struct, frozen=True):
    file: str
    size: int


class Synced(msgspec.Struct, frozen=True):
    """A sync; one that failed leaves nobody knowing what of the file is on the disk."""

    file: str
    failed: bool = False


class Deleted(msgspec.Struct, frozen=True):
    file: str
    is_durable: bool


class Marked(msgspec.Struct, frozen=True):
    """Something a test remembers at this point, such as the version that was acknowledged."""

    version: int


Event: TypeAlias = Created | Written | Truncated | Synced | Deleted | Marked
Before: TypeAlias = Callable[[Operation, str, int], None]


def never(_operation: Operation, _file: str, _size: int) -> None:
    """The disk that does not fail."""


class FaultyVfs(apsw.VFS):
    """`before` is called with the operation, the file's name and the bytes about to be written; it may raise."""

    def __init__(self) -> None:
        self.name = f"faulty-{next(_numbers)}"
        self.base = apsw.vfs_names()[0]
        self.events: list[Event] = []
        self.before: Before = never
        super().__init__(self.name, self.base)

    def mark(self, version: int) -> None:
        self.events.append(Marked(version))

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> apsw.VFSFile:  # noqa: N802
        if name is None or not flags[0] & RECORDED:
            return apsw.VFSFile(self.base, name, flags)
        path = Path(name.filename() if isinstance(name, apsw.URIFilename) else name)
        if flags[0] & apsw.SQLITE_OPEN_CREATE and not path.exists():
            self.events.append(Created(path.name, bool(flags[0] & JOURNALS)))
        return FaultyFile(self, path.name, name, flags)

    def xDelete(self, filename: str, syncdir: bool) -> None:  # noqa: N802
        name = Path(filename).name
        self.before("delete", name, 0)
        super().xDelete(filename, syncdir)
        self.events.append(Deleted(name, syncdir))


class FaultyFile(apsw.VFSFile):
    """A file that is really there, and what is done to it."""

    def __init__(self, vfs: FaultyVfs, file: str, name: str | apsw.URIFilename, flags: list[int]) -> None:
        self._vfs = vfs
        self._file = file
        super().__init__(vfs.base, name, flags)

    def xWrite(self, data: bytes, offset: int) -> None:  # noqa: N802
        self._vfs.before("write", self._file, len(data))
        super().xWrite(data, offset)
        self._vfs.events.append(Written(self._file, offset, bytes(data)))

    def xTruncate(self, newsize: int) -> None:  # noqa: N802
        self._vfs.before("truncate", self._file, 0)
        super().xTruncate(newsize)
        self._vfs.events.append(Truncated(self._file, newsize))

    def xSync(self, flags: int) -> None:  # noqa: N802
        try:
            self._vfs.before("sync", self._file, 0)
            super().xSync(flags)
        except apsw.Error:
            self._vfs.events.append(Synced(self._file, failed=True))
            raise
        self._vfs.events.append(Synced(self._file))


@contextmanager
def faulty() -> Iterator[FaultyVfs]:
    vfs = FaultyVfs()
    try:
        yield vfs
    finally:
        vfs.unregister()


def io_error() -> apsw.Error:
    return apsw.IOError("the disk had an error")


class FailNth:
    """The n-th operation of a kind fails, counted from 1, and those that follow it up to `times` in all."""

    def __init__(self, operation: Operation, nth: int, *, times: int = 1) -> None:
        self._operation = operation
        self._failing = range(nth, nth + times)
        self.seen = 0

    def __call__(self, operation: Operation, _file: str, _size: int) -> None:
        if operation == self._operation:
            self.seen += 1
            if self.seen in self._failing:
                raise io_error()


class DiskCapacity:
    """A disk with room for so many bytes more. Once a write did not fit others take the rest; `add` makes room."""

    def __init__(self, left: int) -> None:
        self.left = left

    def add(self, size: int) -> None:
        self.left += size

    def __call__(self, operation: Operation, _file: str, size: int) -> None:
        if operation == "write" and size > self.left:
            self.left = 0
            raise apsw.FullError("there is no room")
        self.left -= size
