"""Requests on blobs: uploads in chunks that can go on, and reading (BLOB-1).

A blob belongs to the ids through its metadata: who may read or write that entity, whether or not it is there, may
read or upload the blob. To others a blob that is there looks like one that is not (ACL-2).
"""

from __future__ import annotations

from stemmadb.protocol.errors import Forbidden, UnknownBlob
from stemmadb.protocol.model import reference
from stemmadb.protocol.model.ids import Hash
from stemmadb.protocol.wire.messages.blobs import (
    BlobBegin,
    BlobChunk,
    BlobEnd,
    BlobOffset,
    BlobPart,
    BlobRead,
    BlobStored,
)
from stemmadb.server.engine.blobs import Offset, metadata_id
from stemmadb.server.service.asking import Asker, Desk, check_reads


async def begin(request: BlobBegin, asker: Asker, desk: Desk) -> BlobOffset:
    _check_uploads(asker, request.blob)
    return _offset(await desk.blobs.begin(request.blob, size=request.size, content_type=request.content_type))


async def chunk(request: BlobChunk, asker: Asker, desk: Desk) -> BlobOffset:
    _check_uploads(asker, request.blob)
    return _offset(await desk.blobs.chunk(request.blob, offset=request.offset, data=request.data))


async def end(request: BlobEnd, asker: Asker, desk: Desk) -> BlobStored:
    _check_uploads(asker, request.blob)
    stored = await desk.blobs.end(request.blob)
    return BlobStored(blob=stored.hash, size=stored.size, content_type=stored.content_type)


async def read(request: BlobRead, asker: Asker, desk: Desk) -> BlobPart:
    check_reads(asker)
    if not asker.may_read(metadata_id(request.blob)):
        raise UnknownBlob(blob=reference.write(request.blob))
    part = await desk.blobs.read(request.blob, offset=request.offset, length=request.length)
    stored = part.blob
    return BlobPart(
        blob=stored.hash, size=stored.size, content_type=stored.content_type, offset=part.offset, data=part.data
    )


def _check_uploads(asker: Asker, hash_: Hash) -> None:
    """The answers to an upload tell whether the blob is there, so nobody gets them who may not know (ACL-2)."""
    if not asker.rights.may_write(metadata_id(hash_)):
        raise Forbidden(action="upload this blob", needs="write")


def _offset(at: Offset) -> BlobOffset:
    return BlobOffset(offset=at.offset, stored=at.stored)
