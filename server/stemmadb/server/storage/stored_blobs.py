"""Stored blobs: what a row says of a blob is sealed by a hash of its fields (BLOB-1)."""

from __future__ import annotations

from typing import Any, Final, TypeAlias

from blake3 import blake3

from stemmadb.protocol.errors import BrokenChain
from stemmadb.protocol.model.values import reference
from stemmadb.protocol.model.values.body import encode
from stemmadb.protocol.model.values.ids import Hash, TimeMs, Version
from stemmadb.server.storage.port import StoredBlob

Row: TypeAlias = tuple[Any, ...]

TAG_BLOB_ROW: Final = "stemma.v1 blob row"


def seal(blob: StoredBlob) -> bytes:
    """A blob's own hash covers only its bytes; this covers what the row says about them."""
    fields = (TAG_BLOB_ROW, blob.hash, blob.size, blob.content_type, blob.created, blob.in_file)
    return blake3(encode(fields)).digest()


def stored_blob(row: Row) -> StoredBlob:
    hash_, size, content_type, created, in_file, sealed = row
    blob = StoredBlob(Hash(hash_), size, content_type, TimeMs(created), bool(in_file))
    if sealed != seal(blob):
        place = f"blob {reference.write(hash_)}"
        raise BrokenChain(version=Version(0), place=place, why="what is stored about it was changed")
    return blob
