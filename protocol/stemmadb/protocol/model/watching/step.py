"""What a watcher is told about one step from a version to a later one (WATCH-1)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic

from stemmadb.protocol.model.ids import EntityId
from stemmadb.protocol.model.query import H, Unresolved


@dataclass(frozen=True, slots=True)
class Step(Generic[H]):
    """The difference between the answer before and the answer after; together with the former it gives the latter."""

    entered: dict[EntityId, H]
    """Began to be in the answer."""
    updated: dict[EntityId, H]
    """Was in the answer, is in it, and was among the changes."""
    left: frozenset[EntityId]
    """Ceased to be in the answer: deleted, no longer matching, or no longer reached."""
    unresolved: frozenset[Unresolved]
    """Began to be unresolved."""
    resolved: frozenset[Unresolved]
    """Ceased to be unresolved: something is there now, or nothing leads there any more."""
    watched: frozenset[EntityId]
    """Ids the watch depends on from now on; with `unwatched` this keeps an index of watches by id true."""
    unwatched: frozenset[EntityId]
    """Ids the watch no longer depends on, other than by its prefixes."""

    def is_silent(self) -> bool:
        """Whether the watcher's answer is what it was."""
        return not (self.entered or self.updated or self.left or self.unresolved or self.resolved)
