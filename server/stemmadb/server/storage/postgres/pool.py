"""A bounded number of connections, made when they are needed and used again; taken and given back from any thread.

A connection leads to the server of the node's last heartbeat, or is not used: beside a server that was promoted the
one before it may still answer, from a history that has ended.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, Protocol

from stemmadb.server.storage.port import StorageFailed
from stemmadb.server.storage.postgres.connection import PgConnection, ServerMark
from stemmadb.server.storage.postgres.database_counts import DatabaseCounts

TAKE_SECONDS: Final = 10.0
TRIES: Final = 3
"""How often a new connection that leads to another server is made anew."""


class SeenServer(Protocol):
    """The server that the heartbeat has seen last."""

    @property
    def mark(self) -> ServerMark: ...

    def admits(self, mark: ServerMark | None) -> bool:
        """Whether this is its mark; another one lets the heartbeat look again first."""
        ...


class ConnectionPool:
    """Waits for a connection when all are in use, and not for ever."""

    def __init__(
        self, make: Callable[[], PgConnection], count: int, counts: DatabaseCounts, server: SeenServer | None = None
    ) -> None:
        """Without a server, which only a node has, a connection leads anywhere."""
        self._make = make
        self._server = server
        self.counts = counts
        self._free = threading.BoundedSemaphore(count)
        self._lock = threading.Lock()
        self._idle: list[PgConnection] = []
        self._is_closed = False
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
            return self._idle_one() or self._new()
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

    def _idle_one(self) -> PgConnection | None:
        with self._lock:
            if self._is_closed:
                raise StorageFailed("the storage is closed")
            stale = [one for one in self._idle if not self._is_sound(one)]
            self._idle = [one for one in self._idle if self._is_sound(one)]
            self._lost += len(stale)
            taken = self._idle.pop() if self._idle else None
        for one in stale:
            one.close()
        return taken

    def _is_sound(self, connection: PgConnection) -> bool:
        """Whether it is open and at rest, and leads to the server there is now."""
        return connection.is_at_rest and (self._server is None or connection.mark == self._server.mark)

    def _new(self) -> PgConnection:
        for _ in range(TRIES):
            made = self._make()
            if self._server is None or self._server.admits(made.mark):
                break
            made.close()
        else:
            raise StorageFailed("connections to PostgreSQL lead to another server than the heartbeat of this node")
        with self._lock:
            is_again = self._lost > 0
            self._lost -= is_again
        self.counts.add("reconnects", int(is_again))
        return made

    def give_back(self, connection: PgConnection) -> None:
        """It is used again if it is sound."""
        with self._lock:
            is_sound = not self._is_closed and self._is_sound(connection)
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
