"""The sides of a merge, gathered on one read view: what the source changed, at the bases, the source and the target.

Costs what was changed where the source and a base are apart, and not what there is (MERGE-2).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from functools import lru_cache

from stemmadb.protocol.model.history.difference import Content
from stemmadb.protocol.model.history.origins import OriginTrace
from stemmadb.protocol.model.history.stamps import Stamp
from stemmadb.protocol.model.log import ancestry, branch_spans
from stemmadb.protocol.model.log.ancestry import BranchPoint
from stemmadb.protocol.model.log.branch_spans import Span
from stemmadb.protocol.model.log.state import Missing
from stemmadb.protocol.model.merge import Candidate, MergeSide
from stemmadb.protocol.model.values import body
from stemmadb.protocol.model.values.ids import EMPTY_SPACE, EntityId
from stemmadb.server.engine.base import state_chunks
from stemmadb.server.engine.base.moments import BranchLookup
from stemmadb.server.engine.base.states import LoadedEntity
from stemmadb.server.engine.plan.known_merges import Merges
from stemmadb.server.engine.plan.merge_origins import MergeOrigins
from stemmadb.server.storage.port import FactPosition, LogReader


class Sides:
    """Two points of one read view, their best common ancestors, and the entities that may have to be merged."""

    def __init__(self, reader: LogReader, merges: Merges, *, source: BranchPoint, target: BranchPoint) -> None:
        self._reader = reader
        self._branches = BranchLookup(reader)
        self._floor = reader.floor()
        self._graph = ancestry.graph(self._branches, merges.edges, merges.last_change(reader))
        self._source, self._target = source, target
        self._bases = ancestry.best_common_ancestors(self._graph, source, target)
        self._points = (*self._bases, source, target)
        self._origins = MergeOrigins(reader, merges, self._graph, self._points)
        self._is_common = self._origins.split(source, target)

    @property
    def is_known(self) -> bool:
        """Whether the target knows all of the source already (MERGE-4)."""
        return ancestry.is_ancestor(self._graph, self._source, self._target)

    def candidates(self, ignore: Collection[EntityId] = ()) -> Iterator[Candidate]:
        """The entities that the source may have changed, by id; a bounded number of them is loaded at a time."""
        lineages = [self._lineage(point) for point in self._points]
        ids = {id_ for base in self._bases for id_ in self._changed_since(base)}
        for seen in state_chunks.scan(self._reader, lineages, sorted(ids.difference(ignore))):
            yield self._candidate(seen.id, seen.states)

    def _lineage(self, point: BranchPoint) -> tuple[Span, ...]:
        return branch_spans.lineage(self._branches, point.branch, point.version)

    def _changed_since(self, base: BranchPoint) -> Iterator[EntityId]:
        return self._reader.changed(branch_spans.apart(self._lineage(self._source), self._lineage(base)))

    def _candidate(self, id_: EntityId, states: Iterable[LoadedEntity | None]) -> Candidate:
        trace = lru_cache(maxsize=1)(lambda: self._origins.trace(id_))  # few ask for it, and then all their sides
        *bases, source, target = (
            self._side(point, state, trace) for point, state in zip(self._points, states, strict=True)
        )
        return Candidate(id_, tuple(bases), source, target, self._is_common)

    def _side(self, point: BranchPoint, state: LoadedEntity | None, trace: Callable[[], OriginTrace]) -> MergeSide:
        def stamp() -> Stamp:
            return trace().at(point).stamp

        knows = self._origins.knower(point)
        if state is None:
            return MergeSide(Missing.ABSENT, EMPTY_SPACE, stamp, knows)
        return MergeSide(self._content(point, state), state.version, stamp, knows)

    def _content(self, point: BranchPoint, state: LoadedEntity) -> Content:
        """The value. What is gone and below the floor was compacted away, as far as anybody can tell (COMPACT-1)."""
        if state.value is not Missing.ERASED:
            return state.value
        deleted = self._branches[point.branch].deleted
        seen = point.version if deleted is None else min(point.version, deleted)
        return self._checkpointed(point, state) if seen < self._floor else Missing.ERASED

    def _checkpointed(self, point: BranchPoint, state: LoadedEntity) -> Content:
        """The value from a checkpoint that directly follows.

        A base is the last commit that changed its branch. A compaction after it may have written a checkpoint, and a
        later one has dropped what the checkpoint replaces: only the checkpoint is pinned by a fork behind it.
        """
        later = [Span(point.branch, point.version, self._reader.tip().version)]
        last, place = state.hash, None
        while page := self._reader.facts_of(state.id, later, after=place, limit=1):
            (fact,) = page
            if fact.kind != "checkpoint" or fact.parent != last:
                break
            if fact.body is not None:
                return body.read_stored(fact.body)
            last, place = fact.hash, FactPosition(fact.version, fact.index)
        return Missing.COMPACTED
