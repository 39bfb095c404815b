"""Stale reads: what overlaps a declared read, and what a person is told about it (COMMIT-2, COMMIT-4, SYNC-5)."""

from __future__ import annotations

from collections.abc import Collection

import msgspec

from stemmadb.protocol.model.commit.request import Read
from stemmadb.protocol.model.log.changes import RecordedChange
from stemmadb.protocol.model.log.state import EntityState
from stemmadb.protocol.model.values import pointer
from stemmadb.protocol.model.values.ids import BranchName, Did, EntityId, Version


class StaleRead(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """A read that does not hold: what was read, at which version, and the commit that won and its author.

    `author` is unknown where the winner lies beyond what is scanned.
    """

    branch: BranchName
    id: EntityId
    path: str = ""
    prefix: str | None = None
    read: Version
    head: Version
    winner: Version
    author: Did | None = None


_OUT_OF_SIGHT = RecordedChange(Version(0), Did(""), None)
COMPARISONS_MAX = 100_000


class Scan:
    """How much one proposal may compare. What lies beyond counts as overlap: refusing more is safe (COMMIT-2)."""

    def __init__(self, facts_max: int) -> None:
        self._facts_max = facts_max
        self._comparisons_left = COMPARISONS_MAX

    def overlapping(
        self, state: EntityState, path: str | None, after: Version, own: Collection[Version]
    ) -> RecordedChange | None:
        """The newest change after that version that overlaps the path, own commits aside; None is every path."""
        facts_left = self._facts_max
        for change in state.changes or ():
            if change.version <= after:
                return None
            if change.version in own:
                continue
            facts_left -= 1
            self._comparisons_left -= 1 if change.writes is None else len(change.writes)
            if facts_left < 0 or self._comparisons_left < 0:
                return _OUT_OF_SIGHT
            if _touches(change, path):
                return change
        return None if state.seen_after <= after else _OUT_OF_SIGHT


def _touches(change: RecordedChange, path: str | None) -> bool:
    if path is None or change.writes is None:
        return True
    return any(pointer.overlaps(path, written) for written in change.writes)


def explain(read: Read, branch: BranchName, state: EntityState, change: RecordedChange) -> StaleRead:
    """The stale read as data; the winner of a change out of sight is the head."""
    seen = change is not _OUT_OF_SIGHT
    return StaleRead(
        branch=branch,
        id=state.id,
        path=read.path,
        prefix=read.prefix,
        read=read.version,
        head=state.version,
        winner=change.version if seen else state.version,
        author=change.author if seen else None,
    )
