"""Queries that name whole entities without a schema: an entity is in the answer if it is there."""

from __future__ import annotations

from collections.abc import Iterable

from stemmadb.client.watching.answers import Observation, shown_of
from stemmadb.client.watching.overlay import WatchOverlay
from stemmadb.protocol.model.query.query import Prepared, Start
from stemmadb.protocol.model.values import pointer
from stemmadb.protocol.model.values.ids import BranchName, EntityId


def selects_by_id(start: Start) -> bool:
    """Whether the root stands for whole entities, whatever their values are."""
    return start.conjuncts is None and start.path == pointer.ROOT


class QueryCoverage:
    """The ids that the plain roots of a query name, by id or by prefix."""

    __slots__ = ("ids", "prefixes")

    def __init__(self, prepared: Prepared) -> None:
        plain = [start for start in prepared.starts if selects_by_id(start) and prepared.window is None]
        self.ids = frozenset(EntityId(start.name) for start in plain if not start.listing)
        self.prefixes = tuple(dict.fromkeys(start.name for start in plain if start.listing))

    def has(self, id_: EntityId) -> bool:
        return id_ in self.ids or id_.startswith(self.prefixes)


class PlainAnswers:
    """Each entity is in the answer by itself, so that a look costs what is marked."""

    def __init__(self, coverage: QueryCoverage, branch: BranchName) -> None:
        self._coverage = coverage
        self._branch = branch

    def concerned(self, ids: Iterable[EntityId]) -> Iterable[EntityId]:
        return filter(self._coverage.has, ids)

    def look(self, overlay: WatchOverlay, marked: Iterable[EntityId]) -> Observation:
        return Observation({id_: overlay.value(self._branch, id_) for id_ in marked}, is_whole=False)

    def look_anew(self, overlay: WatchOverlay) -> Observation:
        found = shown_of(overlay, self._branch, self._coverage.ids)
        for prefix in self._coverage.prefixes:
            found |= shown_of(overlay, self._branch, overlay.under(self._branch, prefix))
        return Observation(found, is_whole=True)
