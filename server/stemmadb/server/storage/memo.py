"""A bounded map of what was looked up or written before."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Memo(dict[K, V], Generic[K, V]):
    """A map with a bound, kept when `trim` is called: the entries that were put in first go first."""

    def __init__(self, room: Callable[[], int]) -> None:
        super().__init__()
        self._room = room
        """How many entries there may be now."""

    def trim(self) -> bool:
        """Whether something had to go."""
        over = len(self) - self._room()
        if over > 0:
            for key in [key for _, key in zip(range(over), self, strict=False)]:
                del self[key]
        return over > 0
