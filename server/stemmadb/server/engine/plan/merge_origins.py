"""What the origins of an entity are traced from: its facts, and the merges that the sides know (MERGE-3).

Asked for only where a conflict or a pair of increments depends on it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import cached_property, lru_cache
from typing import Final

from stemmadb.protocol.model.history.origins import OriginTrace, WrittenLeaves
from stemmadb.protocol.model.log import ancestry, branch_spans
from stemmadb.protocol.model.log.ancestry import BranchGraph, BranchPoint, Knowledge, MergeEdge
from stemmadb.protocol.model.log.facts import Fact
from stemmadb.protocol.model.log.state import BranchState
from stemmadb.protocol.model.values.ids import EMPTY_SPACE, BranchName, EntityId, Version
from stemmadb.server.engine.plan.known_merges import Merges
from stemmadb.server.storage.port import FactPosition, LogReader

FACTS_PAGE: Final = 1_000
LOOKED_UP_MAX: Final = 65_536
KNOWLEDGE_MAX: Final = 1_024
"""For how many points is remembered what they know: those of the merge, and the splits of the merges before it."""


class MergeOrigins:
    """Traces of entities at the points of one merge; what all of them have in common is found once."""

    def __init__(
        self, reader: LogReader, merges: Merges, graph: BranchGraph, points: tuple[BranchPoint, ...]
    ) -> None:
        self._reader = reader
        self._merges = merges
        self._graph = graph
        self._points = points
        self._knowledge = lru_cache(maxsize=KNOWLEDGE_MAX)(lambda point: ancestry.knowledge(graph, point))
        self._made_on = lru_cache(maxsize=LOOKED_UP_MAX)(self._look_up)

    def trace(self, id_: EntityId) -> OriginTrace:
        """The entity at all the points."""
        facts = _Facts(self._reader, self._merges, id_, self._known)
        resolved = self._merges.resolved.get(id_, ())
        return OriginTrace(self._branches, facts, self._edges, resolved, self._points, self._common)

    def split(self, one: BranchPoint, other: BranchPoint) -> Callable[[Version], bool]:
        """Whether a commit was made before two points split: both have it in common, and so has the empty space."""
        knows = self.knower(ancestry.split(self._graph.branches, one, other))
        return lambda version: version == EMPTY_SPACE or knows(version)

    def _common(self, edge: MergeEdge, version: Version) -> bool:
        target = BranchPoint(edge.target, Version(edge.version - 1))
        return self.split(BranchPoint(edge.source, edge.source_version), target)(version)

    def knower(self, point: BranchPoint) -> Callable[[Version], bool]:
        """Whether a point knows the commit of a version: one on a branch, or one that wrote facts on several."""

        def knows(version: Version) -> bool:
            if version > point.version:  # what is later than a point is unknown to it, without a look at the log
                return False
            known = self._knowledge(point)
            return any(version <= known.get(name, EMPTY_SPACE) for name in self._made_on(version))

        return knows

    def _look_up(self, version: Version) -> tuple[BranchName, ...]:
        commit = self._reader.commits([version])[version]
        return commit.fact_branches if commit.branch is None else (commit.branch,)

    @cached_property
    def _known(self) -> Knowledge:
        """All that any of the points knows: nothing else can have become a part of what they hold."""
        known: Knowledge = {}
        for point in self._points:
            for name, version in self._knowledge(point).items():
                known[name] = max(version, known.get(name, EMPTY_SPACE))
        return known

    @cached_property
    def _edges(self) -> tuple[MergeEdge, ...]:
        return tuple(edge for edge in self._merges.edges if edge.version <= self._known.get(edge.target, EMPTY_SPACE))

    @cached_property
    def _branches(self) -> dict[BranchName, BranchState]:
        """The branches that a walk along these facts, merges and points meets, and all above them."""
        found: dict[BranchName, BranchState] = {}
        todo: list[BranchName] = [*self._known, *(point.branch for point in self._points)]
        todo.extend(edge.source for edge in self._edges)
        while todo:
            name = todo.pop()
            if name not in found:
                found[name] = state = branch_spans.found(self._graph.branches, name)
                todo.extend(() if state.parent is None else (state.parent,))
        return found


class _Facts(Iterable[WrittenLeaves]):
    """The facts of an entity that are known, oldest first, a page of them at a time however many there are."""

    def __init__(self, reader: LogReader, merges: Merges, id_: EntityId, known: Knowledge) -> None:
        self._reader = reader
        self._merges = merges
        self._id = id_
        self._known = known

    def __iter__(self) -> Iterator[WrittenLeaves]:
        after: FactPosition | None = None
        while page := self._reader.facts_of(self._id, after=after, limit=FACTS_PAGE):
            for fact in page:
                if self._is_known(fact):
                    yield WrittenLeaves(fact, self._merges.records.get(fact.version))
            after = FactPosition(page[-1].version, page[-1].index)

    def _is_known(self, fact: Fact) -> bool:
        """Whether a point knows the commit of a fact; a checkpoint counts as part of the change before it.

        A branch is known up to its last change, and a checkpoint that was written after it changes nothing. But where
        a compaction took what came before, the checkpoint alone has the value. One that follows a change that nobody
        knows is later than all that is looked at, and makes no difference.
        """
        upto = self._known.get(fact.branch)
        return upto is not None and (fact.version <= upto or fact.kind == "checkpoint")
