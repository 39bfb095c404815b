"""Applies records of the group WAL to the file of their log.

The records are durable in the group WAL, so a transaction that applies them needs no sync before the segment that
holds them is overwritten, and many batches are applied in one transaction. Every reader of the file, and every other
write to it, applies them first.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Final

import apsw

from stemmadb.protocol.model.values.ids import Hash, Version
from stemmadb.server.storage.port import StorageFailed
from stemmadb.server.storage.sqlite import append, fast_path_append
from stemmadb.server.storage.sqlite.connection import Cell, as_json, failures, query, sync_log, transaction
from stemmadb.server.storage.sqlite.insert import insert
from stemmadb.server.storage.sqlite.schema import COMMIT_COLUMNS, FACT_COLUMNS
from stemmadb.server.storage.sqlite.wal import blocks
from stemmadb.server.storage.sqlite.wal.blocks import Record

_TABLES: Final = ("commit", "fact")
_COLUMNS: Final = (",".join(COMMIT_COLUMNS), ",".join(FACT_COLUMNS))


class Applier:
    """The unapplied records of one open log. Any thread may apply them; `lock` guards the writing connection."""

    def __init__(self, connection: apsw.Connection, written: Callable[[], None]) -> None:
        """`written` is called after each transaction, while the lock is held."""
        self.lock: Final = threading.RLock()
        self._connection = connection
        self._written = written
        self._unapplied: list[bytes] = []
        self._is_synced = True
        self._is_broken = False
        """After an error nothing is applied before the log is opened again (COMMIT-10)."""
        self.must_be_opened_again = False
        """Records could not be applied, or a block with records of this log has failed."""

    def add(self, record: bytes) -> None:
        """Adds a record that is durable in the group WAL, in log order; encoded, to save memory."""
        self._unapplied.append(record)

    @property
    def unapplied(self) -> Sequence[Record]:
        records = self._unapplied[:]  # another thread may add meanwhile
        return [blocks.decode_record(record) for record in records]

    @property
    def is_checkpointed(self) -> bool:
        """True if all added records are durable in the file: the group WAL may overwrite them."""
        return not self._unapplied and self._is_synced

    def apply(self) -> None:
        """Writes all added records to the file, where any reader sees them."""
        if self._unapplied:
            with self.lock:
                self._apply()

    def checkpoint(self) -> None:
        """Makes all added records durable in the file."""
        if not self.is_checkpointed:
            with self.lock:
                self._apply(is_durable=True)
                self._sync()

    def forget(self) -> None:
        """Drops the records: the log was opened again and has applied them."""
        self._unapplied.clear()
        self._is_synced = True

    def release(self) -> None:
        """The log is closed: drops the reference to it, since a segment may hold this object for longer."""
        self._written = _nothing

    def _check(self) -> None:
        if self._is_broken:
            raise StorageFailed("the log had an error and must be opened again")

    def _apply(self, *, is_durable: bool = False) -> None:
        records = self.unapplied
        if not records:
            return
        self._check()
        try:
            with failures(self._connection):
                if is_durable:
                    self._write(records)
                else:
                    self._write_unsynced(records)
        except BaseException:
            self._is_broken = self.must_be_opened_again = True
            raise
        self._is_synced = is_durable
        del self._unapplied[: len(records)]
        self._written()

    def _write_unsynced(self, records: Sequence[Record]) -> None:
        """Writes the records without a sync."""
        self._connection.execute("PRAGMA synchronous=NORMAL")
        try:
            self._write(records)
        finally:
            self._connection.execute("PRAGMA synchronous=FULL")

    def _write(self, records: Sequence[Record]) -> None:
        self._is_synced = False
        with transaction(self._connection):
            first, expected = records[0], append.tip(self._connection, records[0].space)[0] + 1
            if first.first != expected:
                raise StorageFailed(f"the group WAL continues at version {first.first}, not {expected}")
            for table, columns, cells in zip(_TABLES, _COLUMNS, _rows(records), strict=True):
                insert(self._connection, table, columns, cells)

    def _sync(self) -> None:
        if self._is_synced:
            return
        self._check()  # a retried sync can succeed although data was lost
        try:
            with failures(self._connection):
                sync_log(self._connection)
        except BaseException:
            self._is_broken = self.must_be_opened_again = True
            raise
        self._is_synced = True


def _nothing() -> None:
    """There is nothing to do."""


def following(records: Iterable[Record], tip: Version, hash_: Hash) -> list[Record]:
    """The records that continue the log from a commit, each following the one before it."""
    found: list[Record] = []
    for record in records:
        if record.first == tip + 1 and record.previous == hash_:
            found.append(record)
            tip, hash_ = record.last, _last_hash(record)
    return found


def _last_hash(record: Record) -> Hash:
    """The hash of the last commit of a record."""
    version_at, hash_at = COMMIT_COLUMNS.index("version"), COMMIT_COLUMNS.index("hash")
    starts = range(0, len(record.cells), fast_path_append.WIDTH)
    last = next(at for at in reversed(starts) if record.cells[at + version_at] is not None)
    return Hash(record.cells[last + hash_at])


def _rows(records: Iterable[Record]) -> tuple[list[Cell], list[Cell]]:
    """The cells of the commits and the cells of the facts, each as one flat list."""
    commits: list[Cell] = []
    facts: list[Cell] = []
    for record in records:
        cells = record.cells
        for at in range(0, len(cells), fast_path_append.WIDTH):
            fact_at = at + len(COMMIT_COLUMNS)
            if cells[at] is not None:  # a fact that is not the first of its commit has no commit cells
                commits += cells[at:fact_at]
            facts += cells[fact_at : at + fast_path_append.WIDTH]
    return commits, facts


def has_numbers(connection: apsw.Connection, records: Sequence[Record]) -> bool:
    """True if the file has all sessions and entities that the rows of these records refer to."""
    columns = {
        "session": COMMIT_COLUMNS.index("session"),
        "entity": len(COMMIT_COLUMNS) + FACT_COLUMNS.index("entity"),
    }
    for table, column in columns.items():
        numbers = {number for record in records for number in record.cells[column :: fast_path_append.WIDTH]} - {None}
        sql = f"SELECT count(*) FROM {table} WHERE {table} IN (SELECT value FROM json_each(?))"  # noqa: S608  # ours
        if query(connection, sql, (as_json(sorted(numbers)),)) != [(len(numbers),)]:
            return False
    return True
