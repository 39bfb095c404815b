"""Queries on the store: the traversal fed from one cut, and listings without a schema in pages (QUERY-1, QUERY-6)."""

from __future__ import annotations

import heapq
from collections.abc import Generator, Iterable, Iterator, Mapping
from itertools import groupby

import msgspec

from stemmadb.protocol.errors import InvalidQuery
from stemmadb.protocol.model.ids import EntityId, TimeMs, Version
from stemmadb.protocol.model.limits import DEFAULTS, Limits
from stemmadb.protocol.model.query import Answer, Ask, Found, Prepared, Supply, Unresolved, Visit, listed
from stemmadb.protocol.model.traversal import examine, traverse
from stemmadb.server.engine import states
from stemmadb.server.engine.batches import ids_under, scan
from stemmadb.server.engine.moments import Cut, Moment
from stemmadb.server.engine.paging import ITEM_BYTES, Budget, MayRead, anything, fill
from stemmadb.server.engine.reading import Entity, cut_at, entity_of, told_size
from stemmadb.server.storage.port import LogReader


class Queried(msgspec.Struct, frozen=True):
    """An answer, all of it as of `version`."""

    version: Version
    answer: Answer[Entity]


class QueriedPage(msgspec.Struct, frozen=True):
    """A page of the answer to a query without a schema, by id; `next` is used as that of `Listed`."""

    version: Version
    entities: tuple[Entity, ...]
    unresolved: tuple[Unresolved, ...]
    next: EntityId | None


def run(reader: LogReader, prepared: Prepared, *, may_read: MayRead = anything, limits: Limits = DEFAULTS) -> Queried:
    """The whole answer; what was erased counts as not there, like what may not be read (QUERY-5)."""
    cut = _cut(reader, prepared)
    walk: Generator[Ask, Supply[Entity], Answer[Entity]] = traverse(prepared, limits=limits)
    ask = next(walk)
    while True:
        try:
            ask = walk.send(Supplied(reader, cut, ask, may_read))
        except StopIteration as end:
            return Queried(cut.version, end.value)


class Supplied(Mapping[EntityId, Entity]):
    """The reply to an `Ask`. The named ids are read at once, the prefixes while they are iterated, to be let go."""

    def __init__(self, reader: LogReader, cut: Cut, ask: Ask, may_read: MayRead) -> None:
        self._reader = reader
        self._cut = cut
        self._ask = ask
        self._may_read = may_read
        self._named = {entity.id: entity for entity in self._entities(ask.ids)}
        self._current: Entity | None = None

    def __getitem__(self, id_: EntityId) -> Entity:
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

    def _entities(self, ids: Iterable[EntityId]) -> Iterator[Entity]:
        for _, (state,) in scan(self._reader, [self._cut.spans], ids, self._may_read):
            if (entity := entity_of(state)) is not None:
                yield entity


class _Item(msgspec.Struct, frozen=True):
    """What a page tells of one id."""

    entity: Entity | None
    unresolved: tuple[Unresolved, ...]


def page(
    reader: LogReader,
    prepared: Prepared,
    *,
    after: EntityId | None = None,
    limit: int | None = None,
    may_read: MayRead = anything,
    limits: Limits = DEFAULTS,
) -> QueriedPage:
    """The next entities of the answer, and what of the named roots up to the last of them is unresolved.

    All pages together are the answer of `run`, without its bounds on the whole: no link is followed, so that each
    entity is in the answer or not by itself. A query with a schema is `InvalidQuery`.
    """
    if any(start.conjuncts is not None for start in prepared.starts):
        raise InvalidQuery(why="only a query without a schema comes in pages")
    budget = Budget(limit, limits)
    cut = _cut(reader, prepared)
    if len(prepared.starts) == 1 and not prepared.starts[0].listing and after is None:
        return _page_of_one(reader, cut, prepared, may_read)
    items, next_ = fill(_looked_at(reader, cut, prepared, after, may_read), _size, budget)
    entities = tuple(item.entity for item in items if item.entity is not None)
    return QueriedPage(cut.version, entities, tuple(one for item in items for one in item.unresolved), next_)


def _page_of_one(reader: LogReader, cut: Cut, prepared: Prepared, may_read: MayRead) -> QueriedPage:
    """One entity by its id, which is most of what is asked: the same answer without the way of many."""
    (visit,) = prepared.named()
    loaded = states.load(reader, cut.spans, [visit.id]) if may_read(visit.id) else {}
    item = _item(entity_of(loaded.get(visit.id)), [visit], [], prepared)
    entities = () if item is None or item.entity is None else (item.entity,)
    return QueriedPage(cut.version, entities, () if item is None else item.unresolved, None)


def _cut(reader: LogReader, prepared: Prepared) -> Cut:
    version = None if prepared.version is None else Version(prepared.version)
    time = None if prepared.time is None else TimeMs(prepared.time)
    return cut_at(reader, Moment(prepared.branch, version, time))


def _looked_at(
    reader: LogReader, cut: Cut, prepared: Prepared, after: EntityId | None, may_read: MayRead
) -> Iterator[tuple[EntityId, _Item | None]]:
    named: dict[EntityId, list[Visit]] = {}
    for visit in prepared.named():
        named.setdefault(visit.id, []).append(visit)
    listings = prepared.listings()
    below = (ids_under(reader, prefix, after) for prefix in prepared.prefixes())
    candidates = heapq.merge(sorted(id_ for id_ in named if after is None or id_ > after), *below)
    for id_, (state,) in scan(reader, [cut.spans], (id_ for id_, _ in groupby(candidates)), may_read):
        yield id_, _item(entity_of(state), named.get(id_, []), listed(listings, id_), prepared)


def _item(entity: Entity | None, named: list[Visit], listed_: list[Visit], prepared: Prepared) -> _Item | None:
    found = {visit: examine(visit, entity, prepared.space).found for visit in (*named, *listed_)}
    lost = tuple(Unresolved(visit.id, visit.path) for visit in named if found[visit] is Found.NOWHERE)
    told = entity if Found.MATCHED in found.values() else None
    return None if told is None and not lost else _Item(told, lost)


def _size(item: _Item) -> int:
    whole = 0 if item.entity is None else told_size(item.entity)
    return whole + sum(len(one.id.encode()) + len(one.path.encode()) + ITEM_BYTES for one in item.unresolved)
