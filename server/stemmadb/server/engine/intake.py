"""The intake of a writer: what waits to be done, in order, bounded."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Final

from stemmadb.protocol.errors import StemmaError
from stemmadb.protocol.model.proposal import Proposal
from stemmadb.server.engine.settings import Settings
from stemmadb.server.storage.port import Destroyed, SpaceLog

PART_BYTES: Final = 256
"""What a step or a read counts for: a batch is decided in one go, and the loop waits for it."""
NAME_BYTES: Final = 64
"""What a commit that a read was made through counts for."""


class Ticket:
    """One thing to be done: a proposal to decide, or work on the writing side of the log; `told` is who waits."""

    __slots__ = ("_told", "destroyed", "goes_alone", "proposal", "size", "work")

    def __init__(
        self,
        told: Callable[[Any], None],
        proposal: Proposal | None,
        *,
        destroyed: Destroyed | None = None,
        work: Callable[[SpaceLog], Any] | None = None,
    ) -> None:
        """`told` is called once, with the result or with the error that there is none."""
        self.proposal = proposal
        self.destroyed = destroyed
        self.work = work
        self.goes_alone = work is not None or destroyed is not None
        self.size = 0 if proposal is None else _size(proposal)
        self._told = told

    def answer(self, result: object) -> None:
        """A mistake of the one who is told is not to harm those who are told after it."""
        try:
            self._told(result)
        except Exception as mistake:
            asyncio.get_running_loop().call_exception_handler(
                {"message": "one who was told of its commit made a mistake", "exception": mistake}
            )

    def fail(self, error: StemmaError) -> None:
        self.answer(error)


def settle(future: asyncio.Future[Any], result: object) -> None:
    """Tells one who awaits; whoever gave up waiting is not told."""
    if future.done():
        return
    if isinstance(result, StemmaError):
        future.set_exception(result)
    else:
        future.set_result(result)


class Intake:
    """First come, first served.

    It takes what comes at once and in order: were somebody to wait outside, what comes later could be decided before
    it (COMMIT-5). Whoever brings work from a socket stops reading while there is no room (`has_room`).
    """

    def __init__(self, settings: Settings) -> None:
        self._commits_max = settings.batch_commits_max
        self._bytes_max = settings.batch_bytes_max
        self._queue_max = settings.queue_max
        self._queue_bytes_max = settings.queue_bytes_max
        self._again: deque[Ticket] = deque()
        self._queue: deque[Ticket] = deque()
        self._bytes = 0
        """The sizes of all that wait."""

    def __len__(self) -> int:
        return len(self._again) + len(self._queue)

    @property
    def has_room(self) -> bool:
        return len(self._queue) < self._queue_max and self._bytes < self._queue_bytes_max

    def put(self, ticket: Ticket) -> bool:
        """Whether there is room for more."""
        self._queue.append(ticket)
        self._bytes += ticket.size
        return len(self._queue) < self._queue_max and self._bytes < self._queue_bytes_max

    def take(self) -> list[Ticket]:
        """The next batch: within the bounds, or a single one that is beyond them or goes alone."""
        batch: list[Ticket] = []
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
        return batch

    def put_back(self, tickets: Sequence[Ticket]) -> None:
        """They are the next again, in the same order."""
        self._again.extendleft(reversed(tickets))
        self._bytes += sum(ticket.size for ticket in tickets)

    def clear(self) -> list[Ticket]:
        """Takes everything away at once."""
        cleared = [*self._again, *self._queue]
        self._again.clear()
        self._queue.clear()
        self._bytes = 0
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
