"""Flights: the one piece of work that is under way on the writing side of a log, and how its end is told."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeVar

from stemmadb.protocol.model.ids import Version
from stemmadb.server.engine.intake import Ticket
from stemmadb.server.engine.lanes import Workers
from stemmadb.server.engine.opened import OpenLog
from stemmadb.server.storage.port import Entry, SpaceLog, StorageFailed

T = TypeVar("T")


class Flight:
    """Work under way, whose it is, and who is told its result."""

    def __init__(
        self, tickets: Sequence[Ticket], task: asyncio.Future[Any] | None, tell: Callable[[Any], None]
    ) -> None:
        self.tickets = tickets
        self.task = task
        """None as long as nobody waits for the end of work that tells it by itself."""
        self.tell = tell

    def end(self) -> asyncio.Future[Any]:
        """Of the work, to be waited for."""
        if self.task is None:
            self.task = asyncio.get_running_loop().create_future()
        return self.task


class Flights:
    """One at a time. A good end is told at once; a failure waits for the writer, who is woken by either."""

    def __init__(self, log: OpenLog, workers: Workers, wake: Callable[[], None]) -> None:
        self._log = log
        self._workers = workers
        self._wake = wake
        self._flight: Flight | None = None

    @property
    def is_under_way(self) -> bool:
        """Until its end was told, or its failure was found."""
        return self._flight is not None

    @property
    def has_ended(self) -> bool:
        """Whether there is an end that the writer has to look at."""
        return self._flight is not None and self._flight.task is not None and self._flight.task.done()

    def launch(self, tickets: Sequence[Ticket], work: Callable[[SpaceLog], T], tell: Callable[[T], None]) -> None:
        assert self._flight is None, "one write at a time"
        task = self._log.begin(self._workers, work)
        flight = self._flight = Flight(tickets, task, tell)
        task.add_done_callback(lambda _: self._end(flight))

    def hand_over(
        self, tickets: Sequence[Ticket], expected: Version, batch: Sequence[Entry], tell: Callable[[None], None]
    ) -> bool:
        """Whether the log takes the batch without a worker; its end is told in the turn that learns of it."""
        assert self._flight is None, "one write at a time"
        flight = self._flight = Flight(tickets, None, tell)
        if not self._log.hand_over(expected, batch, partial(self._carried, flight)):
            self._flight = None
            return False
        return True

    def _told(self, flight: Flight, failure: StorageFailed | None) -> None:
        end = flight.end()
        if not end.done():  # whoever waited for it may have been cancelled, and it with them
            if failure is None:
                end.set_result(None)
            else:
                end.set_exception(failure)
        self._end(flight)

    def _carried(self, flight: Flight, failure: StorageFailed | None) -> None:
        """As `_told`, the way of most: all went well, and nobody waits."""
        if failure is not None or flight.task is not None or self._flight is not flight:
            self._told(flight, failure)
            return
        self._flight = None
        flight.tell(None)
        self._wake()

    async def landed(self) -> None:
        """Returns once nothing is in flight; raises what the flight failed with."""
        flight = self._flight
        if flight is not None:
            await flight.end()
            self._end(flight)  # its own call may still be on its way

    async def forget(self) -> Sequence[Ticket]:
        """Waits for the end; gives those who were not told because it failed."""
        flight = self._flight
        if flight is None:
            return ()
        await asyncio.wait([flight.end()])  # which is called after `_end`
        untold = () if self._flight is None else flight.tickets
        self._flight = None
        return untold

    def _end(self, flight: Flight) -> None:
        task = flight.end()
        if self._flight is flight and not task.cancelled() and task.exception() is None:
            self._flight = None
            flight.tell(task.result())
        self._wake()
