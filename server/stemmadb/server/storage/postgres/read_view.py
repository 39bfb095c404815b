"""A read view: one read transaction with a bounded life, through which every question goes.

An open one keeps PostgreSQL from removing old versions of rows, of `tip` first of all: beside a read view of a few
seconds each append costs several times as much. So none lives for long. A question that comes later fails with
`unavailable`; `history` reads its pages on, each in a read view of its own.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from typing import Final, TypeAlias

import psycopg

from stemmadb.protocol.errors import Unavailable
from stemmadb.protocol.model.values.ids import Hash, TimeMs, Version
from stemmadb.server.storage.port import StorageFailed, Tip
from stemmadb.server.storage.postgres.connection import PgConnection, Row, Values, translated
from stemmadb.server.storage.postgres.packing import int8s
from stemmadb.server.storage.postgres.pool import ConnectionPool

READ_VIEW_MS_MAX: Final = 5_000

_BEGIN: Final = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
_TIP: Final = "SELECT version, hash, time, floor, destroyed FROM tip WHERE space = %s::int"
_HALVING: Final = """
WITH RECURSIVE half (key, wanted, low, high) AS (  -- each answer is between the two, both included
  SELECT key, wanted, 0::bigint, %(tip)s::bigint FROM unnest(%(times)s) WITH ORDINALITY AS j (wanted, key)
  UNION ALL
  SELECT key, wanted, CASE WHEN t.is_early THEN m.middle ELSE m.low END,
    CASE WHEN t.is_early THEN m.high ELSE m.middle - 1 END
  FROM (SELECT key, wanted, low, high, (low + high + 1) / 2 AS middle FROM half WHERE low < high) AS m
  CROSS JOIN LATERAL (SELECT coalesce(
    (SELECT time FROM commit WHERE space = %(space)s::int AND version = m.middle), 0) <= m.wanted AS is_early) AS t
)
SELECT low FROM half WHERE low = high ORDER BY key
"""


class PostgresView:
    """All answers are as of the moment it was opened, however the log moves on meanwhile."""

    def __init__(self, connection: PgConnection, space: int, life_ms: int) -> None:
        self._connection = connection
        self._space = space
        now = time.monotonic()
        self._ages, self._ends = now + life_ms / 2_000, now + life_ms / 1_000
        self._is_open = True
        self.has_expired = False
        """Whether a question came too late."""
        with connection.raw.pipeline():
            connection.raw.execute(_BEGIN)
            cursor = connection.raw.execute(_TIP, (space,), binary=True)
        row = cursor.fetchone()
        if row is None:
            raise StorageFailed("the space is gone")
        version, hash_, made, floor, destroyed = row
        self.tip = Tip(Version(version), Hash(hash_), TimeMs(made))
        self.floor = Version(floor)
        self.destroyed = Version(destroyed)
        """The version of the last erasure or compaction."""
        self.statements = 1

    @property
    def is_alive(self) -> bool:
        return self._is_open and time.monotonic() < self._ends

    @property
    def is_young(self) -> bool:
        return self._is_open and time.monotonic() < self._ages

    def rows(self, sql: str, values: Values | None = None) -> list[Row]:
        """All rows of one statement; `space` is among the values of each."""
        assert self._is_open, "the read view has ended"
        if not self.is_alive:
            self.has_expired = True
            self.end()
            raise Unavailable("The read took longer than read_view_ms_max. Ask for less at a time.")
        self.statements += 1
        asked = {"space": self._space} | dict(values or {})  # type: ignore[arg-type]  # ours are named
        try:
            return self._connection.rows(sql, asked)
        except psycopg.Error as error:
            raise translated(error) from error

    def row(self, sql: str, values: Values | None = None) -> Row | None:
        """The first row, or None if there is none."""
        rows = self.rows(sql, values)
        return rows[0] if rows else None

    def versions_at(self, times: Sequence[TimeMs]) -> list[Version]:
        """The last commit at or before each time, by halving: times never fall (COMMIT-7), so they need no index."""
        found = self.rows(_HALVING, {"times": int8s(times), "tip": self.tip.version}) if times else []
        return [Version(version) for (version,) in found]

    def end(self) -> None:
        if not self._is_open:
            return
        self._is_open = False
        with suppress(psycopg.Error):
            if self._connection.is_open:
                self._connection.raw.execute("ROLLBACK")


OpenView: TypeAlias = Callable[[], AbstractContextManager[PostgresView]]


def alive(view: PostgresView, open_view: OpenView) -> AbstractContextManager[PostgresView]:
    """This read view in the first half of its life, and then another one: a page takes several questions."""
    return nullcontext(view) if view.is_young else open_view()


@contextmanager
def read_view(pool: ConnectionPool, space: int, life_ms: int) -> Iterator[PostgresView]:
    """A read view on a connection of the pool. One that lay idle while the server restarted is replaced."""
    connection = pool.take()
    try:
        try:
            view = PostgresView(connection, space, life_ms)
        except psycopg.OperationalError:
            connection = pool.fresh(connection)
            view = _opened(connection, space, life_ms)
        except psycopg.Error as error:
            raise translated(error) from error
        try:
            yield view
        finally:
            pool.counts.add("read_views_ended", int(view.has_expired))
            view.end()
    finally:
        pool.give_back(connection)


def _opened(connection: PgConnection, space: int, life_ms: int) -> PostgresView:
    try:
        return PostgresView(connection, space, life_ms)
    except psycopg.Error as error:
        raise translated(error) from error
