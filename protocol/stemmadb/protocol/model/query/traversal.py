"""The traversal: from the roots along the links a schema reaches, asking for values level by level (QUERY-2, 4 to 7).

A visit is (entity, path, schema). It is made once, so cycles end; the same entity under another schema or path is
another visit. What a visit finds depends on the entity's value alone (`examine`), which is why the watch evaluator
can make single visits again and stand on the same function.
"""

from __future__ import annotations

import bisect
import enum
from collections.abc import Generator, Iterable, Iterator
from typing import Final, Generic, NamedTuple

from stemmadb.protocol.errors import InvalidPointer, LimitExceeded
from stemmadb.protocol.model import schema
from stemmadb.protocol.model.query.query import (
    Ask,
    H,
    Hop,
    Outcome,
    Prepared,
    SizedValue,
    Start,
    Supply,
    TraversalResult,
    Unresolved,
    Visit,
    VisitResult,
    listed,
)
from stemmadb.protocol.model.query.window import BUCKET_MAX, Row, Window
from stemmadb.protocol.model.schema import Conjuncts, WorkBudget
from stemmadb.protocol.model.values import pointer
from stemmadb.protocol.model.values.ids import Did, EntityId
from stemmadb.protocol.model.values.json_values import Value
from stemmadb.protocol.model.values.limits import DEFAULTS, Limits

VISITS_PER_ENTITY_MAX: Final = 10
"""Schemas that links carry can multiply the visits of a few entities without end; this bounds them."""
VISITING: Final = 10
"""Units of work for a visit, beside those that its schema costs."""


_TAKEN: Final = Outcome(VisitResult.MATCHED)
_UNMATCHED: Final = Outcome(VisitResult.UNMATCHED)
_NOWHERE: Final = Outcome(VisitResult.NOWHERE)


class MissingFromSupply(enum.Enum):
    """The sign that a path leads nowhere; null is a value like any other."""

    MISSING = "missing"


MISSING: Final = MissingFromSupply.MISSING


def traverse(
    prepared: Prepared, *, limits: Limits = DEFAULTS, budget: WorkBudget | None = None, keep_rows: bool = False
) -> Generator[Ask, Supply[H], TraversalResult[H]]:
    """Yields what it needs to see and is sent it; returns the answer (QUERY-7).

    Everything sent must be as of one version. The reply to the first `Ask` is iterated once, so it can be a mapping
    that reads from a store while it goes. `LimitExceeded` as soon as a bound is passed (QUERY-6). The budget is for
    a caller that may go away: it is that of `limits` if none is given. `keep_rows` is for whoever watches a window.
    """
    budget = budget or WorkBudget(limits.query_work_max)
    walk: _Walk[H] = _Walk(prepared, limits, budget)
    supply = yield Ask(walk.named_ids or prepared.listed_ids(), prepared.prefixes())
    if prepared.window is None:
        walk.start(supply)
    else:
        walk.choose(WindowChoice(prepared, prepared.window, limits, budget, keep_rows=keep_rows), supply)
    depth = 0
    while level := walk.level():
        depth += 1
        if depth > limits.query_depth_max:
            raise LimitExceeded(bound="query_depth_max", maximum=limits.query_depth_max, actual=depth)
        missing = walk.missing(level)
        if missing:
            walk.take(missing, (yield Ask(missing)))
        walk.visit(level)
    return walk.answer()


def examine(visit: Visit, entity: SizedValue | None, space: Did | None, budget: WorkBudget | None = None) -> Outcome:
    """What this visit finds in the entity as it is held; None is an entity that is not there."""
    if budget is not None:
        budget.spend(VISITING)
    if entity is None:
        return _NOWHERE
    value = resolve(entity.value, visit.path)
    if value is MISSING:
        return _NOWHERE
    if visit.conjuncts is None:
        return _TAKEN
    if not schema.selects(visit.conjuncts, value, budget):
        return _UNMATCHED
    return _follow(visit, schema.reach(visit.conjuncts, value, budget), space)


def _follow(visit: Visit, reached: Iterable[schema.Reached], space: Did | None) -> Outcome:
    hops: list[Hop] = []
    dangling: list[Unresolved] = []
    for one in reached:
        link = one.link
        if not isinstance(link, schema.EntityLink):
            dangling.append(Unresolved(visit.id, visit.path + pointer.write(one.path)))
        elif link.space is not None and link.space != space:
            dangling.append(Unresolved(link.id, link.path))
        else:
            hops.append(Hop(one.path, Visit(EntityId(link.id), link.path, one.conjuncts)))
    return Outcome(VisitResult.MATCHED, tuple(hops), tuple(dangling))


