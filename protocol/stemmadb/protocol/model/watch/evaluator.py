"""The evaluator of one watch: fill it once, then step it from change to change (WATCH-1, WATCH-2)."""

from __future__ import annotations

import enum
from collections.abc import Generator, Iterable, KeysView, Mapping
from typing import Final, Generic, NoReturn

from stemmadb.protocol.errors import InvalidQuery, LimitExceeded
from stemmadb.protocol.model.query.query import (
    Ask,
    H,
    Outcome,
    Prepared,
    Supply,
    TraversalResult,
    Unresolved,
    Visit,
    VisitResult,
    listed,
)
from stemmadb.protocol.model.query.traversal import check_bounds, check_rows, examine, traverse
from stemmadb.protocol.model.query.window import OrderedRows, Window
from stemmadb.protocol.model.schema import TurnOver, WorkBudget
from stemmadb.protocol.model.values.ids import EntityId
from stemmadb.protocol.model.values.limits import DEFAULTS, Limits
from stemmadb.protocol.model.watch.graph import VisitGraph
from stemmadb.protocol.model.watch.node import VisitNode
from stemmadb.protocol.model.watch.step import WatchStep

NOTHING_ASKED: Final = Ask(())
"""A pause: the step goes on when it is sent anything."""
REVISING: Final = 40
"""Units of work to note what a visit of a step found, however simple its query is: about 8 us."""


class WatchState(enum.Enum):
    """A watch lives from the end of `fill`; a step that does not come to its end kills it."""

    NEW = "new"
    ALIVE = "alive"
    DEAD = "dead"


