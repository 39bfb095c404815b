"""The log of one space in its file: one connection that writes, a pool of those that read."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from itertools import takewhile
from pathlib import Path
from typing import Final, Protocol

import apsw

from stemmadb.protocol.errors import UnknownSpace
from stemmadb.protocol.model.values.ids import Did, EntityId, Hash, TimeMs, Version
from stemmadb.server.storage import blocking
from stemmadb.server.storage.blob_directory import BlobDirectory
from stemmadb.server.storage.port import (
    AppendBatch,
    Done,
    HttpKey,
    LogMoved,
    Snapshot,
    StorageFailed,
    StoredBlob,
    Worker,
    no_snapshots,
)
from stemmadb.server.storage.sqlite import append as appending
from stemmadb.server.storage.sqlite import blobs, destroy, fast_path_append, http_key, schema
from stemmadb.server.storage.sqlite.append import Appender
from stemmadb.server.storage.sqlite.connection import (
    BUSY_MS,
    Cell,
    DamagedFile,
    begin_writing,
    close,
    failures,
    open_writer,
    transaction,
)
from stemmadb.server.storage.sqlite.read.pool import Pool
from stemmadb.server.storage.sqlite.read.read_view import ReadView
from stemmadb.server.storage.sqlite.read.reader import SqliteReader
from stemmadb.server.storage.sqlite.read.stored_structure import KnownStructure
from stemmadb.server.storage.sqlite.truncate_wal import LONG_BYTES, TRUNCATE_WAIT_MS, WalTruncation
from stemmadb.server.storage.sqlite.wal import apply, blocks
from stemmadb.server.storage.sqlite.wal.apply import Applier
from stemmadb.server.storage.sqlite.wal.blocks import Record
from stemmadb.server.storage.sqlite.wal.group_wal import GroupWal

SCRUB_WAIT_MS: Final = 10_000
"""How long a scrub waits for readers that hold an older read view."""
DAMAGES_MAX: Final = 100

_TOUCHED_WRONGLY = (
    'WITH right (branch, version) AS MATERIALIZED (SELECT DISTINCT f.branch, c.version FROM "commit" AS c '
    "CROSS JOIN fact AS f ON f.place BETWEEN c.version << 20 AND c.version << 20 | 1048575 WHERE c.branch IS NULL) "
    "SELECT version FROM (SELECT * FROM (SELECT branch, version FROM touched EXCEPT SELECT * FROM right) "
    "UNION ALL SELECT * FROM (SELECT * FROM right EXCEPT SELECT branch, version FROM touched)) ORDER BY 1 LIMIT ?"
)


class LogOwner(Protocol):
    """What a log asks of the storage that it belongs to."""

    def room(self) -> int:
        """How many entities may be known without asking; the bound holds from the next write on."""
        ...

    def group_wal(self) -> GroupWal | None: ...

    def clear_group_wal(self) -> None:
        """Checkpoints and clears the group WAL, so that it has no trace of anything."""
        ...

    def retain_unapplied(self, space: Did, applier: Applier) -> None:
        """Keeps records that could not be applied when the log was closed: the next opening has to `recover` them."""
        ...


class SqliteLog:
    """Implements `port.SpaceLog`; a read-only one has no writing side, and using it is an internal error."""

    is_alone = True
    is_unfounded = False
    blob_data_max = None

    def __init__(
        self,
        file: Path,
        space: Did,
        *,
        vfs: str | None,
        read_only: bool,
        create: bool,
        scrub_wait_ms: int,
        owner: LogOwner,
        workers: Worker | None = None,
    ) -> None:
        self.space: Final = space
        self.directory: Final = file.parent
        self.large_blobs: Final = BlobDirectory(file.parent)
        self._scrub_wait_ms = scrub_wait_ms
        self._owner = owner
        self._is_broken = False
        self._is_closed = False
        self._workers = workers
        self._pool = Pool(file, vfs)
        self._structure: KnownStructure | None = None
        """Of the tip that was read last; replaced whole, so that readers in several threads can share it."""
        self._writer: apsw.Connection | None = None
        self._applier: Applier | None = None
        try:
            if read_only:
                self.owes_scrub = self._check_readable(file)
            else:
                self._writer = writer = _open(file, vfs, space, create=create)
                self.owes_scrub = destroy.owes_scrub(writer)
                with failures(writer):
                    self._appender = Appender(writer, owner.room)
                self._wal_truncation = WalTruncation(writer, long_bytes=LONG_BYTES, wait_ms=TRUNCATE_WAIT_MS)
                self._applier = Applier(writer, self._truncate_wal)
                with failures(writer):
                    self._tip = appending.tip(writer, space)[0]
        except BaseException:
            self.close()
            raise

    def recover(self, left: Sequence[Record]) -> None:
        """Makes the records of a group WAL that follow the log durable in its file.

        The others are in the file already, or belong to another log. Rows refer to entities and sessions by the
        numbers of the file they were made for; a file that an operator put in its place may lack them.
        """
        with self._writing() as writer:
            tip, hash_ = appending.tip(writer, self.space)
            records = apply.following(left, tip, hash_)
            if not apply.has_numbers(writer, records):
                records = list(takewhile(lambda record: apply.has_numbers(writer, [record]), records))
            for record in records:
                self._writing_applier.add(blocks.encode_record(record))
            self._writing_applier.checkpoint()
            self._tip = records[-1].last if records else tip

    @property
    def _writing_applier(self) -> Applier:
        assert self._applier is not None, "the log was opened to be read only"
        return self._applier

    # -- writing

    def append(self, batch: AppendBatch, done: Done) -> None:
        """Rows that can be made from memory alone are made here, and go to the group WAL if it takes them.

        All else is one transaction in a worker.
        """
        rows = self._rows_from_memory(batch)
        if rows is None or not self._append_to_wal(batch, rows, done):
            blocking.run_append(self._workers, partial(self.write_batch, batch, rows), done)

    def _rows_from_memory(self, batch: AppendBatch) -> list[Cell] | None:
        if self._is_broken or not batch.writes or batch.snapshots is not no_snapshots:
            return None
        try:
            return self._appender.rows_from_memory(batch.writes)
        except Exception:  # the transaction meets it again, and its caller is told
            self._appender.forget()
            return None

    def _append_to_wal(self, batch: AppendBatch, rows: list[Cell], done: Done) -> bool:
        """False if the group WAL does not take the batch, or if the batch does not follow the log."""
        wal, applier = self._owner.group_wal(), self._applier
        first, last = batch.writes[0].commit, batch.writes[-1].commit
        if wal is None or applier is None or applier.must_be_opened_again:
            return False
        if batch.expected != self._tip or first.version != batch.expected + 1:
            return False
        record = Record(self.space, first.previous, first.version, last.version, rows)
        if not wal.append(applier, record, done):
            return False
        self._tip = last.version
        return True

    def write_batch(self, batch: AppendBatch, rows: list[Cell] | None = None) -> None:
        """One transaction; returns once it is durable (COMMIT-1). `rows` are those of the batch, if they are made."""
        expected, writes, snapshots = batch.expected, batch.writes, batch.snapshots()
        with self._writing() as connection:
            if rows is not None and writes[0].commit.version == expected + 1:
                self._write_rows(connection, expected, rows)
            elif not writes and not snapshots:
                self._check_tip(connection, expected)
                return
            else:
                with transaction(connection):
                    self._check_tip(connection, expected)
                    versions = [entry.commit.version for entry in writes]
                    assert versions == list(range(expected + 1, expected + 1 + len(writes))), (
                        "a batch follows the log"
                    )
                    self._appender.write(writes)
                    appending.store_snapshots(connection, snapshots)
            self._tip = Version(expected + len(writes))
            self._truncate_wal()
            self.owes_scrub = self.owes_scrub or any(entry.destroyed is not None for entry in writes)

    def _write_rows(self, connection: apsw.Connection, expected: Version, rows: list[Cell]) -> None:
        """By one statement, which is a transaction of its own."""
        if not fast_path_append.append(connection, rows):
            self._check_tip(connection, expected)
            raise StorageFailed("rows were refused that follow the log")

    def store_snapshots(self, snapshots: Sequence[Snapshot]) -> None:
        with self._changing() as connection:
            appending.store_snapshots(connection, snapshots)

    def put_blob(self, blob: StoredBlob, data: bytes | None) -> None:
        with self._changing() as connection:
            blobs.put(connection, blob, data)

    def http_key(self, fresh: bytes) -> HttpKey:
        with self._changing() as connection:
            return http_key.keep(connection, fresh)

    def renew_blob(self, hash_: Hash, created: TimeMs) -> bool:
        with self._changing() as connection:
            return blobs.renew(connection, hash_, created)

    def drop_blobs(self, hashes: Collection[Hash]) -> None:
        with self._changing() as connection:
            destroy.drop_blobs(connection, hashes)

    def scrub(self) -> None:
        """Leaves no trace of destroyed bytes in any file of the log (ERASE-1)."""
        self._owner.clear_group_wal()
        with self._writing() as connection:
            destroy.scrub(connection, self._scrub_wait_ms, BUSY_MS)
            self.owes_scrub = False

    def is_unwritten(self, id_: EntityId) -> bool:  # noqa: ARG002  the port's
        """A read costs little here."""
        return False

    @contextmanager
    def _writing(self) -> Iterator[apsw.Connection]:
        """The writing connection. After an error nothing is written before the log is opened again (COMMIT-10)."""
        assert self._writer is not None, "the log was opened to be read only"
        assert not self._is_closed, "the log is closed"
        applier = self._writing_applier
        with applier.lock:
            if self._is_broken or applier.must_be_opened_again:
                raise StorageFailed("the log had an error and must be opened again")
            applier.apply()
            try:
                with failures(self._writer):
                    yield self._writer
            except LogMoved:
                raise
            except BaseException:
                self._is_broken = True
                raise

    @contextmanager
    def _changing(self) -> Iterator[apsw.Connection]:
        with self._writing() as connection:
            with transaction(connection):
                yield connection
            self._truncate_wal()

    def _truncate_wal(self) -> None:
        """What was written is durable, so that nothing here fails it; an error fails the next write instead."""
        try:
            self._wal_truncation.truncate()
        except (StorageFailed, OSError):
            self._is_broken = True

    def _check_tip(self, connection: apsw.Connection, expected: Version) -> None:
        tip, _ = appending.tip(connection, self.space)
        if tip != expected:
            self._appender.forget()
            raise LogMoved(f"the log is at version {tip} and not at {expected}")

    # -- reading

    def tip(self) -> Version:
        """The last version in the file."""
        with self.reader() as reader:
            return reader.tip().version

    @contextmanager
    def reader(self) -> Iterator[SqliteReader]:
        with self._view() as view:
            known = self._structure
            if known is None or known.tip != view.tip:
                known = self._structure = KnownStructure(view.tip)
            yield SqliteReader(view, self.space, known)

    @contextmanager
    def _view(self) -> Iterator[ReadView]:
        if self._applier is not None:
            self._applier.apply()
        connection = self._pool.take()
        is_sound = True
        try:
            view = ReadView(connection, self.space)
            try:
                yield view
            finally:
                view.end()
        except StorageFailed:
            is_sound = False
            raise
        finally:
            self._pool.give_back(connection, is_sound=is_sound)

    def _check_readable(self, file: Path) -> bool:
        """Whether a scrub is owed; typed errors if the file is none that can be read as it is."""
        connection = self._pool.take()
        try:
            found = schema.version_of(connection, file)
            if found == 0:
                raise UnknownSpace(space=self.space)
            if found < schema.SCHEMA_VERSION:
                raise StorageFailed(
                    f"{file} has schema {found}: open it once to be written, which brings it up to date"
                )
            schema.check_space(connection, self.space)
            return destroy.owes_scrub(connection)
        finally:
            self._pool.give_back(connection)

    def integrity(self) -> list[str]:
        """What SQLite finds wrong with the file, and rows that do not follow from the log; empty if all is well."""
        try:
            with self._view() as view:
                found = [line for (line,) in view.rows(f"PRAGMA integrity_check({DAMAGES_MAX})") if line != "ok"]
                wrong = view.rows(_TOUCHED_WRONGLY, (DAMAGES_MAX,)) if not found else []
        except DamagedFile as damage:
            return [str(damage)]
        return found + [f"version {version}: the branches it touched are recorded wrongly" for (version,) in wrong]

    # -- the end

    @property
    def is_closed(self) -> bool:
        return self._is_closed

    def close(self) -> None:
        """Closes all connections; the last one moves the write-ahead log into the database."""
        if self._is_closed:
            return
        self._is_closed = True
        self._pool.close()
        if self._writer is None:
            return
        if self._applier is None:
            close(self._writer)
            return
        with self._applier.lock:  # the checkpointer may be using it
            with suppress(StorageFailed):  # the group WAL still has the records
                self._applier.checkpoint()
            if not self._applier.is_checkpointed:
                self._owner.retain_unapplied(self.space, self._applier)
            self._applier.release()
            close(self._writer)


def _open(file: Path, vfs: str | None, space: Did, *, create: bool) -> apsw.Connection:
    """The writing connection of a file that is ours, brought up to date; nothing is changed in one that is not."""
    connection = open_writer(file, vfs)
    try:
        found = schema.version_of(connection, file)
        if found > 0:
            schema.check_space(connection, space)
        elif not create:
            raise UnknownSpace(space=space)
        begin_writing(connection)
        schema.migrate(connection, found, space)
        destroy.prepare(connection)
    except BaseException:
        close(connection)
        raise
    return connection
