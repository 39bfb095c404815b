"""Blobs: rows for all of them, with the data of small ones; each row is sealed by a hash of its fields (BLOB-1)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import apsw
import msgspec

from stemmadb.protocol.model.values.ids import Hash, TimeMs
from stemmadb.server.storage.port import StoredBlob
from stemmadb.server.storage.sqlite.connection import query
from stemmadb.server.storage.sqlite.read.read_view import ReadView
from stemmadb.server.storage.stored_blobs import seal, stored_blob

_BLOB: Final = "SELECT hash, size, content_type, created, data IS NULL, seal FROM blob"


def put(connection: apsw.Connection, blob: StoredBlob, data: bytes | None) -> None:
    assert blob.in_file is (data is None), "a blob's data is in the database or in a file"
    connection.execute(
        "INSERT OR IGNORE INTO blob (hash, size, content_type, created, data, seal) VALUES (?, ?, ?, ?, ?, ?)",
        (blob.hash, blob.size, blob.content_type, blob.created, data, seal(blob)),
    )


def renew(connection: apsw.Connection, hash_: Hash, created: TimeMs) -> bool:
    rows = query(connection, f"{_BLOB} WHERE hash = ?", (hash_,))
    if not rows:
        return False
    blob = msgspec.structs.replace(stored_blob(rows[0]), created=created)
    connection.execute("UPDATE blob SET created = ?, seal = ? WHERE hash = ?", (created, seal(blob), hash_))
    return True


def find(view: ReadView, hash_: Hash) -> StoredBlob | None:
    row = view.row(f"{_BLOB} WHERE hash = ?", (hash_,))
    return None if row is None else stored_blob(row)


def data_of(view: ReadView, hash_: Hash) -> bytes | None:
    row = view.row("SELECT data FROM blob WHERE hash = ?", (hash_,))
    return None if row is None else row[0]


def every(view: ReadView) -> Iterator[StoredBlob]:
    return (stored_blob(row) for row in view.stream(f"{_BLOB} ORDER BY hash"))
