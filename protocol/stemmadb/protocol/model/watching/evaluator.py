"""The evaluator of one watch: fill it once, then step it from change to change (WATCH-1, WATCH-2)."""

from __future__ import annotations

import enum
from collections.abc import Generator, Iterable, KeysView, Mapping
from typing import Generic, NoReturn

from stemmadb.protocol.errors import InvalidQuery, LimitExceeded
from stemmadb.protocol.model.ids import EntityId
from stemmadb.protocol.model.limits import DEFAULTS, Limits
from stemmadb.protocol.model.query import (
    Answer,
    Ask,
    Found,
    H,
    Prepared,
    Supply,
    Unresolved,
    Visit,
    listed,
)
from stemmadb.protocol.model.traversal import check_bounds, examine, traverse
from stemmadb.protocol.model.watching.graph import Graph
from stemmadb.protocol.model.watching.node import Node
from stemmadb.protocol.model.watching.step import Step


class State(enum.Enum):
    """A watch lives from the end of `fill`; a step that does not come to its end kills it."""

    NEW = "new"
    ALIVE = "alive"
    DEAD = "dead"


class Watch(Generic[H]):
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
        self.prefixes = prepared.prefixes()
        """Every entity that begins with one of these concerns the watch; the empty prefix means all."""
        self.state = State.NEW
        self._listings = prepared.listings()
        self._graph = Graph()

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

    def unresolved(self) -> frozenset[Unresolved]:
        return frozenset(self._graph.tally.unresolved)

    def concerns(self, ids: Iterable[EntityId]) -> list[EntityId]:
        """Which of these can matter: for the others no step is needed, and one would tell nothing."""
        known, prefixes = self._graph.entities, self.prefixes
        return [id_ for id_ in ids if id_ in known or id_.startswith(prefixes)]

    # ------------------------------------------------------------ the first evaluation

    def fill(self) -> Generator[Ask, Supply[H], Answer[H]]:
        """The query, afresh; the watch continues from the version that it was fed from."""
        self._begin(State.NEW)
        answer: Answer[H] = yield from traverse(self.prepared, limits=self.limits)
        self._build(answer)
        self.state = State.ALIVE
        return answer

    def _build(self, answer: Answer[H]) -> None:
        graph = self._graph
        for visit in self.prepared.named():
            graph.anchor(visit, named=True)
        for visit in answer.roots:
            if visit in listed(self._listings, visit.id):
                graph.anchor(visit, named=False)
        while unvisited := graph.take_unvisited():
            for node in unvisited:
                held = answer.entities.get(node.visit.id)
                graph.assign(node, answer.visits[node.visit], size=0 if held is None else held.size)

    # ------------------------------------------------------------ a step

    def step(self, changes: Mapping[EntityId, H | None]) -> Generator[Ask, Supply[H], Step[H]]:
        """From the answer before these changes to the one after; None is an entity that is no longer there.

        Asks for values, as of the version after the changes, only of entities that are newly linked to. Changes
        that do not concern the watch may be left out or not. `LimitExceeded` exactly if the query afresh raises it.
        """
        self._begin(State.ALIVE)
        self._graph.tally.begin()
        for id_ in self.concerns(changes):
            self._revise(id_, changes[id_])
        self._graph.detach()
        hand = dict(changes)
        yield from self._explore(hand)
        self._graph.drop()
        self._check_bounds()
        self.state = State.ALIVE
        return self._report(changes, hand)

    def _begin(self, expected: State) -> None:
        assert self.state is expected, f"the watch is {self.state.value}"
        self.state = State.DEAD

    def _revise(self, id_: EntityId, held: H | None) -> None:
        """Makes the visits of a changed entity again; new links wait until they are sure to be reached."""
        entity = self._graph.entities.get(id_)
        for node in tuple(entity.nodes.values()) if entity is not None else ():
            if node.found is not None:
                self._make_again(node, held)
        for visit in listed(self._listings, id_):
            self._list(visit, held)

    def _list(self, visit: Visit, held: H | None) -> None:
        """A listing makes a root of what matches, and only of that."""
        node = self._graph.find(visit)
        if node is None or node.found is None:
            if examine(visit, held, self.prepared.space).found is Found.MATCHED:
                self._make(self._graph.anchor(visit, named=False), held)
        elif node.found is Found.MATCHED:
            self._graph.anchor(visit, named=False)
        elif node.listed:
            self._graph.unlist(node)

    def _make_again(self, node: Node, held: H | None) -> None:
        try:
            self._make(node, held)
        except LimitExceeded:
            # A visit that cannot be made fails the step only if it is still reached: then it is made once more.
            self._graph.postpone(node)

    def _make(self, node: Node, held: H | None) -> None:
        outcome = examine(node.visit, held, self.prepared.space)
        self._graph.assign(node, outcome, size=0 if held is None else held.size)

    def _explore(self, hand: dict[EntityId, H | None]) -> Generator[Ask, Supply[H], None]:
        """Makes the visits that changed entities newly lead to. All of them are in the query afresh."""
        while level := self._next_level():
            missing = tuple(dict.fromkeys(node.visit.id for node in level if node.visit.id not in hand))
            if missing:
                supply = yield Ask(missing)
                hand.update((id_, supply.get(id_)) for id_ in missing)
            for node in level:
                self._make(node, hand[node.visit.id])
                self._check_amounts()

    def _next_level(self) -> list[Node]:
        """The visits to make next; those that seem too far wait until nothing nearer can shorten the way to them."""
        unvisited = self._graph.take_unvisited()
        near = self._within_depth(unvisited)
        if unvisited and not near:
            self._graph.settle()
            near = self._within_depth(unvisited)
            if not near:
                self._too_deep()
        made_next = set(near)
        self._graph.defer(node for node in unvisited if node not in made_next)
        return near

    def _within_depth(self, nodes: list[Node]) -> list[Node]:
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

    def _report(self, changes: Mapping[EntityId, H | None], hand: Mapping[EntityId, H | None]) -> Step[H]:
        tally, entities = self._graph.tally, self._graph.entities
        entered: dict[EntityId, H] = {}
        updated: dict[EntityId, H] = {}
        left: set[EntityId] = set()
        for id_, was_held in tally.held_before.items():
            is_held = id_ in entities and entities[id_].matched > 0
            if was_held and not is_held:
                left.add(id_)
            elif is_held and (not was_held or id_ in changes):
                held = hand[id_]
                assert held is not None  # nothing matches what is not there
                (updated if was_held else entered)[id_] = held
        unresolved = tally.unresolved_before.items()
        known = tally.known_before.items()
        return Step(
            entered=entered,
            updated=updated,
            left=frozenset(left),
            unresolved=frozenset(place for place, was in unresolved if not was and place in tally.unresolved),
            resolved=frozenset(place for place, was in unresolved if was and place not in tally.unresolved),
            watched=frozenset(id_ for id_, was in known if not was and id_ in entities),
            unwatched=frozenset(id_ for id_, was in known if was and id_ not in entities),
        )
