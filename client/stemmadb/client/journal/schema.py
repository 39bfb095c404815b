"""The file of a journal: its tables, how a new one is made, and whether one that is there is ours."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Final

from stemmadb.client.journal.problems import unusable
from stemmadb.protocol.errors import NewerStorage

SCHEMA: Final = 1
APPLICATION_ID: Final = 0x53744A31
"""In the header of every journal, so that another program's database is never taken for one."""
MAGIC: Final = b"SQLite format 3\x00"
HEADER_BYTES: Final = 100
TABLES: Final = ("head", "pending", "confirmed", "rejected", "bases", "built_on")
"""Those of the journal itself; a cache beside it has tables of its own (`cache_rows`)."""

_RECORD: Final = "record BLOB NOT NULL, sum BLOB NOT NULL"
_COMMITS: Final = f"(number INTEGER PRIMARY KEY, session BLOB, local INTEGER, {_RECORD}, UNIQUE (session, local))"
_TABLES: Final = f"""
PRAGMA synchronous = FULL;
PRAGMA fullfsync = 1;
BEGIN;
PRAGMA application_id = {APPLICATION_ID};
PRAGMA user_version = {SCHEMA};
CREATE TABLE head (one INTEGER PRIMARY KEY CHECK (one = 1), {_RECORD});
CREATE TABLE pending {_COMMITS};
CREATE TABLE confirmed {_COMMITS};
CREATE TABLE rejected {_COMMITS};
CREATE TABLE bases (number INTEGER PRIMARY KEY, name BLOB NOT NULL UNIQUE, {_RECORD});
CREATE TABLE built_on (pending INTEGER, base INTEGER, PRIMARY KEY (pending, base)) WITHOUT ROWID;
CREATE INDEX built_on_base ON built_on (base);
COMMIT;
"""


def make(file: Path, record: bytes, sum_: bytes, fill: Callable[[sqlite3.Connection], None] | None = None) -> None:
    """A new journal with this head, which appears under its name when it is whole, or not at all.

    `fill` writes the rest, for one that takes the place of another: nobody may have that one open.
    """
    new = file.with_name(f"{file.name}.new")
    for left in (new, *beside(new)):
        left.unlink(missing_ok=True)  # by a crash; nobody has used it
    os.close(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    with closing(sqlite3.connect(new, isolation_level=None)) as connection:
        connection.executescript(_TABLES)
        connection.execute("BEGIN")
        connection.execute("INSERT INTO head VALUES (1, ?, ?)", (record, sum_))
        if fill is not None:
            fill(connection)
        connection.execute("COMMIT")
        connection.execute("PRAGMA journal_mode = WAL")
    for stale in beside(file):
        stale.unlink(missing_ok=True)  # a log of the one before would be read into this one
    os.replace(new, file)
    sync_directory(file.parent)


def check(file: Path) -> None:
    """Returns if the file is a journal that we can read. Looks at its first bytes only, and changes nothing."""
    with file.open("rb") as stream:
        header = stream.read(HEADER_BYTES)
    if len(header) < HEADER_BYTES or not header.startswith(MAGIC):
        raise unusable(file, "it is no journal, or it is damaged")
    if int.from_bytes(header[68:72], "big") != APPLICATION_ID:
        raise unusable(file, "it is the database of another program")
    found = int.from_bytes(header[60:64], "big")
    if found > SCHEMA:
        raise NewerStorage(file=str(file), found=found, known=SCHEMA)


def beside(file: Path) -> tuple[Path, Path]:
    """The files that SQLite puts beside it: the write-ahead log, and the journal of its own."""
    return file.with_name(f"{file.name}-wal"), file.with_name(f"{file.name}-journal")


def sync_directory(directory: Path) -> None:
    """Makes names in it durable; Windows does that by itself."""
    if os.name == "nt":
        return
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
