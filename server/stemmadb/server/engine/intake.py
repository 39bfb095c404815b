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


class Ticket:
    """One thing to be done: a proposal to decide, or work on the writing side of the log; `future` is who waits."""

    __slots__ = ("destroyed", "future", "proposal", "size", "work")

    def __init__(
        self,
        proposal: Proposal | None,
        *,
        destroyed: Destroyed | None = None,
        work: Callable[[SpaceLog], Any] | None = None,
    ) -> None:
        self.proposal = proposal
        self.destroyed = destroyed
        self.work = work
        self.size = 0 if proposal is None else _size(proposal)
        self.future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

    @property
    def goes_alone(self) -> bool:
        return self.work is not None or self.destroyed is not None

    def answer(self, result: object) -> None:
        """Whoever gave up waiting is not told."""
        if not self.future.done():
            self.future.set_result(result)

    def fail(self, error: StemmaError) -> None:
        if not self.future.done():
            self.future.set_exception(error)


class Intake:
    """First come, first served, also among those who wait for room."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._room = asyncio.Semaphore(settings.queue_max)
        self._again: deque[Ticket] = deque()
        self._queue: deque[Ticket] = deque()
        self._clearings = 0

    def __len__(self) -> int:
        return len(self._again) + len(self._queue)

    async def put(self, ticket: Ticket) -> bool:
        """Waits for room; False, and it was not put, if everything before it was cleared away meanwhile.

        What failed is sent again, and nothing that came later may be decided before it (COMMIT-5).
        """
        clearings = self._clearings
        await self._room.acquire()
        if clearings != self._clearings:
            self._room.release()
            return False
        self._queue.append(ticket)
        return True

    def take(self) -> list[Ticket]:
        """The next batch: within the bounds, or a single one that is beyond them or goes alone."""
        batch = [self._next()]
        if batch[0].goes_alone:
            return batch
        bytes_left = self._settings.batch_bytes_max - batch[0].size
        while len(batch) < self._settings.batch_commits_max and len(self):
            ahead = self._again[0] if self._again else self._queue[0]
            if ahead.goes_alone:
                break
            bytes_left -= ahead.size
            if bytes_left < 0:
                break
            batch.append(self._next())
        return batch

    def put_back(self, tickets: Sequence[Ticket]) -> None:
        """They are the next again, in the same order."""
        self._again.extendleft(reversed(tickets))

    def clear(self) -> list[Ticket]:
        """Takes everything away at once; those who wait for room are turned away as well."""
        self._clearings += 1
        cleared = [*self._again, *self._queue]
        for _ in self._queue:
            self._room.release()
        self._again.clear()
        self._queue.clear()
        return cleared

    def _next(self) -> Ticket:
        if self._again:
            return self._again.popleft()
        self._room.release()
        return self._queue.popleft()


def _size(proposal: Proposal) -> int:
    """What it adds to a batch: the bodies, and the work of deciding each step and each read."""
    bodies = sum([len(step.body) for step in proposal.steps if step.body is not None])
    return bodies + PART_BYTES * (len(proposal.steps) + len(proposal.reads))
