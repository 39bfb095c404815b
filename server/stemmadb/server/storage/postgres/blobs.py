"""Blobs: rows for all of them, with the data of small ones; each row is sealed by a hash of its fields (BLOB-1)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec

from stemmadb.protocol.model.values.ids import Hash, TimeMs
from stemmadb.server.storage.port import StoredBlob
from stemmadb.server.storage.postgres.connection import PgConnection
from stemmadb.server.storage.postgres.read_view import OpenView, PostgresView, alive
from stemmadb.server.storage.stored_blobs import seal, stored_blob

PAGE: Final = 1_000

_BLOB: Final = "SELECT hash, size, content_type, created, data IS NULL, seal FROM blob WHERE space = %(space)s::int"


def put(connection: PgConnection, space: int, blob: StoredBlob, data: bytes | None) -> None:
    assert blob.in_file is (data is None), "a blob's data is in the database or in a file"
    connection.change(
        "INSERT INTO blob (space, hash, size, content_type, created, data, seal) "
        "VALUES (%s, %s, %s, %s, %s, %s, %s) ON CONFLICT DO NOTHING",
        (space, blob.hash, blob.size, blob.content_type, blob.created, data, seal(blob)),
    )


def renew(connection: PgConnection, space: int, hash_: Hash, created: TimeMs) -> bool:
    rows = connection.rows(f"{_BLOB} AND hash = %(hash)s", {"space": space, "hash": hash_})
    if not rows:
        return False
    blob = msgspec.structs.replace(stored_blob(rows[0]), created=created)
    connection.change(
        "UPDATE blob SET created = %s, seal = %s WHERE space = %s::int AND hash = %s",
        (created, seal(blob), space, hash_),
    )
    return True


def find(view: PostgresView, hash_: Hash) -> StoredBlob | None:
    row = view.row(f"{_BLOB} AND hash = %(hash)s", {"hash": hash_})
    return None if row is None else stored_blob(row)


def data_of(view: PostgresView, hash_: Hash, open_view: OpenView) -> bytes | None:
    """From this read view while it lives, later from one of its own: the bytes of a name are the same in all."""
    with alive(view, open_view) as its_view:
        row = its_view.row("SELECT data FROM blob WHERE space = %(space)s::int AND hash = %(hash)s", {"hash": hash_})
    return None if row is None else row[0]


def every(view: PostgresView, open_view: OpenView) -> Iterator[StoredBlob]:
    """Page by page, as `history.every`."""
    after = b""
    while True:
        sql = f"{_BLOB} AND hash > %(after)s ORDER BY space, hash LIMIT {PAGE}"
        with alive(view, open_view) as page_view:
            page = [stored_blob(row) for row in page_view.rows(sql, {"after": after})]
        yield from page
        if len(page) < PAGE:
            return
        after = page[-1].hash
