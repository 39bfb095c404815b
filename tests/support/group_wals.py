"""Group WALs for tests: WAL writers that write at once or when they are told to, and drivers of logs.

storage = made(directory, AtOnce())
driver = LogDriver(storage)
assert driver.commit("a value")
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import apsw

from appends import append_to
from logs import LogMaker
from space import SPACE, set_
from stemmadb.protocol.model.log import chain
from stemmadb.protocol.model.log.commit_record import genesis
from stemmadb.protocol.model.values.ids import Did, Version
from stemmadb.server.storage.port import AcceptedWrite, AppendBatch, Done, StorageFailed
from stemmadb.server.storage.sqlite import SqliteStorage
from stemmadb.server.storage.sqlite.log import SqliteLog
from stemmadb.server.storage.sqlite.storage import FILE, SPACES
from stemmadb.server.storage.sqlite.wal.checkpointer import Checkpointer
from stemmadb.server.storage.sqlite.wal.segments import SegmentFile, disk_failures

IDS = [f"urn:x:{number}" for number in range(8)]


class AtOnce:
    """Implements `group_wal.WalWriter`; one that does not sync says that a block is durable which may not be."""

    def __init__(self, *, syncs: bool = True) -> None:
        self._syncs = syncs
        self.written = 0

    def write(self, file: SegmentFile, block: bytes, at: int, done: Done) -> None:
        failure = None
        try:
            with disk_failures():
                file.write(block, at)
                if self._syncs:
                    file.sync()
        except StorageFailed as error:
            failure = error
        self.written += 1
        done(failure)

    def close(self) -> None:
        """There is nothing to close."""


class HeldBack(AtOnce):
    """Writes a block when it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.held: list[Callable[[], None]] = []

    def write(self, file: SegmentFile, block: bytes, at: int, done: Done) -> None:
        assert not self.held, "one block at a time"
        self.held.append(partial(super().write, file, block, at, done))

    def release(self) -> None:
        self.held.pop()()


def append_to_wal(log: SqliteLog, expected: Version, batch: Sequence[AcceptedWrite], done: Done) -> bool:
    """Appends; whether the group WAL took it. If it did not, `done` was called before this returns."""
    assert isinstance(log._owner, SqliteStorage)
    wal = checkpointer_of(log._owner).wal
    before = 0 if wal is None else wal.taken
    log.append(AppendBatch(expected, batch), done)
    return wal is not None and wal.taken > before


class LogDriver:
    """The log of a space with a few entities, and what it must hold."""

    def __init__(self, storage: SqliteStorage, space: Did = SPACE, ids: Sequence[str] = IDS) -> None:
        self.space = space
        self.ids = ids
        self.log = storage.open(space, create=True)
        self.maker = LogMaker()
        self.maker.space.space, self.maker.space.hash = space, genesis(space)
        self.told: list[BaseException | None] = []
        append_to(self.log, Version(0), [self.maker.commit(*(set_(id_, 0, blind=True) for id_ in ids))])

    @property
    def version(self) -> Version:
        return self.maker.version

    def batch(self, value: object = 1, commits: int = 1) -> list[AcceptedWrite]:
        return [self.maker.commit(set_(self.ids[at % len(self.ids)], value, blind=True)) for at in range(commits)]

    def append(self, batch: list[AcceptedWrite]) -> bool:
        """Whether the group WAL took it, so that its end is told; if not, it is in the file now."""
        is_taken = append_to_wal(self.log, Version(batch[0].commit.version - 1), batch, self.told.append)
        if not is_taken and (failure := self.told.pop()) is not None:
            raise failure
        return is_taken

    def commit(self, value: object = 1, commits: int = 1) -> bool:
        """Whether the group WAL took it."""
        return self.append(self.batch(value, commits))

    def check(self) -> None:
        """The log has all that was made, and verifies."""
        with self.log.reader() as reader:
            assert reader.tip().hash == self.maker.tip.hash
            assert [one.version for one in chain.verify(self.space, reader.history())][-1] == self.version
        assert self.log.integrity() == []


def checkpointer_of(storage: SqliteStorage) -> Checkpointer:
    assert storage._checkpointer is not None
    return storage._checkpointer


def file_of(directory: Path, space: Did = SPACE) -> Path:
    return directory / SPACES / space / FILE


def in_file(directory: Path, space: Did = SPACE) -> int:
    """The last version in the file, as any other program reads it."""
    file = apsw.Connection(str(file_of(directory, space)), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        ((version,),) = file.execute('SELECT max(version) FROM "commit"').fetchall()
    finally:
        file.close()
    assert isinstance(version, int)
    return version


def segment_files(directory: Path) -> list[Path]:
    return sorted(directory.glob("group_wal.*"))
