"""Deferred commits of a session, which its client sends again; the lowest is found in O(1) (COMMIT-10)."""

from __future__ import annotations

from heapq import heappop, heappush

from stemmadb.protocol.errors import Unready
from stemmadb.protocol.model.values.ids import Local


class DeferredCommits:
    """Each local with the reason it was deferred. Adding n deferred commits is O(n log n), not O(n^2)."""

    def __init__(self) -> None:
        self.unready: dict[Local, Unready] = {}
        self._lowest: list[Local] = []
        """A heap of all locals in `unready`, and of some that were removed; its first is always in `unready`."""

    def __len__(self) -> int:
        return len(self.unready)

    @property
    def first(self) -> Local:
        """The lowest; there is one at least."""
        return self._lowest[0]

    def add(self, local: Local, unready: Unready) -> None:
        if local not in self.unready:
            heappush(self._lowest, local)
        self.unready[local] = unready

    def remove(self, local: Local) -> None:
        self.unready.pop(local, None)
        while self._lowest and self._lowest[0] not in self.unready:
            heappop(self._lowest)

    def remove_up_to(self, local: Local) -> None:
        while self._lowest and (self._lowest[0] <= local or self._lowest[0] not in self.unready):
            self.unready.pop(heappop(self._lowest), None)
