"""The write in flight: the one piece of work under way on the writing side of a log, and how its end is reported."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeVar

from stemmadb.protocol.model.values.ids import Version
from stemmadb.server.engine.base.executors import Workers
from stemmadb.server.engine.base.open_log import OpenLog
from stemmadb.server.engine.write.queue import QueueEntry
from stemmadb.server.storage.port import AcceptedWrite, SpaceLog, StorageFailed

T = TypeVar("T")


class InFlightWrite:
    """Work under way, the queue entries it is for, and the callback for its result."""

    def __init__(
        self, entries: Sequence[QueueEntry], task: asyncio.Future[Any] | None, done: Callable[[Any], None]
    ) -> None:
        self.entries = entries
        self.task = task
        """None as long as nobody waits for the end of work that calls back by itself."""
        self.done = done

    def end(self) -> asyncio.Future[Any]:
        """Of the work, to be waited for."""
        if self.task is None:
            self.task = asyncio.get_running_loop().create_future()
        return self.task


class InFlight:
    """At most one write. Success calls `done` at once; a failure waits for the writer. Either wakes the writer."""

    def __init__(self, log: OpenLog, workers: Workers, wake: Callable[[], None]) -> None:
        self._log = log
        self._workers = workers
        self._wake = wake
        self._write: InFlightWrite | None = None

    @property
    def is_under_way(self) -> bool:
        """Until `done` was called, or the writer found its failure."""
        return self._write is not None

    @property
    def has_ended(self) -> bool:
        """Whether there is an end that the writer has to look at."""
        return self._write is not None and self._write.task is not None and self._write.task.done()

    def start(self, entries: Sequence[QueueEntry], work: Callable[[SpaceLog], T], done: Callable[[T], None]) -> None:
        assert self._write is None, "one write at a time"
        task = self._log.begin(self._workers, work)
        write = self._write = InFlightWrite(entries, task, done)
        task.add_done_callback(lambda _: self._end(write))

    def hand_over(
        self,
        entries: Sequence[QueueEntry],
        expected: Version,
        batch: Sequence[AcceptedWrite],
        done: Callable[[None], None],
    ) -> bool:
        """Whether the log takes the batch without a worker; `done` is called in the turn of the loop that learns of
        its end.
        """
        assert self._write is None, "one write at a time"
        write = self._write = InFlightWrite(entries, None, done)
        if not self._log.hand_over(expected, batch, partial(self._handed_over, write)):
            self._write = None
            return False
        return True

    def _resolve(self, write: InFlightWrite, failure: StorageFailed | None) -> None:
        end = write.end()
        if not end.done():  # whoever waited for it may have been cancelled, and it with them
            if failure is None:
                end.set_result(None)
            else:
                end.set_exception(failure)
        self._end(write)

    def _handed_over(self, write: InFlightWrite, failure: StorageFailed | None) -> None:
        """As `_resolve`; the common case first: it is durable and nobody waits for it."""
        if failure is not None or write.task is not None or self._write is not write:
            self._resolve(write, failure)
            return
        self._write = None
        write.done(None)
        self._wake()

    async def completed(self) -> None:
        """Returns once nothing is in flight; raises what the write failed with."""
        write = self._write
        if write is not None:
            await write.end()
            self._end(write)  # its own call may still be on its way

    async def forget(self) -> Sequence[QueueEntry]:
        """Waits for the end; returns the entries without an answer because it failed."""
        write = self._write
        if write is None:
            return ()
        await asyncio.wait([write.end()])  # which is called after `_end`
        unanswered = () if self._write is None else write.entries
        self._write = None
        return unanswered

    def _end(self, write: InFlightWrite) -> None:
        task = write.end()
        if self._write is write and not task.cancelled() and task.exception() is None:
            self._write = None
            write.done(task.result())
        self._wake()