def resolve(value: Value, path: str) -> Value | MissingFromSupply:
    """The part of the value at the path; `MISSING` where the path leads nowhere or is no pointer."""
    if not path:
        return value
    try:
        tokens = pointer.parse(path)
    except InvalidPointer:
        return MISSING
    part: Value | MissingFromSupply = value
    for token in tokens:
        part = _child(part, token)
    return part


def _child(part: Value | MissingFromSupply, token: str) -> Value | MissingFromSupply:
    if isinstance(part, dict):
        return part.get(token, MISSING)
    if isinstance(part, list):
        index = pointer.index(token, len(part) - 1)
        return MISSING if index is None else part[index]
    return MISSING


class _Walk(Generic[H]):
    """The state of one traversal: the visits made, and the values that visits may still need."""

    def __init__(self, prepared: Prepared, limits: Limits, budget: WorkBudget) -> None:
        self.prepared = prepared
        self.limits = limits
        self.budget = budget
        self.named = prepared.named()
        self.named_ids = tuple(dict.fromkeys(visit.id for visit in self.named))
        self.listings = prepared.listings()
        self.discovered: set[Visit] = set()
        self.visits: dict[Visit, Outcome] = {}
        self.values: dict[EntityId, H | None] = {}
        self.entities: dict[EntityId, H] = {}
        self.bytes = 0
        self.unresolved: set[Unresolved] = set()
        self.next_level: list[Visit] = []
        self.window: tuple[Visit, ...] = ()
        self.rows: tuple[Row, ...] = ()

    def choose(self, choice: WindowChoice[H], supply: Supply[H]) -> None:
        """Visits the roots that are in the window, and follows links from those alone (QUERY-8)."""
        for id_ in self.prepared.listed_ids():
            if (entity := supply.get(id_)) is not None:
                choice.take(id_, entity)
        if self.listings:
            for id_, entity in supply.items():
                choice.take(id_, entity)
        chosen = choice.chosen()
        self.rows = choice.rows()
        self.window = tuple(visit for one in chosen for visit in one.visits)
        for one in chosen:
            self.values[one.row.id] = one.entity
            for visit in one.visits:
                self._discover(visit)
        for one in chosen:
            for visit in one.visits:
                self._make(visit)

    def start(self, supply: Supply[H]) -> None:
        """Visits the roots."""
        for visit in self.named:
            self._discover(visit)
        self.take(self.named_ids, supply)
        for visit in self.named:
            self._make(visit)
        if self.listings:
            for id_, entity in supply.items():
                self._list(id_, entity)

    def _list(self, id_: EntityId, entity: H) -> None:
        """A listing selects: what it does not match leaves no trace, however many there are."""
        for visit in listed(self.listings, id_):
            outcome = examine(visit, entity, self.prepared.space, self.budget)
            if outcome.found is VisitResult.MATCHED:
                self.values[id_] = entity
                self._discover(visit)
                self._record(visit, outcome)

    def level(self) -> list[Visit]:
        """The visits one link farther; a root that was also linked to is made already."""
        level = [visit for visit in self.next_level if visit not in self.visits]
        self.next_level = []
        return level

    def missing(self, level: list[Visit]) -> tuple[EntityId, ...]:
        return tuple(dict.fromkeys(visit.id for visit in level if visit.id not in self.values))

    def take(self, ids: Iterable[EntityId], supply: Supply[H]) -> None:
        for id_ in ids:
            self.values[id_] = supply.get(id_)

    def visit(self, level: list[Visit]) -> None:
        for visit in level:
            self._make(visit)

    def _make(self, visit: Visit) -> None:
        self._record(visit, examine(visit, self.values[visit.id], self.prepared.space, self.budget))

    def _record(self, visit: Visit, outcome: Outcome) -> None:
        self.visits[visit] = outcome
        self.unresolved.update(outcome.dangling)
        if outcome.found is VisitResult.MATCHED:
            self._include(visit.id)
        elif outcome.found is VisitResult.NOWHERE:
            self.unresolved.add(Unresolved(visit.id, visit.path))
        for hop in outcome.hops:
            if hop.target not in self.discovered:
                self._discover(hop.target)
                self.next_level.append(hop.target)

    def _include(self, id_: EntityId) -> None:
        if id_ in self.entities:
            return
        entity = self.values[id_]
        assert entity is not None
        self.entities[id_] = entity
        self.bytes += entity.size
        check_bounds(self.limits, entities=len(self.entities), size=self.bytes)

    def _discover(self, visit: Visit) -> None:
        self.discovered.add(visit)
        check_bounds(self.limits, visits=len(self.discovered))

    def answer(self) -> TraversalResult[H]:
        return TraversalResult(
            entities=self.entities,
            unresolved=frozenset(self.unresolved),
            roots=self._roots() if self.prepared.window is None else self.window,
            visits=self.visits,
            rows=self.rows,
        )

    def _roots(self) -> tuple[Visit, ...]:
        alike: dict[tuple[str, Conjuncts | None], list[EntityId]] = {}
        for visit, outcome in self.visits.items():
            if outcome.found is VisitResult.MATCHED:
                alike.setdefault((visit.path, visit.conjuncts), []).append(visit.id)
        for ids in alike.values():
            ids.sort()
        roots: dict[Visit, None] = {}
        for start in self.prepared.starts:
            ids = alike.get((start.path, start.conjuncts), [])
            roots.update((Visit(id_, start.path, start.conjuncts), None) for id_ in _begun(start, ids))
        return tuple(roots)


