"""One entity at a past version, as `query` asks for it: from memory, or by a short read that memory keeps (QUERY-1).

Memory has what was read before (`engine/read/past_states.py`). What is unusual (an error, no value, an erased one) is
left to the page of a query, which says it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from stemmadb.protocol.errors import StemmaError
from stemmadb.protocol.model.query import query as queries
from stemmadb.protocol.model.values.ids import BranchName, EntityId, Version
from stemmadb.protocol.wire.messages.base import Request
from stemmadb.protocol.wire.messages.reading import QueriedEntity, QueryAnswer, QueryRequest
from stemmadb.server.engine.read import store_queries
from stemmadb.server.engine.read.past_states import PastState
from stemmadb.server.service.base.request_context import Caller, RequestContext
from stemmadb.server.storage.port import LogReader


class PastRead(NamedTuple):
    branch: BranchName
    id: EntityId
    version: Version


def asked(request: QueryRequest, caller: Caller, context: RequestContext) -> PastRead | None:
    """The entity and the version, if that is all that is asked for and the caller may read it.

    None too where another process may write: it would do so unknown to this one's memory.
    """
    query = request.query
    if query.version is None or query.time is not None or len(query.roots) != 1 or not context.space.has_one_writer:
        return None
    (root,) = query.roots
    if root.schema is not None or root.path or root.id.endswith(queries.EVERY) or query.has_window():
        return None
    if request.after is not None or request.limit is not None or request.shape != "whole":
        return None
    if not caller.rights.may_read(root.id):
        return None
    return PastRead(BranchName(query.branch), EntityId(root.id), Version(query.version))


def remembered(request: Request, caller: Caller, context: RequestContext) -> QueryAnswer | None:
    """The answer, if memory has it: without an executor call."""
    past = asked(request, caller, context) if isinstance(request, QueryRequest) else None
    if past is None:
        return None
    state = context.space.past.find(past.branch, past.id, past.version)
    return None if state is None else _answer(past, state)


async def load(past: PastRead, context: RequestContext, otherwise: Callable[[LogReader], QueryAnswer]) -> QueryAnswer:
    """The answer, read from the log, and `otherwise` on the same read view where that says why there is none."""
    memory = context.space.past
    generation = memory.generation

    def ask(log: LogReader) -> tuple[PastState, Version] | QueryAnswer:
        try:
            entity = store_queries.state_at(log, past.branch, past.id, past.version)
        except StemmaError:
            return otherwise(log)
        return (
            otherwise(log) if entity is None else (PastState(entity.version, entity.hash, entity.body), log.floor())
        )

    found = await context.space.read(ask)
    if isinstance(found, QueryAnswer):
        return found
    state, floor = found
    memory.keep(past.branch, past.id, state, asked=past.version, floor=floor, generation=generation)
    return _answer(past, state)


def _answer(past: PastRead, state: PastState) -> QueryAnswer:
    entity = QueriedEntity(id=past.id, version=state.version, hash=state.hash, body=state.body)
    return QueryAnswer(version=past.version, entities=(entity,))
