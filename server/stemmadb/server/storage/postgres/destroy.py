"""Destroying: bodies, salts, notes, snapshots and blobs go; digests and hashes stay (ERASE-1, COMPACT-1).

The rows no longer have the bytes; pages of the files have them until others are written there, or until a scrub.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

from stemmadb.protocol.model.log.facts import digest_of
from stemmadb.protocol.model.values.ids import Hash
from stemmadb.server.storage import positions
from stemmadb.server.storage.port import Destroyed
from stemmadb.server.storage.postgres.connection import PgConnection
from stemmadb.server.storage.postgres.packing import byteas, int8s

AT_ONCE: Final = 256
"""Bodies that are fetched together, to be hashed."""

_BODIES: Final = "SELECT place, salt, body FROM fact WHERE space = %s::int AND place = ANY (%s) AND body IS NOT NULL"
_FACTS: Final = (
    "UPDATE fact AS f SET digest = u.digest, salt = NULL, body = NULL "
    "FROM unnest(%s::bigint[], %s::bytea[]) AS u (place, digest) WHERE f.space = %s::int AND f.place = u.place"
)
_NOTES: Final = (
    "SELECT version, note_salt, note FROM commit WHERE space = %s::int AND version = ANY (%s) AND note IS NOT NULL"
)
_COMMITS: Final = (
    "UPDATE commit AS c SET note_digest = u.digest, note_salt = NULL, note = NULL "
    "FROM unnest(%s::bigint[], %s::bytea[]) AS u (version, digest) WHERE c.space = %s::int AND c.version = u.version"
)
_SNAPSHOTS: Final = (
    "DELETE FROM snapshot WHERE space = %(space)s::int AND (place < %(below)s OR entity IN "
    "(SELECT entity FROM entity WHERE space = %(space)s::int AND id = ANY (%(ids)s::text[])))"
)
_OWES: Final = "UPDATE tip SET destroyed = version, owes_scrub = true WHERE space = %s::int"


def destroy(connection: PgConnection, space: int, destroyed: Destroyed) -> None:
    """In the transaction of the write that asks for it, whose version is the one of `destroyed`."""
    places = sorted(map(positions.number_of, destroyed.facts))
    for start in range(0, len(places), AT_ONCE):
        _replace(connection, space, _BODIES, _FACTS, places[start : start + AT_ONCE])
    notes = sorted(destroyed.notes)
    for start in range(0, len(notes), AT_ONCE):
        _replace(connection, space, _NOTES, _COMMITS, notes[start : start + AT_ONCE])
    values = {
        "space": space,
        "below": positions.first(destroyed.snapshots_below),
        "ids": sorted(destroyed.snapshots_of),
    }
    connection.change(_SNAPSHOTS, values)
    drop_blobs(connection, space, destroyed.blobs)
    if destroyed.http_key:
        connection.change("UPDATE space SET http_key = NULL WHERE space = %s::int", (space,))
    connection.change(_OWES, (space,))


def _replace(connection: PgConnection, space: int, select: str, update: str, keys: Sequence[int]) -> None:
    """Digests take the place of what they are the digests of."""
    found = connection.rows(select, (space, int8s(keys)))
    digests = [digest_of(salt, stored) for _, salt, stored in found]
    if found:
        connection.change(update, (int8s([key for key, _, _ in found]), byteas(digests), space))


def drop_blobs(connection: PgConnection, space: int, hashes: Collection[Hash]) -> None:
    if hashes:
        connection.change("DELETE FROM blob WHERE space = %s::int AND hash = ANY (%s)", (space, byteas(list(hashes))))
