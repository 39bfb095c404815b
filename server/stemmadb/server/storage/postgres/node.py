"""The life of a node: its row in `node`, renewed by a heartbeat, and the expiry of other nodes' rows.

A number is random and used once, so that it can never come back when a promotion loses a part of the log. Expiry is
the deletion of a row, and nothing else: a node whose renewal finds no row is dead and begins again under a new
number.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Final

import psycopg

from stemmadb.protocol.errors import StemmaError
from stemmadb.server.log_events import Log
from stemmadb.server.storage.port import StorageFailed
from stemmadb.server.storage.postgres import schema
from stemmadb.server.storage.postgres.connection import PgConnection, ServerMark
from stemmadb.server.storage.postgres.lease import Lease

LOG: Final = Log("node")
LEASE_MS: Final = 3_000
LOOK_AGAIN_SECONDS: Final = 1.0
"""How long a new connection that leads to another server waits for a heartbeat that may see that server too."""
LOOKS_AGAIN: Final = 2
"""For how many it waits: the first may only find that its own connection has ended."""
NUMBER_BITS: Final = 63

_INSERT: Final = (
    "INSERT INTO node (node, address, program, until) "
    "SELECT %s, %s, %s, clock_timestamp() + %s * interval '1 millisecond' "
    "FROM meta WHERE key = 'schema' AND value = %s "
    "RETURNING (extract(epoch FROM clock_timestamp()) * 1000)::bigint"
)
_RENEW: Final = (
    "UPDATE node SET until = clock_timestamp() + %s * interval '1 millisecond' WHERE node = %s "
    "RETURNING (extract(epoch FROM clock_timestamp()) * 1000)::bigint"
)
_EXPIRE: Final = "DELETE FROM node WHERE until < clock_timestamp() RETURNING node"
_END: Final = "DELETE FROM node WHERE node = %s"


class Node:
    """Two threads, each with a connection of its own: renewals never wait for an expiry that waits for a lock."""

    def __init__(
        self, connect: Callable[[], PgConnection], *, address: str, program: str, lease_ms: int = LEASE_MS
    ) -> None:
        self._connect = connect
        self._address = address
        self._program = program
        self._lease = Lease(lease_ms)
        self._ended = threading.Event()
        self._wanted = threading.Event()
        """Set when the next renewal is to be sent at once."""
        self._beaten = threading.Condition()
        """Notified after each renewal, whether it succeeded or not."""
        self._clock = (0, 0.0)
        """The database's time in ms, and our own when it was asked for: since the row was made."""
        self.on_death: Callable[[], None] = self.begin_anew
        """Called in a thread when the row has ended, or the server is another one; ends with `begin_anew`."""
        connection = connect()
        try:
            self._begin(connection)
        except BaseException:
            connection.close()
            raise
        self._threads = [
            threading.Thread(target=self._renew_for_ever, args=(connection,), name="stemmadb-heartbeat", daemon=True),
            threading.Thread(target=self._expire_for_ever, name="stemmadb-expiry", daemon=True),
        ]
        for thread in self._threads:
            thread.start()

    @property
    def number(self) -> int:
        """Of its present life."""
        return self._lease.number

    @property
    def lease_ms(self) -> int:
        return self._lease.lease_ms

    @property
    def is_alive(self) -> bool:
        """Whether this node may still answer from memory."""
        return self._lease.is_alive(time.monotonic())

    @property
    def heartbeat_age(self) -> float:
        """Seconds since the last renewal that succeeded was sent."""
        return time.monotonic() - self._lease.renewed_at

    @property
    def mark(self) -> ServerMark:
        """That of the last heartbeat."""
        return self._lease.mark

    def admits(self, mark: ServerMark | None) -> bool:
        """Whether a new connection leads to the server of the last heartbeat. Either may be the one that is behind:
        where they differ the heartbeat looks again first.
        """
        for _ in range(LOOKS_AGAIN):
            if mark == self.mark:
                break
            with self._beaten:
                self._wanted.set()
                self._beaten.wait(LOOK_AGAIN_SECONDS)
        return mark == self.mark

    def listens(self, address: str) -> None:
        """Writes the address, also for the next lives of this node."""
        self._address = address
        connection = self._connect()
        try:
            connection.change("UPDATE node SET address = %s WHERE node = %s", (address, self.number))
        finally:
            connection.close()

    def begin_anew(self) -> None:
        """Whatever was served before the death has ended."""
        self._lease.begins_anew()

    def now(self) -> int:
        """The database's time in ms, carried on by our monotonic clock."""
        then, asked = self._clock
        return then + int((time.monotonic() - asked) * 1_000)

    def end(self) -> None:
        """Deletes the row, so that others need not wait for its end."""
        self._ended.set()
        self._wanted.set()
        for thread in self._threads:
            thread.join()
        with suppress(StorageFailed, psycopg.Error):
            connection = self._connect()
            try:
                connection.change(_END, (self.number,))
            finally:
                connection.close()

    def _begin(self, connection: PgConnection) -> None:
        """A new number, also after a death. Nothing that may fail comes between the row and the number."""
        number, sent = secrets.randbits(NUMBER_BITS), time.monotonic()
        values = (number, self._address, self._program, self.lease_ms, str(schema.SCHEMA_VERSION))
        rows = connection.rows(_INSERT, values)
        if not rows:
            raise StorageFailed("the database was migrated to another schema; start this node with the new program")
        self._clock = rows[0][0], sent
        self._lease.began(number, _mark_of(connection), sent, time.monotonic())

    def _renew_for_ever(self, connection: PgConnection | None) -> None:
        while True:
            self._wanted.wait(self.lease_ms / 6_000)
            self._wanted.clear()
            if self._ended.is_set():
                break
            connection = self.beat(connection)
            with self._beaten:
                self._beaten.notify_all()
        if connection is not None:
            connection.close()

    def beat(self, connection: PgConnection | None) -> PgConnection | None:
        """One renewal; returns the connection for the next one. Whatever fails, the next one tries again: a server
        may be refused for its settings now, and be in order a minute later.
        """
        try:
            connection = connection or self._connect()
            self._renew(connection)
        except Exception as error:
            _failed("heartbeat_failed", error, connection)
            return None
        return connection

    def _renew(self, connection: PgConnection) -> None:
        sent = time.monotonic()
        connection.warnings.clear()
        rows = connection.rows(_RENEW, (self.lease_ms, self.number))
        connection.check_warnings()
        if not rows:
            LOG.warning("node_expired", node=self.number)
            self._lease.ended()
            self._begin(connection)
            self.on_death()
            return
        ((now,),) = rows
        self._clock = (now, sent)
        mark = _mark_of(connection)
        if self._lease.renewed(mark, sent, time.monotonic()):
            LOG.warning("another_server", started=mark.started)
            self.on_death()

    def _expire_for_ever(self) -> None:
        connection: PgConnection | None = None
        while not self._ended.wait(self.lease_ms / 15_000):
            if self._lease.may_expire_others(time.monotonic()):
                connection = self.expire(connection)
        if connection is not None:
            connection.close()

    def expire(self, connection: PgConnection | None) -> PgConnection | None:
        """Deletes the rows of dead nodes; returns the connection for the next time, whatever fails as `beat`."""
        try:
            if connection is not None and connection.mark != self.mark:
                connection.close()
                connection = None
            connection = connection or self._connect()
            if not self.admits(connection.mark):
                raise StorageFailed("the connection leads to another server than the heartbeat")
            for (number,) in connection.rows(_EXPIRE):
                LOG.warning("expired_node", node=number)
        except Exception as error:
            _failed("expiry_failed", error, connection)
            return None
        return connection


def _mark_of(connection: PgConnection) -> ServerMark:
    assert connection.mark is not None, "connections of a node have read it"
    return connection.mark


def _failed(event: str, error: Exception, connection: PgConnection | None) -> None:
    if isinstance(error, psycopg.Error | StemmaError | StorageFailed):
        LOG.warning(event, why=str(error).split("\n", 1)[0])
    else:
        LOG.internal_error(event, error)
    if connection is not None:
        connection.close()
