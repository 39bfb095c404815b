"""Every request of the protocol and who answers it (WIRE-4); watch, unwatch and ping are the session's own."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, TypeAlias, TypeVar

from stemmadb.protocol.wire.messages import type_of
from stemmadb.protocol.wire.messages.access import AclRequest, RevokeRequest
from stemmadb.protocol.wire.messages.base import Part, Request
from stemmadb.protocol.wire.messages.blobs import BlobBegin, BlobChunk, BlobEnd, BlobRead
from stemmadb.protocol.wire.messages.reading import (
    BlameRequest,
    DiffRequest,
    HistoryRequest,
    LogRequest,
    QueryRequest,
)
from stemmadb.protocol.wire.messages.structure import (
    CompactRequest,
    CreateBranch,
    CreateTag,
    DeleteBranch,
    DeleteTag,
    EraseRequest,
    ListBranches,
    ListTags,
    MergeRequest,
    RevertRequest,
)
from stemmadb.server.service import (
    access_requests,
    blob_requests,
    listing_requests,
    planned_requests,
    query_requests,
    reading_requests,
    writing_requests,
)
from stemmadb.server.service.asking import Asker, Desk

R = TypeVar("R", bound=Request)
Handler: TypeAlias = Callable[[R, Asker, Desk], Awaitable[Part]]


class _Table:
    """Handlers by the class of the message, each known to take that class."""

    def __init__(self) -> None:
        self.handlers: dict[type[Request], Handler[Any]] = {}

    def on(self, kind: type[R], handler: Handler[R]) -> _Table:
        assert kind not in self.handlers, f"two answer {kind.__name__}"
        self.handlers[kind] = handler
        return self


HANDLERS: Final[Mapping[type[Request], Handler[Any]]] = (
    _Table()
    .on(QueryRequest, query_requests.query)
    .on(HistoryRequest, reading_requests.history)
    .on(LogRequest, reading_requests.log)
    .on(DiffRequest, reading_requests.diff)
    .on(BlameRequest, reading_requests.blame)
    .on(CreateBranch, writing_requests.create_branch)
    .on(DeleteBranch, writing_requests.delete_branch)
    .on(ListBranches, listing_requests.list_branches)
    .on(CreateTag, writing_requests.create_tag)
    .on(DeleteTag, writing_requests.delete_tag)
    .on(ListTags, listing_requests.list_tags)
    .on(MergeRequest, planned_requests.merge)
    .on(RevertRequest, planned_requests.revert)
    .on(EraseRequest, writing_requests.erase)
    .on(CompactRequest, writing_requests.compact)
    .on(BlobBegin, blob_requests.begin)
    .on(BlobChunk, blob_requests.chunk)
    .on(BlobEnd, blob_requests.end)
    .on(BlobRead, blob_requests.read)
    .on(AclRequest, access_requests.acl)
    .on(RevokeRequest, writing_requests.revoke)
    .handlers
)


async def answer(request: Request, asker: Asker, desk: Desk) -> Part:
    """The answer, of the class that the request names; raises the `StemmaError` to send instead.

    Any other exception is a mistake of ours, and the caller's to report.
    """
    handler = HANDLERS.get(type(request))
    assert handler is not None, f"{type_of(request)} is not answered here"
    result: Part = await handler(request, asker, desk)
    assert type(result) is request.answer, f"{type_of(request)} is answered by {request.answer.__name__}"
    return result
