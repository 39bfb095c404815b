"""Queries on the store: traversals fed from one read view, and listings without a schema (QUERY-1, QUERY-6)."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from itertools import groupby
from typing import Generic, TypeVar

import msgspec

from stemmadb.protocol.errors import InvalidQuery
from stemmadb.protocol.model.query.query import (
    Ask,
    Prepared,
    Supply,
    TraversalResult,
    Unresolved,
    Visit,
    VisitResult,
    listed,
)
from stemmadb.protocol.model.query.traversal import examine, traverse
from stemmadb.protocol.model.schema import WorkBudget
from stemmadb.protocol.model.values.ids import BranchName, EntityId, TimeMs, Version
from stemmadb.protocol.model.values.limits import DEFAULTS, Limits
from stemmadb.server.engine.base import moments, states
from stemmadb.server.engine.base.moments import ReadMoment, ResolvedMoment
from stemmadb.server.engine.base.paging import ITEM_BYTES, Budget, MayRead, anything, fill
from stemmadb.server.engine.base.state_chunks import ids_under, scan
from stemmadb.server.engine.base.states import LoadedEntity
from stemmadb.server.engine.read.entities import EntityValue, entity_of, is_erased, message_size, resolve_moment
from stemmadb.server.storage.port import LogReader

T = TypeVar("T")


class Queried(msgspec.Struct, frozen=True):
    """An answer, all of it as of `version`."""

    version: Version
    answer: TraversalResult[EntityValue]
    erased: tuple[EntityId, ...] = ()
    """What was looked at and has a state that was erased, by id."""


class QueriedPage(msgspec.Struct, Generic[T], frozen=True):
    """A page of the answer to a query without a schema, by id, of what was made of each entity.

    `next` is used as that of `Listed`.
    """

    version: Version
    entities: tuple[T, ...]
    unresolved: tuple[Unresolved, ...]
    next: EntityId | None
    erased: tuple[EntityId, ...] = ()


def run(
    reader: LogReader,
    prepared: Prepared,
    *,
    may_read: MayRead = anything,
    limits: Limits = DEFAULTS,
    budget: WorkBudget | None = None,
) -> Queried:
    """The whole answer; what was erased is listed, and its value counts as not there (QUERY-5)."""
    resolved = resolve_query(reader, prepared)
    walk: Generator[Ask, Supply[EntityValue], TraversalResult[EntityValue]] = traverse(
        prepared, limits=limits, budget=budget
    )
    ask, erased = next(walk), set[EntityId]()
    while True:
        try:
            ask = walk.send(Supplied(reader, resolved, ask, may_read, erased))
        except StopIteration as end:
            return Queried(resolved.version, end.value, tuple(sorted(erased)))


class Supplied(Mapping[EntityId, EntityValue]):
    """The reply to an `Ask`. The named ids are read at once, the prefixes while they are iterated, to be let go.

    Ids whose state was erased are added to `erased`.
    """

    def __init__(
        self,
        reader: LogReader,
        resolved: ResolvedMoment,
        ask: Ask,
        may_read: MayRead,
        erased: set[EntityId] | None = None,
    ) -> None:
        self._erased = set[EntityId]() if erased is None else erased
        self._reader = reader
        self._moment = resolved
        self._ask = ask
        self._may_read = may_read
        self._named = {entity.id: entity for entity in self._entities(ask.ids)}
        self._current: EntityValue | None = None

    def __getitem__(self, id_: EntityId) -> EntityValue:
        if self._current is not None and self._current.id == id_:
            return self._current
        return self._named[id_]

    def __iter__(self) -> Iterator[EntityId]:
        """What is under the prefixes. The entity last given is kept, as `items` asks for it next."""
        for prefix in self._ask.prefixes:
            for entity in self._entities(ids_under(self._reader, prefix)):
                self._current = entity
                yield entity.id

    def __len__(self) -> int:
        raise TypeError("how many there are is known only once all were read")

    def _entities(self, ids: Iterable[EntityId]) -> Iterator[EntityValue]:
        for id_, (state,) in scan(self._reader, [self._moment.spans], ids, self._may_read):
            if (entity := entity_of(state)) is not None:
                yield entity
            elif is_erased(state):
                self._erased.add(id_)


class _Item(msgspec.Struct, frozen=True):
    """What a page says of one id."""

    entity: EntityValue | None
    unresolved: tuple[Unresolved, ...]
    erased: tuple[EntityId, ...] = ()


class _Made(msgspec.Struct, Generic[T], frozen=True):
    """What a page keeps of an item."""

    entity: T | None
    size: int
    unresolved: tuple[Unresolved, ...]
    erased: tuple[EntityId, ...]


def page(
    reader: LogReader,
    prepared: Prepared,
    make: Callable[[EntityValue], T],
    *,
    after: EntityId | None = None,
    limit: int | None = None,
    may_read: MayRead = anything,
    limits: Limits = DEFAULTS,
    size_of: Callable[[EntityValue], int] = message_size,
) -> QueriedPage[T]:
    """The next entities of the answer, and what of the named roots up to the last of them is unresolved.

    All pages together are the answer of `run`, without its bounds on the whole: no link is followed, so that each
    entity is in the answer or not by itself. A query with a schema is `InvalidQuery`. Of an entity only what
    `make` gives is kept, so a page holds no values that it does not bring; `size_of` is what it counts.
    """
    if any(start.conjuncts is not None for start in prepared.starts):
        raise InvalidQuery(why="only a query without a schema comes in pages")
    budget = Budget(limit, limits)
    resolved = resolve_query(reader, prepared)
    if len(prepared.starts) == 1 and not prepared.starts[0].listing and after is None:
        return _page_of_one(reader, resolved, prepared, make, may_read)

    def made() -> Iterator[tuple[EntityId, _Made[T] | None]]:
        for id_, item in _looked_at(reader, resolved, prepared, after, may_read):
            if item is None:
                yield id_, None
            else:
                entity, size = (None, 0) if item.entity is None else (make(item.entity), size_of(item.entity))
                yield id_, _Made(entity, size + _size_of_rest(item), item.unresolved, item.erased)

    items, next_ = fill(made(), lambda item: item.size, budget)
    entities = tuple(item.entity for item in items if item.entity is not None)
    unresolved = tuple(one for item in items for one in item.unresolved)
    return QueriedPage(
        resolved.version, entities, unresolved, next_, tuple(id_ for item in items for id_ in item.erased)
    )


def matching(
    reader: LogReader, resolved: ResolvedMoment, prepared: Prepared, *, may_read: MayRead = anything
) -> Iterator[bool]:
    """Of every id that the pages of a query look at, whether it is in the answer; each value is let go at once."""
    for _, item in _looked_at(reader, resolved, prepared, None, may_read):
        yield item is not None and item.entity is not None


def state_at(reader: LogReader, branch: BranchName, id_: EntityId, version: Version) -> EntityValue | None:
    """One entity at a version, or None if it had no value there: what `page` finds, without preparing a query."""
    resolved = moments.resolve(reader, ReadMoment(branch, version))
    return entity_of(states.load(reader, resolved.spans, [id_]).get(id_))


def _page_of_one(
    reader: LogReader,
    resolved: ResolvedMoment,
    prepared: Prepared,
    make: Callable[[EntityValue], T],
    may_read: MayRead,
) -> QueriedPage[T]:
    """One entity by its id, which is most of what is asked: the same answer without the way of many."""
    (visit,) = prepared.named()
    loaded = states.load(reader, resolved.spans, [visit.id]) if may_read(visit.id) else {}
    item = _item(loaded.get(visit.id), [visit], [], prepared)
    if item is None:
        return QueriedPage(resolved.version, (), (), None)
    entities = () if item.entity is None else (make(item.entity),)
    return QueriedPage(resolved.version, entities, item.unresolved, None, item.erased)


def resolve_query(reader: LogReader, prepared: Prepared) -> ResolvedMoment:
    """The moment that a query is about."""
    version = None if prepared.version is None else Version(prepared.version)
    time = None if prepared.time is None else TimeMs(prepared.time)
    return resolve_moment(reader, ReadMoment(prepared.branch, version, time))


def _looked_at(
    reader: LogReader, resolved: ResolvedMoment, prepared: Prepared, after: EntityId | None, may_read: MayRead
) -> Iterator[tuple[EntityId, _Item | None]]:
    named: dict[EntityId, list[Visit]] = {}
    for visit in prepared.named():
        named.setdefault(visit.id, []).append(visit)
    listings = prepared.listings()
    for id_, (state,) in scan(reader, [resolved.spans], candidates(reader, prepared, after), may_read):
        yield id_, _item(state, named.get(id_, []), listed(listings, id_), prepared)


def candidates(reader: LogReader, prepared: Prepared, after: EntityId | None = None) -> Iterator[EntityId]:
    """Every id that a query without a schema names or lists, once and in order."""
    named = sorted({visit.id for visit in prepared.named() if after is None or visit.id > after})
    below = (ids_under(reader, prefix, after) for prefix in prepared.prefixes())
    return (id_ for id_, _ in groupby(heapq.merge(named, *below)))


def _item(state: LoadedEntity | None, named: list[Visit], listed_: list[Visit], prepared: Prepared) -> _Item | None:
    entity = entity_of(state)
    found = {visit: examine(visit, entity, prepared.space).found for visit in (*named, *listed_)}
    lost = tuple(Unresolved(visit.id, visit.path) for visit in named if found[visit] is VisitResult.NOWHERE)
    item = entity if VisitResult.MATCHED in found.values() else None
    erased = (state.id,) if state is not None and is_erased(state) else ()
    return None if item is None and not lost and not erased else _Item(item, lost, erased)


def _size_of_rest(item: _Item) -> int:
    erased = sum(len(id_.encode()) + ITEM_BYTES for id_ in item.erased)
    return erased + sum(len(one.id.encode()) + len(one.path.encode()) + ITEM_BYTES for one in item.unresolved)
