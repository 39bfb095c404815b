"""The request `query`: a page of a listing, or the whole answer of a query with a schema (QUERY-1..6)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from msgspec.structs import replace

from stemmadb.protocol.errors import LimitExceeded, Malformed
from stemmadb.protocol.model import query as queries
from stemmadb.protocol.model.ids import EMPTY_SPACE, BranchName, EntityId, Version
from stemmadb.protocol.model.limits import Limits
from stemmadb.protocol.model.query import Prepared, Query, Unresolved
from stemmadb.protocol.wire.messages.base import Request
from stemmadb.protocol.wire.messages.reading import QueriedEntity, QueryAnswer, QueryRequest, UnresolvedLink
from stemmadb.server.engine import querying
from stemmadb.server.engine.past_states import State
from stemmadb.server.engine.reading import Entity
from stemmadb.server.service import cursors
from stemmadb.server.service.asking import Asker, Desk, check_reads
from stemmadb.server.service.cursors import Cursors, going_on, place_of
from stemmadb.server.service.narrowing import cut_to
from stemmadb.server.storage.port import LogReader


def remembered(request: Request, asker: Asker, desk: Desk) -> QueryAnswer | None:
    """The answer to a question about the past of one entity that memory has, or None: no hop, and no cut."""
    if not isinstance(request, QueryRequest):
        return None
    asked = _past(request, desk)
    if asked is None or not asker.rights.has("read") or not asker.may_read(asked.id):
        return None
    found = desk.space.past.find(asked.branch, asked.id, asked.version)
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


def _past(request: QueryRequest, desk: Desk) -> _Past | None:
    """The one entity and version that are asked for, if it is that, and if nobody writes unknown to memory."""
    asked = request.query
    if asked.version is None or asked.time is not None or len(asked.roots) != 1 or not desk.space.has_one_writer:
        return None
    (root,) = asked.roots
    if root.schema is not None or root.path or root.id.endswith(queries.EVERY):
        return None
    if request.after is not None or request.limit is not None:
        return None
    return _Past(BranchName(asked.branch), EntityId(root.id), Version(asked.version))


async def query(request: QueryRequest, asker: Asker, desk: Desk) -> QueryAnswer:
    """Only a query without a schema comes in pages: `limit` is none of the others' business."""
    check_reads(asker)
    if any(root.schema is not None for root in request.query.roots):
        return await _whole(request, asker, desk)
    return await _page(request, asker, desk)


async def _whole(request: QueryRequest, asker: Asker, desk: Desk) -> QueryAnswer:
    if request.after is not None:
        raise Malformed(path="after", why="only a query without a schema comes in pages")
    limits = desk.space.limits

    def ask(log: LogReader) -> QueryAnswer:
        prepared = _prepared(request.query, asker, desk)
        found = querying.run(log, prepared, may_read=asker.may_read, limits=limits)
        _check_fits(found.answer.entities.values(), limits)
        return QueryAnswer(
            version=found.version,
            entities=_entities(found.answer.entities.values()),
            unresolved=_unresolved(sorted(found.answer.unresolved)),
        )

    return await desk.space.read(ask)


async def _page(request: QueryRequest, asker: Asker, desk: Desk) -> QueryAnswer:
    asked = request.query
    roots = [(root.id, root.path) for root in asked.roots]
    book = Cursors(cursors.QUERY, desk.space.did, (roots, asked.branch, asked.version, asked.time))
    at = book.read(request.after)
    if at is not None:
        asked = replace(asked, version=at.pinned[0], time=None)

    past, generation = _past(request, desk), desk.space.past.generation

    def ask(log: LogReader) -> tuple[QueryAnswer, Version]:
        page = querying.page(
            log,
            _prepared(asked, asker, desk),
            after=place_of(at),
            limit=request.limit,
            may_read=asker.may_read,
            limits=desk.space.limits,
        )
        answer = QueryAnswer(
            version=page.version,
            next=book.write([page.version], page.next),
            entities=_entities(page.entities),
            unresolved=_unresolved(page.unresolved),
        )
        return answer, EMPTY_SPACE if past is None else log.floor()

    with going_on(at):
        answer, floor = await desk.space.read(ask)
    if past is not None and answer.entities:
        (entity,) = answer.entities
        state = State(entity.version, entity.hash, entity.body)
        desk.space.past.keep(past.branch, past.id, state, asked=past.version, floor=floor, generation=generation)
    return answer


def _prepared(asked: Query, asker: Asker, desk: Desk) -> Prepared:
    """Compiled in the worker: a schema may be large."""
    return cut_to(asker, queries.prepare(asked, limits=desk.space.limits, space=desk.space.did))


def _check_fits(entities: Iterable[Entity], limits: Limits) -> None:
    """What cannot fit into one message is not even made; what nearly does is measured when it is encoded."""
    size = sum(entity.size for entity in entities)
    if size > limits.message_bytes_max:
        raise LimitExceeded(bound="message_bytes_max", maximum=limits.message_bytes_max, actual=size)


def _entities(entities: Iterable[Entity]) -> tuple[QueriedEntity, ...]:
    return tuple(
        QueriedEntity(id=entity.id, version=entity.version, hash=entity.hash, body=entity.body) for entity in entities
    )


def _unresolved(lost: Iterable[Unresolved]) -> tuple[UnresolvedLink, ...]:
    return tuple(UnresolvedLink(id=one.id, path=one.path) for one in lost)
