"""A watcher in a test: holds what it is told, commits, and compares itself with the oracle after every step."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from graphs import HERE, Entities, Seen, Stored, exceeded, feed, naive, stored
from stemmadb.protocol.model.query.query import Ask, Query, Root, prepare
from stemmadb.protocol.model.values.ids import EntityId
from stemmadb.protocol.model.values.limits import DEFAULTS, Limits
from stemmadb.protocol.model.watch import WatchEvaluator, WatchStep

Changes = Mapping[EntityId, Stored | None]


class Watcher:
    """What a client of a watch holds: the answer of `fill`, and on it the steps."""

    def __init__(self, entities: Entities, query: Query, limits: Limits = DEFAULTS) -> None:
        self.entities = entities
        self.query = query
        self.limits = limits
        self.watch: WatchEvaluator[Stored] = WatchEvaluator(prepare(query, space=HERE), limits=limits)
        answer, _ = feed(self.watch.fill(), entities)
        self.held = dict(answer.entities)
        self.unresolved = set(answer.unresolved)
        self.depends_on = set(self.watch.ids)
        self.asked: list[Ask] = []
        self.fresh = naive(query, entities)
        self.compare()

    def passed(self) -> set[str]:
        """The bounds that the query afresh passes."""
        return exceeded(self.fresh, self.limits)

    def store(self, changes: Changes) -> None:
        for id_, after in changes.items():
            if after is None:
                self.entities.pop(id_, None)
            else:
                self.entities[id_] = after
        self.fresh = naive(self.query, self.entities)

    def step(self, changes: Changes) -> WatchStep[Stored]:
        """The step after the changes are stored; each part of it must fit on what is held."""
        step, self.asked = feed(self.watch.step(changes), self.entities)
        assert not step.entered.keys() & self.held.keys()
        assert step.updated.keys() <= self.held.keys() & changes.keys()
        assert step.left <= self.held.keys()
        self.held |= step.entered | step.updated
        for id_ in step.left:
            del self.held[id_]
        assert step.resolved <= self.unresolved
        assert not step.unresolved & self.unresolved
        self.unresolved = (self.unresolved - step.resolved) | step.unresolved
        assert step.unwatched <= self.depends_on
        assert not step.watched & self.depends_on
        self.depends_on = (self.depends_on - step.unwatched) | step.watched
        self.compare()
        self.check_graph()
        return step

    def compare(self) -> None:
        """What is held equals the query afresh (WATCH-1), and so does what the watch depends on."""
        fresh = self.fresh
        assert self.held.keys() == self.watch.entities() == fresh.entities
        assert all(held is self.entities[id_] for id_, held in self.held.items())
        assert self.unresolved == self.watch.unresolved() == fresh.unresolved
        assert self.depends_on == self.watch.ids == {seen.id for seen in fresh.distance}

    def check_graph(self) -> None:
        """The edges and depths that the evaluator relies on, and no visit too many (WATCH-2)."""
        nodes = list(self.watch._graph.nodes())
        assert {tuple(node.visit) for node in nodes} == {tuple(seen) for seen in self.fresh.distance}
        for node in nodes:
            assert node.attached
            sources = {source for source in nodes if node in source.out}
            assert sources == ({node.parent} if node.parent else set()) | set(node.others or ())
            assert node.depth >= self.fresh.distance[Seen(*node.visit)]
            if node.is_root():
                assert (node.parent, node.depth) == (None, 0)
            else:
                assert node.parent in sources
                assert node.parent.depth < node.depth

    def commit(self, changes: Mapping[str, Any], *, deleted: tuple[str, ...] = ()) -> WatchStep[Stored]:
        """Writes and deletes, then steps."""
        both: dict[EntityId, Stored | None] = {**stored(changes), **{EntityId(id_): None for id_ in deleted}}
        self.store(both)
        return self.step(both)


def watch(values: Mapping[str, Any], *roots: Root, limits: Limits = DEFAULTS) -> Watcher:
    return Watcher(stored(values), Query(roots=roots), limits)


def told(step: WatchStep[Stored]) -> tuple[set[str], set[str], set[str]]:
    """The ids that entered, were updated and left."""
    return set(step.entered), set(step.updated), set(step.left)


def is_silent(step: WatchStep[Any]) -> bool:
    """True if the answer of the watch is what it was before the step."""
    return not (step.entered or step.updated or step.left or step.unresolved or step.resolved)
