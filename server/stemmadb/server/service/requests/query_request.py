"""The request `query`: a page of a listing, or the whole answer of a query with a schema (QUERY-1..6)."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from stemmadb.protocol.errors import LimitExceeded, Malformed
from stemmadb.protocol.model.query import query as queries
from stemmadb.protocol.model.query.query import Prepared, Query, Unresolved
from stemmadb.protocol.model.schema import WorkBudget
from stemmadb.protocol.model.values.ids import EntityId
from stemmadb.protocol.model.values.limits import Limits
from stemmadb.protocol.wire.messages.reading import QueriedEntity, QueryAnswer, QueryRequest, UnresolvedLink
from stemmadb.server.engine.read import id_pages, store_queries
from stemmadb.server.engine.read.entities import EntityValue
from stemmadb.server.engine.read.id_pages import IdPage
from stemmadb.server.engine.read.store_queries import QueriedPage
from stemmadb.server.service.base import cursors
from stemmadb.server.service.base.cursors import Cursors, place_of
from stemmadb.server.service.base.request_context import Caller, RequestContext, check_reads
from stemmadb.server.service.requests import past_read
from stemmadb.server.service.requests.readable_ids import limit_to_readable
from stemmadb.server.service.requests.shapes import shaped, shaper, size_in
from stemmadb.server.storage.port import LogReader


async def query(request: QueryRequest, caller: Caller, context: RequestContext) -> QueryAnswer:
    """Only a query without a schema and a window comes in pages: the `limit` of a request is none of the others'."""
    check_reads(caller)
    past = past_read.asked(request, caller, context)
    if past is not None:
        return await past_read.load(past, context, lambda log: _page_on(log, request, caller, context))
    if request.query.has_window() or any(root.schema is not None for root in request.query.roots):
        return await _whole(request, caller, context)
    return await context.space.read(lambda log: _page_on(log, request, caller, context))


async def _whole(request: QueryRequest, caller: Caller, context: RequestContext) -> QueryAnswer:
    if request.after is not None:
        raise Malformed(path="after", why="only a query without a schema comes in pages")
    limits = context.space.limits
    budget = WorkBudget(limits.query_work_max)

    def ask(log: LogReader) -> QueryAnswer:
        budget.check(0)  # the caller may have gone while this waited for its turn
        prepared = _prepared(request.query, caller, context)
        found = store_queries.run(log, prepared, may_read=caller.may_read, limits=limits, budget=budget)
        if request.shape == "whole":
            _check_fits(found.answer.entities.values(), limits)
        return QueryAnswer(
            version=found.version,
            entities=shaped(found.answer.entities.values(), request.shape),
            unresolved=_unresolved(sorted(found.answer.unresolved)),
            erased=found.erased,
        )

    try:
        return await context.space.read(ask)
    finally:
        budget.cancel()  # a caller that is gone leaves no work behind


def _book(request: QueryRequest, context: RequestContext) -> Cursors[EntityId]:
    asked = request.query
    roots = [(root.id, root.path) for root in asked.roots]
    return Cursors(cursors.QUERY, context.space.did, (roots, asked.branch, asked.version, asked.time))


def _page_on(log: LogReader, request: QueryRequest, caller: Caller, context: RequestContext) -> QueryAnswer:
    """In a worker."""
    book, asked = _book(request, context), request.query
    at = book.read(request.after)
    if at is not None:
        asked = replace(asked, version=at.pinned[0], time=None)
    prepared = _prepared(asked, caller, context)
    page: QueriedPage[QueriedEntity] | IdPage
    if request.shape == "ids" and not id_pages.needs_values(prepared):
        page = id_pages.page(
            log,
            prepared,
            after=place_of(at),
            limit=request.limit,
            may_read=caller.may_read,
            limits=context.space.limits,
        )
        entities = shaped(page.entities, request.shape)
    else:
        page = store_queries.page(
            log,
            prepared,
            shaper(request.shape),
            after=place_of(at),
            limit=request.limit,
            may_read=caller.may_read,
            limits=context.space.limits,
            size_of=size_in(request.shape),
        )
        entities = page.entities
    return QueryAnswer(
        version=page.version,
        next=book.write([page.version], page.next),
        entities=entities,
        unresolved=_unresolved(page.unresolved),
        erased=page.erased,
    )


def _prepared(asked: Query, caller: Caller, context: RequestContext) -> Prepared:
    """Compiled in the worker: a schema may be large."""
    return limit_to_readable(caller, queries.prepare(asked, limits=context.space.limits, space=context.space.did))


def _check_fits(entities: Iterable[EntityValue], limits: Limits) -> None:
    """What cannot fit into one message is not even made; what nearly does is measured when it is encoded."""
    size = sum(entity.size for entity in entities)
    if size > limits.message_bytes_max:
        raise LimitExceeded(bound="message_bytes_max", maximum=limits.message_bytes_max, actual=size)


def _unresolved(lost: Iterable[Unresolved]) -> tuple[UnresolvedLink, ...]:
    return tuple(UnresolvedLink(id=one.id, path=one.path) for one in lost)
