"""What a restored server has lost: commits seen confirmed here that it does not have (RESUME-4)."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from stemmadb.client.journal.port import ConfirmedCommit
from stemmadb.client.nursery.held import CommitName
from stemmadb.protocol.wire.messages.sync import Kept


class Losses:
    """The last confirmed commits with their content, within a bound on their number and on their bytes."""

    def __init__(self, confirmed: Iterable[ConfirmedCommit] = (), *, count_max: int, bytes_max: int) -> None:
        self._count_max = count_max
        self._bytes_max = bytes_max
        self._bytes = 0
        self._kept: deque[ConfirmedCommit] = deque()
        for one in confirmed:
            self.add(one)

    def add(self, commit: ConfirmedCommit) -> None:
        self._kept.append(commit)
        self._bytes += len(commit.content)
        while len(self._kept) > self._count_max or self._bytes > self._bytes_max:
            self._bytes -= len(self._kept.popleft().content)

    def compare(self, kept: Iterable[Kept], session: bytes) -> list[ConfirmedCommit]:
        """The commits that the server's history does not have; they are no longer held as confirmed."""
        there = {(CommitName(one.session or session, one.local), one.hash) for one in kept}
        lost = [one for one in self._kept if (one.name, one.hash) not in there]
        gone = {one.name for one in lost}
        self._kept = deque(one for one in self._kept if one.name not in gone)
        self._bytes = sum(len(one.content) for one in self._kept)
        return lost
