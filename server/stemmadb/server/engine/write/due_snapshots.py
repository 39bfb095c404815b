"""Snapshots that are due: held back until a write takes them along, so that no reader pays for them (SNAP-1)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from stemmadb.protocol.model.values.body import encode
from stemmadb.protocol.model.values.json_values import Value
from stemmadb.server.engine.base.head_cache import Key
from stemmadb.server.storage.port import FactPosition, Snapshot


class Due(msgspec.Struct, frozen=True):
    """A value worth keeping whole, and the fact right after which an entity had it."""

    key: Key
    place: FactPosition
    value: Value
    size: int


class Backlog:
    """All that are due, bounded; what does not fit is dropped, and the head falls due again later.

    Several of one head as well: many patches of it may come in one batch, and each version can be read (HISTORY-3).
    """

    def __init__(self, *, count_max: int, bytes_max: int) -> None:
        self._count_max = count_max
        self._bytes_max = bytes_max
        self.due: list[Due] = []
        self._bytes = 0

    def add(self, due: Iterable[Due]) -> None:
        for one in due:
            if len(self.due) < self._count_max and self._bytes + one.size <= self._bytes_max:
                self.due.append(one)
                self._bytes += one.size

    @property
    def is_pressing(self) -> bool:
        """Whether a quarter of what it may hold is used: they are to be written, before any is dropped."""
        return 4 * len(self.due) >= self._count_max or 4 * self._bytes >= self._bytes_max

    def take(self) -> list[Due]:
        """Hands all of them over to the caller, which writes them."""
        due = self.due
        self.clear()
        return due

    def clear(self) -> None:
        self.due = []
        self._bytes = 0


def encoded(due: Sequence[Due]) -> list[Snapshot]:
    """For a worker thread: a value never changes, and encoding a large one takes its time."""
    return [Snapshot(one.key[0], one.key[1], one.place, encode(one.value)) for one in due]
