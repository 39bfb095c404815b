"""Requests that list the structure of a space: branch.list and tag.list (BRANCH-1, QUERY-6)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypeVar

from stemmadb.protocol.errors import LimitExceeded
from stemmadb.protocol.model.ids import BranchName, Version
from stemmadb.protocol.model.state import BranchState
from stemmadb.protocol.wire.messages.base import PagedRequest
from stemmadb.protocol.wire.messages.structure import (
    BranchEntry,
    BranchesAnswer,
    ListBranches,
    ListTags,
    TagEntry,
    TagsAnswer,
)
from stemmadb.server.service import cursors, past_structure
from stemmadb.server.service.asking import Asker, Desk, check_reads
from stemmadb.server.service.cursors import At, Cursors
from stemmadb.server.storage.port import LogFilter, LogReader

NARROW_PAGE_MAX: Final = 50
"""Branches on a page for one who may not read everything: the last write it may know of is looked for on each."""

T = TypeVar("T")


async def list_branches(request: ListBranches, asker: Asker, desk: Desk) -> BranchesAnswer:
    """The branches by name, all pages as of the version of the first."""
    check_reads(asker)
    book = Cursors(cursors.BRANCHES, desk.space.did, ())
    at = book.read(request.after)
    size = _page_size(request, desk)
    size = min(size, NARROW_PAGE_MAX) if asker.is_narrow else size

    def ask(log: LogReader) -> BranchesAnswer:
        version = _version(log, at)
        page, next_ = _page(past_structure.branches(log, version), at, size)
        entries = tuple(_entry(log, state, version, asker) for state in page)
        return BranchesAnswer(version=version, next=book.write([version], next_), branches=entries)

    return await desk.space.read(ask)


async def list_tags(request: ListTags, asker: Asker, desk: Desk) -> TagsAnswer:
    """The tags by name, all pages as of the version of the first."""
    check_reads(asker)
    book = Cursors(cursors.TAGS, desk.space.did, ())
    at = book.read(request.after)
    size = _page_size(request, desk)

    def ask(log: LogReader) -> TagsAnswer:
        version = _version(log, at)
        page, next_ = _page(past_structure.tags(log, version), at, size)
        entries = tuple(TagEntry(name=BranchName(tag.name), branch=tag.branch, version=tag.version) for tag in page)
        return TagsAnswer(version=version, next=book.write([version], next_), tags=entries)

    return await desk.space.read(ask)


def _page_size(request: PagedRequest, desk: Desk) -> int:
    maximum = desk.space.limits.page_max
    size = maximum if request.limit is None else request.limit
    if size > maximum:
        raise LimitExceeded(bound="page_max", maximum=maximum, actual=size)
    return size


def _version(log: LogReader, at: At[BranchName] | None) -> Version:
    head = log.tip().version
    if at is None:
        return head
    if at.pinned[0] > head:
        raise cursors.malformed()
    return at.pinned[0]


def _page(items: Mapping[str, T], at: At[BranchName] | None, size: int) -> tuple[list[T], BranchName | None]:
    left = sorted(name for name in items if at is None or name > at.place)
    told = left[:size]
    return [items[name] for name in told], BranchName(told[-1]) if len(left) > size else None


def _entry(log: LogReader, state: BranchState, version: Version, asker: Asker) -> BranchEntry:
    return BranchEntry(
        name=state.name,
        parent=state.parent,
        fork=state.fork,
        head=_last_write(log, state.name, version, asker),
        deleted=state.deleted,
    )


def _last_write(log: LogReader, name: BranchName, version: Version, asker: Asker) -> Version:
    """The last write on the branch; for one who may not read everything, the last of what it may read (ACL-2)."""
    if not asker.is_narrow:
        return log.last_write(name, version)
    found = (log.log(LogFilter(branch=name, prefix=one, upto=version), 1) for one in asker.rights.prefixes)
    return max((commit.version for page in found for commit in page), default=Version(0))
