"""Commits of a session that are to be sent again, with the lowest at hand however many there are (COMMIT-10)."""

from __future__ import annotations

from heapq import heappop, heappush

from stemmadb.protocol.errors import Unready
from stemmadb.protocol.model.ids import Local


class Postponed:
    """Each local with why it was put off. A flood of them costs what each of them costs, and not its square."""

    def __init__(self) -> None:
        self.unready: dict[Local, Unready] = {}
        self._lowest: list[Local] = []
        """A heap of all that are there, and of some that are not any more; its first is there."""

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
