"""Spaces that are brought in: made under a name that is no DID, and renamed when all of them are whole.

One command at a time brings spaces in, under an advisory lock. The connection that holds the lock also renames, so a
command that lost it shows nothing. What one that was killed has left is removed by the next.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from psycopg.errors import UniqueViolation

from stemmadb.protocol.errors import NotEmpty, Unavailable
from stemmadb.protocol.model.log import commit_record
from stemmadb.protocol.model.values.ids import Did, Hash
from stemmadb.server.storage.blob_directory import ARRIVING, MARKER, BlobDirectory
from stemmadb.server.storage.postgres import schema
from stemmadb.server.storage.postgres.connection import PgConnection, UnknownOutcome
from stemmadb.server.storage.postgres.log import PostgresLog
from stemmadb.server.storage.postgres.packing import int4s

PREFIX: Final = "incoming/"
LOCK: Final = schema.LOCK + 1
IS_SHOWN: Final = f"NOT starts_with(did, '{PREFIX}')"

_HELD: Final = "SELECT pg_try_advisory_lock(%s)"
_LEFT: Final = "SELECT space FROM space WHERE starts_with(did, %s)"
_HIDDEN: Final = f"{_LEFT} AND space = ANY (%s)"
_ANY: Final = f"SELECT 1 FROM space WHERE {IS_SHOWN} LIMIT 1"  # noqa: S608  # our own text
_THERE: Final = "SELECT 1 FROM space WHERE did = %s"
_SHOW: Final = "UPDATE space SET did = substr(did, %s::int) WHERE space = ANY (%s)"
_NAMES: Final = "SELECT substr(did, %s::int) FROM space WHERE space = ANY (%s)"
_FILES: Final = (  # of spaces that nobody has made meanwhile
    "SELECT substr(s.did, %s::int), b.hash FROM blob AS b JOIN space AS s ON s.space = b.space "
    "WHERE b.data IS NULL AND NOT EXISTS (SELECT FROM space AS o WHERE o.did = substr(s.did, %s::int)) "
    "AND b.space = ANY (%s)"
)
_INSERT: Final = "INSERT INTO space (did) VALUES (%s) ON CONFLICT DO NOTHING RETURNING space"
_INSERT_TIP: Final = (
    "INSERT INTO tip (space, version, hash, time, floor, destroyed, owes_scrub, owner, term) "
    "VALUES (%s, 0, %s, 0, 0, 0, false, NULL, 0)"
)
_INSERT_MAIN: Final = (
    "INSERT INTO branch (space, branch, name, parent, fork, depth, deleted, merged) "
    "VALUES (%s, %s, 'main', NULL, 0, 1, NULL, 0)"
)


def make(connection: PgConnection, space: Did, *, name: str) -> int | None:
    """The number of a new space without commits; None if there is one of that name."""
    with connection.transaction():
        rows = connection.rows(_INSERT, (name,))
        if not rows:
            return None
        ((number,),) = rows
        connection.change(_INSERT_TIP, (number, commit_record.genesis(space)))
        connection.change(_INSERT_MAIN, (number, schema.MAIN_NUMBER))
    return int(number)


class IncomingRows:
    """Implements `maintenance.incoming.IncomingSpaces`."""

    def __init__(
        self, connection: PgConnection, opened: Callable[[Did, int], PostgresLog], blobs_in: Path | None
    ) -> None:
        """Takes the lock, which ends with the connection; `opened` gives the log of a space by its number."""
        self._connection = connection
        self._opened = opened
        self._blobs_in = blobs_in
        self._made: list[int] = []
        ((is_held,),) = connection.rows(_HELD, (LOCK,))
        if not is_held:
            raise Unavailable("Another command is bringing spaces into the database. Wait until it has ended.")
        self._remove([number for (number,) in connection.rows(_LEFT, (PREFIX,))])

    def check_empty(self) -> None:
        """`NotEmpty` if there are spaces already."""
        if self._connection.rows(_ANY):
            raise NotEmpty("The database has spaces already, and nothing was written.", directory="the database")

    def open(self, space: Did) -> PostgresLog:
        """The log of a new space, empty; `NotEmpty` if there is one already."""
        if self._connection.rows(_THERE, (space,)):
            raise _not_empty(space)
        number = make(self._connection, space, name=f"{PREFIX}{space}")
        assert number is not None, "we hold the lock, and each space is opened once"
        self._made.append(number)
        return self._opened(space, number)

    def publish(self) -> None:
        """Shows all of them, or none and raises."""
        try:
            with self._connection.transaction():
                self._connection.change(_SHOW, (len(PREFIX) + 1, int4s(self._made)))
        except UniqueViolation:
            raise NotEmpty(
                "A space that was brought in has been made by others meanwhile, and nothing is shown.",
                directory="the database",
            ) from None
        except UnknownOutcome as unknown:
            raise Unavailable(
                f"It is not known whether the spaces became visible ({unknown}). "
                "Look whether 'stemmadb space list --storage' has them before you try again."
            ) from None
        self._made.clear()

    def remove(self) -> None:
        """What was not shown is gone; its logs must be closed.

        Of what `publish` may have shown before it raised, only the database knows: others may write to it already.
        """
        self._remove([number for (number,) in self._connection.rows(_HIDDEN, (PREFIX, int4s(self._made)))])

    def _remove(self, numbers: Sequence[int]) -> None:
        """The end of a space goes first: an append that is under way is waited for, and none comes after it."""
        if not numbers:
            return
        chosen = int4s(numbers)
        if self._blobs_in is not None:
            for (did,) in self._connection.rows(_NAMES, (len(PREFIX) + 1, chosen)):
                for path in (self._blobs_in / did).glob(f"{ARRIVING}*"):
                    path.unlink(missing_ok=True)
            for did, hash_ in self._connection.rows(_FILES, (len(PREFIX) + 1, len(PREFIX) + 1, chosen)):
                BlobDirectory(self._blobs_in / did, marker=self._blobs_in / MARKER).remove([Hash(hash_)])
        with self._connection.transaction():
            for table in schema.TABLES_OF_SPACES:
                sql = f"DELETE FROM {table} WHERE space = ANY (%s)"  # noqa: S608  # our own tables
                self._connection.change(sql, (chosen,))


def _not_empty(space: Did) -> NotEmpty:
    return NotEmpty(f"The database has the space {space} already, and nothing was written.", directory="the database")