class ChosenRow(NamedTuple, Generic[H]):
    """A root that matched, as what it did, and its value."""

    row: Row
    visits: tuple[Visit, ...]
    entity: H


class WindowChoice(Generic[H]):
    """Chooses the first rows while the roots go by; values of the others are let go (QUERY-8)."""

    def __init__(
        self, prepared: Prepared, window: Window, limits: Limits, budget: WorkBudget, *, keep_rows: bool
    ) -> None:
        self._prepared = prepared
        self._roots = prepared.window_roots()
        self._window = window
        self._limits = limits
        self._budget = budget
        self._found: dict[EntityId, ChosenRow[H]] = {}
        self._rows: list[Row] | None = [] if keep_rows else None
        self._seen: set[EntityId] = set(prepared.listed_ids())
        self._taken: set[EntityId] = set()
        self._count = 0

    def take(self, id_: EntityId, entity: H) -> None:
        if id_ in self._taken:
            return
        if id_ in self._seen:  # it is listed by its id, and may come again under a prefix
            self._taken.add(id_)
        visits = self._matching(id_, entity)
        if not visits:
            return
        row = self._window.row(id_, entity.value)
        if not self._window.begins_before(row):
            return
        self._count += 1
        check_rows(self._count, self._limits)
        if self._rows is not None:
            self._rows.append(row)
        self._found[id_] = ChosenRow(row, visits, entity)
        limit = self._window.limit
        if limit is not None and len(self._found) > 2 * limit + BUCKET_MAX:
            self._found = {one.row.id: one for one in self.chosen()}

    def _matching(self, id_: EntityId, entity: H) -> tuple[Visit, ...]:
        found = self._roots.visits(id_)
        space, budget = self._prepared.space, self._budget
        return tuple([one for one in found if examine(one, entity, space, budget).found is VisitResult.MATCHED])

    def chosen(self) -> list[ChosenRow[H]]:
        """The rows in the window, in order."""
        return sorted(self._found.values(), key=lambda one: one.row)[: self._window.limit]

    def rows(self) -> tuple[Row, ...]:
        """All that matched, if somebody wants them."""
        return tuple(self._rows or ())


def check_rows(count: int, limits: Limits) -> None:
    """`LimitExceeded` if more roots match than are put in order (QUERY-8)."""
    if count > limits.ordered_entities_max:
        maximum = limits.ordered_entities_max
        raise LimitExceeded(bound="ordered_entities_max", maximum=maximum, actual=count)


def _begun(start: Start, ids: list[EntityId]) -> Iterator[EntityId]:
    """Those of the sorted ids that the root names or lists."""
    for index in range(bisect.bisect_left(ids, start.name), len(ids)):
        if not (ids[index].startswith(start.name) if start.listing else ids[index] == start.name):
            return
        yield ids[index]


def check_bounds(limits: Limits, *, visits: int = 0, entities: int = 0, size: int = 0) -> None:
    """`LimitExceeded` naming the bound that is passed (QUERY-6)."""
    if entities > limits.query_entities_max:
        raise LimitExceeded(bound="query_entities_max", maximum=limits.query_entities_max, actual=entities)
    if size > limits.query_bytes_max:
        raise LimitExceeded(bound="query_bytes_max", maximum=limits.query_bytes_max, actual=size)
    visits_max = VISITS_PER_ENTITY_MAX * limits.query_entities_max
    if visits > visits_max:
        raise LimitExceeded(bound="query_visits_max", maximum=visits_max, actual=visits)
