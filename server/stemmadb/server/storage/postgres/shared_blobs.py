"""The directory of large blobs that all nodes of a database share: known by an id that is in it and in `meta.blobs`.

Without it a node would serve spaces whose blobs it cannot read, and one with another directory, such as a mount point
on which nothing is mounted, would lose what is put there.
"""

from __future__ import annotations

import os
import secrets
from pathlib import Path
from typing import Final

from stemmadb.protocol.errors import Unavailable
from stemmadb.server.storage.blob_directory import MARKER, sync_directory
from stemmadb.server.storage.postgres import schema
from stemmadb.server.storage.postgres.connection import PgConnection

ID_BYTES_MAX: Final = 200

_KNOWN: Final = "SELECT key, value FROM meta WHERE key IN ('database', 'blobs')"
_REMEMBER: Final = "INSERT INTO meta (key, value) VALUES ('blobs', %s)"


def check(connection: PgConnection, directory: Path | None, *, is_first: bool) -> None:
    """`Unavailable` unless both have the same id; with `is_first` they get one where the database has none."""
    with connection.transaction():
        connection.rows("SELECT pg_advisory_xact_lock(%s)", (schema.LOCK,))
        known: dict[str, str] = dict(connection.rows(_KNOWN))
        stored = known.get("blobs")
        if directory is None:
            if stored is not None:
                raise Unavailable("The database keeps large blobs in a directory. Name it with --blobs.")
            return
        found = _read(directory)
        if stored is None and is_first:
            connection.change(_REMEMBER, (_made(directory, found, known["database"]),))
        elif found is None or found != stored:
            raise Unavailable(
                f"{str(directory)!r} is not the directory of large blobs that the nodes of this database share. "
                "Is it mounted?"
            )


def _read(directory: Path) -> str | None:
    """The id in a directory; None if it has none."""
    if not directory.is_dir():
        raise Unavailable(f"There is no directory {str(directory)!r} for --blobs. Make it, or mount it.")
    try:
        with (directory / MARKER).open() as file:
            return file.read(ID_BYTES_MAX).strip()
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as failed:
        why = getattr(failed, "strerror", None) or "it is no text"
        raise Unavailable(f"{str(directory / MARKER)!r} cannot be read: {why}.") from None


def _made(directory: Path, found: str | None, database: str) -> str:
    """The id that the directory has from now on, durably. One that a start before this one left there is ours."""
    if found is not None:
        if found.partition(" ")[0] != database:
            raise Unavailable(f"{str(directory)!r} has the large blobs of another database.")
        return found
    made = f"{database} {secrets.token_hex(16)}"
    try:
        with (directory / MARKER).open("x") as file:
            file.write(made + "\n")
            file.flush()
            os.fsync(file.fileno())
        sync_directory(directory)
    except OSError as failed:
        raise Unavailable(f"{str(directory)!r} cannot be written: {failed.strerror}.") from None
    return made
