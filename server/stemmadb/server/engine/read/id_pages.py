"""Pages of a query without the values: id, version and hash of each entity (QUERY-9)."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from stemmadb.protocol.model.query.query import Prepared, Unresolved, Visit
from stemmadb.protocol.model.values.ids import EntityId, Hash, Version
from stemmadb.protocol.model.values.limits import DEFAULTS, Limits
from stemmadb.server.engine.base import last_states
from stemmadb.server.engine.base.last_states import LastState
from stemmadb.server.engine.base.moments import ResolvedMoment
from stemmadb.server.engine.base.paging import ITEM_BYTES, Budget, MayRead, anything, fill
from stemmadb.server.engine.read.store_queries import candidates, resolve_query
from stemmadb.server.storage.port import LogReader


class NamedEntity(msgspec.Struct, frozen=True):
    """An entity that has a value; `version` and `hash` are those of its last fact, checkpoints included."""

    id: EntityId
    version: Version
    hash: Hash


class IdPage(msgspec.Struct, frozen=True):
    """As `QueriedPage`, without values."""

    version: Version
    entities: tuple[NamedEntity, ...]
    unresolved: tuple[Unresolved, ...]
    next: EntityId | None
    erased: tuple[EntityId, ...] = ()


class _IdItem(msgspec.Struct, frozen=True):
    entity: NamedEntity | None
    unresolved: tuple[Unresolved, ...]
    erased: tuple[EntityId, ...]


def needs_values(prepared: Prepared) -> bool:
    """Whether it depends on a value which entities are in the answer."""
    return prepared.window is not None or any(start.path or start.conjuncts is not None for start in prepared.starts)


def page(
    reader: LogReader,
    prepared: Prepared,
    *,
    after: EntityId | None = None,
    limit: int | None = None,
    may_read: MayRead = anything,
    limits: Limits = DEFAULTS,
) -> IdPage:
    """The next entities of the answer, as `store_queries.page` gives them, of a query that needs no values."""
    assert not needs_values(prepared), "which entities are in the answer is told by their values"
    budget = Budget(limit, limits)
    resolved = resolve_query(reader, prepared)
    items, next_ = fill(_looked_at(reader, resolved, prepared, after, may_read), _size, budget)
    return IdPage(
        version=resolved.version,
        entities=tuple(item.entity for item in items if item.entity is not None),
        unresolved=tuple(one for item in items for one in item.unresolved),
        next=next_,
        erased=tuple(id_ for item in items for id_ in item.erased),
    )


def _looked_at(
    reader: LogReader, resolved: ResolvedMoment, prepared: Prepared, after: EntityId | None, may_read: MayRead
) -> Iterator[tuple[EntityId, _IdItem | None]]:
    named: dict[EntityId, list[Visit]] = {}
    for visit in prepared.named():
        named.setdefault(visit.id, []).append(visit)
    for id_, last in last_states.scan(reader, resolved.spans, candidates(reader, prepared, after), may_read):
        yield id_, _item(id_, last, named.get(id_, []))


def _item(id_: EntityId, last: LastState | None, named: list[Visit]) -> _IdItem | None:
    if last is not None and last.state == "value":
        return _IdItem(NamedEntity(id_, last.version, last.hash), (), ())
    lost = tuple(Unresolved(visit.id, visit.path) for visit in named)
    erased = (id_,) if last is not None and last.state == "erased" else ()
    return _IdItem(None, lost, erased) if lost or erased else None


def _size(item: _IdItem) -> int:
    ids = ([] if item.entity is None else [item.entity.id], [one.id for one in item.unresolved], item.erased)
    return sum(len(id_.encode()) + ITEM_BYTES for several in ids for id_ in several)
