"""Which states of a space can still be read, so that what they are made of must be there (COMPACT-1)."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from stemmadb.protocol.model.log import branch_spans
from stemmadb.protocol.model.log.ancestry import BranchPoint
from stemmadb.protocol.model.log.branch_spans import Branches
from stemmadb.protocol.model.values.ids import BranchName, Version


class Lasting(msgspec.Struct, frozen=True):
    """A state that a branch has by a fact of its own, from a version on and until before another, or until now."""

    branch: BranchName
    since: Version
    before: Version | None


class Readable:
    """All states at or above the floor, and those that tags name.

    A branch that was deleted below the floor is not kept for its own sake.
    """

    def __init__(self, branches: Branches, tags: Iterable[BranchPoint], floor: Version) -> None:
        self._branches = branches
        self._floor = floor
        self._open = {name for name, state in branches.items() if state.deleted is None or state.deleted >= floor}
        self._points = [*tags, *(BranchPoint(name, floor) for name in self._open)]
        self._pins = pins(branches, self._points)

    def may_keep(self, state: Lasting) -> bool:
        """False if the state cannot be read, whatever entity it is of; costs little."""
        return self._is_own(state) or is_any(self._pins.get(state.branch, ()), state.since, state.before)

    def keeps(self, state: Lasting, first: Mapping[BranchName, Version]) -> bool:
        """Whether the state of an entity can be read, given the first version that wrote it on each branch."""
        return self._is_own(state) or any(self._sees(point, state, first) for point in self._points)

    def _is_own(self, state: Lasting) -> bool:
        """Whether its branch itself has it at or above the floor."""
        return state.branch in self._open and (state.before is None or max(state.since, self._floor) < state.before)

    def _sees(self, point: BranchPoint, state: Lasting, first: Mapping[BranchName, Version]) -> bool:
        for span in branch_spans.lineage(self._branches, point.branch, point.version):
            if span.branch in first and first[span.branch] <= span.upto:
                return span.branch == state.branch and is_any([span.upto], state.since, state.before)
        return False


def pins(branches: Branches, points: Iterable[BranchPoint]) -> dict[BranchName, list[Version]]:
    """For each branch the versions, rising, at which one of the points sees it."""
    found: dict[BranchName, list[Version]] = {}
    for point in points:
        for span in branch_spans.lineage(branches, point.branch, point.version):
            insort(found.setdefault(span.branch, []), span.upto)
    return found


def is_any(versions: Sequence[Version], since: Version, before: Version | None) -> bool:
    """Whether one of the versions, which rise, is from `since` on and before the other."""
    at = bisect_left(versions, since)
    return at < len(versions) and (before is None or versions[at] < before)
