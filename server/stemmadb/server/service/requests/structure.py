"""Requests that list the structure of a space: branch.list and tag.list (BRANCH-1, QUERY-6)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypeVar

from stemmadb.protocol.errors import LimitExceeded
from stemmadb.protocol.model.log.state import BranchState
from stemmadb.protocol.model.values.ids import BranchName, Version
from stemmadb.protocol.wire.messages.base import PagedRequest
from stemmadb.protocol.wire.messages.structure import (
    BranchEntry,
    BranchesAnswer,
    ListBranches,
    ListTags,
    TagEntry,
    TagsAnswer,
)
from stemmadb.server.service.base import cursors
from stemmadb.server.service.base.cursors import At, Cursors
from stemmadb.server.service.base.request_context import Caller, RequestContext, check_reads
from stemmadb.server.service.requests import past_structure
from stemmadb.server.storage.port import LogFilter, LogReader

NARROW_PAGE_MAX: Final = 50
"""Branches on a page for a narrow caller: its last readable write is searched for on each of them."""

T = TypeVar("T")


async def list_branches(request: ListBranches, caller: Caller, context: RequestContext) -> BranchesAnswer:
    """The branches by name, all pages as of the version of the first."""
    check_reads(caller)
    book = Cursors(cursors.BRANCHES, context.space.did, ())
    at = book.read(request.after)
    size = _page_size(request, context)
    size = min(size, NARROW_PAGE_MAX) if caller.is_narrow else size

    def ask(log: LogReader) -> BranchesAnswer:
        version = _version(log, at)
        page, next_ = _page(past_structure.branches(log, version), at, size)
        entries = tuple(_entry(log, state, version, caller) for state in page)
        return BranchesAnswer(version=version, next=book.write([version], next_), branches=entries)

    return await context.space.read(ask)


async def list_tags(request: ListTags, caller: Caller, context: RequestContext) -> TagsAnswer:
    """The tags by name, all pages as of the version of the first."""
    check_reads(caller)
    book = Cursors(cursors.TAGS, context.space.did, ())
    at = book.read(request.after)
    size = _page_size(request, context)

    def ask(log: LogReader) -> TagsAnswer:
        version = _version(log, at)
        page, next_ = _page(past_structure.tags(log, version), at, size)
        entries = tuple(TagEntry(name=BranchName(tag.name), branch=tag.branch, version=tag.version) for tag in page)
        return TagsAnswer(version=version, next=book.write([version], next_), tags=entries)

    return await context.space.read(ask)


def _page_size(request: PagedRequest, context: RequestContext) -> int:
    maximum = context.space.limits.page_max
    size = maximum if request.limit is None else request.limit
    if size > maximum:
        raise LimitExceeded(bound="page_max", maximum=maximum, actual=size)
    return size


def _version(log: LogReader, at: At[BranchName] | None) -> Version:
    return log.tip().version if at is None else at.pinned[0]


def _page(items: Mapping[str, T], at: At[BranchName] | None, size: int) -> tuple[list[T], BranchName | None]:
    left = sorted(name for name in items if at is None or name > at.place)
    shown = left[:size]
    return [items[name] for name in shown], BranchName(shown[-1]) if len(left) > size else None


def _entry(log: LogReader, state: BranchState, version: Version, caller: Caller) -> BranchEntry:
    return BranchEntry(
        name=state.name,
        parent=state.parent,
        fork=state.fork,
        head=_last_write(log, state.name, version, caller),
        deleted=state.deleted,
    )


def _last_write(log: LogReader, name: BranchName, version: Version, caller: Caller) -> Version:
    """The last write on the branch that the caller may read (ACL-2)."""
    if not caller.is_narrow:
        return log.last_write(name, version)
    found = (log.log(LogFilter(branch=name, prefix=one, upto=version), 1) for one in caller.rights.prefixes)
    return max((commit.version for page in found for commit in page), default=Version(0))
