"""What nobody uses at the moment and may be wanted again: bounded in number and size, the oldest goes first."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Generic, TypeVar

LINGER_MAX: Final = 64
LINGER_ENTITIES_MAX: Final = 100_000

T = TypeVar("T")


class Lingering(Generic[T]):
    """In the order in which they came. How large one is may change while it lingers."""

    def __init__(
        self, size: Callable[[T], int], *, count_max: int = LINGER_MAX, size_max: int = LINGER_ENTITIES_MAX
    ) -> None:
        self._size = size
        self._count_max = count_max
        self._size_max = size_max
        self._items: dict[T, None] = {}

    def __len__(self) -> int:
        return len(self._items)

    def add(self, item: T) -> list[T]:
        """Takes one in as the newest; gives those that have to go, which may be itself."""
        self._items.pop(item, None)
        self._items[item] = None
        total, gone = sum(map(self._size, self._items)), []
        while len(self._items) > self._count_max or total > self._size_max:
            gone.append(self.pop())
            total -= self._size(gone[-1])
        return gone

    def remove(self, item: T) -> None:
        """It is used again, or over."""
        self._items.pop(item, None)

    def pop(self) -> T:
        """The oldest."""
        oldest = next(iter(self._items))
        del self._items[oldest]
        return oldest
