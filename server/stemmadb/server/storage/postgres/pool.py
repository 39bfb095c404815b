"""A bounded number of connections, made when they are needed and used again; taken and given back from any thread."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from stemmadb.server.storage.port import StorageFailed
from stemmadb.server.storage.postgres.connection import PgConnection
from stemmadb.server.storage.postgres.database_counts import DatabaseCounts

TAKE_SECONDS: Final = 10.0


class ConnectionPool:
    """Waits for a connection when all are in use, and not for ever."""

    def __init__(self, make: Callable[[], PgConnection], count: int, counts: DatabaseCounts) -> None:
        self._make = make
        self.counts = counts
        self._free = threading.BoundedSemaphore(count)
        self._lock = threading.Lock()
        self._idle: list[PgConnection] = []
        self._is_closed = False
        self._era = 0
        self._lost = 0
        """Connections that were lost and not made again yet."""

    @contextmanager
    def connection(self) -> Iterator[PgConnection]:
        taken = self.take()
        try:
            yield taken
        finally:
            self.give_back(taken)

    def take(self) -> PgConnection:
        if not self._free.acquire(timeout=TAKE_SECONDS):
            raise StorageFailed("no connection to PostgreSQL became free")
        try:
            with self._lock:
                if self._is_closed:
                    raise StorageFailed("the storage is closed")
                taken = self._idle.pop() if self._idle else None
            return taken or self._new()
        except BaseException:
            self._free.release()
            raise

    def fresh(self, stale: PgConnection) -> PgConnection:
        """Another connection in place of one that turned out to be closed; the idle ones are as old as it."""
        with self._lock:
            idle, self._idle = self._idle, []
            self._lost += 1 + len(idle)
        for one in (stale, *idle):
            one.close()
        return self._new()

    def renew(self) -> None:
        """No connection that was made, or begun to be made, before this is used again: it may lead to another server
        than those that are made from now on. One that is in use is closed when it comes back.
        """
        with self._lock:
            self._era += 1
            idle, self._idle = self._idle, []
            self._lost += len(idle)
        for one in idle:
            one.close()

    def _new(self) -> PgConnection:
        era = self._era
        made = self._make()
        made.era = era
        with self._lock:
            is_again = self._lost > 0
            self._lost -= is_again
        self.counts.add("reconnects", int(is_again))
        return made

    def give_back(self, connection: PgConnection) -> None:
        """One that was closed, or that is not at rest, is not used again."""
        is_sound = connection.is_at_rest
        with self._lock:
            is_sound = is_sound and not self._is_closed and connection.era == self._era
            if is_sound:
                self._idle.append(connection)
            else:
                self._lost += 1
        if not is_sound:
            connection.close()
        self._free.release()

    def close(self) -> None:
        """Connections in use are closed when they come back."""
        with self._lock:
            self._is_closed = True
            idle, self._idle = self._idle, []
        for one in idle:
            one.close()
