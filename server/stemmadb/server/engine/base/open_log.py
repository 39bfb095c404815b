"""The open log of a space: who uses it now, and how it is opened again after the storage had an error (COMMIT-10)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from threading import Lock
from typing import Any, TypeVar

from stemmadb.protocol.model.values.ids import Did, EntityId, Version
from stemmadb.server.engine.base.executors import Workers
from stemmadb.server.storage.port import AppendBatch, Done, LogReader, SpaceLog, Storage, StorageFailed

T = TypeVar("T")


class _Ended(Exception):
    """The log was closed before a read view of it was opened."""


class _ReadViews:
    """The read views of one opening of the log. Those that are open outlive it; none is opened once it has ended."""

    def __init__(self, log: SpaceLog) -> None:
        self._log = log
        self._lock = Lock()
        self._has_ended = False

    @contextmanager
    def view(self) -> Iterator[LogReader]:
        with ExitStack() as stack:
            with self._lock:
                if self._has_ended:
                    raise _Ended
                reader = stack.enter_context(self._log.reader())
            yield reader

    def end(self) -> None:
        with self._lock:
            self._has_ended = True


class OpenLog:
    """Runs work on the log in worker threads. After a `StorageFailed` the log is closed and opened again, when nobody
    works on it any more and before anybody else does; if that fails, every try of anybody tries again. Reads are not
    waited for: they keep the read view they have.
    """

    def __init__(self, storage: Storage, space: Did, opening: Workers, opened: Callable[[Version], None]) -> None:
        self._storage = storage
        self._space = space
        self._opening = opening
        self._opened = opened
        """Called with the version the log is at whenever it was opened."""
        self._log: SpaceLog | None = None
        self._views: _ReadViews | None = None
        self._is_closed = False
        self._is_broken = False
        self._users = 0
        self._unused: asyncio.Future[None] | None = None
        """Set while `_close_log` or `ready` waits for the end of all uses."""
        self._turn = asyncio.Lock()
        self._reopening: asyncio.Task[None] | None = None
        """Opens the log again for an append that waits."""
        self._creates = False
        """Whether the log was closed before anything was written: there may be nothing to open again."""
        self.generation = 0
        """Counts the openings: what was known of the log before the last one is to be read again."""
        self.is_alone = False

    async def ready(self, *, create: bool = False) -> SpaceLog:
        """The log, opened again if need be; `StorageFailed` if it cannot be."""
        if self._log is not None and not self._is_broken:
            return self._log
        async with self._turn:
            if self._is_closed:
                raise StorageFailed("the space is closed")
            if self._log is None or self._is_broken:
                await self._until_unused()
                await self._close_log()
                creates = create or self._creates
                log, version = await self._opening.run(
                    lambda: _open(self._storage, self._space, creates, self._opening)
                )
                self._log, self._views, self._is_broken, self.is_alone = log, _ReadViews(log), False, log.is_alone
                self.generation += 1
                self._opened(version)
            return self._log

    @property
    def is_ready(self) -> bool:
        """Whether `ready` need not wait."""
        return self._log is not None and not self._is_broken

    def append(self, batch: AppendBatch, done: Done) -> None:
        """As the log does it, opened again if need be. The caller calls `append_ended` when `done` is called."""
        log = self._log
        if log is None or self._is_broken:
            self._reopening = asyncio.get_running_loop().create_task(self._append_when_ready(batch, done))
        else:
            self._users += 1
            log.append(batch, done)

    async def _append_when_ready(self, batch: AppendBatch, done: Done) -> None:
        try:
            log = await self.ready()
        except Exception as failure:
            self._users += 1
            done(failure)
        else:
            self._users += 1
            log.append(batch, done)

    def append_ended(self, failure: BaseException | None) -> None:
        """A log whose append failed in the storage is broken."""
        if failure is None and self._unused is None:
            self._users -= 1
            return
        self._is_broken = self._is_broken or isinstance(failure, StorageFailed)
        self._end_use()

    def _end_use(self) -> None:
        self._users -= 1
        if not self._users and self._unused is not None:
            if not self._unused.done():
                self._unused.set_result(None)
            self._unused = None

    async def _until_unused(self) -> None:
        while self._users:
            if self._unused is None:
                self._unused = asyncio.get_running_loop().create_future()
            await asyncio.shield(self._unused)  # others may wait for it too

    def begin(self, workers: Workers, work: Callable[[SpaceLog], T]) -> asyncio.Future[T]:
        """As `run`, begun before this returns if the log is ready."""
        log = self._log
        if log is None or self._is_broken:
            return asyncio.get_running_loop().create_task(self.run(workers, work))
        self._users += 1
        future: asyncio.Future[T]
        try:
            future = asyncio.ensure_future(workers.run(partial(work, log)))
        except Exception as refusal:  # the caller that waits for the end gets it
            future = asyncio.get_running_loop().create_future()
            future.set_exception(refusal)
        future.add_done_callback(self._ended)
        return future

    def _ended(self, future: asyncio.Future[Any]) -> None:
        if not future.cancelled() and isinstance(future.exception(), StorageFailed):
            self._is_broken = True
        self._end_use()

    async def run(self, workers: Workers, work: Callable[[SpaceLog], T]) -> T:
        """Runs work on the log; a `StorageFailed` that it raises breaks the log."""
        await self.ready()
        return await self.begin(workers, work)

    async def read(self, workers: Workers, ask: Callable[[LogReader], T]) -> T:
        """Asks on a read view, on a later one if the log was closed before; a `StorageFailed` breaks the log."""
        while True:
            await self.ready()
            views = self._views
            assert views is not None, "a log that is ready has views"
            try:
                return await workers.run(partial(_ask, views, ask))
            except _Ended:
                continue
            except StorageFailed:
                self._is_broken = self._is_broken or views is self._views
                raise

    def is_unwritten(self, id_: EntityId) -> bool:
        """As the log says, which is ready."""
        return self._log is not None and not self._is_broken and self._log.is_unwritten(id_)

    @property
    def owes_scrub(self) -> bool:
        """Whether the log as it is open now says so."""
        return self._log is not None and not self._is_broken and self._log.owes_scrub

    @property
    def has_files(self) -> bool:
        """Whether there may be files beside the database."""
        return self._log is not None and self._log.large_blobs is not None

    def broke(self) -> None:
        """Work met a failure of the storage and went on."""
        self._is_broken = True

    async def close(self) -> None:
        """Once nobody uses it any more; nothing runs on it afterwards."""
        async with self._turn:
            self._is_closed = self._is_broken = True
            await self._until_unused()
            await self._close_log()

    async def _close_log(self) -> None:
        """A log that failed may fail to close as well, and there is nothing left to do about it."""
        log, views = self._log, self._views
        self._log = self._views = None
        if log is not None and views is not None:
            self._creates = log.is_unfounded
            with suppress(StorageFailed):
                await self._opening.run(lambda: _close(log, views))


def _ask(views: _ReadViews, ask: Callable[[LogReader], T]) -> T:
    """In a worker thread."""
    with views.view() as reader:
        return ask(reader)


def _close(log: SpaceLog, views: _ReadViews) -> None:
    """In a worker thread."""
    views.end()
    log.close()


def _open(storage: Storage, space: Did, create: bool, workers: Workers) -> tuple[SpaceLog, Version]:
    """In a worker thread. What is owed to an erasure is done by the writer: reads do not wait for it (ERASE-1)."""
    log = storage.open(space, create=create, workers=workers)
    try:
        with log.reader() as reader:
            return log, reader.tip().version
    except BaseException:
        with suppress(StorageFailed):
            log.close()
        raise
