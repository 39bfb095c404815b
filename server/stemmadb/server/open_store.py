"""Opening a data directory: a store on its spaces with a real clock, real salts and real threads."""

from __future__ import annotations

import os
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from stemmadb.protocol.model.log.facts import SALT_BYTES
from stemmadb.protocol.model.values import limits as bounds
from stemmadb.protocol.model.values.ids import TimeMs
from stemmadb.protocol.model.values.limits import Limits
from stemmadb.server.counters import Counts
from stemmadb.server.engine.base import settings as sizes
from stemmadb.server.engine.base.settings import Settings
from stemmadb.server.engine.store import Store
from stemmadb.server.storage.directory import hold, hold_alone
from stemmadb.server.storage.port import Storage
from stemmadb.server.storage.sqlite import SqliteStorage
from stemmadb.server.storage.sqlite.lazy_storage import LazyStorage
from stemmadb.server.storage.sqlite.wal.writer import make_wal_writer

_SALTS_AT_ONCE: Final = 256


@asynccontextmanager
async def open_store(
    directory: Path,
    *,
    limits: Limits = bounds.DEFAULTS,
    settings: Settings = sizes.DEFAULTS,
    counts: Counts | None = None,
    worker: Path | None = None,
) -> AsyncIterator[Store]:
    """The spaces of a directory, which nobody else may write meanwhile (STORE-4); closed at the end of the block.

    `worker` is the directory of a worker, which opens its own spaces only: its parent holds the data directory.
    """
    with hold(directory) if worker is None else hold_alone(worker):
        storage = LazyStorage(_storage(directory, worker))
        try:
            store = Store(storage, now=now, salts=salts(), limits=limits, settings=settings, counts=counts)
            try:
                yield store
            finally:
                await store.close()
        finally:
            storage.close()


@asynccontextmanager
async def store_on(
    storage: Storage, now: Callable[[], TimeMs], *, limits: Limits, settings: Settings, counts: Counts
) -> AsyncIterator[Store]:
    """The spaces of a storage that somebody else opens and closes, with its clock."""
    store = Store(storage, now=now, salts=salts(), limits=limits, settings=settings, counts=counts)
    try:
        yield store
    finally:
        await store.close()


def _storage(directory: Path, worker: Path | None) -> SqliteStorage:
    wal_writer = make_wal_writer()
    try:
        return SqliteStorage(directory, wal_writer=wal_writer, wal_directory=worker)
    except BaseException:
        wal_writer.close()
        raise


def now() -> TimeMs:
    return TimeMs(time.time_ns() // 1_000_000)


def salts() -> Iterator[bytes]:
    """Random bytes for one body after the other, fetched many at a time: asking costs more than the bytes."""
    while True:
        block = os.urandom(SALT_BYTES * _SALTS_AT_ONCE)
        for start in range(0, len(block), SALT_BYTES):
            yield block[start : start + SALT_BYTES]
