"""Branches and tags of a space: made and deleted by one small write each, and listed (BRANCH-1, COMMIT-11)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

import msgspec

from stemmadb.protocol.errors import Conflict, LimitExceeded, MergeBusy
from stemmadb.protocol.model.commit.proposal import Proposal
from stemmadb.protocol.model.log.commit_record import Arguments, BranchCreate, BranchDelete, TagCreate, TagDelete
from stemmadb.protocol.model.log.state import BranchState
from stemmadb.protocol.model.values.ids import MAIN, BranchName, Version
from stemmadb.protocol.model.values.limits import Limits
from stemmadb.server.engine.base import moments
from stemmadb.server.engine.base.moments import ReadMoment
from stemmadb.server.engine.base.space_port import Asked, SpaceApi
from stemmadb.server.engine.plan.planned_write import ATTEMPTS_MAX, CompletedWrite, accepted_before, decided
from stemmadb.server.storage.port import LogReader, StoredTag


class BranchInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A branch; `head` is the version of the last write on it, 0 if there is none, `deleted` is when it ended."""

    name: BranchName
    parent: BranchName | None
    fork: Version
    head: Version
    deleted: Version | None


class BranchPage(msgspec.Struct, frozen=True):
    """Some branches by name, as of a version; the next page begins after `next`, None if this is the last."""

    version: Version
    branches: tuple[BranchInfo, ...]
    next: str | None


class TagPage(msgspec.Struct, frozen=True):
    """Some tags by name, as of a version; the next page begins after `next`, None if this is the last."""

    version: Version
    tags: tuple[StoredTag, ...]
    next: str | None


async def create_branch(
    space: SpaceApi, asked: Asked, *, name: BranchName, parent: BranchName = MAIN, fork: Version | None = None
) -> CompletedWrite:
    """Forks the parent at a version, or at the head. Costs the same however much the parent holds (BRANCH-1)."""
    return await _write_retained(
        space, asked, parent, fork, lambda version: BranchCreate(name=name, parent=parent, fork=version)
    )


async def delete_branch(space: SpaceApi, asked: Asked, *, name: BranchName) -> CompletedWrite:
    """Ends a branch; it stays readable and can be merged from (BRANCH-1)."""
    return await _write(space, asked, BranchDelete(name=name))


async def create_tag(
    space: SpaceApi, asked: Asked, *, name: str, branch: BranchName = MAIN, version: Version | None = None
) -> CompletedWrite:
    """Names a version of a branch, or its head, and keeps it from being compacted away (COMPACT-1)."""
    return await _write_retained(
        space, asked, branch, version, lambda at: TagCreate(name=name, branch=branch, version=at)
    )


async def delete_tag(space: SpaceApi, asked: Asked, *, name: str) -> CompletedWrite:
    """Forgets a tag; its name can be used again."""
    return await _write(space, asked, TagDelete(name=name))


async def list_branches(space: SpaceApi, *, after: str | None = None, limit: int | None = None) -> BranchPage:
    """The branches by name, deleted ones included."""

    def ask(reader: LogReader) -> BranchPage:
        head = reader.tip().version
        page, cursor = _page(reader.branches(), after, limit, space.limits)
        return BranchPage(head, tuple(_entry(reader, state, head) for state in page), cursor)

    return await space.read(ask)


async def list_tags(space: SpaceApi, *, after: str | None = None, limit: int | None = None) -> TagPage:
    """The tags by name."""

    def ask(reader: LogReader) -> TagPage:
        page, cursor = _page(reader.tags(), after, limit, space.limits)
        return TagPage(reader.tip().version, tuple(page), cursor)

    return await space.read(ask)


async def _write_retained(
    space: SpaceApi,
    asked: Asked,
    name: BranchName,
    version: Version | None,
    details: Callable[[Version], Arguments],
) -> CompletedWrite:
    """Names a version that can be read; looks again if something was compacted away meanwhile (COMPACT-1)."""
    for _ in range(ATTEMPTS_MAX):
        at, tip = await space.read(lambda reader: _retained(reader, asked, name, version))
        try:
            return await _write(space, asked, details(at), planned=tip)
        except Conflict:
            continue
    raise MergeBusy(attempts=ATTEMPTS_MAX)


async def _write(space: SpaceApi, asked: Asked, details: Arguments, planned: Version | None = None) -> CompletedWrite:
    proposal = Proposal(
        identity=asked.identity,
        request=asked.request,
        branch=None,
        details=details,
        note=asked.note,
        planned=planned,
        delegated=asked.delegated,
    )
    return await decided(space, proposal)


def _retained(reader: LogReader, asked: Asked, name: BranchName, version: Version | None) -> tuple[Version, Version]:
    """The version to name, the head if none is given, and the tip of the read view.

    `Compacted` if it cannot be read any more (COMPACT-1).

    One that was accepted before is not judged again, and what else can be wrong is said by the decision.
    """
    head = reader.tip().version
    at = head if version is None else version
    is_new = accepted_before(reader, asked) is None
    if is_new and reader.branch(name) is not None and 0 <= at <= head:
        moments.resolve(reader, ReadMoment(name, at))
    return at, head


class _Named(Protocol):
    @property
    def name(self) -> str: ...


N = TypeVar("N", bound=_Named)


def _page(items: Sequence[N], after: str | None, limit: int | None, limits: Limits) -> tuple[Sequence[N], str | None]:
    size = limits.page_max if limit is None else limit
    assert size > 0, "a page has at least one item"
    if size > limits.page_max:
        raise LimitExceeded(bound="page_max", maximum=limits.page_max, actual=size)
    left = [item for item in items if after is None or item.name > after]
    return left[:size], left[size - 1].name if len(left) > size else None


def _entry(reader: LogReader, state: BranchState, head: Version) -> BranchInfo:
    return BranchInfo(
        name=state.name,
        parent=state.parent,
        fork=state.fork,
        head=reader.last_write(state.name, head),
        deleted=state.deleted,
    )
