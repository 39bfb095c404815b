"""The handle of a commit: what has become of it, and a way to wait for more (NURSERY-7)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Literal, TypeAlias

from stemmadb.client.nursery.entities import CommitName
from stemmadb.client.session.refused import Refused
from stemmadb.protocol.errors import StemmaError
from stemmadb.protocol.model.values.ids import TimeMs, Version

Status: TypeAlias = Literal["pending", "confirmed", "rejected"]


class Handle:
    """One own commit, from the moment it is in the view.

    A write is `applied` at once, `journaled` when the journal has it, and `confirmed` when the server has.
    """

    __slots__ = (
        "_confirmed",
        "_hurry",
        "_journaled",
        "_waiters",
        "failure",
        "is_journaled",
        "name",
        "rejection",
        "since",
        "status",
        "time",
        "version",
    )

    def __init__(self, name: CommitName, *, since: float, hurry: Callable[[], None]) -> None:
        self.name = name
        self.since = since
        """When it was applied, on the clock of the event loop."""
        self.status: Status = "pending"
        self.is_journaled = False
        self.version: Version | None = None
        self.time: TimeMs | None = None
        self.rejection: Refused | None = None
        """Why it was rejected, because of which commit, and a way to retry it."""
        self.failure: StemmaError | None = None
        """What `confirmed` raises."""
        self._journaled: list[asyncio.Future[None]] = []
        self._confirmed: list[asyncio.Future[None]] = []
        """Those who wait, each with a future of its own: one that is cancelled wakes nobody else."""
        self._waiters = 0
        self._hurry = hurry
        """Sends what waits for the next turn of the loop: whoever waits for the verdict has nothing to add to it."""

    # ------------------------------------------------------------ waiting

    async def journaled(self) -> None:
        """Returns once the journal has it; raises if it was refused before that."""
        if not self.is_journaled and self.status == "pending" and self.failure is None:
            await _until(self._journaled)
        if not self.is_journaled and self.failure is not None:
            raise self.failure.with_traceback(None)

    async def confirmed(self) -> Version:
        """Its version, once it is durable on the server; raises why it was refused."""
        if self.status == "pending" and self.failure is None:
            self._hurry()
        if self.status == "pending" and self.failure is None:
            self._waiters += 1
            try:
                await _until(self._confirmed)
            except asyncio.CancelledError:  # it gave up; the others still learn of it, so they still count
                self._waiters -= 1
                raise
        if self.failure is not None:
            raise self.failure.with_traceback(None)
        assert self.version is not None, "a confirmed commit has a version"
        return self.version

    @property
    def is_awaited(self) -> bool:
        """Whether a caller waits for the verdict; one that gave up does not learn of it."""
        return self._waiters > 0

    # ------------------------------------------------------------ what happens to it

    def mark_journaled(self) -> None:
        self.is_journaled = True
        if self._journaled:
            _wake(self._journaled)

    def confirm(self, version: Version, time: TimeMs | None = None) -> None:
        self.status, self.version, self.time = "confirmed", version, time
        self.is_journaled = True
        self._wake_all()

    def reject(self, error: StemmaError, rejection: Refused) -> None:
        self.status, self.failure, self.rejection = "rejected", error, rejection
        self._wake_all()

    def abandon(self, error: StemmaError) -> None:
        """Nobody here will learn what becomes of it; it stays `pending`."""
        self.failure = error
        self._wake_all()

    def _wake_all(self) -> None:
        for waiting in (self._journaled, self._confirmed):
            if waiting:
                _wake(waiting)


async def _until(waiting: list[asyncio.Future[None]]) -> None:
    """Returns once they are woken."""
    future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    waiting.append(future)
    try:
        await future
    finally:
        waiting.remove(future)


def _wake(waiting: list[asyncio.Future[None]]) -> None:
    for future in waiting:
        if not future.done():
            future.set_result(None)
