"""Posting: what the daybook has of a log and its file has not, and how it gets there.

It is durable where it is. A transaction that puts it into the file needs no sync of its own until the daybook forgets
it, and many batches are one transaction. Whoever reads the file, or writes it in another way, posts first.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Final

import apsw

from stemmadb.protocol.model.ids import Hash, Version
from stemmadb.server.storage.port import StorageFailed
from stemmadb.server.storage.sqlite import appending, one_step
from stemmadb.server.storage.sqlite import daybook_pages as pages
from stemmadb.server.storage.sqlite.connection import Cell, as_json, failures, query, sync_log, transaction
from stemmadb.server.storage.sqlite.daybook_pages import Record
from stemmadb.server.storage.sqlite.inserting import insert
from stemmadb.server.storage.sqlite.schema import COMMIT_COLUMNS, FACT_COLUMNS

_TABLES: Final = ("commit", "fact")
_COLUMNS: Final = (",".join(COMMIT_COLUMNS), ",".join(FACT_COLUMNS))


class Posting:
    """Belongs to one opening of a log. Any thread may post; `lock` is that of the connection that writes."""

    def __init__(self, connection: apsw.Connection, written: Callable[[], None]) -> None:
        """`written` is called after each transaction, with the connection still ours."""
        self.lock: Final = threading.RLock()
        self._connection = connection
        self._written = written
        self._unposted: list[bytes] = []
        self._is_synced = True
        self.is_broken = False
        """After an error nothing is posted before the log is opened again (COMMIT-10)."""

    def add(self, record: bytes) -> None:
        """What is durable in the daybook, in the order of the log; encoded, as it takes a third of the memory."""
        self._unposted.append(record)

    @property
    def unposted(self) -> Sequence[Record]:
        records = self._unposted[:]  # others may add meanwhile
        return [pages.decode(record) for record in records]

    @property
    def is_settled(self) -> bool:
        """Whether the file has, durably, all that was added: the daybook may forget it."""
        return not self._unposted and self._is_synced

    def post(self) -> None:
        """All that was added is in the file when this returns, to be read by anybody."""
        if self._unposted:
            with self.lock:
                self._post()

    def settle(self) -> None:
        """All that was added is in the file, durably."""
        if not self.is_settled:
            with self.lock:
                self._post(is_durable=True)
                self._sync()

    def forget(self) -> None:
        """Another opening of the log has posted it."""
        self._unposted.clear()
        self._is_synced = True

    def release(self) -> None:
        """The log is closed: what belongs to it is not kept alive as long as a volume knows this."""
        self._written = _nothing

    def _check(self) -> None:
        if self.is_broken:
            raise StorageFailed("the log had an error and must be opened again")

    def _post(self, *, is_durable: bool = False) -> None:
        records = self.unposted
        if not records:
            return
        self._check()
        try:
            with failures(self._connection):
                if is_durable:
                    self._write(records)
                else:
                    self._write_lightly(records)
        except BaseException:
            self.is_broken = True
            raise
        self._is_synced = is_durable
        del self._unposted[: len(records)]
        self._written()

    def _write_lightly(self, records: Sequence[Record]) -> None:
        """Without a sync."""
        self._connection.execute("PRAGMA synchronous=NORMAL")
        try:
            self._write(records)
        finally:
            self._connection.execute("PRAGMA synchronous=FULL")

    def _write(self, records: Sequence[Record]) -> None:
        self._is_synced = False
        with transaction(self._connection):
            first, expected = records[0], appending.tip(self._connection, records[0].space)[0] + 1
            if first.first != expected:
                raise StorageFailed(f"the daybook goes on at version {first.first}, not {expected}")
            for table, columns, cells in zip(_TABLES, _COLUMNS, _rows(records), strict=True):
                insert(self._connection, table, columns, cells)

    def _sync(self) -> None:
        if self._is_synced:
            return
        self._check()  # a sync that is tried again after it failed says nothing
        try:
            with failures(self._connection):
                sync_log(self._connection)
        except BaseException:
            self.is_broken = True
            raise
        self._is_synced = True


def _nothing() -> None:
    """There is nothing to do."""


def following(records: Iterable[Record], tip: Version, hash_: Hash) -> list[Record]:
    """Those that follow a commit, one after the other."""
    found: list[Record] = []
    for record in records:
        if record.first == tip + 1 and record.previous == hash_:
            found.append(record)
            tip, hash_ = record.last, _last_hash(record)
    return found


def _last_hash(record: Record) -> Hash:
    """Of the last commit of a record."""
    version_at, hash_at = COMMIT_COLUMNS.index("version"), COMMIT_COLUMNS.index("hash")
    starts = range(0, len(record.cells), one_step.WIDTH)
    last = next(at for at in reversed(starts) if record.cells[at + version_at] is not None)
    return Hash(record.cells[last + hash_at])


def _rows(records: Iterable[Record]) -> tuple[list[Cell], list[Cell]]:
    """The cells of commits and those of facts, each kind in one flat list."""
    commits: list[Cell] = []
    facts: list[Cell] = []
    for record in records:
        cells = record.cells
        for at in range(0, len(cells), one_step.WIDTH):
            fact_at = at + len(COMMIT_COLUMNS)
            if cells[at] is not None:  # a fact that is not the first of its commit stands beside nothing
                commits += cells[at:fact_at]
            facts += cells[fact_at : at + one_step.WIDTH]
    return commits, facts


def has_numbers(connection: apsw.Connection, records: Sequence[Record]) -> bool:
    """Whether the file has all sessions and entities that the rows of these records refer to."""
    places = {
        "session": COMMIT_COLUMNS.index("session"),
        "entity": len(COMMIT_COLUMNS) + FACT_COLUMNS.index("entity"),
    }
    for table, place in places.items():
        numbers = {number for record in records for number in record.cells[place :: one_step.WIDTH]} - {None}
        sql = f"SELECT count(*) FROM {table} WHERE {table} IN (SELECT value FROM json_each(?))"  # noqa: S608  # ours
        if query(connection, sql, (as_json(sorted(numbers)),)) != [(len(numbers),)]:
            return False
    return True
