"""Pages: how much of a list one call returns, how much it looks at, and how much it reads at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, TypeAlias, TypeVar

from stemmadb.protocol.errors import LimitExceeded
from stemmadb.protocol.model.values.limits import Limits

LOOKED_AT_MAX: Final = 10_000
"""How many candidates one call looks at; a page may be short, or empty, and still have a next one."""
ITEM_BYTES: Final = 512
"""What an item takes in a message beside its id, its body and its note: names, hashes, a branch, an author."""
ENVELOPE_BYTES: Final = 1_024
"""What is left free of a part for the message around its items."""

MayRead: TypeAlias = Callable[[str], bool]
"""Whether the caller may read an entity; what it may not read looks like what is missing (ACL-2)."""

P = TypeVar("P")
T = TypeVar("T")


def anything(_: str) -> bool:
    """For a caller that may read every entity."""
    return True


class Budget:
    """What a page may take: a number of items, and bytes so that it fits into one part of a message.

    A first item always fits, whatever its size: a part is `part_bytes_max`, or one item.
    """

    def __init__(self, limit: int | None, limits: Limits) -> None:
        assert limit is None or limit > 0, "a page has at least one item"
        if limit is not None and limit > limits.page_max:
            raise LimitExceeded(bound="page_max", maximum=limits.page_max, actual=limit)
        self._items = limits.page_max if limit is None else limit
        self._bytes = limits.part_bytes_max - ENVELOPE_BYTES
        self._is_first = True

    def takes(self, size: int) -> bool:
        """Counts one more item; False if it does not fit any more."""
        self._items -= 1
        self._bytes -= size
        fits = self._is_first or (self._items >= 0 and self._bytes >= 0)
        self._is_first = False
        return fits


def fill(
    looked_at: Iterable[tuple[P, T | None]], size: Callable[[T], int], budget: Budget
) -> tuple[list[T], P | None]:
    """The items of one page, and the place after which the next one goes on; None if nothing is left.

    Every candidate comes with its place; one without an item is passed over, and counts as looked at.
    """
    taken: list[T] = []
    last: P | None = None
    for count, (place, item) in enumerate(looked_at):
        if count == LOOKED_AT_MAX or (item is not None and not budget.takes(size(item))):
            return taken, last
        if item is not None:
            taken.append(item)
        last = place
    return taken, None


class Pace:
    """How many to read at once: more while they are small, fewer while they are large.

    Values differ in size by a million times, and how large one is shows only when it was read.
    """

    COUNT_FIRST: Final = 16
    COUNT_MAX: Final = 256
    BYTES_MAX: Final = 1024 * 1024
    """Beyond it the next reading asks for fewer."""
    READ_MAX: Final = 8 * BYTES_MAX
    """At which a reading stops, after one item at least: large items may come after any number of small ones."""

    def __init__(self) -> None:
        self.count: int = self.COUNT_FIRST

    def learn(self, read_bytes: int) -> None:
        """What the last reading brought."""
        if read_bytes > self.BYTES_MAX:
            self.count = max(1, self.count // 4)
        else:
            self.count = min(self.COUNT_MAX, self.count * 2)
