"""The cache of heads: bounded in bytes, shared by all spaces of a store, least recently used out first.

It belongs to the writers alone and holds heads that are decided and not yet durable; readers never see it.

What a head takes is estimated, since measuring a value would cost what reading it costs. Measured with tracemalloc on
documents of about 200 encoded bytes: 440 bytes for the head, its id, its hash and its numbers, 230 for its place in
the cache, and the value 2 to 5 times its encoded size for objects of texts, numbers and a few lists, 13 times for
small integers alone, and up to 48 times for lists of tiny objects. A change takes 80 bytes, or 200 with a path of
its own. The factors below fit the first kind and are too low for the last.
"""

from __future__ import annotations

import itertools
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Final, TypeAlias

from stemmadb.protocol.model.log.state import EntityState
from stemmadb.protocol.model.values.ids import BranchName, EntityId

HEAD_BYTES: Final = 700
VALUE_FACTOR: Final = 6
CHANGE_BYTES: Final = 200

Key: TypeAlias = tuple[BranchName, EntityId]


def footprint(head: EntityState) -> int:
    """About how many bytes of memory a head takes; a head never changes, so neither does this."""
    changes = head.changes
    count = 0 if changes is None else changes.count
    return HEAD_BYTES + VALUE_FACTOR * head.size + CHANGE_BYTES * count


class HeadCache:
    """Heads of many spaces under one bound."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._heads: OrderedDict[tuple[int, Key], EntityState] = OrderedDict()
        self._owners = itertools.count(1)
        self.bytes = 0

    def __len__(self) -> int:
        return len(self._heads)

    def share(self) -> Share:
        """What one space has of it."""
        return Share(self, next(self._owners))

    def find(self, owner: int, keys: Iterable[Key]) -> list[EntityState | None]:
        """What there is of each, in order; one loop, because a batch asks for hundreds."""
        found: list[EntityState | None] = []
        heads, use = self._heads, self._heads.move_to_end
        for key in keys:
            place = (owner, key)
            head = heads.get(place)
            if head is not None:
                use(place)
            found.append(head)
        return found

    def find_all(self, owner: int, keys: Iterable[Key]) -> dict[Key, EntityState] | None:
        """Each under its key; None if one of them is not there."""
        found: dict[Key, EntityState] = {}
        heads, use = self._heads, self._heads.move_to_end
        for key in keys:
            place = (owner, key)
            head = heads.get(place)
            if head is None:
                return None
            use(place)
            found[key] = head
        return found

    def put(self, owner: int, new: Mapping[Key, EntityState]) -> None:
        """Keeps the heads as the newest; a head too large for the whole cache is not kept at all."""
        heads, use, bytes_max = self._heads, self._heads.move_to_end, self._bytes_max
        for key, head in new.items():
            place = (owner, key)
            before = heads.get(place)
            heads[place] = head
            self.bytes += footprint(head)
            if before is not None:
                self.bytes -= footprint(before)
                use(place)
            if self.bytes > bytes_max:
                self._make_room(place)

    def _make_room(self, newest: tuple[int, Key]) -> None:
        if footprint(self._heads[newest]) > self._bytes_max:
            self._heads.move_to_end(newest, last=False)
        while self.bytes > self._bytes_max:
            _, oldest = self._heads.popitem(last=False)
            self.bytes -= footprint(oldest)

    def drop(self, owner: int) -> None:
        """Forgets all heads of one space, so that nothing of a value that was erased stays in memory."""
        for place in [place for place in self._heads if place[0] == owner]:
            self.bytes -= footprint(self._heads.pop(place))


class Share:
    """The heads of one space."""

    def __init__(self, cache: HeadCache, owner: int) -> None:
        self.find: Final = partial(cache.find, owner)
        self.find_all: Final = partial(cache.find_all, owner)
        self.put: Final = partial(cache.put, owner)
        self.drop: Final = partial(cache.drop, owner)
