"""The tables of a space's file, and how an older file becomes a newer one.

Names are documented in docs/spec/02-storage.md for people who open the file with the sqlite3 shell. Ids are interned.
What follows from other columns is not stored: the hash of the commit before, the fact hashes of a commit, the hash of
a fact's parent, and the digest of a body that is there.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import apsw

from stemmadb.protocol.errors import BrokenChain, NewerStorage
from stemmadb.protocol.model.log.commit_record import Revoke
from stemmadb.protocol.model.values.body import encode
from stemmadb.protocol.model.values.ids import HASH_BYTES, Did, Hash, Version
from stemmadb.server.storage.sqlite.connection import failures, query, transaction

APPLICATION_ID: Final = 0x53746D61  # "Stma"
MAIN_NUMBER: Final = 1
COMMIT_COLUMNS: Final = (
    *("version", "session", "local", "branch", "time", "hash", "request"),
    *("arguments", "note", "note_salt", "note_digest"),
)
FACT_COLUMNS: Final = ("place", "entity", "branch", "kind", "parent", "hash", "salt", "body", "digest")

_REVOKE: Final = encode(Revoke(delegation=Hash(bytes(HASH_BYTES))))[:-HASH_BYTES]
_REVOKES: Final = len(_REVOKE)
_KIND_NAME = "CASE f.kind WHEN 1 THEN 'set' WHEN 2 THEN 'patch' WHEN 3 THEN 'delete' WHEN 4 THEN 'checkpoint' END"

_FIRST = f"""
CREATE TABLE meta (key TEXT PRIMARY KEY, value ANY) STRICT;
CREATE TABLE entity (entity INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE) STRICT;
CREATE TABLE principal (principal INTEGER PRIMARY KEY, did TEXT NOT NULL UNIQUE) STRICT;
CREATE TABLE session (  -- the id is X'' for writes that carry an operation id
  session INTEGER PRIMARY KEY, principal INTEGER NOT NULL, id BLOB NOT NULL, UNIQUE (principal, id)
) STRICT;
CREATE TABLE branch (
  branch INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, parent INTEGER, fork INTEGER NOT NULL,
  depth INTEGER NOT NULL, deleted INTEGER, merged INTEGER NOT NULL
) STRICT;
CREATE TABLE tag (name TEXT PRIMARY KEY, branch INTEGER NOT NULL, version INTEGER NOT NULL) STRICT;
CREATE TABLE "commit" (
  version INTEGER PRIMARY KEY, session INTEGER NOT NULL,
  local ANY NOT NULL,  -- an integer local or a 16-byte operation id
  branch INTEGER, time INTEGER NOT NULL, hash BLOB NOT NULL, request BLOB NOT NULL,
  arguments BLOB,  -- NULL for a fast-path commit
  note BLOB, note_salt BLOB,
  note_digest BLOB  -- only once the note is gone
) STRICT;
CREATE UNIQUE INDEX commit_identity ON "commit" (session, local);
CREATE INDEX commit_branch ON "commit" (branch);
CREATE INDEX commit_structural ON "commit" (version) WHERE arguments IS NOT NULL;
CREATE TABLE touched (  -- the branches on which writes without a branch (erase, compact) have facts
  branch INTEGER NOT NULL, version INTEGER NOT NULL, PRIMARY KEY (branch, version)
) STRICT, WITHOUT ROWID;
CREATE TABLE fact (
  place INTEGER PRIMARY KEY,  -- version << 20 | index
  entity INTEGER NOT NULL, branch INTEGER NOT NULL, kind INTEGER NOT NULL,
  parent INTEGER NOT NULL,  -- the place of the parent, 0 for the Empty reference
  hash BLOB NOT NULL, salt BLOB, body BLOB,
  digest BLOB  -- only once the body is gone
) STRICT;
CREATE INDEX fact_entity ON fact (entity, branch);
CREATE TABLE snapshot (
  place INTEGER PRIMARY KEY, entity INTEGER NOT NULL, branch INTEGER NOT NULL, body BLOB NOT NULL
) STRICT;
CREATE INDEX snapshot_entity ON snapshot (entity, branch);
CREATE TABLE blob (
  hash BLOB PRIMARY KEY, size INTEGER NOT NULL, content_type TEXT NOT NULL, created INTEGER NOT NULL,
  data BLOB,  -- NULL if it is in a file
  seal BLOB NOT NULL
) STRICT;

