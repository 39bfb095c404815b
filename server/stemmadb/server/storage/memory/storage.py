"""The writing side of the backend in memory: logs that share one space, and the faults a test puts into them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from threading import Lock
from typing import TypeAlias

import msgspec

from stemmadb.protocol.errors import UnknownSpace
from stemmadb.protocol.model.values.ids import Did, EntityId, Hash, TimeMs, Version
from stemmadb.server.storage import blocking
from stemmadb.server.storage.memory.contents import MemoryContents
from stemmadb.server.storage.memory.reader import MemoryReader
from stemmadb.server.storage.port import (
    AppendBatch,
    Done,
    HttpKey,
    LogMoved,
    Snapshot,
    StorageFailed,
    StoredBlob,
    Worker,
)

Fail: TypeAlias = Callable[[str], None]


def never(_operation: str) -> None:
    """The storage that does not fail."""


class _StoredSpace:
    """What all logs opened on one space share."""

    def __init__(self, space: Did) -> None:
        self.contents = MemoryContents(space)
        self.lock = Lock()


class MemoryLog:
    """Implements `SpaceLog`. Several of them on one space are like several nodes on one database."""

    is_alone = False
    is_unfounded = False
    directory = None
    large_blobs = None
    blob_data_max = None

    def __init__(self, stored: _StoredSpace, storage: MemoryStorage, workers: Worker | None = None) -> None:
        self._stored = stored
        self._storage = storage
        self._workers = workers
        self._usable = True

    @property
    def space(self) -> Did:
        return self._stored.contents.space

    @property
    def owes_scrub(self) -> bool:
        return self._stored.contents.owes_scrub

    def is_unwritten(self, id_: EntityId) -> bool:  # noqa: ARG002  the port's
        """A read costs little here."""
        return False

    def append(self, batch: AppendBatch, done: Done) -> None:
        blocking.run_append(self._workers, partial(self._append, batch), done)

    def _append(self, batch: AppendBatch) -> None:
        with self._changing("append") as contents:
            if contents.tip.version != batch.expected:
                raise LogMoved
            for entry in batch.writes:
                contents.append(entry)
            for snapshot in batch.snapshots():
                contents.store_snapshot(snapshot)
        self._call("appended")

    def store_snapshots(self, snapshots: Sequence[Snapshot]) -> None:
        with self._changing("store_snapshots") as contents:
            for snapshot in snapshots:
                contents.store_snapshot(snapshot)

    def put_blob(self, blob: StoredBlob, data: bytes | None) -> None:
        assert blob.in_file is (data is None), "a blob's data is in a file or it is given"
        with self._changing("put_blob") as contents:
            contents.blobs.setdefault(blob.hash, (blob, data))

    def http_key(self, fresh: bytes) -> HttpKey:
        with self._changing("http_key") as contents:
            if contents.http_key is None:
                contents.http_key = HttpKey(fresh, Version(len(contents.commits)))
            return contents.http_key

    def renew_blob(self, hash_: Hash, created: TimeMs) -> bool:
        with self._changing("renew_blob") as contents:
            kept = contents.blobs.get(hash_)
            if kept is not None:
                contents.blobs[hash_] = (msgspec.structs.replace(kept[0], created=created), kept[1])
            return kept is not None

    def drop_blobs(self, hashes: Collection[Hash]) -> None:
        with self._changing("drop_blobs") as contents:
            contents.drop_blobs(hashes)

    def scrub(self) -> None:
        """There are no files, and what was destroyed is gone with the last read view that shows it."""
        with self._changing("scrub") as contents:
            contents.owes_scrub = False

    @contextmanager
    def reader(self) -> Iterator[MemoryReader]:
        self._storage.fail("reader")
        yield MemoryReader(self._stored.contents)

    def close(self) -> None:
        self._usable = False

    @contextmanager
    def _changing(self, operation: str) -> Iterator[MemoryContents]:
        """A copy to change, which all see at once at the end, and nobody sees if the change fails."""
        self._call(operation)
        with self._stored.lock:
            contents = self._stored.contents.copy()
            yield contents
            self._stored.contents = contents

    def _call(self, operation: str) -> None:
        """A log that failed is not to be written again: the caller opens another and looks (COMMIT-10)."""
        assert self._usable, f"{operation} on a log that is closed, or that failed and was not opened again"
        try:
            self._storage.fail(operation)
        except StorageFailed:
            self._usable = False
            raise


class MemoryStorage:
    """Implements `Storage`. The spaces live as long as it does: to open one again is what a restart is.

    For tests, `fail` is called with the name of each operation before it is done, and with "appended" once an append
    is durable; it may raise `StorageFailed` or `StorageFull`.
    """

    def __init__(self, fail: Fail = never) -> None:
        self.fail = fail
        self._spaces: dict[Did, _StoredSpace] = {}
        self._lock = Lock()

    def spaces(self) -> list[Did]:
        return sorted(self._spaces)

    def open(self, space: Did, *, create: bool = False, workers: Worker | None = None) -> MemoryLog:
        self.fail("open")
        with self._lock:
            if space not in self._spaces:
                if not create:
                    raise UnknownSpace(space=space)
                self._spaces[space] = _StoredSpace(space)
            return MemoryLog(self._spaces[space], self, workers)

    def close(self) -> None:
        """There is nothing to release."""
