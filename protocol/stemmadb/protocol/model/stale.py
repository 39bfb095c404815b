"""Stale reads: what overlaps a declared read, and what a person is told about it (COMMIT-2, COMMIT-4, SYNC-5)."""

from __future__ import annotations

from collections.abc import Collection

import msgspec

from stemmadb.protocol.model import pointer
from stemmadb.protocol.model.ids import BranchName, Did, EntityId, Version
from stemmadb.protocol.model.request import Read
from stemmadb.protocol.model.state import Change, EntityState


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


_OUT_OF_SIGHT = Change(Version(0), Did(""), None)


def overlapping(
    state: EntityState, path: str | None, after: Version, own: Collection[Version], scan_max: int
) -> Change | None:
    """The newest change after that version that overlaps the path, own commits aside; None for a path is every path.

    What lies past `scan_max` changes, or before what the state remembers, counts as overlap: refusing more is safe.
    """
    change = state.changes
    for _ in range(scan_max):
        if change is None or change.version <= after:
            break
        if change.version not in own and _touches(change, path):
            return change
        change = change.older
    all_seen = state.seen_after if change is None else change.version
    return None if all_seen <= after else _OUT_OF_SIGHT


def _touches(change: Change, path: str | None) -> bool:
    if path is None:
        return True
    return change.writes is None or any(pointer.overlaps(path, written) for written in change.writes)


def explain(read: Read, branch: BranchName, state: EntityState, change: Change) -> StaleRead:
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
