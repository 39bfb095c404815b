"""Idle items that may be used again: bounded in number and size, the oldest are dropped first."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Generic, TypeVar

IDLE_MAX: Final = 64
IDLE_ENTITIES_MAX: Final = 100_000

T = TypeVar("T")


class IdleItems(Generic[T]):
    """In the order in which they became idle. The size of an item may change while it is idle."""

    def __init__(
        self, size: Callable[[T], int], *, count_max: int = IDLE_MAX, size_max: int = IDLE_ENTITIES_MAX
    ) -> None:
        self._size = size
        self._count_max = count_max
        self._size_max = size_max
        self._items: dict[T, None] = {}

    def __len__(self) -> int:
        return len(self._items)

    def add(self, item: T) -> list[T]:
        """Adds an item as the newest; returns the items that have to be dropped, perhaps itself."""
        self._items.pop(item, None)
        self._items[item] = None
        total, dropped = sum(map(self._size, self._items)), []
        while len(self._items) > self._count_max or total > self._size_max:
            dropped.append(self.pop())
            total -= self._size(dropped[-1])
        return dropped

    def remove(self, item: T) -> None:
        """It is used again, or over."""
        self._items.pop(item, None)

    def pop(self) -> T:
        """The oldest."""
        oldest = next(iter(self._items))
        del self._items[oldest]
        return oldest
