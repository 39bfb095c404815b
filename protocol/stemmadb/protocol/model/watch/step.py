"""What a watcher is told about one step from a version to a later one (WATCH-1)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic

from stemmadb.protocol.model.query.query import H, Unresolved
from stemmadb.protocol.model.values.ids import EntityId


@dataclass(frozen=True, slots=True)
class WatchStep(Generic[H]):
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
