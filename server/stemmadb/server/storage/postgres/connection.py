"""Connections to PostgreSQL: how they are made and set up, and what their errors become."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Final, NamedTuple, TypeAlias, cast

import psycopg
from psycopg import errors as pg
from psycopg.pq import TransactionStatus
from psycopg.types.numeric import Int8BinaryDumper

from stemmadb.protocol.errors import Unavailable
from stemmadb.server.storage.port import DiskFull, StorageFailed
from stemmadb.server.storage.postgres import packing

Row: TypeAlias = tuple[Any, ...]
Values: TypeAlias = Sequence[object] | Mapping[str, object]

LEAST_VERSION: Final = 150_000
SCHEMA: Final = "stemmadb"
SETTINGS: Final = {
    "synchronous_commit": "on",
    "client_min_messages": "warning",
    "statement_timeout": "0",
    "lock_timeout": "5000",
    "idle_in_transaction_session_timeout": "10000",
    "search_path": SCHEMA,
    "jit": "off",
}
"""Each is set by itself and read back: another value refuses the connection."""
NODE_SETTINGS: Final = {"enable_seqscan": "off"}
"""What a node asks and writes is always found by an index. A plan made while tables are small would read them whole,
and is kept when they are large."""
READER_SETTINGS: Final = NODE_SETTINGS | {
    # Every question is a few look-ups; other joins cost what there is, not what is asked.
    "enable_hashjoin": "off",
    "enable_mergejoin": "off",
    "plan_cache_mode": "force_generic_plan",
}
DURABLE: Final = ("on", "remote_write", "remote_apply")
"""What a role or a database may set `synchronous_commit` to; with less, others would not be durable either."""
CONNECT_SECONDS: Final = 5
STATEMENTS_MAX: Final = 200
_MARK: Final = "SELECT value, pg_postmaster_start_time()::text, pg_is_in_recovery() FROM meta WHERE key = 'database'"
_WRITTEN_NOWHERE: Final = ("22", "23", "40", "42", "53", "54")
_READ_ONLY: Final = "25006"
_DISK_FULL: Final = "53100"


class ServerMark(NamedTuple):
    """Which server a connection leads to: another one, or the same after a restart, has another mark."""

    database: str
    started: str


class PgConnection:
    """One connection, set up, with what the server warned of since it was last asked."""

    def __init__(self, raw: psycopg.Connection[Row]) -> None:
        self.raw = raw
        self.warnings: list[str] = []
        self.mark: ServerMark | None = None
        """Read when it was made, and true as long as it lives; None if nobody asked for it."""
        raw.add_notice_handler(self._noticed)

    def _noticed(self, notice: pg.Diagnostic) -> None:
        if (notice.severity_nonlocalized or "WARNING") == "WARNING":
            self.warnings.append(notice.message_primary or "")

    @property
    def is_open(self) -> bool:
        return not self.raw.closed

    @property
    def is_at_rest(self) -> bool:
        """Whether it is open and in no transaction, so that the next one can use it."""
        return not self.raw.closed and self.raw.info.transaction_status == TransactionStatus.IDLE

    def rows(self, sql: str, values: Values = (), *, prepare: bool | None = None) -> list[Row]:
        """All rows; bytes and numbers come in binary form."""
        cursor = self.raw.cursor(binary=True)
        cursor.execute(sql, cast(Any, values) or None, prepare=prepare)
        return cursor.fetchall() if cursor.description is not None else []

    def change(self, sql: str, values: Values = ()) -> int:
        """How many rows were changed."""
        return self.raw.execute(sql, cast(Any, values) or None).rowcount

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """All or nothing. A warning at its end leaves unknown whether it is durable."""
        self.warnings.clear()
        self.change("BEGIN")
        try:
            yield
        except BaseException:
            with suppress(psycopg.Error):
                self.change("ROLLBACK")
            raise
        self.change("COMMIT")
        self.check_warnings()

    def check_warnings(self) -> None:
        if self.warnings:
            raise UnknownOutcome(f"PostgreSQL warned: {'; '.join(self.warnings)}")

    def close(self) -> None:
        with suppress(psycopg.Error):
            self.raw.close()


class UnknownOutcome(StorageFailed):
    """What was being written may or may not be there, now or later: only a claim settles it."""


def connect(dsn: str, settings: Mapping[str, str] | None = None, *, reads_mark: bool = False) -> PgConnection:
    """A connection to the primary, set up; `Unavailable` says what is wrong with the server or its settings.

    The mark of its server can be read only where our tables are.
    """
    try:
        raw = psycopg.connect(
            dsn,
            autocommit=True,
            connect_timeout=CONNECT_SECONDS,
            target_session_attrs="read-write",
            application_name="stemmadb",
            keepalives_idle=5,
            keepalives_interval=2,
            keepalives_count=3,
            tcp_user_timeout=5_000,
        )
    except psycopg.Error as error:
        raise StorageFailed(f"PostgreSQL cannot be reached: {_said(error)}") from None
    connection = PgConnection(raw)
    try:
        _set_up(connection, SETTINGS | dict(settings or {}), reads_mark=reads_mark)
    except psycopg.Error as error:
        connection.close()
        raise translated(error) from error
    except BaseException:
        connection.close()
        raise
    return connection


def _set_up(connection: PgConnection, settings: Mapping[str, str], *, reads_mark: bool) -> None:
    raw = connection.raw
    raw.prepared_max = STATEMENTS_MAX
    packing.register(raw)
    raw.adapters.register_dumper(int, Int8BinaryDumper)
    if raw.info.server_version < LEAST_VERSION:
        raise Unavailable(f"PostgreSQL {raw.info.server_version // 10_000} is too old: StemmaDB needs 15 or newer.")
    ((found, encoding),) = connection.rows(
        "SELECT current_setting('synchronous_commit'), current_setting('server_encoding')"
    )
    if found not in DURABLE:
        raise Unavailable(
            f"The role or the database sets synchronous_commit = {found}, so that what is acknowledged could be "
            "lost. Reset it with ALTER ROLE or ALTER DATABASE."
        )
    if encoding != "UTF8":
        raise Unavailable(f"The database has the encoding {encoding}; StemmaDB needs UTF8.")
    names = list(settings)
    with raw.pipeline():
        for name, value in settings.items():
            raw.execute("SELECT set_config(%s, %s, false)", (name, value))
        cursor = raw.execute("SELECT name, setting FROM pg_settings WHERE name = ANY (%s)", (names,))
        marked = raw.execute(_MARK) if reads_mark else None
    for name, value in cursor.fetchall():
        if settings[name] != value:
            raise Unavailable(f"PostgreSQL has {name} = {value} where StemmaDB set {settings[name]}.")
    if marked is not None:
        ((database, started, is_in_recovery),) = marked.fetchall()
        if is_in_recovery:
            raise StorageFailed("the server of PostgreSQL is in recovery")
        connection.mark = ServerMark(database, started)


def is_certain(error: psycopg.Error, connection: PgConnection) -> bool:
    """Whether it is certain that nothing was written."""
    state = error.sqlstate or ""
    return connection.is_open and (state[:2] in _WRITTEN_NOWHERE or state == _READ_ONLY)


def translated(error: psycopg.Error) -> StorageFailed:
    """The port's error for one of PostgreSQL's."""
    if error.sqlstate == _DISK_FULL:
        return DiskFull(_said(error))
    return StorageFailed(f"{type(error).__name__}: {_said(error)}")


@contextmanager
def failures() -> Iterator[None]:
    """Errors of PostgreSQL become errors of the port."""
    try:
        yield
    except psycopg.Error as error:
        raise translated(error) from error


def _said(error: psycopg.Error) -> str:
    """In one line, without what the statement had in it."""
    primary = error.diag.message_primary
    return primary if primary else " ".join(str(error).split())
