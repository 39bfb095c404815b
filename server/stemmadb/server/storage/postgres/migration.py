"""Makes a database of an older program one of this program, while no node of an older program is alive.

A node writes its row only into a database of its own schema, and the migration locks `node` meanwhile: a node of an
older program that begins, or that wakes up after a pause, finds a newer schema and stays out.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from stemmadb.protocol.errors import Unavailable
from stemmadb.server.storage.postgres import schema
from stemmadb.server.storage.postgres.connection import PgConnection

_ALIVE: Final = "SELECT address, program FROM node WHERE until > clock_timestamp() ORDER BY address"


class Migration(NamedTuple):
    """What was done: nothing, if both are the same."""

    found: int
    schema: int


def migrate(connection: PgConnection) -> Migration:
    """`Unavailable` if there is nothing to migrate, or a node of an older program is alive."""
    with connection.transaction():
        connection.rows("SELECT pg_advisory_xact_lock(%s)", (schema.LOCK,))
        found = schema.version_of(connection)
        if found == 0:
            raise Unavailable("The database has no tables of StemmaDB. The first 'stemmadb serve' makes them.")
        if found == schema.SCHEMA_VERSION:
            return Migration(found, found)
        connection.change("LOCK TABLE node IN ACCESS EXCLUSIVE MODE")
        alive = connection.rows(_ALIVE)
        if alive:
            address, program = alive[0]
            raise Unavailable(
                f"Nodes of an older program are alive ({len(alive)}), one at {address or 'no address'} with version "
                f"{program or 'unknown'}. Stop all of them first."
            )
        schema.upgrade(connection, found)
    return Migration(found, schema.SCHEMA_VERSION)