-- A view and not a table: the index answers it, and a table of heads costs a third of the write rate.
CREATE VIEW head AS
  SELECT b.name AS branch, e.id AS id, f.place >> 20 AS version, f.place & 1048575 AS "index", {_KIND_NAME} AS kind
  FROM (SELECT branch, entity, max(place) AS place FROM fact GROUP BY entity, branch) AS newest
  JOIN fact AS f ON f.place = newest.place
  JOIN branch AS b ON b.branch = newest.branch JOIN entity AS e ON e.entity = newest.entity;
CREATE VIEW history AS
  SELECT c.version AS version, strftime('%Y-%m-%d %H:%M:%f', c.time / 1000.0, 'unixepoch') AS time,
    p.did AS author, b.name AS branch, e.id AS id, {_KIND_NAME} AS kind, length(f.body) AS bytes
  FROM "commit" AS c
  JOIN session AS s ON s.session = c.session JOIN principal AS p ON p.principal = s.principal
  LEFT JOIN fact AS f ON f.place BETWEEN c.version << 20 AND c.version << 20 | 1048575
  LEFT JOIN branch AS b ON b.branch = coalesce(f.branch, c.branch) LEFT JOIN entity AS e ON e.entity = f.entity;

INSERT INTO branch (branch, name, parent, fork, depth, deleted, merged)
  VALUES ({MAIN_NUMBER}, 'main', NULL, 0, 1, NULL, 0);
INSERT INTO meta (key, value) VALUES ('floor', 0), ('owes_scrub', 0);
"""  # noqa: S608  # our own text

IS_REVOCATION: Final = f"arguments IS NOT NULL AND substr(arguments, 1, {_REVOKES}) = X'{_REVOKE.hex()}'"
"""How a revocation is known by its arguments; those of others end with no name of a delegation."""
REVOKED: Final = f"substr(arguments, {_REVOKES + 1})"

# An index and not a table: it costs nothing to append what is no revocation, and cannot differ from the log.
_REVOCATIONS = f'CREATE INDEX commit_revoked ON "commit" ({REVOKED}) WHERE {IS_REVOCATION}'

MIGRATIONS: Final[tuple[str, ...]] = (_FIRST, _REVOCATIONS)
"""Each makes of a file with the schema version of its position one with the next."""
SCHEMA_VERSION: Final = len(MIGRATIONS)


def version_of(connection: apsw.Connection, file: Path) -> int:
    """The schema version of the file, 0 if there is nothing in it; typed errors if it is not ours to open."""
    with failures(connection):
        application, found = connection.pragma("application_id"), connection.pragma("user_version")
        is_empty = query(connection, "SELECT count(*) FROM sqlite_schema") == [(0,)]
    if is_empty and found == 0:
        return 0
    if application != APPLICATION_ID:
        raise BrokenChain(version=Version(0), place="file", why="it was not made by StemmaDB")
    if found > SCHEMA_VERSION:
        raise NewerStorage(file=str(file), found=found, known=SCHEMA_VERSION)
    return int(found)


def migrate(connection: apsw.Connection, found: int, space: Did, migrations: tuple[str, ...] = MIGRATIONS) -> None:
    """Brings the file from the version found to the newest, in one transaction."""
    if found == len(migrations):
        return
    with failures(connection), transaction(connection):
        for step in migrations[found:]:
            connection.execute(step)
        if found == 0:
            connection.pragma("application_id", APPLICATION_ID)
            connection.execute("INSERT INTO meta (key, value) VALUES ('space', ?)", (space,))
        connection.pragma("user_version", len(migrations))


def check_space(connection: apsw.Connection, space: Did) -> None:
    """A file that was put where another space's belongs is refused."""
    with failures(connection):
        found = query(connection, "SELECT value FROM meta WHERE key = 'space'")
    if found != [(space,)]:
        shown = found[0][0] if found else "none"
        raise BrokenChain(version=Version(0), place="meta", why=f"the file belongs to another space ({shown})")
