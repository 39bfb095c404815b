"""Writes that change the structure of a space: branches and tags, and the mark a merge leaves (BRANCH-1, MERGE-1)."""

from __future__ import annotations

import msgspec

from stemmadb.protocol.errors import Conflict, FutureVersion, Malformed, TagExists, UnknownTag
from stemmadb.protocol.model.commit.draft import BatchDraft
from stemmadb.protocol.model.log import branch_spans as branches
from stemmadb.protocol.model.log.commit_record import (
    Arguments,
    BranchCreate,
    BranchDelete,
    Compact,
    Erase,
    Merge,
    Revert,
    TagCreate,
    TagDelete,
    kind_of,
)
from stemmadb.protocol.model.log.state import BranchState
from stemmadb.protocol.model.values import ids
from stemmadb.protocol.model.values.ids import BranchName, Version
from stemmadb.protocol.model.values.limits import Limits


def check(details: Arguments, draft: BatchDraft, limits: Limits) -> None:
    """Whether the structure allows it; a typed error otherwise, and nothing has changed."""
    for version in _versions(details):
        if version < 0:
            raise Malformed(path=kind_of(details), why="a version is never negative")
        if version > draft.version:
            raise FutureVersion(version=version, head=draft.version)
    if isinstance(details, BranchCreate):
        branches.check_create(
            draft.branch, details.name, parent=details.parent, fork=details.fork, head=draft.version, limits=limits
        )
    elif isinstance(details, BranchDelete):
        branches.check_delete(draft.branch, details.name)
    elif isinstance(details, TagCreate):
        _check_tag(details, draft)
    elif isinstance(details, TagDelete) and draft.tag(details.name) is None:
        raise UnknownTag(tag=details.name)


def check_planned(planned: Version, details: Arguments | None, draft: BatchDraft) -> None:
    """Raises `Conflict` if a plan may have looked at what is not so any more (ERASE-1, COMPACT-1).

    A merge or a revert that was planned before an erasure would write again what that destroyed; an erasure or a
    compaction that was planned before a branch, a tag or a merge does not know what those copied or need.
    """
    voided = draft.destroyed
    if isinstance(details, Erase | Compact):
        voided = max(voided, draft.restructured)
    if voided > planned:
        raise Conflict(count=1, stale=(), planned=planned, voided=voided)


def _versions(details: Arguments) -> tuple[Version, ...]:
    """The versions a write names: all of them are written already."""
    if isinstance(details, BranchCreate):
        return (details.fork,)
    if isinstance(details, TagCreate):
        return (details.version,)
    if isinstance(details, Merge):
        return details.source_version, details.target_version
    if isinstance(details, Revert):
        return details.versions
    if isinstance(details, Erase):
        return tuple(version for entity in details.every_entity() for version in entity.versions)
    return (details.floor,) if isinstance(details, Compact) else ()


def _check_tag(details: TagCreate, draft: BatchDraft) -> None:
    ids.branch_name(details.name)
    draft.readable_branch(details.branch)
    if draft.tag(details.name) is not None:
        raise TagExists(tag=details.name)


def take(details: Arguments, draft: BatchDraft, version: Version, target: BranchName | None) -> None:
    """It was accepted: the rest of the batch sees the new structure."""
    if isinstance(details, Erase | Compact):
        draft.destroyed = version
    elif isinstance(details, BranchCreate | TagCreate | Merge):
        draft.restructured = version
    if isinstance(details, BranchCreate):
        depth = draft.readable_branch(details.parent).depth + 1
        draft.branches[details.name] = BranchState(
            name=details.name, parent=details.parent, fork=details.fork, depth=depth
        )
    elif isinstance(details, BranchDelete):
        _replace(draft, details.name, deleted=version)
    elif isinstance(details, Merge):
        assert target is not None, "a merge has a target"
        _replace(draft, target, merged=version)
    elif isinstance(details, TagCreate):
        draft.tags[details.name] = details.version
    elif isinstance(details, TagDelete):
        draft.tags[details.name] = None


def _replace(draft: BatchDraft, name: BranchName, **marks: Version) -> None:
    draft.branches[name] = msgspec.structs.replace(draft.readable_branch(name), **marks)
