"""The open file of a journal: steps become durable with one sync, whole or not at all.

The write-ahead log is moved into the database by us alone, and cut to nothing each time. So after each transaction
the end of its file is the end of what is durable, and what a failed sync has left behind it can be cut off.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

import msgspec

from stemmadb.client.journal import schema
from stemmadb.client.journal.cache_rows import DamagedCache
from stemmadb.client.journal.port import JournalState, JournalStep
from stemmadb.client.journal.problems import reason, refused, unusable
from stemmadb.client.journal.rows import DamagedJournal, JournalHead, Rows, packed
from stemmadb.protocol.model.values.ids import Did

WAL_BYTES_MAX: Final = 4 * 1024 * 1024
"""Past this the write-ahead log is moved into the database."""
REWRITTEN_BYTES: Final = 1024 * 1024
BUSY_SECONDS: Final = 1.0
"""How long to wait for a program that looks into the file; a journal itself has one user (`holding`)."""


class JournalDatabase:
    """One connection to the file, used by one thread at a time. Everything that goes wrong is `JournalFailed`."""

    def __init__(
        self, file: Path, *, space: Did, principal: Did, factory: type[sqlite3.Connection], cache: bool = False
    ) -> None:
        self.file: Final = file
        self._factory = factory
        self._has_cache = cache
        self.is_cache_full = False
        """The disk had no room for the cache: no more of it is written in this run (CACHE-5)."""
        self.syncs = 0
        """How many transactions were made durable."""
        self._wal, _ = schema.beside(file)
        self._wal_bytes = 0
        self._is_scrub_due = False
        """Whether the write-ahead log may have values that must not stay on the disk (CACHE-4)."""
        if not file.exists():
            schema.make(file, *packed(JournalHead(space, principal)))
        schema.check(file)
        _write_again(self._wal)
        self._connection = self._connected()
        try:
            self._rows = self._opened()
            self._check_owner(space, principal)
        except BaseException:
            self.close()
            raise

    def _connected(self) -> sqlite3.Connection:
        return sqlite3.connect(
            self.file, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False, factory=self._factory
        )

    # ------------------------------------------------------------ reading

    def load(self) -> JournalState:
        """What is there. A cache that is damaged is left out, and the file is written anew without it (CACHE-2)."""
        with self._reading():
            try:
                self._rows.check()
                state = self._rows.state()
                return self._with_cache(state) if self._has_cache else state
            except DamagedCache:
                return self._written_anew()

    def _with_cache(self, state: JournalState) -> JournalState:
        self._rows.begin_cache()
        assert self._rows.cache is not None
        return msgspec.structs.replace(state, cache=self._rows.cache.state())

    def _written_anew(self) -> JournalState:
        """The journal alone, in a file that takes the place of this one: nothing of the damaged part is used."""
        state, head = self._rows.state(), self._rows.head
        self.close()
        schema.make(self.file, *packed(head), fill=lambda connection: Rows(connection).write(state))
        self._connection = self._connected()
        self._rows = self._opened()
        return self._with_cache(state) if self._has_cache else state

    # ------------------------------------------------------------ writing

    def append(self, steps: Sequence[JournalStep]) -> None:
        """Makes the steps durable. If that fails none of them is, and none will be found by whoever opens it next.

        A disk that takes the steps only without their cache has no room for it: the journal goes on (CACHE-5).
        """
        try:
            self._write(steps)
        except Exception as error:
            self._take_back()
            if self._rows.cache is None or not any(step.cache for step in steps):
                raise refused(self.file, reason(error)) from error
            self._append_without_cache(steps)
        self.syncs += 1

    def _write(self, steps: Sequence[JournalStep]) -> None:
        head = self._rows.head
        try:
            self._connection.execute("BEGIN IMMEDIATE")
            for step in steps:
                self._rows.take(step)
            self._connection.execute("COMMIT")
        except BaseException:
            self._rows.head = head
            raise
        self._wal_bytes = self._wal.stat().st_size
        if self._rows.cache is not None and any(step.cache is not None and step.cache.scrub for step in steps):
            self._is_scrub_due = True
            with suppress(sqlite3.Error):  # then `tidy` tries again
                self._empty_log()

    def _append_without_cache(self, steps: Sequence[JournalStep]) -> None:
        self._rows.cache, self.is_cache_full = None, True
        try:
            self._write(steps)
        except Exception as error:
            self._take_back()
            raise refused(self.file, reason(error)) from error

    def tidy(self) -> None:
        """Keeps the write-ahead log short. What is in it stays there if this fails."""
        if self._wal_bytes <= WAL_BYTES_MAX and not self._is_scrub_due:
            return
        try:
            self._empty_log()
        except sqlite3.Error as error:
            raise refused(self.file, reason(error)) from error

    def close(self) -> None:
        """Lets the file go. What could not be moved out of the write-ahead log stays there, and nothing is lost."""
        with suppress(sqlite3.Error):
            self._connection.close()

    def _opened(self) -> Rows:
        with self._reading():
            for pragma in ("locking_mode = EXCLUSIVE", "synchronous = FULL", "wal_autocheckpoint = 0"):
                self._connection.execute(f"PRAGMA {pragma}")
            for pragma in ("fullfsync", "checkpoint_fullfsync"):  # on macOS a plain sync does not reach the disk
                self._connection.execute(f"PRAGMA {pragma} = 1")
            rows = Rows(self._connection)
            self._empty_log()
        return rows

    def _empty_log(self) -> None:
        ((is_busy, _, _),) = self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        if is_busy:
            raise sqlite3.OperationalError("another program is using the file")
        self._wal_bytes, self._is_scrub_due = 0, False

    def _check_owner(self, space: Did, principal: Did) -> None:
        head = self._rows.head
        if (head.space, head.principal) != (space, principal):
            raise unusable(self.file, f"it belongs to {head.principal} in the space {head.space}")

    def _take_back(self) -> None:
        """After a failed sync SQLite forgets the transaction, but the next to open the file might find its bytes."""
        with suppress(sqlite3.Error):
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
        with suppress(OSError), self._wal.open("r+b") as log:
            log.truncate(self._wal_bytes)
            os.fsync(log.fileno())

    @contextmanager
    def _reading(self) -> Iterator[None]:
        """What cannot be read is damaged, unless SQLite says that it is something else."""
        try:
            yield
        except (sqlite3.OperationalError, OSError) as error:
            raise refused(self.file, reason(error)) from error
        except (sqlite3.DatabaseError, DamagedJournal, msgspec.MsgspecError, TypeError, ValueError) as error:
            raise unusable(self.file, f"it is damaged ({reason(error)})") from error


def _write_again(log: Path) -> None:
    """Writes a write-ahead log that was left once more, byte for byte, and syncs it.

    After a sync that failed its end may be in memory only, and a later sync would not say so.
    """
    with suppress(FileNotFoundError), log.open("r+b") as stream:
        at = 0
        while part := stream.read(REWRITTEN_BYTES):
            stream.seek(at)
            at += stream.write(part)
        stream.flush()
        os.fsync(stream.fileno())