class WatchEvaluator(Generic[H]):
    """Keeps the visits of a query at head, so that a change costs what it touches.

    Between steps it holds no values: for each visit what was found, its links and who links to it; for each entity
    in the answer its size, for the bounds. While a step runs, or once one failed or was closed half way, the watch is
    dead and using it is an assertion; fill a new one.
    """

    def __init__(self, prepared: Prepared, *, limits: Limits = DEFAULTS) -> None:
        if not prepared.at_head():
            raise InvalidQuery(why="only a query at the head can be watched, not one at a version or a time")
        self.prepared = prepared
        self.limits = limits
        self.prefixes = (*prepared.prefixes(), *prepared.listed_ids())
        """Every entity that begins with one of these concerns the watch; the empty prefix means all."""
        self.state = WatchState.NEW
        self._listings = prepared.listings()
        self._graph = VisitGraph()
        self._roots = prepared.window_roots()
        self._rows = OrderedRows()
        """Of a window: all roots that match, in order (WATCH-4)."""
        self._shown: dict[EntityId, None] = {}
        """The rows in the window."""

    @property
    def ids(self) -> KeysView[EntityId]:
        """The entities that the answer depends on: in it, looked at and not matching, or not there."""
        return self._graph.entities.keys()

    def entities(self) -> set[EntityId]:
        """The ids in the answer."""
        return {id_ for id_, entity in self._graph.entities.items() if entity.matched}

    def size_of(self, id_: EntityId) -> int:
        """The bytes of the encoded value of an entity; 0 for one that the answer does not depend on."""
        entity = self._graph.entities.get(id_)
        return 0 if entity is None else entity.size

    @property
    def weight(self) -> int:
        """How many entities it remembers: those in the answer, and the rows outside of its window."""
        return self._graph.tally.entities + max(0, len(self._rows) - len(self._shown))

    def unresolved(self) -> frozenset[Unresolved]:
        return frozenset(self._graph.tally.unresolved)

    def concerns(self, ids: Iterable[EntityId]) -> list[EntityId]:
        """Which of these can matter: for the others no step is needed, and one would tell nothing."""
        known, prefixes = self._graph.entities, self.prefixes
        return [id_ for id_ in ids if id_ in known or id_.startswith(prefixes)]

    # ------------------------------------------------------------ the first evaluation

    def fill(self, budget: WorkBudget | None = None) -> Generator[Ask, Supply[H], TraversalResult[H]]:
        """The query, afresh; the watch continues from the version that it was fed from."""
        self._begin(WatchState.NEW)
        answer: TraversalResult[H] = yield from traverse(
            self.prepared, limits=self.limits, budget=budget, keep_rows=True
        )
        self._build(answer)
        self.state = WatchState.ALIVE
        return answer

    def _build(self, answer: TraversalResult[H]) -> None:
        graph = self._graph
        for visit in self.prepared.named():
            graph.anchor(visit, named=True)
        for visit in answer.roots:
            if self.prepared.window is not None or visit in listed(self._listings, visit.id):
                graph.anchor(visit, named=False)
        self._rows.fill(answer.rows)
        self._shown = dict.fromkeys(visit.id for visit in answer.roots) if answer.rows else {}
        while unvisited := graph.take_unvisited():
            for node in unvisited:
                held = answer.entities.get(node.visit.id)
                graph.assign(node, answer.visits[node.visit], size=0 if held is None else held.size)

    # ------------------------------------------------------------ a step

    def step(
        self, changes: Mapping[EntityId, H | None], budget: WorkBudget | None = None
    ) -> Generator[Ask, Supply[H], WatchStep[H]]:
        """From the answer before these changes to the one after; None is an entity that is no longer there.

        Asks for values, as of the version after the changes, only of entities that are newly linked to. Changes
        that do not concern the watch may be left out or not. `LimitExceeded` exactly if the query afresh raises it,
        but for `query_work_max`, which bounds the step by itself. Where the budget's turn is over it asks for
        nothing (`NOTHING_ASKED`): it goes on when it is sent anything, with no turn any more.
        """
        self._begin(WatchState.ALIVE)
        self._budget = budget or WorkBudget(self.limits.query_work_max)
        self._graph.tally.begin()
        for id_ in self.concerns(changes):
            yield from self._revise(id_, changes[id_])
        hand = dict(changes)
        if self.prepared.window is not None:
            yield from self._slide(self.prepared.window, changes, hand)
        self._graph.detach()
        yield from self._explore(hand)
        self._graph.drop()
        self._check_bounds()
        self.state = WatchState.ALIVE
        return self._report(changes, hand)

    def _begin(self, expected: WatchState) -> None:
        assert self.state is expected, f"the watch is {self.state.value}"
        self.state = WatchState.DEAD

    def _revise(self, id_: EntityId, held: H | None) -> Generator[Ask, Supply[H], None]:
        """Makes the visits of a changed entity again; new links wait until they are sure to be reached."""
        entity = self._graph.entities.get(id_)
        for node in tuple(entity.nodes.values()) if entity is not None else ():
            if node.found is not None:
                yield from self._make_again(node, held)
        if self.prepared.window is None:
            for visit in listed(self._listings, id_):
                yield from self._list(visit, held)
        else:
            yield from self._order(self.prepared.window, id_, held)

    def _order(self, window: Window, id_: EntityId, held: H | None) -> Generator[Ask, Supply[H], None]:
        """Where a changed entity is among the rows now."""
        row = None
        for visit in self._roots.visits(id_) if held is not None else ():
            assert held is not None
            outcome = yield from self._examined(visit, held)
            if outcome.found is VisitResult.MATCHED:
                row = window.row(id_, held.value)
                break
        self._rows.put(id_, row if row is not None and window.begins_before(row) else None)
        check_rows(len(self._rows), self.limits)

    def _slide(
        self, window: Window, changes: Mapping[EntityId, H | None], hand: dict[EntityId, H | None]
    ) -> Generator[Ask, Supply[H], None]:
        """Roots that left the window are roots no more; those that came into it are visited (WATCH-4)."""
        before, self._shown = self._shown, dict.fromkeys(self._rows.first(window.limit))
        for id_ in before:
            if id_ not in self._shown:
                self._unlist(id_)
        entered = [id_ for id_ in self._shown if id_ not in before]
        missing = tuple(id_ for id_ in entered if id_ not in hand)
        if missing:
            supply = yield Ask(missing)
            hand.update((id_, supply.get(id_)) for id_ in missing)
        for id_ in dict.fromkeys((*entered, *(id_ for id_ in changes if id_ in self._shown))):
            for visit in self._roots.visits(id_):
                yield from self._list(visit, hand[id_])

    def _unlist(self, id_: EntityId) -> None:
        for visit in self._roots.visits(id_):
            node = self._graph.find(visit)
            if node is not None and node.listed:
                self._graph.unlist(node)

    def _list(self, visit: Visit, held: H | None) -> Generator[Ask, Supply[H], None]:
        """A listing makes a root of what matches, and only of that."""
        node = self._graph.find(visit)
        if node is None or node.found is None:
            outcome = yield from self._examined(visit, held)
            if outcome.found is VisitResult.MATCHED:
                self._assign(self._graph.anchor(visit, named=False), outcome, held)
        elif node.found is VisitResult.MATCHED:
            self._graph.anchor(visit, named=False)
        elif node.listed:
            self._graph.unlist(node)

    def _make_again(self, node: VisitNode, held: H | None) -> Generator[Ask, Supply[H], None]:
        try:
            yield from self._make(node, held)
        except LimitExceeded as error:
            if error.facts["bound"] == "query_work_max":
                raise
            # A visit that cannot be made fails the step only if it is still reached: then it is made once more.
            self._graph.postpone(node)

    def _make(self, node: VisitNode, held: H | None) -> Generator[Ask, Supply[H], None]:
        self._assign(node, (yield from self._examined(node.visit, held)), held)

    def _examined(self, visit: Visit, held: H | None) -> Generator[Ask, Supply[H], Outcome]:
        """What the visit finds; where the turn is over it is begun again after the pause."""
        budget, before = self._budget, self._budget.spent
        try:
            return self._examine(visit, held, budget)
        except TurnOver:
            budget.spent = before  # what a step costs does not depend on where its turns end
            yield NOTHING_ASKED
            budget.turn = None
            return self._examine(visit, held, budget)

    def _examine(self, visit: Visit, held: H | None, budget: WorkBudget) -> Outcome:
        budget.spend(REVISING)
        return examine(visit, held, self.prepared.space, budget)

    def _assign(self, node: VisitNode, outcome: Outcome, held: H | None) -> None:
        self._graph.assign(node, outcome, size=0 if held is None else held.size)

    def _explore(self, hand: dict[EntityId, H | None]) -> Generator[Ask, Supply[H], None]:
        """Makes the visits that changed entities newly lead to. All of them are in the query afresh."""
        while level := self._next_level():
            missing = tuple(dict.fromkeys(node.visit.id for node in level if node.visit.id not in hand))
            if missing:
                supply = yield Ask(missing)
                hand.update((id_, supply.get(id_)) for id_ in missing)
            for node in level:
                yield from self._make(node, hand[node.visit.id])
                self._check_amounts()

    def _next_level(self) -> list[VisitNode]:
        """The visits to make next; those that seem too far wait until nothing nearer can shorten the way to them."""
        unvisited = self._graph.take_unvisited()
        if not unvisited:
            return unvisited
        near = self._within_depth(unvisited)
        if not near:
            self._graph.settle()
            near = self._within_depth(unvisited)
            if not near:
                self._too_deep()
        made_next = set(near)
        self._graph.defer(node for node in unvisited if node not in made_next)
        return near

    def _within_depth(self, nodes: list[VisitNode]) -> list[VisitNode]:
        return [node for node in nodes if node.depth <= self.limits.query_depth_max]

    def _check_bounds(self) -> None:
        self._check_amounts()
        if self._graph.deepest > self.limits.query_depth_max:
            self._graph.settle()
            if self._graph.deepest > self.limits.query_depth_max:
                self._too_deep()

    def _check_amounts(self) -> None:
        tally = self._graph.tally
        check_bounds(self.limits, visits=tally.visits, entities=tally.entities, size=tally.bytes)

    def _too_deep(self) -> NoReturn:
        maximum = self.limits.query_depth_max
        raise LimitExceeded(bound="query_depth_max", maximum=maximum, actual=maximum + 1)

    def _report(self, changes: Mapping[EntityId, H | None], hand: Mapping[EntityId, H | None]) -> WatchStep[H]:
        tally, entities = self._graph.tally, self._graph.entities
        entered: dict[EntityId, H] = {}
        updated: dict[EntityId, H] = {}
        left: set[EntityId] = set()
        for id_, was_shown in tally.shown_before.items():
            is_listed = id_ in entities and entities[id_].matched > 0
            if was_shown and not is_listed:
                left.add(id_)
            elif is_listed and (not was_shown or id_ in changes):
                held = hand[id_]
                assert held is not None  # nothing matches what is not there
                (updated if was_shown else entered)[id_] = held
        unresolved = tally.unresolved_before.items()
        known = tally.known_before.items()
        return WatchStep(
            entered=entered,
            updated=updated,
            left=frozenset(left),
            unresolved=frozenset(place for place, was in unresolved if not was and place in tally.unresolved),
            resolved=frozenset(place for place, was in unresolved if was and place not in tally.unresolved),
            watched=frozenset(id_ for id_, was in known if not was and id_ in entities),
            unwatched=frozenset(id_ for id_, was in known if was and id_ not in entities),
        )
