"""The tables of a database, and how an older one becomes a newer one.

Columns are those of the SQLite tables (docs/spec/02-storage.md), with the number of the space first in each key.
"""

from __future__ import annotations

import secrets
from typing import Final

from stemmadb.protocol.errors import NewerStorage, Unavailable
from stemmadb.protocol.model.log.commit_record import Revoke
from stemmadb.protocol.model.values.body import encode
from stemmadb.protocol.model.values.ids import HASH_BYTES, Hash
from stemmadb.server.storage.postgres.connection import SCHEMA, PgConnection

PARTITIONS: Final = 16
MAIN_NUMBER: Final = 1
LOCK: Final = 0x53746D61
"""The advisory lock under which tables are made and changed: "Stma"."""

_REVOKE: Final = encode(Revoke(delegation=Hash(bytes(HASH_BYTES))))[:-HASH_BYTES]
_REVOKES: Final = len(_REVOKE)
IS_REVOCATION: Final = (
    f"arguments IS NOT NULL AND substring(arguments from 1 for {_REVOKES}) = '\\x{_REVOKE.hex()}'::bytea"
)
"""How a revocation is known by its arguments; those of others end with no name of a delegation."""
REVOKED: Final = f"substring(arguments from {_REVOKES + 1})"


def _partitions(table: str) -> str:
    made = (
        f"CREATE TABLE {table}_{number} PARTITION OF {table} "
        f"FOR VALUES WITH (MODULUS {PARTITIONS}, REMAINDER {number});"
        for number in range(PARTITIONS)
    )
    return "\n".join(made)


_FIRST: Final = f"""
CREATE TABLE meta (key text PRIMARY KEY, value text NOT NULL);
CREATE TABLE node (
  node bigint PRIMARY KEY, address text NOT NULL, program text NOT NULL, until timestamptz NOT NULL
);
CREATE TABLE space (
  space int PRIMARY KEY GENERATED ALWAYS AS IDENTITY, did text NOT NULL UNIQUE, http_key bytea
);
CREATE TABLE member (principal text, space int, PRIMARY KEY (principal, space));
CREATE TABLE tip (
  space int PRIMARY KEY, version bigint NOT NULL, hash bytea NOT NULL, time bigint NOT NULL, floor bigint NOT NULL,
  destroyed bigint NOT NULL, owes_scrub boolean NOT NULL, owner bigint, term bigint NOT NULL
) WITH (fillfactor = 50);  -- no other index, so that updates stay HOT
CREATE TABLE entity (
  space int, entity int, id text COLLATE "C" NOT NULL, PRIMARY KEY (space, entity), UNIQUE (space, id)
);
CREATE TABLE principal (
  space int, principal int, did text NOT NULL, PRIMARY KEY (space, principal), UNIQUE (space, did)
);
CREATE TABLE session (
  space int, session int, principal int NOT NULL, id bytea NOT NULL,
  PRIMARY KEY (space, session), UNIQUE (space, principal, id)
);
CREATE TABLE branch (
  space int, branch int, name text COLLATE "C" NOT NULL, parent int, fork bigint NOT NULL, depth int NOT NULL,
  deleted bigint, merged bigint NOT NULL, PRIMARY KEY (space, branch), UNIQUE (space, name)
);
CREATE TABLE tag (
  space int, name text COLLATE "C", branch int NOT NULL, version bigint NOT NULL, PRIMARY KEY (space, name)
);
CREATE TABLE touched (space int, branch int, version bigint, PRIMARY KEY (space, branch, version));
CREATE TABLE commit (
  space int, version bigint, session int NOT NULL, local bytea NOT NULL, branch int, time bigint NOT NULL,
  hash bytea NOT NULL, request bytea NOT NULL, arguments bytea, note bytea, note_salt bytea, note_digest bytea,
  PRIMARY KEY (space, version), UNIQUE (space, session, local)
) PARTITION BY HASH (space);
{_partitions("commit")}
CREATE INDEX commit_branch ON commit (space, branch, version);
CREATE INDEX commit_structural ON commit (space, version) WHERE arguments IS NOT NULL;
CREATE INDEX commit_revoked ON commit (space, ({REVOKED})) WHERE {IS_REVOCATION};
CREATE TABLE fact (
  space int, place bigint, entity int NOT NULL, branch int NOT NULL, kind smallint NOT NULL, parent bigint NOT NULL,
  hash bytea NOT NULL, salt bytea, body bytea, digest bytea, PRIMARY KEY (space, place)
) PARTITION BY HASH (space);
{_partitions("fact")}
CREATE INDEX fact_entity ON fact (space, entity, branch, place);
CREATE TABLE snapshot (
  space int, place bigint, entity int NOT NULL, branch int NOT NULL, body bytea NOT NULL, PRIMARY KEY (space, place)
);
CREATE INDEX snapshot_entity ON snapshot (space, entity, branch, place);
CREATE TABLE blob (
  space int, hash bytea, size bigint NOT NULL, content_type text NOT NULL, created bigint NOT NULL, data bytea,
  seal bytea NOT NULL, PRIMARY KEY (space, hash)
);
"""

