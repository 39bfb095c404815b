"""What a decision looks at: heads with their recent changes, branches, and what was accepted before."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from typing import Protocol

import msgspec

from stemmadb.protocol.model import facts
from stemmadb.protocol.model.access import Rights
from stemmadb.protocol.model.commit import Identity
from stemmadb.protocol.model.ids import BranchName, Did, EntityId, Hash, Local, TimeMs, Version
from stemmadb.protocol.model.values import Value


class Missing(Enum):
    """Why there is no value: never written or deleted, or its bytes were destroyed."""

    ABSENT = "absent"
    ERASED = "erased"
    COMPACTED = "compacted"


class Change(msgspec.Struct, frozen=True, gc=False):
    """A fact as far as overlap is concerned, linked to the one before it.

    `writes` None means every path: a `set`, a `delete`, or a fact whose body is gone (COMMIT-2). Linked, and not in a
    list, so that a new head shares the older changes instead of copying them.
    """

    version: Version
    author: Did
    writes: tuple[str, ...] | None
    older: Change | None = None
    count: int = 1


class EntityState(msgspec.Struct, frozen=True, gc=False):
    """An entity on a branch as of now. Changes after `seen_after` are all in `changes`; older ones may not be."""

    id: EntityId
    version: Version
    hash: Hash
    value: Value | Missing
    size: int = 0
    changes: Change | None = None
    seen_after: Version = Version(0)


def empty_state(id_: EntityId) -> EntityState:
    """An entity nobody has written."""
    return EntityState(id_, Version(0), facts.empty(id_), Missing.ABSENT)


class BranchState(msgspec.Struct, frozen=True, kw_only=True):
    """A branch: where it left its parent, how deep it is nested, and the last merge into it."""

    name: BranchName
    parent: BranchName | None = None
    fork: Version = Version(0)
    depth: int = 1
    deleted: Version | None = None
    merged: Version = Version(0)


class Known(msgspec.Struct, frozen=True, gc=False):
    """An accepted write as far as a retry is concerned (COMMIT-5)."""

    version: Version
    request: Hash


class NotGathered(LookupError):
    """The view was not given what a decision needs: the caller gathers it and decides the rest again."""


class View(Protocol):
    """State just before the batch. Every method may raise `NotGathered`; none waits."""

    @property
    def space(self) -> Did: ...
    @property
    def version(self) -> Version: ...
    @property
    def hash(self) -> Hash: ...
    @property
    def time(self) -> TimeMs: ...

    def branch(self, name: str) -> BranchState | None: ...

    def rights(self, principal: Did) -> Rights:
        """What the principal may do by the ACL just before this batch."""
        ...

    def tag(self, name: str) -> Version | None: ...

    def entity(self, branch: BranchName, id_: EntityId) -> EntityState: ...

    def changed_under(self, branch: BranchName, prefix: str, after: Version) -> Iterable[EntityState]:
        """The entities under the prefix with a fact after that version, as they are now."""
        ...

    def accepted(self, identity: Identity) -> Known | None: ...

    def highest_local(self, principal: Did, session: bytes) -> Local:
        """The highest accepted local of a session, 0 if none."""
        ...


def link(
    head: EntityState, version: Version, author: Did, writes: tuple[str, ...] | None, scan_max: int
) -> tuple[Change, Version]:
    """The changes with a new one in front, and how far back they reach.

    When twice the scan bound is held the older half is forgotten; that keeps the cost of a write constant on average.
    """
    older = head.changes
    count = older.count + 1 if older is not None else 1
    change = Change(version, author, writes, older, count)
    return (change, head.seen_after) if count <= 2 * scan_max else _newest(change, scan_max)


def _newest(change: Change, keep: int) -> tuple[Change, Version]:
    kept: list[Change] = []
    current: Change | None = change
    while current is not None and len(kept) < keep:
        kept.append(current)
        current = current.older
    assert current is not None
    rebuilt: Change | None = None
    for item in reversed(kept):
        rebuilt = Change(item.version, item.author, item.writes, rebuilt, rebuilt.count + 1 if rebuilt else 1)
    assert rebuilt is not None
    return rebuilt, current.version
