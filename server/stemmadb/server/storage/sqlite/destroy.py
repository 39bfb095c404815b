"""Destroying: bodies, salts, notes, snapshots and blobs go; digests and hashes stay (ERASE-1, COMPACT-1)."""

from __future__ import annotations

from collections.abc import Collection

import apsw

from stemmadb.protocol.model.log.facts import digest_of
from stemmadb.protocol.model.values.ids import Hash
from stemmadb.server.storage import positions
from stemmadb.server.storage.port import Destroyed
from stemmadb.server.storage.sqlite.connection import as_json, empty_log, failures, query, transaction

_DIGEST = "stemma_digest"


def prepare(connection: apsw.Connection) -> None:
    """Teaches the connection the digest of a salted body, so that bodies need not be fetched to be destroyed."""
    connection.create_scalar_function(_DIGEST, _digest, 2, deterministic=True)


def _digest(*salted: apsw.SQLiteValue) -> bytes:
    salt, body = salted
    assert isinstance(salt, bytes), "a body and its salt are there or gone together"
    assert isinstance(body, bytes), "only what is there is destroyed"
    return digest_of(salt, body)


def destroy(connection: apsw.Connection, destroyed: Destroyed) -> None:
    """In the transaction of the write that asks for it; the files still hold the bytes until `scrub`."""
    _destroy_facts(connection, sorted(map(positions.number_of, destroyed.facts)))
    _destroy_notes(connection, sorted(destroyed.notes))
    connection.execute(
        "DELETE FROM snapshot WHERE entity IN "
        "(SELECT e.entity FROM json_each(?) AS j CROSS JOIN entity AS e ON e.id = j.value)",
        (as_json(sorted(destroyed.snapshots_of)),),
    )
    connection.execute("DELETE FROM snapshot WHERE place < ?", (positions.first(destroyed.snapshots_below),))
    drop_blobs(connection, destroyed.blobs)
    if destroyed.http_key:
        connection.execute("DELETE FROM meta WHERE key = 'http_key'")
    connection.execute("UPDATE meta SET value = 1 WHERE key = 'owes_scrub'")


def _destroy_facts(connection: apsw.Connection, numbers: list[int]) -> None:
    connection.execute(
        f"UPDATE fact SET digest = {_DIGEST}(salt, body), salt = NULL, body = NULL "  # noqa: S608  # our own name
        "WHERE place IN (SELECT value FROM json_each(?)) AND body IS NOT NULL",
        (as_json(numbers),),
    )


def _destroy_notes(connection: apsw.Connection, versions: list[int]) -> None:
    connection.execute(
        f'UPDATE "commit" SET note_digest = {_DIGEST}(note_salt, note), '  # noqa: S608  # our own name
        "note = NULL, note_salt = NULL WHERE version IN (SELECT value FROM json_each(?)) AND note IS NOT NULL",
        (as_json(versions),),
    )


def drop_blobs(connection: apsw.Connection, hashes: Collection[Hash]) -> None:
    connection.execute(
        "DELETE FROM blob WHERE hash IN (SELECT unhex(value) FROM json_each(?))",
        (as_json([hash_.hex() for hash_ in hashes]),),
    )


def owes_scrub(connection: apsw.Connection) -> bool:
    with failures(connection):
        rows = query(connection, "SELECT value FROM meta WHERE key = 'owes_scrub'")
    return rows != [(0,)]


def scrub(connection: apsw.Connection, wait_ms: int, busy_ms: int) -> None:
    """Writes the whole database anew and empties the write-ahead log, then says that nothing is owed any more.

    Readers that hold an older read view keep the log from being emptied; they are waited for, and not for ever.
    """
    with failures(connection):
        connection.execute("VACUUM")
        connection.set_busy_timeout(wait_ms)
    empty_log(connection)
    with failures(connection), transaction(connection):
        connection.execute("UPDATE meta SET value = 0 WHERE key = 'owes_scrub'")
    empty_log(connection)
    connection.set_busy_timeout(busy_ms)
