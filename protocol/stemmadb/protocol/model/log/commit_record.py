"""Commits: the record of one accepted write, and the one chain of hashes of a space (FACT-3)."""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

import msgspec
from msgspec.structs import force_setattr

from stemmadb.protocol.model.values.body import encode
from stemmadb.protocol.model.values.ids import EMPTY_SPACE, BranchName, Did, EntityId, Hash, Local, TimeMs, Version
from stemmadb.protocol.model.values.reference import hash_bytes

TAG_COMMIT: Final = "stemma.v1 commit"
TAG_GENESIS: Final = "stemma.v1 space"

Strategy = Literal["lww", "source", "target", "fields", "fail"]


class _Arguments(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", omit_defaults=True):
    """What a write other than an ordinary commit did: hashed as stored, and never erased."""


class BranchCreate(_Arguments, frozen=True, tag="branch.create"):
    name: BranchName
    parent: BranchName
    fork: Version


class BranchDelete(_Arguments, frozen=True, tag="branch.delete"):
    name: BranchName


class TagCreate(_Arguments, frozen=True, tag="tag.create"):
    name: str
    branch: BranchName
    version: Version


class TagDelete(_Arguments, frozen=True, tag="tag.delete"):
    name: str


class Contested(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One conflict of a merge: where, between which versions, and who won (MERGE-3).

    The path is for the report only: in a record it is empty, because keys must not outlive an erasure (ERASE-1).
    """

    id: EntityId
    path: str = ""
    base: Version | None = None
    source: Version
    target: Version
    winner: Literal["source", "target", "both", "resolution"]


class Merge(_Arguments, frozen=True, tag="merge"):
    """The second parent, the state of the target it was computed on, and every conflict there was."""

    source: BranchName
    source_version: Version
    target_version: Version
    strategy: Strategy = "lww"
    resolved: tuple[EntityId, ...] = ()
    conflicts: tuple[Contested, ...] = ()


class Revert(_Arguments, frozen=True, tag="revert"):
    versions: tuple[Version, ...]


class ErasedEntity(msgspec.Struct, frozen=True, kw_only=True):
    """An entity, and the versions at which an erasure destroyed its bodies."""

    id: EntityId
    versions: tuple[Version, ...]


class Erase(_Arguments, frozen=True, tag="erase"):
    """`entities` are further ones of the same erasure."""

    id: EntityId
    versions: tuple[Version, ...]
    entities: tuple[ErasedEntity, ...] = ()

    def every_entity(self) -> tuple[ErasedEntity, ...]:
        """All entities of it, the first one included."""
        return (ErasedEntity(id=self.id, versions=self.versions), *self.entities)


class Compact(_Arguments, frozen=True, tag="compact"):
    """Beside the floor, what its answer says, so that a repeated request gets the same one (COMMIT-11).

    `oldest` is the oldest readable version after it, where an earlier compaction had a higher floor.
    """

    floor: Version
    oldest: Version = EMPTY_SPACE
    bodies: int = 0
    blobs: int = 0
    bytes: int = 0
    snapshots: int = 0


class Revoke(_Arguments, frozen=True, tag="revoke"):
    delegation: Hash


class RevokeOwn(Revoke, frozen=True, tag="revoke"):
    """A token taken back by its own signer, who needs no `own` for it (TOKEN-4). In the log it is any `revoke`."""


Arguments: TypeAlias = BranchCreate | BranchDelete | TagCreate | TagDelete | Merge | Revert | Erase | Compact | Revoke
CommitKind = Literal[
    "commit",
    "branch.create",
    "branch.delete",
    "tag.create",
    "tag.delete",
    "merge",
    "revert",
    "erase",
    "compact",
    "revoke",
]
_arguments = msgspec.msgpack.Decoder(Arguments | None)
NO_ARGUMENTS: Final = encode(None)


class LocalIdentity(msgspec.Struct, frozen=True, gc=False):
    """Who a commit is, for ever: a principal, a session of it, and the client's own number (COMMIT-5)."""

    principal: Did
    session: bytes
    local: Local


class OperationIdentity(msgspec.Struct, frozen=True, gc=False):
    """Who a space-wide write is: a principal and 16 random bytes of the client (COMMIT-11)."""

    principal: Did
    operation: bytes


Identity: TypeAlias = LocalIdentity | OperationIdentity


class Commit(msgspec.Struct, frozen=True, gc=False):
    """An accepted write. `note` is the msgpack of message and metadata; it can be erased, its digest stays."""

    version: Version
    previous: Hash
    identity: Identity
    time: TimeMs
    request: Hash
    branch: BranchName | None
    facts: tuple[Hash, ...]
    note_digest: Hash
    fact_branches: tuple[BranchName, ...] = ()
    arguments: bytes = NO_ARGUMENTS
    note: bytes | None = None
    note_salt: bytes | None = None
    hash: Hash = Hash(b"")

    @property
    def author(self) -> Did:
        return self.identity.principal

    @property
    def kind(self) -> CommitKind:
        return "commit" if self.arguments == NO_ARGUMENTS else kind_of(self.details)

    @property
    def details(self) -> Arguments | None:
        """What the write did, beyond its facts; None for an ordinary commit."""
        details: Arguments | None = _arguments.decode(self.arguments)
        return details


def kind_of(details: Arguments | None) -> CommitKind:
    if details is None:
        return "commit"
    kind: CommitKind = details.__struct_config__.tag  # type: ignore[assignment]
    return kind


def genesis(space: str) -> Hash:
    """What the first commit of a space names as the one before it."""
    return hash_bytes(encode((TAG_GENESIS, space)))


def hash_commit(space: str, commit: Commit) -> Hash:
    """Covers everything a later decision relies on (FACT-3); the kind stands inside the arguments."""
    identity = commit.identity
    session: bytes | None
    number: int | bytes
    if isinstance(identity, LocalIdentity):
        session, number = identity.session, identity.local
    else:
        session, number = None, identity.operation
    preimage = (
        TAG_COMMIT,
        space,
        commit.previous,
        commit.version,
        commit.arguments,
        commit.branch,
        identity.principal,
        session,
        number,
        commit.time,
        commit.request,
        commit.note_digest,
        commit.facts,
        commit.fact_branches,
    )
    return hash_bytes(encode(preimage))


def sealed(space: str, commit: Commit) -> Commit:
    """The same record with its hash set: the last thing done to a commit that is being made."""
    force_setattr(commit, "hash", hash_commit(space, commit))
    return commit