_MEMBER_ROLES: Final = """
ALTER TABLE member ADD COLUMN role text NOT NULL DEFAULT 'read';
ALTER TABLE member ALTER COLUMN role DROP DEFAULT;
CREATE INDEX member_space ON member (space);
"""

MIGRATIONS: Final[tuple[str, ...]] = (_FIRST, _MEMBER_ROLES)
"""Each makes of a database with the schema version of its position one with the next."""
SCHEMA_VERSION: Final = len(MIGRATIONS)
TABLES_OF_SPACES: Final = (
    *("tip", "commit", "fact", "snapshot", "blob", "entity", "principal", "session", "branch", "tag", "touched"),
    *("member", "space"),
)
"""All that have the number of a space."""


_FOUND: Final = (
    "SELECT (SELECT count(*) FROM pg_catalog.pg_class AS c JOIN pg_catalog.pg_namespace AS n "
    "ON n.oid = c.relnamespace WHERE n.nspname = %s), to_regclass(%s) IS NOT NULL"
)


def version_of(connection: PgConnection) -> int:
    """The schema version of the database, 0 if there is nothing of ours; typed errors if it is not ours to use."""
    ((tables, meta),) = connection.rows(_FOUND, (SCHEMA, f"{SCHEMA}.meta"))
    if not tables:
        return 0
    rows = connection.rows("SELECT value FROM meta WHERE key = 'schema'") if meta else []
    if not rows or not rows[0][0].isdecimal():
        raise Unavailable(f"The schema {SCHEMA!r} of this database belongs to another application.")
    found = int(rows[0][0])
    if found > SCHEMA_VERSION:
        raise NewerStorage(file="the database", found=found, known=SCHEMA_VERSION)
    return found


def create(connection: PgConnection) -> None:
    """Makes the tables where there are none; `Unavailable` says what to do about older ones."""
    found = version_of(connection)
    if found == 0:
        with connection.transaction():
            connection.rows("SELECT pg_advisory_xact_lock(%s)", (LOCK,))
            if version_of(connection) == 0:
                connection.change(f"CREATE SCHEMA IF NOT EXISTS {SCHEMA}")
                upgrade(connection, 0)
                connection.change("INSERT INTO meta (key, value) VALUES ('database', %s)", (secrets.token_hex(16),))
    elif found < SCHEMA_VERSION:
        raise Unavailable(
            f"The database has schema {found}, and this program uses {SCHEMA_VERSION}. Run: stemmadb migrate"
        )


def upgrade(connection: PgConnection, found: int) -> None:
    """Every step from a schema version to this program's, in the transaction of the caller."""
    for step in MIGRATIONS[found:]:
        connection.change(step)
    connection.change(
        "INSERT INTO meta (key, value) VALUES ('schema', %s) ON CONFLICT (key) DO UPDATE SET value = excluded.value",
        (str(SCHEMA_VERSION),),
    )
