"""The index file: its tables, and opening it so that a deleted text leaves no byte behind.

ns        a namespace's number: `n7` is a word of the full-text index, so that a match never leaves its namespaces
namespace whether a namespace can be used, from version `since` until before `until`, and when it expires
doc       one row for each state that a memory had on main, with the text that is searched
validity  on main, from version `since` until before `until`, the entity is `row` (NULL: deleted)
link      links that a row stores; joined with `validity` they give the other end at any moment
vec       the embedding that a caller gave for a memory
position  the last commit that is in the index
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

import apsw

FORMAT: Final = 2
_TABLES: Final = """
CREATE TABLE ns(number INTEGER PRIMARY KEY, nsh TEXT NOT NULL UNIQUE) STRICT;
CREATE TABLE namespace(
    nsh TEXT NOT NULL, since INTEGER NOT NULL, until INTEGER, is_there INTEGER NOT NULL, expires INTEGER,
    PRIMARY KEY(nsh, since)
) STRICT, WITHOUT ROWID;
CREATE TABLE doc(
    row INTEGER PRIMARY KEY, entity TEXT NOT NULL, uuid TEXT NOT NULL, ns TEXT NOT NULL, kind TEXT NOT NULL,
    status TEXT NOT NULL, authority TEXT NOT NULL, target TEXT, pin INTEGER NOT NULL, created INTEGER NOT NULL,
    expires INTEGER, text TEXT NOT NULL
) STRICT;
CREATE INDEX doc_newest ON doc(ns, pin DESC, created DESC, uuid);
CREATE INDEX doc_uuid ON doc(uuid);
CREATE TABLE validity(
    entity TEXT NOT NULL, since INTEGER NOT NULL, until INTEGER, row INTEGER, PRIMARY KEY(entity, since)
) STRICT, WITHOUT ROWID;
CREATE INDEX validity_row ON validity(row) WHERE row IS NOT NULL;
CREATE TABLE link(row INTEGER NOT NULL, rel TEXT NOT NULL, other TEXT NOT NULL, PRIMARY KEY(row, rel, other))
    STRICT, WITHOUT ROWID;
CREATE INDEX link_other ON link(other, rel);
CREATE TABLE vec(entity TEXT PRIMARY KEY, ns TEXT NOT NULL, dims INTEGER NOT NULL, bytes BLOB NOT NULL) STRICT;
CREATE INDEX vec_ns ON vec(ns, dims);
CREATE TABLE position(one INTEGER PRIMARY KEY CHECK(one = 1), version INTEGER NOT NULL, time INTEGER NOT NULL,
    hash TEXT NOT NULL) STRICT;
INSERT INTO position VALUES(1, 0, 0, '');
CREATE VIRTUAL TABLE fts USING fts5(ns, text, content=doc, content_rowid=row, tokenize='porter unicode61');
INSERT INTO fts(fts, rank) VALUES('secure-delete', 1);
CREATE VIRTUAL TABLE vocab USING fts5vocab(fts, row);
"""


def open_index(path: Path) -> apsw.Connection:
    """Opens or makes it. A file of another format, or one that is damaged, is replaced: it can be built again."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    try:
        connection = _opened(path)
        if _format(connection) in (0, FORMAT):
            return _with_tables(connection)
        connection.close()
    except (apsw.CorruptError, apsw.NotADBError):
        pass
    drop_index(path)
    return _with_tables(_opened(path))


def drop_index(path: Path) -> None:
    """Removes the file and what SQLite keeps beside it."""
    for name in (path, Path(f"{path}-wal"), Path(f"{path}-shm")):
        name.unlink(missing_ok=True)


def _opened(path: Path) -> apsw.Connection:
    os.close(os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600))
    connection = apsw.Connection(str(path))
    connection.set_busy_timeout(5_000)
    # The log is the truth and the index follows it, so a lost tail costs a little work and never data.
    for pragma in ("journal_mode=WAL", "synchronous=NORMAL", "secure_delete=ON", "temp_store=MEMORY"):
        connection.execute(f"PRAGMA {pragma}").fetchall()
    return connection


def _format(connection: apsw.Connection) -> int:
    found = connection.pragma("user_version")
    assert isinstance(found, int), "SQLite stores an integer"
    return found


def _with_tables(connection: apsw.Connection) -> apsw.Connection:
    if _format(connection) == 0:
        with connection:
            connection.execute(_TABLES)
            connection.execute(f"PRAGMA user_version={FORMAT}")
    return connection
