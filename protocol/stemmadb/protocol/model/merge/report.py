"""The conflicts of a merge as they are told to the caller, and as they are kept in its record (MERGE-3).

Told by path, within bounds; kept by entity, because a path is made of keys out of values, and a record outlives their
erasure (ERASE-1).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal, TypeAlias

import msgspec

from stemmadb.protocol.model.history.difference import PATH_BYTES_MAX
from stemmadb.protocol.model.log.commit_record import Contested
from stemmadb.protocol.model.values import pointer
from stemmadb.protocol.model.values.ids import EntityId

Winner: TypeAlias = Literal["source", "target", "both", "resolution"]


class ContestedPath(msgspec.Struct, frozen=True):
    """A place that both sides changed differently, and who won there."""

    path: tuple[str, ...]
    winner: Winner


def told(places: Sequence[ContestedPath]) -> list[tuple[str, Winner]]:
    """Each place by its path, cut to the greatest depth at which the paths together take at most `PATH_BYTES_MAX`."""
    depth = max(len(place.path) for place in places)
    while depth and not _is_short(places, depth):
        depth -= 1
    winners: dict[tuple[str, ...], Winner] = {}
    for place in places:
        cut = place.path[:depth]
        winners[cut] = _joined(winners.get(cut, place.winner), place.winner)
    return [(pointer.write(path), winner) for path, winner in winners.items()]


def _is_short(places: Sequence[ContestedPath], depth: int) -> bool:
    left = PATH_BYTES_MAX
    for path in dict.fromkeys(place.path[:depth] for place in places):
        left -= sum(len(pointer.escape(key).encode()) + 1 for key in path)
        if left < 0:
            return False
    return True


def by_entity(conflicts: Iterable[Contested]) -> tuple[Contested, ...]:
    """One conflict for each entity, without paths; won by `both` where different sides won in it."""
    found: dict[EntityId, Contested] = {}
    for conflict in conflicts:
        before = found.get(conflict.id, conflict)
        winner = _joined(before.winner, conflict.winner)
        found[conflict.id] = msgspec.structs.replace(conflict, path=pointer.ROOT, winner=winner)
    return tuple(found.values())


def _joined(one: Winner, other: Winner) -> Winner:
    return one if one == other else "both"


class MergeFindings:
    """The conflicts of a merge: by path as long as the paths are within `PATH_BYTES_MAX`, by entity from there on."""

    def __init__(self) -> None:
        self.conflicts: list[Contested] = []
        self._left = PATH_BYTES_MAX

    def add(self, conflicts: tuple[Contested, ...]) -> None:
        size = sum(len(conflict.path.encode()) for conflict in conflicts)
        if size > self._left:
            size, conflicts = 0, by_entity(conflicts)
        self._left -= size
        self.conflicts.extend(conflicts)
