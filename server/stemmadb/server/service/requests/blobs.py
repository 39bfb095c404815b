"""Requests on blobs: uploads in chunks that can go on, and reading (BLOB-1).

A blob belongs to an id through its metadata: a caller that may read or write that entity, whether or not it exists,
may read or upload the blob. To other callers a blob that exists looks like one that does not (ACL-2).
"""

from __future__ import annotations

from stemmadb.protocol.errors import Forbidden, UnknownBlob
from stemmadb.protocol.model.values import reference
from stemmadb.protocol.model.values.ids import Hash
from stemmadb.protocol.wire.messages.blobs import (
    BlobBegin,
    BlobChunk,
    BlobEnd,
    BlobOffset,
    BlobPart,
    BlobRead,
    BlobStored,
)
from stemmadb.server.engine.blobs.blobs import Offset, metadata_id
from stemmadb.server.service.base.request_context import Caller, RequestContext, check_reads


async def begin(request: BlobBegin, caller: Caller, context: RequestContext) -> BlobOffset:
    _check_uploads(caller, request.blob)
    begun = await context.blobs.begin(
        request.blob, size=request.size, content_type=request.content_type, uploader=caller.principal
    )
    return _offset(begun)


async def chunk(request: BlobChunk, caller: Caller, context: RequestContext) -> BlobOffset:
    _check_uploads(caller, request.blob)
    taken = await context.blobs.chunk(
        request.blob, offset=request.offset, data=request.data, uploader=caller.principal
    )
    return _offset(taken)


async def end(request: BlobEnd, caller: Caller, context: RequestContext) -> BlobStored:
    _check_uploads(caller, request.blob)
    stored = await context.blobs.end(request.blob, uploader=caller.principal)
    return BlobStored(blob=stored.hash, size=stored.size, content_type=stored.content_type)


async def read(request: BlobRead, caller: Caller, context: RequestContext) -> BlobPart:
    check_reads(caller)
    if not caller.may_read(metadata_id(request.blob)):
        raise UnknownBlob(blob=reference.write(request.blob))
    part = await context.blobs.read(request.blob, offset=request.offset, length=request.length)
    stored = part.blob
    return BlobPart(
        blob=stored.hash, size=stored.size, content_type=stored.content_type, offset=part.offset, data=part.data
    )


def _check_uploads(caller: Caller, hash_: Hash) -> None:
    """The answers to an upload reveal whether the blob exists, so a caller without rights gets none (ACL-2)."""
    if not caller.rights.may_write(metadata_id(hash_)):
        raise Forbidden(action="upload this blob", needs="write")


def _offset(at: Offset) -> BlobOffset:
    return BlobOffset(offset=at.offset, stored=at.stored)
