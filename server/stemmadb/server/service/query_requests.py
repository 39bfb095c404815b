"""The request `query`: a page of a listing, or the whole answer of a query with a schema (QUERY-1..6)."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from stemmadb.protocol.errors import LimitExceeded, Malformed
from stemmadb.protocol.model import query as queries
from stemmadb.protocol.model.limits import Limits
from stemmadb.protocol.model.query import Prepared, Query, Unresolved
from stemmadb.protocol.wire.messages.reading import QueriedEntity, QueryAnswer, QueryRequest, UnresolvedLink
from stemmadb.server.engine import querying
from stemmadb.server.engine.reading import Entity
from stemmadb.server.service import cursors
from stemmadb.server.service.asking import Asker, Desk, check_reads
from stemmadb.server.service.cursors import Cursors, going_on, place_of
from stemmadb.server.service.narrowing import cut_to
from stemmadb.server.storage.port import LogReader


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

    def ask(log: LogReader) -> QueryAnswer:
        page = querying.page(
            log,
            _prepared(asked, asker, desk),
            after=place_of(at),
            limit=request.limit,
            may_read=asker.may_read,
            limits=desk.space.limits,
        )
        return QueryAnswer(
            version=page.version,
            next=book.write([page.version], page.next),
            entities=_entities(page.entities),
            unresolved=_unresolved(page.unresolved),
        )

    with going_on(at):
        return await desk.space.read(ask)


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
