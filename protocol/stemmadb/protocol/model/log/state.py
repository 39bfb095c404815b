"""What a decision looks at: heads with their recent changes, branches, and what was accepted before."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum
from typing import Protocol

import msgspec

from stemmadb.protocol.model.access.access_roles import Rights
from stemmadb.protocol.model.log import facts
from stemmadb.protocol.model.log.changes import Changes
from stemmadb.protocol.model.log.commit_record import Identity
from stemmadb.protocol.model.values.ids import BranchName, Did, EntityId, Hash, Local, TimeMs, Version
from stemmadb.protocol.model.values.json_values import Value


class Missing(Enum):
    """Why there is no value: never written or deleted, or its bytes were destroyed."""

    ABSENT = "absent"
    ERASED = "erased"
    COMPACTED = "compacted"


class EntityState(msgspec.Struct, frozen=True, gc=False):
    """An entity on a branch as of now. Changes after `seen_after` are all in `changes`; older ones may not be.

    `version` is that of the newest fact that changed it, `hashed` that of the newest fact, checkpoints included: the
    one whose hash the next fact names as its parent. `patches` and `patch_bytes` are what it takes to replay it from
    its last whole value (SNAP-1).
    """

    id: EntityId
    version: Version
    hash: Hash
    value: Value | Missing
    size: int
    changes: Changes | None
    seen_after: Version
    hashed: Version
    patches: int = 0
    patch_bytes: int = 0


def empty_state(id_: EntityId) -> EntityState:
    """An entity nobody has written."""
    return EntityState(id_, Version(0), facts.empty(id_), Missing.ABSENT, 0, None, Version(0), Version(0))


class BranchState(msgspec.Struct, frozen=True, kw_only=True):
    """A branch: where it left its parent, how deep it is nested, and the last merge into it."""

    name: BranchName
    parent: BranchName | None = None
    fork: Version = Version(0)
    depth: int = 1
    deleted: Version | None = None
    merged: Version = Version(0)


class KnownCommit(msgspec.Struct, frozen=True, gc=False):
    """An accepted write as far as a retry is concerned (COMMIT-5)."""

    version: Version
    request: Hash


class NotGathered(LookupError):
    """The view was not given what a decision needs, which its arguments name: gather it and decide again."""


class DecisionView(Protocol):
    """State just before the batch. Every method may raise `NotGathered`; none waits."""

    @property
    def space(self) -> Did: ...
    @property
    def version(self) -> Version: ...
    @property
    def hash(self) -> Hash: ...
    @property
    def time(self) -> TimeMs: ...

    @property
    def destroyed(self) -> Version:
        """The version of the last erasure or compaction, or a later one."""
        ...

    @property
    def restructured(self) -> Version:
        """The version of the last write that made a branch, a tag or a merge, or a later one."""
        ...

    def branch(self, name: str) -> BranchState | None: ...

    def rights(self, principal: Did) -> Rights:
        """What the principal may do by the ACL just before this batch."""
        ...

    def revoked(self, name: Hash) -> bool:
        """Whether the delegation of that name was revoked before this batch (ACL-4)."""
        ...

    def tag(self, name: str) -> Version | None: ...

    def entity(self, branch: BranchName, id_: EntityId) -> EntityState: ...

    def at_hand(self) -> Mapping[tuple[BranchName, EntityId], EntityState]:
        """Entities of main, as `entity` gives them, that need not be asked for one by one; there may be none."""
        ...

    def changed_under(self, branch: BranchName, prefix: str, after: Version) -> Iterable[EntityState]:
        """The entities under the prefix with a fact after that version, as they are now.

        Best given lazily, the newest first: a decision stops at the first that it can use.
        """
        ...

    def accepted(self, identity: Identity) -> KnownCommit | None: ...

    def highest_local(self, principal: Did, session: bytes) -> Local:
        """The highest accepted local of a session, 0 if none."""
        ...
