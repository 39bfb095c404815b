"""The queue of the writer: what waits to be done, in order, bounded."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Final

from stemmadb.protocol.errors import StemmaError
from stemmadb.protocol.model.commit.proposal import Proposal
from stemmadb.server.engine.base.settings import Settings
from stemmadb.server.storage.port import Destroyed, SpaceLog

PART_BYTES: Final = 256
"""What a step or a read counts for: a batch is decided in one go, and the loop waits for it."""
NAME_BYTES: Final = 64
"""What a commit that a read was made through counts for."""


class QueueEntry:
    """One thing to be done: a proposal to decide, or work on the writing side of the log."""

    __slots__ = ("_done", "destroyed", "goes_alone", "proposal", "size", "work")

    def __init__(
        self,
        done: Callable[[Any], None],
        proposal: Proposal | None,
        *,
        destroyed: Destroyed | None = None,
        work: Callable[[SpaceLog], Any] | None = None,
    ) -> None:
        """`done` is called once, with the result or with an error."""
        self.proposal = proposal
        self.destroyed = destroyed
        self.work = work
        self.goes_alone = work is not None or destroyed is not None
        self.size = 0 if proposal is None else _size(proposal)
        self._done = done

    def answer(self, result: object) -> None:
        """A callback that raises must not keep the callbacks after it from running."""
        try:
            self._done(result)
        except Exception as error:
            asyncio.get_running_loop().call_exception_handler(
                {"message": "the callback of a commit failed", "exception": error}
            )

    def fail(self, error: StemmaError) -> None:
        self.answer(error)


def settle(future: asyncio.Future[Any], result: object) -> None:
    """Resolves the future of a caller, unless the caller gave up waiting."""
    if future.done():
        return
    if isinstance(result, StemmaError):
        future.set_exception(result)
    else:
        future.set_result(result)


class WriteQueue:
    """First come, first served.

    It accepts entries at once and in order: if a caller had to wait outside, a later entry could be decided before
    its own (COMMIT-5). A session that reads from a socket stops reading while there is no room (`has_room`).
    """

    def __init__(self, settings: Settings) -> None:
        self._commits_max = settings.batch_commits_max
        self._bytes_max = settings.batch_bytes_max
        self._queue_max = settings.queue_max
        self._queue_bytes_max = settings.queue_bytes_max
        self._again: deque[QueueEntry] = deque()
        self._queue: deque[QueueEntry] = deque()
        self._bytes = 0
        """The sizes of all that wait."""
        self.waiting = 0
        """How many wait."""

    @property
    def has_room(self) -> bool:
        return len(self._queue) < self._queue_max and self._bytes < self._queue_bytes_max

    def put(self, entry: QueueEntry) -> bool:
        """Whether there is room for more."""
        self._queue.append(entry)
        self.waiting += 1
        self._bytes += entry.size
        return len(self._queue) < self._queue_max and self._bytes < self._queue_bytes_max

    def take(self) -> list[QueueEntry]:
        """The next batch: within the bounds, or a single one that is beyond them or goes alone."""
        batch: list[QueueEntry] = []
        size = 0
        for waiting in (self._again, self._queue):
            while waiting and len(batch) < self._commits_max:
                ahead = waiting[0]
                if batch and (ahead.goes_alone or batch[0].goes_alone or size + ahead.size > self._bytes_max):
                    break
                size += ahead.size
                batch.append(waiting.popleft())
            if waiting:
                break
        self._bytes -= size
        self.waiting -= len(batch)
        return batch

    def put_back(self, entries: Sequence[QueueEntry]) -> None:
        """They are the next again, in the same order."""
        self._again.extendleft(reversed(entries))
        self.waiting += len(entries)
        self._bytes += sum(entry.size for entry in entries)

    def clear(self) -> list[QueueEntry]:
        """Takes everything away at once."""
        cleared = [*self._again, *self._queue]
        self._again.clear()
        self._queue.clear()
        self._bytes = self.waiting = 0
        return cleared


def _size(proposal: Proposal) -> int:
    """What it adds to a batch: the bodies, and the work of deciding each step and each read."""
    steps, reads = proposal.steps, proposal.reads
    size = PART_BYTES * (len(steps) + len(reads))
    for step in steps:
        if step.body is not None:
            size += len(step.body)
    for read in reads:
        if read.locals:
            size += NAME_BYTES * len(read.locals)
    return size
