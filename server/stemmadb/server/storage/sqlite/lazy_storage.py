"""A space takes no file before its first write, so that one that is opened and never founded costs no disk."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from pathlib import Path
from threading import Lock
from typing import Final

from stemmadb.protocol.errors import UnknownSpace
from stemmadb.protocol.model.values.ids import Did, EntityId, Hash, TimeMs
from stemmadb.server.storage import blocking
from stemmadb.server.storage.blob_directory import BlobDirectory
from stemmadb.server.storage.memory.contents import MemoryContents
from stemmadb.server.storage.memory.reader import MemoryReader
from stemmadb.server.storage.port import (
    AppendBatch,
    Done,
    HttpKey,
    LargeBlobs,
    LogReader,
    Snapshot,
    SpaceLog,
    StoredBlob,
    Worker,
)
from stemmadb.server.storage.sqlite.log import SqliteLog
from stemmadb.server.storage.sqlite.storage import SqliteStorage


class UnfoundedLog:
    """Implements `port.SpaceLog`: empty and in memory until the first append, and the log of a file from then on."""

    is_alone = True
    blob_data_max = None

    def __init__(
        self, space: Did, directory: Path, make: Callable[[], SqliteLog], workers: Worker | None = None
    ) -> None:
        self._workers = workers
        self.space: Final = space
        self.directory: Final[Path | None] = directory
        self.large_blobs: Final[LargeBlobs | None] = BlobDirectory(directory)
        self._make = make
        self._log: SqliteLog | None = None
        """The log of the file, once there is one."""
        self._empty = MemoryContents(space)
        self._lock = Lock()
        """Held while the file is made: a reader that comes meanwhile may find the log empty, or as it is then."""

    @property
    def is_unfounded(self) -> bool:
        return self._log is None

    def append(self, batch: AppendBatch, done: Done) -> None:
        if self._log is not None:
            self._log.append(batch, done)
        else:
            blocking.run_append(self._workers, partial(self._append_first, batch), done)

    def _append_first(self, batch: AppendBatch) -> None:
        if batch.writes or batch.expected != self._empty.tip.version:  # else it only asks whether the log is there
            self._file().write_batch(batch)

    def store_snapshots(self, snapshots: Sequence[Snapshot]) -> None:
        if snapshots:
            self._file().store_snapshots(snapshots)

    def put_blob(self, blob: StoredBlob, data: bytes | None) -> None:
        self._file().put_blob(blob, data)

    def http_key(self, fresh: bytes) -> HttpKey:
        return self._file().http_key(fresh)

    def renew_blob(self, hash_: Hash, created: TimeMs) -> bool:
        return self._log is not None and self._log.renew_blob(hash_, created)

    def drop_blobs(self, hashes: Collection[Hash]) -> None:
        if self._log is not None:
            self._log.drop_blobs(hashes)

    def scrub(self) -> None:
        if self._log is not None:
            self._log.scrub()

    @property
    def owes_scrub(self) -> bool:
        return self._log is not None and self._log.owes_scrub

    def is_unwritten(self, id_: EntityId) -> bool:  # noqa: ARG002  the port's
        """A read costs little here."""
        return False

    def reader(self) -> AbstractContextManager[LogReader]:
        log = self._log
        return nullcontext(MemoryReader(self._empty)) if log is None else log.reader()

    def close(self) -> None:
        if self._log is not None:
            self._log.close()

    def _file(self) -> SqliteLog:
        with self._lock:
            if self._log is None:
                self._log = self._make()
            return self._log


class LazyStorage:
    """Implements `port.Storage` on a `SqliteStorage`: opens what has a file, and makes no file for what has none."""

    def __init__(self, storage: SqliteStorage) -> None:
        self._storage = storage

    def spaces(self) -> list[Did]:
        return self._storage.spaces()

    def open(self, space: Did, *, create: bool = False, workers: Worker | None = None) -> SpaceLog:
        try:
            return self._storage.open(space, workers=workers)
        except UnknownSpace:
            if not create:
                raise
        directory = self._storage.directory_of(space)
        make = partial(self._storage.open, space, create=True, workers=workers)
        return UnfoundedLog(space, directory, make, workers)

    def close(self) -> None:
        self._storage.close()
