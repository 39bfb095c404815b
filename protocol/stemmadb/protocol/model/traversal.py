"""The traversal: from the roots along the links a schema reaches, asking for values level by level (QUERY-2, 4 to 7).

A visit is (entity, path, schema). It is made once, so cycles end; the same entity under another schema or path is
another visit. What a visit finds depends on the entity's value alone (`examine`), which is why the watch evaluator
can make single visits again and stand on the same function.
"""

from __future__ import annotations

import enum
from collections.abc import Generator, Iterable
from typing import Final, Generic, NamedTuple

from stemmadb.protocol.errors import InvalidPointer, LimitExceeded
from stemmadb.protocol.model import pointer, schema
from stemmadb.protocol.model.ids import Did, EntityId
from stemmadb.protocol.model.limits import DEFAULTS, Limits
from stemmadb.protocol.model.query import Answer, Ask, H, Held, Hop, Prepared, Supply, Unresolved, Visit
from stemmadb.protocol.model.values import Value

VISITS_PER_ENTITY_MAX: Final = 10
"""Schemas that links carry can multiply the visits of a few entities without end; this bounds them."""


class Found(enum.Enum):
    """What a visit came upon."""

    MATCHED = "matched"
    UNMATCHED = "unmatched"
    NOWHERE = "nowhere"
    """No such entity, none that may be read, or no such path in it: all alike (QUERY-5)."""


class Outcome(NamedTuple):
    """What one visit found; only a visit that matched has links."""

    found: Found
    hops: tuple[Hop, ...] = ()
    dangling: tuple[Unresolved, ...] = ()
    """Links that lead to no entity of this space whatever is stored: broken ones and those to other spaces."""


_UNMATCHED: Final = Outcome(Found.UNMATCHED)
_NOWHERE: Final = Outcome(Found.NOWHERE)
_MISSING: Final = object()


def traverse(
    prepared: Prepared, *, limits: Limits = DEFAULTS
) -> Generator[Ask, Supply[H], Answer[H]]:
    """Yields what it needs to see and is sent it; returns the answer (QUERY-7).

    Everything sent must be as of one version. The reply to the first `Ask` is iterated once, so it can be a mapping
    that reads from a store while it goes. `LimitExceeded` as soon as a bound is passed (QUERY-6).
    """
    walk: _Walk[H] = _Walk(prepared, limits)
    level = walk.start((yield Ask(walk.named_ids(), prepared.prefixes)))
    depth = 0
    while level:
        depth += 1
        if depth > limits.query_depth_max:
            raise LimitExceeded(bound="query_depth_max", maximum=limits.query_depth_max, actual=depth)
        missing = walk.missing(level)
        if missing:
            walk.take(missing, (yield Ask(missing)))
        level = walk.visit(level)
    return walk.answer()


def examine(visit: Visit, held: Held | None, space: Did | None) -> Outcome:
    """What this visit finds in the entity as it is held; None is an entity that is not there."""
    if held is None:
        return _NOWHERE
    value = resolve(held.value, visit.path)
    if value is _MISSING:
        return _NOWHERE
    if visit.conjuncts is None:
        return Outcome(Found.MATCHED)
    if not schema.selects(visit.conjuncts, value):  # type: ignore[arg-type]  # it is a value: it is not _MISSING
        return _UNMATCHED
    return _follow(visit, schema.reach(visit.conjuncts, value), space)  # type: ignore[arg-type]  # as above


def _follow(visit: Visit, reached: Iterable[schema.Reached], space: Did | None) -> Outcome:
    hops: list[Hop] = []
    dangling: list[Unresolved] = []
    for place, link, conjuncts in ((r.path, r.link, r.conjuncts) for r in reached):
        if not isinstance(link, schema.Link):
            dangling.append(Unresolved(visit.id, visit.path + pointer.write(place)))
        elif link.space is not None and link.space != space:
            dangling.append(Unresolved(link.id, link.path))
        else:
            hops.append(Hop(place, Visit(EntityId(link.id), link.path, conjuncts)))
    return Outcome(Found.MATCHED, tuple(hops), tuple(dangling))


def resolve(value: Value, path: str) -> object:
    """The part of the value at the path, or an object that is no value where the path leads nowhere."""
    if not path:
        return value
    try:
        tokens = pointer.parse(path)
    except InvalidPointer:
        return _MISSING
    part: object = value
    for token in tokens:
        part = _child(part, token)
    return part


def _child(part: object, token: str) -> object:
    if isinstance(part, dict):
        return part.get(token, _MISSING)
    if isinstance(part, list):
        index = pointer.index(token, len(part) - 1) if part else None
        return _MISSING if index is None else part[index]
    return _MISSING


