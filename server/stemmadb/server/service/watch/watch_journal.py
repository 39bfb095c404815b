"""The journal of a watch: its last steps, and the net change between any two of them (SYNC-6, RESUME-1)."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from typing import Final

import msgspec

from stemmadb.protocol.model.values.ids import EntityId, Version
from stemmadb.server.engine.read.entities import EntityValue

ID_BYTES: Final = 128
"""What a journal counts for each entity that a step names, beside its value."""


class Delta(msgspec.Struct, frozen=True):
    """The net change of an answer between two versions. It may be shared, and is not to be changed."""

    entered: dict[EntityId, EntityValue]
    """Not held before, held after."""
    updated: dict[EntityId, EntityValue]
    """Held before and after, and touched between; it may have left and come back as it was."""
    left: frozenset[EntityId]
    """Held before, not after."""

    def is_empty(self) -> bool:
        return not (self.entered or self.updated or self.left)

    @property
    def size(self) -> int:
        """What it keeps in memory, about."""
        values = sum(one.size for held in (self.entered, self.updated) for one in held.values())
        return values + ID_BYTES * (len(self.entered) + len(self.updated) + len(self.left))


NOTHING: Final = Delta({}, {}, frozenset())


def compose(deltas: Iterable[Delta]) -> Delta:
    """One after the other, as one: values are the last ones."""
    entered: dict[EntityId, EntityValue] = {}
    updated: dict[EntityId, EntityValue] = {}
    left: set[EntityId] = set()
    for delta in deltas:
        for id_, entity in delta.entered.items():
            (updated if id_ in left else entered)[id_] = entity
        left.difference_update(delta.entered)
        for id_, entity in delta.updated.items():
            (entered if id_ in entered else updated)[id_] = entity
        for id_ in delta.left:
            updated.pop(id_, None)
            if entered.pop(id_, None) is None:
                left.add(id_)
    return Delta(entered, updated, frozenset(left))


class RecordedStep(msgspec.Struct, frozen=True):
    """The change of the answer from one version to another; in between it is not known."""

    after: Version
    to: Version
    delta: Delta
    size: int


class WatchJournal:
    """Reaches back to `floor`, and further with every step that is added, within its bounds: the oldest go first.

    The newest is kept whatever its size: members that are current ask for it alone, and read the log without it.
    """

    def __init__(self, floor: Version, *, steps_max: int, bytes_max: int) -> None:
        self.floor = floor
        self.size = 0
        self._steps_max = steps_max
        self._bytes_max = bytes_max
        self._entries: list[RecordedStep] = []
        self._last: tuple[Version, Version, Delta] | None = None
        """What was composed last: all members that are notified together ask for the same."""

    def __len__(self) -> int:
        return len(self._entries)

    def add(self, after: Version, to: Version, delta: Delta) -> None:
        """A step; what lies between the one before and this one changed nothing."""
        assert after >= (self._entries[-1].to if self._entries else self.floor), "steps are added in order"
        entry = RecordedStep(after, to, delta, delta.size)
        self._entries.append(entry)
        self.size += entry.size
        dropped, size, older = 0, self.size, len(self._entries) - 1
        while dropped < older and (older - dropped >= self._steps_max or size > self._bytes_max):
            size -= self._entries[dropped].size
            dropped += 1
        if dropped:
            self._drop(dropped)

    def trim(self, upto: Version) -> None:
        """Forgets the steps that end at or before a version."""
        self._drop(bisect_left(self._entries, upto + 1, key=_to))

    def between(self, after: Version, to: Version) -> Delta | None:
        """The net change; None if it does not reach back that far, or a step begins before `after` or `to`
        and ends behind it.
        """
        entries = self._entries
        before = entries[-2].to if len(entries) > 1 else self.floor
        if entries and self.floor <= after and before <= after <= entries[-1].after and entries[-1].to <= to:
            return entries[-1].delta  # the last step alone, as for all that are current
        first, end = bisect_left(entries, after + 1, key=_to), bisect_left(entries, to + 1, key=_to)
        if after < self.floor or self._is_inside(first, after) or self._is_inside(end, to):
            return None
        if end - first <= 1:
            return entries[first].delta if first < end else NOTHING
        if self._last is None or self._last[:2] != (after, to):
            self._last = (after, to, compose(entry.delta for entry in entries[first:end]))
        return self._last[2]

    def _is_inside(self, index: int, version: Version) -> bool:
        """Whether the first step that ends later than the version has begun before it."""
        return index < len(self._entries) and self._entries[index].after < version

    def _drop(self, count: int) -> None:
        if count:
            self.floor = self._entries[count - 1].to
            self.size -= sum(entry.size for entry in self._entries[:count])
            del self._entries[:count]
            self._last = None


def _to(entry: RecordedStep) -> int:
    return entry.to
