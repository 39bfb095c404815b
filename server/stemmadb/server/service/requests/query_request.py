"""The request `query`: a page of a listing, or the whole answer of a query with a schema (QUERY-1..6)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from msgspec.structs import replace

from stemmadb.protocol.errors import LimitExceeded, Malformed
from stemmadb.protocol.model.query import query as queries
from stemmadb.protocol.model.query.query import Prepared, Query, Unresolved
from stemmadb.protocol.model.schema import WorkBudget
from stemmadb.protocol.model.values.ids import EMPTY_SPACE, BranchName, EntityId, Version
from stemmadb.protocol.model.values.limits import Limits
from stemmadb.protocol.wire import records
from stemmadb.protocol.wire.messages.base import Request
from stemmadb.protocol.wire.messages.reading import QueriedEntity, QueryAnswer, QueryRequest, UnresolvedLink
from stemmadb.server.engine.read import id_pages, store_queries
from stemmadb.server.engine.read.entities import EntityValue
from stemmadb.server.engine.read.id_pages import IdPage
from stemmadb.server.engine.read.past_states import PastState
from stemmadb.server.engine.read.store_queries import QueriedPage
from stemmadb.server.service.base import cursors
from stemmadb.server.service.base.cursors import Cursors, going_on, place_of
from stemmadb.server.service.base.request_context import Caller, RequestContext, check_reads
from stemmadb.server.service.requests.readable_ids import limit_to_readable
from stemmadb.server.service.requests.shapes import shaped, size_in
from stemmadb.server.storage.port import LogReader


def remembered(request: Request, caller: Caller, context: RequestContext) -> QueryAnswer | None:
    """The answer to a question about the past of one entity that memory has, or None: without an executor call."""
    if not isinstance(request, QueryRequest):
        return None
    asked = _past(request, context)
    if asked is None or not caller.rights.has("read") or not caller.may_read(asked.id):
        return None
    found = context.space.past.find(asked.branch, asked.id, asked.version)
    if found is None:
        return None
    return QueryAnswer(
        version=asked.version,
        entities=(QueriedEntity(id=asked.id, version=found.version, hash=found.hash, body=found.body),),
    )


class _Past(NamedTuple):
    branch: BranchName
    id: EntityId
    version: Version


def _past(request: QueryRequest, context: RequestContext) -> _Past | None:
    """The one entity and version that are asked for, if it is that, and if nobody writes unknown to memory."""
    asked = request.query
    if asked.version is None or asked.time is not None or len(asked.roots) != 1 or not context.space.has_one_writer:
        return None
    (root,) = asked.roots
    if root.schema is not None or root.path or root.id.endswith(queries.EVERY) or asked.has_window():
        return None
    if request.after is not None or request.limit is not None or request.shape != "whole":
        return None
    return _Past(BranchName(asked.branch), EntityId(root.id), Version(asked.version))


async def query(request: QueryRequest, caller: Caller, context: RequestContext) -> QueryAnswer:
    """Only a query without a schema and a window comes in pages: the `limit` of a request is none of the others'."""
    check_reads(caller)
    if request.query.has_window() or any(root.schema is not None for root in request.query.roots):
        return await _whole(request, caller, context)
    return await _page(request, caller, context)


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


async def _page(request: QueryRequest, caller: Caller, context: RequestContext) -> QueryAnswer:
    asked = request.query
    roots = [(root.id, root.path) for root in asked.roots]
    book = Cursors(cursors.QUERY, context.space.did, (roots, asked.branch, asked.version, asked.time))
    at = book.read(request.after)
    if at is not None:
        asked = replace(asked, version=at.pinned[0], time=None)

    past, generation = _past(request, context), context.space.past.generation

    def ask(log: LogReader) -> tuple[QueryAnswer, Version]:
        prepared = _prepared(asked, caller, context)
        page: QueriedPage | IdPage
        if request.shape == "ids" and not id_pages.needs_values(prepared):
            page = id_pages.page(
                log,
                prepared,
                after=place_of(at),
                limit=request.limit,
                may_read=caller.may_read,
                limits=context.space.limits,
            )
        else:
            page = store_queries.page(
                log,
                prepared,
                after=place_of(at),
                limit=request.limit,
                may_read=caller.may_read,
                limits=context.space.limits,
                size_of=size_in(request.shape),
            )
        answer = QueryAnswer(
            version=page.version,
            next=book.write([page.version], page.next),
            entities=shaped(page.entities, request.shape),
            unresolved=_unresolved(page.unresolved),
            erased=page.erased,
        )
        return answer, EMPTY_SPACE if past is None else log.floor()

    with going_on(at):
        answer, floor = await context.space.read(ask)
    if past is not None and answer.entities:
        (entity,) = answer.entities
        state = PastState(entity.version, entity.hash, records.whole_body(entity))
        context.space.past.keep(past.branch, past.id, state, asked=past.version, floor=floor, generation=generation)
    return answer


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
