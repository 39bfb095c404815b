"""The sides of a merge, gathered on one cut: what the source changed, at the bases, the source and the target.

Costs what was changed where the source and a base are apart, and not what there is (MERGE-2).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from functools import lru_cache
from typing import Final

from stemmadb.protocol.model import ancestry, branch
from stemmadb.protocol.model.ancestry import Point
from stemmadb.protocol.model.branch import Span
from stemmadb.protocol.model.difference import Content
from stemmadb.protocol.model.ids import EMPTY_SPACE, EntityId
from stemmadb.protocol.model.merge import Candidate, Side
from stemmadb.protocol.model.origins import Trace
from stemmadb.protocol.model.stamps import Stamp
from stemmadb.protocol.model.state import Missing
from stemmadb.server.engine import batches
from stemmadb.server.engine.merge_origins import Origins
from stemmadb.server.engine.merges import Merges
from stemmadb.server.engine.moments import Branches
from stemmadb.server.engine.states import Loaded
from stemmadb.server.storage.port import LogReader

LOOKED_UP_MAX: Final = 65_536


class Sides:
    """Two points of one cut, their best common ancestors, and the entities that may have to be merged."""

    def __init__(self, reader: LogReader, merges: Merges, *, source: Point, target: Point) -> None:
        self._reader = reader
        self._branches = Branches(reader)
        self._floor = reader.floor()
        last = lru_cache(maxsize=LOOKED_UP_MAX)(reader.last_write)
        self._graph = ancestry.graph(self._branches, merges.edges, last)
        self._source, self._target = source, target
        self._bases = ancestry.best_common_ancestors(self._graph, source, target)
        self._points = (*self._bases, source, target)
        self._origins = Origins(reader, merges, self._graph, self._points)

    @property
    def is_known(self) -> bool:
        """Whether the target knows all of the source already (MERGE-4)."""
        return ancestry.is_ancestor(self._graph, self._source, self._target)

    def candidates(self, ignore: Collection[EntityId] = ()) -> Iterator[Candidate]:
        """The entities that the source may have changed, by id; a bounded number of them is loaded at a time."""
        lineages = [self._lineage(point) for point in self._points]
        ids = {id_ for base in self._bases for id_ in self._changed_since(base)}
        for seen in batches.scan(self._reader, lineages, sorted(ids.difference(ignore))):
            yield self._candidate(seen.id, seen.states)

    def _lineage(self, point: Point) -> tuple[Span, ...]:
        return branch.lineage(self._branches, point.branch, point.version)

    def _changed_since(self, base: Point) -> Iterator[EntityId]:
        return self._reader.changed(branch.apart(self._lineage(self._source), self._lineage(base)))

    def _candidate(self, id_: EntityId, states: Iterable[Loaded | None]) -> Candidate:
        trace = lru_cache(maxsize=1)(lambda: self._origins.trace(id_))  # few ask for it, and then all their sides
        *bases, source, target = (
            self._side(point, state, trace) for point, state in zip(self._points, states, strict=True)
        )
        return Candidate(id_, tuple(bases), source, target)

    def _side(self, point: Point, state: Loaded | None, trace: Callable[[], Trace]) -> Side:
        def stamp() -> Stamp:
            return trace().at(point).stamp

        knows = self._origins.knower(point)
        if state is None:
            return Side(Missing.ABSENT, EMPTY_SPACE, stamp, knows)
        return Side(self._content(point, state), state.version, stamp, knows)

    def _content(self, point: Point, state: Loaded) -> Content:
        """The value. What is gone and below the floor was compacted away, as far as anybody can tell (COMPACT-1)."""
        if state.value is not Missing.ERASED:
            return state.value
        deleted = self._branches[point.branch].deleted
        seen = point.version if deleted is None else min(point.version, deleted)
        return Missing.COMPACTED if seen < self._floor else Missing.ERASED
