"""Writes other than commits: branches, tags, merge, revert, erase, compact (BRANCH-1, MERGE-1..4, COMMIT-9, 11)."""

from __future__ import annotations

from typing import Any, ClassVar, Final, Literal

import msgspec

from stemmadb.protocol.model.commit.request import digest_request
from stemmadb.protocol.model.log.commit_record import Contested, Strategy
from stemmadb.protocol.model.values.body import encode
from stemmadb.protocol.model.values.ids import MAIN, BranchName, Did, EntityId, Hash
from stemmadb.protocol.wire.messages.base import PagedAnswer, PagedRequest, Part, WriteRequest, Written
from stemmadb.protocol.wire.messages.fields import Body, Count, RandomId, WireHash, WireTime, WireVersion


class CreateBranch(WriteRequest, frozen=True, kw_only=True, tag="branch.create"):
    """Forks `parent` at `fork`, or at its head."""

    name: BranchName
    parent: BranchName = MAIN
    fork: WireVersion | None = None
    note: Body | None = None


class DeleteBranch(WriteRequest, frozen=True, kw_only=True, tag="branch.delete"):
    """Ends a branch; it stays readable and can be merged from."""

    name: BranchName
    note: Body | None = None


class BranchEntry(Part, frozen=True, kw_only=True):
    """`head` is the version of the last write on the branch, 0 if there is none; `deleted` is when it ended."""

    name: BranchName
    parent: BranchName | None = None
    fork: WireVersion
    head: WireVersion
    deleted: WireVersion | None = None


class BranchesAnswer(PagedAnswer, frozen=True, kw_only=True):
    branches: tuple[BranchEntry, ...] = ()


class ListBranches(PagedRequest, frozen=True, kw_only=True, tag="branch.list"):
    """The branches by name, deleted ones included."""

    answer: ClassVar[type[Part]] = BranchesAnswer


class CreateTag(WriteRequest, frozen=True, kw_only=True, tag="tag.create"):
    """Names a version of a branch, or its head, and keeps it from being compacted away."""

    name: BranchName
    branch: BranchName = MAIN
    version: WireVersion | None = None
    note: Body | None = None


class DeleteTag(WriteRequest, frozen=True, kw_only=True, tag="tag.delete"):
    name: BranchName
    note: Body | None = None


class TagEntry(Part, frozen=True, kw_only=True):
    name: BranchName
    branch: BranchName
    version: WireVersion


class TagsAnswer(PagedAnswer, frozen=True, kw_only=True):
    tags: tuple[TagEntry, ...] = ()


class ListTags(PagedRequest, frozen=True, kw_only=True, tag="tag.list"):
    """The tags by name."""

    answer: ClassVar[type[Part]] = TagsAnswer


class Resolution(Part, frozen=True, kw_only=True):
    """What a contested entity shall be; without `body` it is deleted."""

    id: EntityId
    body: Body | None = None


class MergeWrite(Part, frozen=True, kw_only=True):
    """What a merge writes, or would write, to one entity of the target."""

    id: EntityId
    kind: Literal["set", "patch", "delete"]
    body: Body | None = None


class MergeReport(Part, frozen=True, kw_only=True):
    """What was merged. Without `version` nothing was written: it was a dry run, or there was nothing to do.

    `conflicts` are all there were, whatever the strategy (MERGE-3), `writes` what a dry run would write; both are cut
    at the page bound, and the counts say how many there are.
    """

    version: WireVersion | None = None
    hash: WireHash | None = None
    time: WireTime | None = None
    source_version: WireVersion
    target_version: WireVersion
    conflicts_count: Count = 0
    conflicts: tuple[Contested, ...] = ()
    writes_count: Count = 0
    writes: tuple[MergeWrite, ...] = ()


