"""Every request of the protocol and its handler (WIRE-4); the session itself handles watch, unwatch and ping."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, Final, TypeAlias, TypeVar

from msgspec.structs import replace

from stemmadb.protocol.wire.messages import type_of
from stemmadb.protocol.wire.messages.access import AclRequest, RevokeRequest
from stemmadb.protocol.wire.messages.base import Part, Request
from stemmadb.protocol.wire.messages.blobs import BlobBegin, BlobChunk, BlobEnd, BlobRead
from stemmadb.protocol.wire.messages.overview import CountRequest, PrefixesRequest
from stemmadb.protocol.wire.messages.reading import (
    BlameRequest,
    DiffRequest,
    HistogramRequest,
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
from stemmadb.server.service.base.cursor_cover import covered, uncovered
from stemmadb.server.service.base.request_context import Caller, RequestContext, check_reads
from stemmadb.server.service.requests import (
    access,
    blobs,
    overviews,
    planned_writes,
    query_request,
    reads,
    structure,
    writes,
)

R = TypeVar("R", bound=Request)
Handler: TypeAlias = Callable[[R, Caller, RequestContext], Awaitable[Part]]


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
    .on(QueryRequest, query_request.query)
    .on(HistoryRequest, reads.history)
    .on(LogRequest, reads.log)
    .on(HistogramRequest, overviews.histogram)
    .on(DiffRequest, reads.diff)
    .on(BlameRequest, reads.blame)
    .on(CountRequest, overviews.count)
    .on(PrefixesRequest, overviews.prefixes)
    .on(CreateBranch, writes.create_branch)
    .on(DeleteBranch, writes.delete_branch)
    .on(ListBranches, structure.list_branches)
    .on(CreateTag, writes.create_tag)
    .on(DeleteTag, writes.delete_tag)
    .on(ListTags, structure.list_tags)
    .on(MergeRequest, planned_writes.merge)
    .on(RevertRequest, planned_writes.revert)
    .on(EraseRequest, writes.erase)
    .on(CompactRequest, writes.compact)
    .on(BlobBegin, blobs.begin)
    .on(BlobChunk, blobs.chunk)
    .on(BlobEnd, blobs.end)
    .on(BlobRead, blobs.read)
    .on(AclRequest, access.acl)
    .on(RevokeRequest, writes.revoke)
    .handlers
)


async def answer(request: Request, caller: Caller, context: RequestContext) -> Part:
    """The answer, of the class that the request names; raises the `StemmaError` to send instead.

    Any other exception is an internal error, which the session reports.
    """
    handler = HANDLERS.get(type(request))
    assert handler is not None, f"{type_of(request)} is not answered here"
    after: str | None = getattr(request, "after", None)
    if after is not None:
        check_reads(caller)  # who may read nothing learns nothing of versions
        request = replace(request, after=await context.space.read(partial(uncovered, text=after)))
    result: Part = await handler(request, caller, context)
    assert type(result) is request.answer, f"{type_of(request)} is answered by {request.answer.__name__}"
    next_: str | None = getattr(result, "next", None)
    if next_ is not None:
        result = replace(result, next=await context.space.read(partial(covered, cursor=next_)))
    return result
