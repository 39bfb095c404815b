"""Scrub: what was destroyed leaves the files of the tables (ERASE-1).

`VACUUM` makes room in files usable again and overwrites nothing: destroyed bytes stay until others take their place.
`VACUUM FULL` writes each table anew without them, and locks it meanwhile. It would copy rows that an older read view
or a standby may still ask for, so it waits until there is none. WAL, archives and backups are not concerned.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence
from typing import Final, NamedTuple

from stemmadb.protocol.errors import Unavailable
from stemmadb.protocol.model.values.ids import Did
from stemmadb.server.storage.postgres import schema
from stemmadb.server.storage.postgres.connection import PgConnection
from stemmadb.server.storage.postgres.packing import int4s, int8s

WHOLE_TABLES: Final = ("snapshot", "blob", "space")
"""Those that are not partitioned and may hold bodies, blobs or keys."""
WAIT_SECONDS: Final = 30.0
"""How long a rewrite waits for older read views: a node's live for `read_view_ms_max`."""
LOOK_SECONDS: Final = 0.1

_OWING: Final = (
    "SELECT s.did, t.space, t.destroyed FROM tip AS t JOIN space AS s ON s.space = t.space "
    "WHERE t.owes_scrub ORDER BY s.did"
)
_PARTITIONS: Final = (
    "SELECT DISTINCT n FROM generate_series(0, %s::int - 1) AS n, unnest(%s) AS u (space) "
    "WHERE satisfies_hash_partition('fact'::regclass, %s::int, n, u.space) ORDER BY n"
)
_NOW: Final = "SELECT pg_current_xact_id()::xid::text"
_OLDER: Final = """
SELECT count(*) FROM (
  SELECT backend_xmin AS oldest FROM pg_stat_activity
  WHERE pid <> pg_backend_pid() AND (datname = current_database() OR datname IS NULL)
  UNION ALL SELECT backend_xid FROM pg_stat_activity
  WHERE pid <> pg_backend_pid() AND datname = current_database()
  UNION ALL SELECT transaction FROM pg_prepared_xacts WHERE database = current_database()
  UNION ALL SELECT xmin FROM pg_replication_slots
) AS o WHERE age(o.oldest) > age(%s::xid)
"""
_HIDDEN: Final = (
    "SELECT count(*) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND datname = current_database() "
    "AND NOT (pg_has_role(usesysid, 'USAGE') OR pg_has_role('pg_read_all_stats', 'USAGE'))"
)
_PAID: Final = (
    "UPDATE tip AS t SET owes_scrub = false FROM unnest(%s, %s) AS u (space, destroyed) "
    "WHERE t.space = u.space AND t.destroyed = u.destroyed"
)


class Scrubbed(NamedTuple):
    """What was done."""

    tables: Sequence[str]
    paid: Collection[Did]
    """The spaces whose bytes left the files."""
    owing: Collection[Did]
    """Those whose destroyed bytes may be in files still."""


def scrub(connection: PgConnection, *, rewrite: bool, wait_seconds: float = WAIT_SECONDS) -> Scrubbed:
    """All spaces that owe it. `Unavailable` if something older is being read for too long: nothing is paid then."""
    owing = connection.rows(_OWING)
    tables = _tables(connection, [space for _, space, _ in owing]) if owing else []
    if rewrite and owing:
        _await_older(connection, wait_seconds)
    for table in tables:
        connection.change(f"VACUUM ({'FULL' if rewrite else 'TRUNCATE on'}) {table}")
    if not rewrite:
        return Scrubbed(tables, (), [Did(did) for did, _, _ in owing])
    if owing:  # what was destroyed since owes again: its version is another
        spaces, versions = [space for _, space, _ in owing], [destroyed for _, _, destroyed in owing]
        with connection.transaction():
            connection.change(_PAID, (int4s(spaces), int8s(versions)))
    left = {did for did, _, _ in connection.rows(_OWING)}
    return Scrubbed(tables, [Did(did) for did, _, _ in owing if did not in left], sorted(map(Did, left)))


def _tables(connection: PgConnection, spaces: Sequence[int]) -> list[str]:
    partitions = connection.rows(_PARTITIONS, (schema.PARTITIONS, int4s(spaces), schema.PARTITIONS))
    divided = [f"{table}_{number}" for (number,) in partitions for table in ("fact", "commit")]
    return [*divided, *WHOLE_TABLES]


def _await_older(connection: PgConnection, wait_seconds: float) -> None:
    ((hidden,),) = connection.rows(_HIDDEN)
    if hidden:
        raise Unavailable("Other users are connected, and what they read is hidden: GRANT pg_read_all_stats first.")
    ((now,),) = connection.rows(_NOW)
    deadline = time.monotonic() + wait_seconds
    while True:
        ((older,),) = connection.rows(_OLDER, (now,))
        if not older:
            return
        if time.monotonic() > deadline:
            raise Unavailable(f"{older} older reads are open, so what was destroyed must stay. Try again later.")
        time.sleep(LOOK_SECONDS)