class _Walk(Generic[H]):
    """The state of one traversal: the visits made, and the values that visits may still need."""

    def __init__(self, prepared: Prepared, limits: Limits) -> None:
        self.prepared = prepared
        self.limits = limits
        self.named = prepared.named
        self.seen: dict[Visit, None] = {}
        self.values: dict[EntityId, H | None] = {}
        self.entities: dict[EntityId, H] = {}
        self.bytes = 0
        self.unresolved: set[Unresolved] = set()
        self.unmatched: set[EntityId] = set()
        self.links: dict[Visit, tuple[Hop, ...]] = {}

    def named_ids(self) -> tuple[EntityId, ...]:
        return tuple(dict.fromkeys(visit.id for visit in self.named))

    def start(self, supply: Supply[H]) -> list[Visit]:
        """Visits the roots; gives the visits of the next level."""
        self.take(self.named_ids(), supply)
        upcoming: dict[Visit, None] = {}
        for visit in self.named:
            self._discover(visit)
            self._make(visit, upcoming)
        if self.prepared.listings:
            for id_, held in supply.items():
                self._list(id_, held, upcoming)
        return [visit for visit in upcoming if visit not in self.links]

    def _list(self, id_: EntityId, held: H, upcoming: dict[Visit, None]) -> None:
        """A listing selects: what it does not match leaves no trace, however many there are."""
        for start in self.prepared.listings:
            visit = start.visit(id_)
            if not id_.startswith(start.name) or visit in self.links:
                continue
            outcome = examine(visit, held, self.prepared.space)
            if outcome.found is Found.MATCHED:
                self.values[id_] = held
                self._discover(visit)
                self._record(visit, outcome, upcoming)

    def missing(self, level: list[Visit]) -> tuple[EntityId, ...]:
        return tuple(dict.fromkeys(visit.id for visit in level if visit.id not in self.values))

    def take(self, ids: Iterable[EntityId], supply: Supply[H]) -> None:
        for id_ in ids:
            self.values[id_] = supply.get(id_)

    def visit(self, level: list[Visit]) -> list[Visit]:
        """Makes the visits of a level; gives those of the next."""
        upcoming: dict[Visit, None] = {}
        for visit in level:
            self._make(visit, upcoming)
        return list(upcoming)

    def _make(self, visit: Visit, upcoming: dict[Visit, None]) -> None:
        outcome = examine(visit, self.values[visit.id], self.prepared.space)
        if outcome.found is Found.MATCHED:
            self._record(visit, outcome, upcoming)
        elif outcome.found is Found.UNMATCHED:
            self.unmatched.add(visit.id)
        else:
            self.unresolved.add(Unresolved(visit.id, visit.path))

    def _record(self, visit: Visit, outcome: Outcome, upcoming: dict[Visit, None]) -> None:
        self.links[visit] = outcome.hops
        self.unresolved.update(outcome.dangling)
        if visit.id not in self.entities:
            self._include(visit.id)
        for hop in outcome.hops:
            if hop.target not in self.seen:
                self._discover(hop.target)
                upcoming[hop.target] = None

    def _include(self, id_: EntityId) -> None:
        held = self.values[id_]
        assert held is not None
        self.entities[id_] = held
        self.bytes += held.size
        check_bounds(self.limits, visits=len(self.seen), entities=len(self.entities), size=self.bytes)

    def _discover(self, visit: Visit) -> None:
        self.seen[visit] = None
        check_bounds(self.limits, visits=len(self.seen), entities=0, size=0)

    def answer(self) -> Answer[H]:
        return Answer(
            entities=self.entities,
            unresolved=frozenset(self.unresolved),
            unmatched=frozenset(self.unmatched - self.entities.keys()),
            roots=self._roots(),
            links=self.links,
        )

    def _roots(self) -> tuple[Visit, ...]:
        roots: dict[Visit, None] = {}
        listed = sorted(self.entities) if self.prepared.listings else []
        for start in self.prepared.starts:
            ids = (i for i in listed if i.startswith(start.name)) if start.listing else (EntityId(start.name),)
            roots.update((visit, None) for visit in map(start.visit, ids) if visit in self.links)
        return tuple(roots)


def check_bounds(limits: Limits, *, visits: int, entities: int, size: int) -> None:
    """`LimitExceeded` naming the bound that is passed (QUERY-6)."""
    if entities > limits.query_entities_max:
        raise LimitExceeded(bound="query_entities_max", maximum=limits.query_entities_max, actual=entities)
    if size > limits.query_bytes_max:
        raise LimitExceeded(bound="query_bytes_max", maximum=limits.query_bytes_max, actual=size)
    visits_max = VISITS_PER_ENTITY_MAX * limits.query_entities_max
    if visits > visits_max:
        raise LimitExceeded(bound="query_visits_max", maximum=visits_max, actual=visits)
