"""The write in flight: the one append or piece of work under way on the writing side of a log, and how it ends."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from time import perf_counter
from typing import Any, TypeVar

from stemmadb.server.counters import ValueHistogram
from stemmadb.server.engine.base.executors import Workers
from stemmadb.server.engine.base.open_log import OpenLog
from stemmadb.server.engine.write.queue import QueueEntry
from stemmadb.server.storage.port import AppendBatch, SpaceLog

T = TypeVar("T")


class InFlightWrite:
    """What is under way, the queue entries it is for, and the callback for its success."""

    __slots__ = ("awaited", "done", "entries", "started")

    def __init__(
        self, entries: Sequence[QueueEntry], awaited: asyncio.Future[Any] | None, done: Callable[[], None]
    ) -> None:
        self.entries = entries
        self.done = done
        self.started = perf_counter()
        self.awaited = awaited
        """None as long as nobody waits for the end of an append, which calls back by itself."""

    def end(self) -> asyncio.Future[Any]:
        """To be waited for."""
        if self.awaited is None:
            self.awaited = asyncio.get_running_loop().create_future()
        return self.awaited

    @property
    def has_ended(self) -> bool:
        return self.awaited is not None and self.awaited.done()


class InFlight:
    """At most one write. Success calls `done` at once; a failure waits for the writer. Either wakes the writer."""

    def __init__(
        self, log: OpenLog, workers: Workers, wake: Callable[[], None], append_seconds: ValueHistogram
    ) -> None:
        self._log = log
        self._workers = workers
        self._wake = wake
        self._append_seconds = append_seconds
        self._write: InFlightWrite | None = None
        self.is_under_way = False
        """Until `done` was called, or the writer found its failure."""

    @property
    def has_ended(self) -> bool:
        """Whether there is an end that the writer has to look at."""
        return self._write is not None and self._write.has_ended

    def start(self, entries: Sequence[QueueEntry], work: Callable[[SpaceLog], T], done: Callable[[T], None]) -> None:
        """Starts work in a worker."""
        assert self._write is None, "one write at a time"
        task = self._log.begin(self._workers, work)
        write = self._write = InFlightWrite(entries, task, partial(_with_result, task, done))
        self.is_under_way = True
        task.add_done_callback(lambda _: self._ended(write))

    def append(self, entries: Sequence[QueueEntry], batch: AppendBatch, done: Callable[[], None]) -> None:
        """Starts an append; `done` is called in the turn of the loop that learns of its end."""
        assert self._write is None, "one write at a time"
        write = self._write = InFlightWrite(entries, None, done)
        self.is_under_way = True
        self._log.append(batch, partial(self._append_ended, write))

    def _append_ended(self, write: InFlightWrite, failure: BaseException | None) -> None:
        """Called by the storage. Nearly always the batch is durable and nobody waits for its end."""
        self._log.append_ended(failure)
        if failure is None:
            self._append_seconds.observe(perf_counter() - write.started)
            if self._write is write and write.awaited is None:
                self._write, self.is_under_way = None, False
                write.done()
                self._wake()
                return
        end = write.end()
        if not end.done():  # a caller that waited for it may have been cancelled, and the future with it
            if failure is None:
                end.set_result(None)
            else:
                end.set_exception(failure)
        self._ended(write)

    async def completed(self) -> None:
        """Returns once nothing is in flight; raises what the write failed with."""
        while (write := self._write) is not None:
            await write.end()
            self._ended(write)  # its own call may still be on its way

    async def forget(self) -> Sequence[QueueEntry]:
        """Waits for the end; returns the entries without an answer because it failed."""
        write = self._write
        if write is None:
            return ()
        await asyncio.wait([write.end()])  # which is called after `_ended`
        unanswered = () if self._write is None else write.entries
        self._write, self.is_under_way = None, False
        return unanswered

    def _ended(self, write: InFlightWrite) -> None:
        end = write.end()
        if self._write is write and not end.cancelled() and end.exception() is None:
            self._write, self.is_under_way = None, False
            write.done()
        self._wake()


def _with_result(task: asyncio.Future[T], done: Callable[[T], None]) -> None:
    done(task.result())
