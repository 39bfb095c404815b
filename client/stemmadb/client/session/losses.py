"""What a restored server has lost: commits seen confirmed here that it does not have (RESUME-4)."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from stemmadb.client.journal.port import ConfirmedCommit
from stemmadb.client.nursery.entities import CommitName
from stemmadb.protocol.model.values.ids import EMPTY_SPACE, Version
from stemmadb.protocol.wire.messages.sync import Kept


class Compared(NamedTuple):
    """What became of the confirmed commits that the server did not list."""

    lost: list[ConfirmedCommit]
    """The server's history does not have them."""
    unknown: list[ConfirmedCommit]
    """Older than what the server listed: it may have them, so writing them again could write them twice."""


class Losses:
    """The last confirmed commits with their content, within a bound on their number and on their bytes."""

    def __init__(self, confirmed: Iterable[ConfirmedCommit] = (), *, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._confirmed: deque[ConfirmedCommit] = deque(confirmed)
        self._bytes = sum(len(one.content) for one in self._confirmed)

    def add(self, commits: Iterable[ConfirmedCommit], *, count_max: int) -> tuple[CommitName, ...]:
        """Takes commits just confirmed; gives the oldest ones that are beyond a bound and no longer held."""
        dropped = []
        for commit in commits:
            self._confirmed.append(commit)
            self._bytes += len(commit.content)
        while len(self._confirmed) > count_max or self._bytes > self._bytes_max:
            oldest = self._confirmed.popleft()
            self._bytes -= len(oldest.content)
            dropped.append(oldest.name)
        return tuple(dropped)

    def compare(self, kept: Sequence[Kept], session: bytes, *, count_max: int) -> Compared:
        """Which commits the server's history does not have; lost ones no longer count as confirmed."""
        compared = compare(self._confirmed, kept, session, count_max=count_max)
        missing = {one.name for one in compared.lost}
        self._confirmed = deque(one for one in self._confirmed if one.name not in missing)
        self._bytes = sum(len(one.content) for one in self._confirmed)
        return compared


def compare(
    confirmed: Iterable[ConfirmedCommit], kept: Sequence[Kept], session: bytes, *, count_max: int
) -> Compared:
    """Judges each commit by what `kept` covers: the last `count_max` of this session, and of the principal in all.

    A commit older than that is unknown. A commit's hash covers the whole log before it, so one that both sides have
    vouches for every version up to its own.
    """
    confirmed = list(confirmed)
    listed = {(CommitName(one.session or session, one.local), one.hash) for one in kept}
    shared = max((one.version for one in confirmed if (one.name, one.hash) in listed), default=EMPTY_SPACE)
    covered = _covered_since([one.version for one in kept], count_max)
    own_covered = min(covered, _covered_since([one.version for one in kept if one.session is None], count_max))
    lost: list[ConfirmedCommit] = []
    unknown: list[ConfirmedCommit] = []
    for one in confirmed:
        if one.version <= shared:
            continue
        since = own_covered if one.name.session == session else covered
        (lost if one.version >= since else unknown).append(one)
    return Compared(lost, unknown)


def _covered_since(versions: Iterable[Version], count_max: int) -> Version:
    """The version from which on nothing is left out: a list that does not reach its bound is complete."""
    newest = sorted(versions, reverse=True)[:count_max]
    return EMPTY_SPACE if len(newest) < count_max else newest[-1]
