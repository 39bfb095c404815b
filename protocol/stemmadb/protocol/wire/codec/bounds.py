"""Bounds on what was decoded: counts, sizes, and the parts whose shape no type describes."""

from __future__ import annotations

from collections.abc import Sized
from typing import Final

from stemmadb.protocol.errors import LimitExceeded
from stemmadb.protocol.model.commit.request import Content
from stemmadb.protocol.model.query.query import Query
from stemmadb.protocol.model.values.limits import Limits
from stemmadb.protocol.wire.codec import untyped
from stemmadb.protocol.wire.messages import ClientMessage, ServerMessage
from stemmadb.protocol.wire.messages.base import PagedRequest
from stemmadb.protocol.wire.messages.blobs import BlobBegin, BlobChunk
from stemmadb.protocol.wire.messages.commit import CommitMessage, RejectedVerdict
from stemmadb.protocol.wire.messages.reading import QueryRequest, WatchRequest
from stemmadb.protocol.wire.messages.session import ErrorMessage, Goodbye, SessionOpen
from stemmadb.protocol.wire.messages.structure import EraseRequest, MergeRequest, RevertRequest
from stemmadb.protocol.wire.messages.sync import Sync

HEAVY: Final = frozenset({"commit", "blob.chunk", "merge", "erase"})
"""Only these may be as large as `message_bytes_max`: they carry bodies, which stay bytes while they are decoded.
Everything else a client sends is bounded by `schema_bytes_max`, so that small items cannot swell into memory."""


def check_size(size: int, limits: Limits) -> None:
    """The first check there is, on the size alone."""
    _within("message_bytes_max", limits.message_bytes_max, size)


def check_text(size: int, maximum: int) -> None:
    """The same for a text, whose bound depends on the side that sends it."""
    _within("message_bytes_max", maximum, size)


def check_light(size: int, type_: str | None, limits: Limits) -> None:
    """Whether a client's message of this type may be so large."""
    if type_ not in HEAVY:
        _within("schema_bytes_max", limits.schema_bytes_max, size)


def check_content(content: Content, limits: Limits) -> None:
    """The counts of a commit; what its operations and reads mean is the model's to check.

    The pending commits that all reads name together are bounded like the parts of any other bulk write.
    """
    operations, reads = content.operations, content.reads
    if len(operations) > limits.operations_max:
        _count("operations_max", limits.operations_max, operations)
    if len(reads) > limits.reads_max:
        _count("reads_max", limits.reads_max, reads)
    named = 0
    for read in reads:
        if read.locals:
            named += len(read.locals)
    if named:
        _within("bulk_operations_max", limits.bulk_operations_max, named)


def check_client(message: ClientMessage, limits: Limits) -> None:
    """Counts and untyped parts of what a client sent.

    A commit's content is checked when it is read, and the watches of `session.open` by `check_watches`.
    """
    if isinstance(message, CommitMessage):
        return
    if isinstance(message, QueryRequest | WatchRequest):
        _count("roots_max", limits.roots_max, message.query.roots)
        _check_schemas(message.query, "query", limits)
    elif isinstance(message, SessionOpen):
        _check_open(message, limits)
    elif isinstance(message, BlobChunk):
        _count("blob_chunk_bytes_max", limits.blob_chunk_bytes_max, message.data)
    elif isinstance(message, BlobBegin):
        _within("blob_bytes_max", limits.blob_bytes_max, message.size)
    else:
        _check_bulk(message, limits)
    if isinstance(message, PagedRequest) and message.limit is not None:
        _within("page_max", limits.page_max, message.limit)


def _check_open(message: SessionOpen, limits: Limits) -> None:
    _count("watches_max", limits.watches_max, message.watches)
    _count("locals_max", limits.locals_max, message.held)
    for watch in message.watches:
        _count("roots_max", limits.roots_max, watch.query.roots)


def check_watches(message: SessionOpen, limits: Limits) -> None:
    """The schemas of the watches a session goes on with: checked once the client has proved its identity (WIRE-2)."""
    for index, watch in enumerate(message.watches):
        _check_schemas(watch.query, f"watches/{index}/query", limits)


def _check_schemas(query: Query, path: str, limits: Limits) -> None:
    for index, root in enumerate(query.roots):
        if isinstance(root.schema, dict):
            untyped.check(root.schema, f"{path}/roots/{index}/schema", limits)


def _check_bulk(message: ClientMessage, limits: Limits) -> None:
    bulk = limits.bulk_operations_max
    if isinstance(message, MergeRequest):
        _count("bulk_operations_max", bulk, message.resolutions)
    elif isinstance(message, RevertRequest):
        _count("bulk_operations_max", bulk, message.versions)
    elif isinstance(message, EraseRequest):
        _within("bulk_operations_max", bulk, 1 + len(message.entities))
        versions = len(message.versions) + sum(len(one.versions) for one in message.entities)
        _within("bulk_operations_max", bulk, versions)
        _count("bulk_operations_max", bulk, message.survivors)
        _count("bulk_operations_max", bulk, message.blobs)
    note: bytes | None = getattr(message, "note", None)
    if note is not None:
        _count("note_bytes_max", limits.note_bytes_max, note)


def check_server(message: ServerMessage, limits: Limits) -> None:
    """The untyped parts of what a server sent."""
    if isinstance(message, ErrorMessage | Goodbye):
        untyped.check(message.details, "details", limits)
    elif isinstance(message, Sync):
        for index, verdict in enumerate(message.verdicts):
            if isinstance(verdict, RejectedVerdict):
                untyped.check(verdict.details, f"verdicts/{index}/details", limits)
        for index, ended in enumerate(message.ended):
            untyped.check(ended.details, f"ended/{index}/details", limits)


def _count(bound: str, maximum: int, items: Sized) -> None:
    _within(bound, maximum, len(items))


def _within(bound: str, maximum: int, actual: int) -> None:
    if actual > maximum:
        raise LimitExceeded(bound=bound, maximum=maximum, actual=actual)
