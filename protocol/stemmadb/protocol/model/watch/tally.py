"""The counts of a watch: what is in its answer, how much that is, and what a step changed about it."""

from __future__ import annotations

from stemmadb.protocol.model.query.query import Unresolved, VisitResult
from stemmadb.protocol.model.values.ids import EntityId
from stemmadb.protocol.model.watch.node import VisitNode, WatchedEntity


class Tally:
    """Counts attached visits only. On the first touch in a step it notes how it was before."""

    def __init__(self) -> None:
        self.visits = 0
        self.entities = 0
        self.bytes = 0
        self.unresolved: dict[Unresolved, int] = {}
        self.shown_before: dict[EntityId, bool] = {}
        self.known_before: dict[EntityId, bool] = {}
        self.unresolved_before: dict[Unresolved, bool] = {}

    def begin(self) -> None:
        """A new step: what was noted in the last one is over."""
        self.shown_before = {}
        self.known_before = {}
        self.unresolved_before = {}

    def count(self, node: VisitNode) -> None:
        self.visits += 1
        if node.found is VisitResult.MATCHED:
            self._match(node.entity, 1)
        for place in node.unresolved:
            self.unresolved_before.setdefault(place, place in self.unresolved)
            self.unresolved[place] = self.unresolved.get(place, 0) + 1

    def discount(self, node: VisitNode) -> None:
        self.visits -= 1
        if node.found is VisitResult.MATCHED:
            self._match(node.entity, -1)
        for place in node.unresolved:
            self.unresolved_before.setdefault(place, True)
            self.unresolved[place] -= 1
            if not self.unresolved[place]:
                del self.unresolved[place]

    def _match(self, entity: WatchedEntity, by: int) -> None:
        was_shown = entity.matched > 0
        self.shown_before.setdefault(entity.id, was_shown)
        entity.matched += by
        change = (entity.matched > 0) - was_shown
        self.entities += change
        self.bytes += change * entity.size

    def resize(self, entity: WatchedEntity, size: int) -> None:
        if entity.matched:
            self.bytes += size - entity.size
        entity.size = size

    def note_known(self, id_: EntityId, *, known: bool) -> None:
        """The graph begins or ceases to hold visits of the entity."""
        self.known_before.setdefault(id_, known)
