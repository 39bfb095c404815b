"""Which pending commits were read through which: found from below, when one is refused or no longer shown.

A commit may be read through thousands of others, most of them as one run of locals. Each run is kept as the few
aligned blocks that make it up, as a segment tree keeps an interval: adding it, removing it, and looking for a local
in it each take as many steps as the local has bits.

Example: commit 8 was read through the locals 2 to 7.

    add(8)      block 2-3 and block 4-7 have commit 8
    of(5)       block 5, block 4-5 and block 4-7 are looked up: commit 8
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

from stemmadb.client.nursery.commit_names import CommitNames
from stemmadb.client.nursery.entities import CommitName

_Block: TypeAlias = tuple[bytes, int, int]
"""A session, a level and an index: the locals that are the index once as many of their lowest bits are cut off."""


class Dependents:
    """Belongs to the layers: what is pending is added, and removed once it is decided."""

    def __init__(self) -> None:
        self._blocks: dict[_Block, dict[CommitName, None]] = {}
        self._levels = 0
        """How many levels of blocks there are."""

    def add(self, name: CommitName, depends: CommitNames) -> None:
        for block in _blocks_of(depends):
            self._levels = max(self._levels, block[1] + 1)
            self._blocks.setdefault(block, {})[name] = None

    def discard(self, name: CommitName, depends: CommitNames) -> None:
        for block in _blocks_of(depends):
            names = self._blocks.get(block)
            if names is not None:
                names.pop(name, None)
                if not names:
                    del self._blocks[block]

    def of(self, below: CommitName) -> Iterator[CommitName]:
        """In no order; one that was read through it by several reads may come more than once."""
        session, local = below
        if self._blocks:
            for level in range(self._levels):
                yield from self._blocks.get((session, level, local >> level), ())


def _blocks_of(depends: CommitNames) -> Iterator[_Block]:
    for session, low, high in depends.runs:
        first, end, level = low, high + 1, 0
        while first < end:
            if first & 1:
                yield session, level, first
                first += 1
            if end & 1:
                end -= 1
                yield session, level, end
            first, end, level = first >> 1, end >> 1, level + 1