class MergeRequest(WriteRequest, frozen=True, kw_only=True, tag="merge"):
    """Merges `source`, at a version or its head, into `target`.

    With `expect_target`, only if nothing was written on the target after that version (MERGE-5).
    """

    answer: ClassVar[type[Part]] = MergeReport
    source: BranchName
    target: BranchName = MAIN
    source_version: WireVersion | None = None
    strategy: Strategy = "lww"
    resolutions: tuple[Resolution, ...] = ()
    expect_target: WireVersion | None = None
    dry_run: bool = False
    note: Body | None = None


class RevertAnswer(Part, frozen=True, kw_only=True):
    """The commits that were undone; without `version` there was nothing to undo, or it was a dry run."""

    version: WireVersion | None = None
    hash: WireHash | None = None
    time: WireTime | None = None
    reverted: tuple[WireVersion, ...] = ()
    writes_count: Count = 0
    writes: tuple[MergeWrite, ...] = ()


class RevertRequest(WriteRequest, frozen=True, kw_only=True, tag="revert"):
    """Undoes commits on a branch: given ones, those of a session, or those of an author; after `since` (COMMIT-9)."""

    answer: ClassVar[type[Part]] = RevertAnswer
    branch: BranchName = MAIN
    versions: tuple[WireVersion, ...] = ()
    session: RandomId | None = None
    author: Did | None = None
    since: WireVersion | None = None
    dry_run: bool = False
    note: Body | None = None


class Survivor(Part, frozen=True, kw_only=True):
    """The value an entity keeps on a branch whose head is erased; without `body` it is deleted there."""

    branch: BranchName
    body: Body | None = None


class EraseAnswer(Written, frozen=True, kw_only=True):
    """How many bodies were destroyed."""

    erased: Count


class EraseTarget(Part, frozen=True, kw_only=True):
    """An entity, and the versions whose bodies are destroyed."""

    id: EntityId
    versions: tuple[WireVersion, ...]


class EraseRequest(WriteRequest, frozen=True, kw_only=True, tag="erase"):
    """Destroys the bodies of an entity's facts at these versions, and the named blobs (ERASE-1).

    `entities` are further ones, erased by the same write (ERASE-2).
    """

    answer: ClassVar[type[Part]] = EraseAnswer
    entity: EntityId
    versions: tuple[WireVersion, ...]
    entities: tuple[EraseTarget, ...] = ()
    survivors: tuple[Survivor, ...] = ()
    blobs: tuple[WireHash, ...] = ()
    note: Body | None = None


class CompactAnswer(Written, frozen=True, kw_only=True):
    """The oldest version that can be read from now on, and what was removed."""

    floor: WireVersion
    bodies: Count = 0
    blobs: Count = 0
    bytes: Count = 0


class CompactRequest(WriteRequest, frozen=True, kw_only=True, tag="compact"):
    """Removes what no state at or above `floor` needs (COMPACT-1, BLOB-2)."""

    answer: ClassVar[type[Part]] = CompactAnswer
    floor: WireVersion
    note: Body | None = None


_NOT_COVERED: Final = frozenset({"id", "nonce"})


def operation_content(message: WriteRequest) -> bytes:
    """What the request digest covers beside the nonce: the shortest msgpack of the fields written, in their order.

    A plain map is encoded and not the message: msgspec writes a long header for a map that may have many fields, and
    takes a text for a default only if it is the same object, which one that was read is not.
    """
    written: dict[str, Any] = msgspec.to_builtins(message, builtin_types=(bytes,))
    for field in msgspec.structs.fields(message):
        if field.name in _NOT_COVERED or getattr(message, field.name) == field.default:
            written.pop(field.encode_name, None)
    return encode(written)


def operation_digest(message: WriteRequest) -> Hash:
    """The request digest of a write beside ordinary commits, whichever way it was sent; sent again it is the same.

    The same `operation` with another digest is another request under a name in use: `identity_clash` (COMMIT-11).
    """
    return digest_request(message.nonce, operation_content(message))
