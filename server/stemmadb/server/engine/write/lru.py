"""A map that keeps what was used last, bounded by a count."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Recent(Generic[K, V]):
    """Forgets what was not used for longest; whatever is forgotten can be looked up in the log again."""

    def __init__(self, count_max: int) -> None:
        self._count_max = count_max
        self._items: OrderedDict[K, V] = OrderedDict()

    def __contains__(self, key: K) -> bool:
        return key in self._items

    def __len__(self) -> int:
        return len(self._items)

    def get(self, key: K) -> V | None:
        items = self._items
        value = items.get(key)
        if value is not None or key in items:
            items.move_to_end(key)
        return value

    def put(self, key: K, value: V) -> None:
        items = self._items
        items[key] = value
        items.move_to_end(key)
        if len(items) > self._count_max:
            items.popitem(last=False)

    def clear(self) -> None:
        self._items.clear()
