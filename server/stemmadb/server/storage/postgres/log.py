"""The log of one space, owned by this node from the claim to the end."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

import psycopg

from stemmadb.protocol.model.values.ids import Did, EntityId, Hash, TimeMs, Version
from stemmadb.server.storage import blocking
from stemmadb.server.storage.blob_directory import MARKER, BlobDirectory
from stemmadb.server.storage.port import (
    AppendBatch,
    Done,
    HttpKey,
    LogMoved,
    Snapshot,
    StorageFailed,
    StoredBlob,
    Worker,
)
from stemmadb.server.storage.postgres import blobs, destroy, long_append
from stemmadb.server.storage.postgres.appender import NodeAppender, WaitingBatch
from stemmadb.server.storage.postgres.claim_rules import Deposed
from stemmadb.server.storage.postgres.claims import Claimed
from stemmadb.server.storage.postgres.connection import PgConnection, is_certain, translated
from stemmadb.server.storage.postgres.numbers import OwnedNumbers
from stemmadb.server.storage.postgres.pool import ConnectionPool
from stemmadb.server.storage.postgres.read_view import read_view
from stemmadb.server.storage.postgres.reader import PostgresReader

VERSION_BYTES: Final = 8
DATABASE_BLOB_BYTES_MAX: Final = 64 * 1024
"""Of a blob that an import brings without a directory for larger ones."""


class NodeConnections(NamedTuple):
    """What all logs of a node share."""

    readers: ConnectionPool
    writers: ConnectionPool
    appender: NodeAppender
    read_view_ms_max: int
    blobs_in: Path | None


class ReadOnlyLog:
    """What of `port.SpaceLog` needs no claim."""

    is_alone = True
    is_unfounded = False
    blob_data_max = DATABASE_BLOB_BYTES_MAX
    owes_scrub = False
    """Files belong to the database and not to the log: `stemmadb scrub` is for them (ERASE-1)."""

    def __init__(
        self, space: Did, number: int, readers: ConnectionPool, read_view_ms_max: int, blobs_in: Path | None
    ) -> None:
        """`blobs_in` is the directory that all nodes share, if there is one."""
        self.space: Final = space
        self.directory: Final = None if blobs_in is None else blobs_in / space
        self.large_blobs: Final = (
            None if blobs_in is None else BlobDirectory(blobs_in / space, marker=blobs_in / MARKER)
        )
        self.number: Final = number
        self._view: Final = partial(read_view, readers, number, read_view_ms_max)

    @contextmanager
    def reader(self) -> Iterator[PostgresReader]:
        with self._view() as view:
            yield PostgresReader(view, self.space, self._view)

    def close(self) -> None:
        """There is nothing to release."""


class PostgresLog(ReadOnlyLog):
    """Implements `port.SpaceLog`."""

    def __init__(
        self,
        space: Did,
        numbers: OwnedNumbers,
        claimed: Claimed,
        node: NodeConnections,
        *,
        workers: Worker | None = None,
        closed: Callable[[PostgresLog, Claimed | None], None],
        lost: Callable[[], None],
    ) -> None:
        super().__init__(space, numbers.space, node.readers, node.read_view_ms_max, node.blobs_in)
        self._numbers = numbers
        self._claimed = claimed
        self._writers = node.writers
        self._appender = node.appender
        self._workers = workers
        self._closed = closed
        self._lost = lost
        self.owner: Final = claimed.owner
        self._is_broken = False
        self.is_closed = False

    def is_unwritten(self, id_: EntityId) -> bool:
        return self._numbers.has_all_entities and id_ not in self._numbers.entities

    # -- writing

    def append(self, batch: AppendBatch, done: Done) -> None:
        """The appender's threads append; without workers the caller's thread does."""
        assert not self.is_closed, "the log is closed"
        waiting = WaitingBatch(self._numbers, self._claimed, batch, partial(self._append_ended, done))
        if self._is_broken:
            blocking.run_append(self._workers, self._check_sound, done)
        elif self._workers is None:
            self._appender.append_now(waiting)
        else:
            self._appender.append(waiting)

    def _append_ended(self, done: Done, failure: BaseException | None) -> None:
        """After any failure but a log that moved nothing is written before the log is opened again (COMMIT-10)."""
        if failure is not None and not isinstance(failure, LogMoved):
            self._is_broken = True
            if isinstance(failure, Deposed):
                self._lost()
        done(failure)

    def store_snapshots(self, snapshots: Sequence[Snapshot]) -> None:
        with self._changing() as connection:
            long_append.store_snapshots(connection, self._numbers, snapshots)

    def put_blob(self, blob: StoredBlob, data: bytes | None) -> None:
        with self._changing() as connection:
            blobs.put(connection, self.number, blob, data)

    def http_key(self, fresh: bytes) -> HttpKey:
        """It is stored behind the version it was made at."""
        with self._changing() as connection:
            ((stored, version),) = connection.rows(
                "SELECT s.http_key, t.version FROM space AS s JOIN tip AS t ON t.space = s.space "
                "WHERE s.space = %s::int",
                (self.number,),
            )
            if stored is None:
                stored = version.to_bytes(VERSION_BYTES, "big") + fresh
                connection.change("UPDATE space SET http_key = %s WHERE space = %s::int", (stored, self.number))
        return HttpKey(stored[VERSION_BYTES:], Version(int.from_bytes(stored[:VERSION_BYTES], "big")))

    def renew_blob(self, hash_: Hash, created: TimeMs) -> bool:
        with self._changing() as connection:
            return blobs.renew(connection, self.number, hash_, created)

    def drop_blobs(self, hashes: Collection[Hash]) -> None:
        with self._changing() as connection:
            destroy.drop_blobs(connection, self.number, hashes)

    def scrub(self) -> None:
        """The rows have no trace any more; files are the database's."""

    @contextmanager
    def _changing(self) -> Iterator[PgConnection]:
        """One transaction that holds the end of the space, if this node still owns it."""
        assert not self.is_closed, "the log is closed"
        self._check_sound()
        with self._writers.connection() as connection:
            try:
                with connection.transaction():
                    long_append.check_owner(connection, self._numbers, self._claimed)
                    yield connection
            except psycopg.Error as error:
                self._is_broken = True
                if not is_certain(error, connection):
                    connection.close()
                raise translated(error) from error
            except BaseException:
                self._is_broken = True
                raise

    def _check_sound(self) -> None:
        if self._is_broken:
            raise StorageFailed("the log had an error and must be opened again")

    def close(self) -> None:
        """The space may be given back, unless an append is perhaps under way: then the next claim waits for it."""
        if not self.is_closed:
            self.is_closed = True
            self._closed(self, None if self._is_broken else self._claimed)
