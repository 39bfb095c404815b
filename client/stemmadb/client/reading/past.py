"""Asking for the past: history, log, difference and blame (HISTORY-1)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, NamedTuple, TypedDict, Unpack

from stemmadb.client.reading.entries import (
    BlameLine,
    HistoryEntry,
    LogEntry,
    blame_line,
    history_entry,
    log_entry,
)
from stemmadb.client.reading.pages import Fetch, Listing, ListPage, PageTurner
from stemmadb.client.reading.plain import check_options
from stemmadb.client.reading.times import When, checked_version, milliseconds, optional_version
from stemmadb.client.requester import Requester
from stemmadb.protocol.model.log.commit_record import CommitKind
from stemmadb.protocol.model.query.query import EVERY
from stemmadb.protocol.model.values import ids, pointer
from stemmadb.protocol.model.values.ids import BranchName, Version
from stemmadb.protocol.wire import version as wire
from stemmadb.protocol.wire.messages import reading
from stemmadb.protocol.wire.messages.reading import Order
from stemmadb.protocol.wire.records import joined_entries


class LogFilters(TypedDict, total=False):
    """Which commits a log shows: those that pass every filter given; both times are included.

    `with_facts` brings what each did, `with_ids` only to which entities. `kinds` as in `LogEntry.kind`.
    """

    branch: str | None
    author: str | None
    session: bytes | None
    prefix: str | None
    since: When | None
    until: When | None
    version: int | None
    order: Order
    with_facts: bool
    with_ids: bool
    kinds: Sequence[CommitKind]


def page_size(limit: int | None, requester: Requester) -> int | None:
    """How many to ask for at a time so that no more come than are wanted."""
    return None if limit is None else min(limit, requester.limits.page_max)


class HistoryPoint(NamedTuple):
    """A branch up to a version, or up to its head."""

    branch: BranchName
    version: Version | None = None


def history(
    requester: Requester,
    id_: str,
    where: HistoryPoint | Callable[[], Awaitable[HistoryPoint]],
    *,
    order: Order = "newest",
) -> Listing[HistoryEntry]:
    """The changes of an entity as a branch sees them, up to a point. Iterating raises `NotFound` if it never was."""
    entity = ids.entity_id(id_, requester.limits.id_bytes_max)
    if isinstance(where, HistoryPoint):
        optional_version(where.version)

    async def fetch(after: str | None, size: int | None) -> ListPage[HistoryEntry]:
        branch, version = where if isinstance(where, HistoryPoint) else await where()
        answer = await requester.ask(
            reading.HistoryRequest,
            reading.HistoryAnswer,
            entity=entity,
            branch=branch,
            version=version,
            order=order,
            after=after,
            limit=page_size(size, requester),
        )
        return ListPage(answer.version, tuple(map(history_entry, answer.entries)), answer.next)

    return Listing(partial(PageTurner, fetch))


def log(requester: Requester, **filters: Unpack[LogFilters]) -> Listing[LogEntry]:
    """The commits of the space that pass every filter, newest first unless `order` says otherwise."""
    check_options("log", filters, LogFilters)
    fields = _log_fields(filters)

    async def fetch(after: str | None, size: int | None) -> ListPage[reading.LogEntry]:
        for name, feature in (("with_ids", wire.LOG_IDS), ("kinds", wire.LOG_KINDS)):
            if name in fields:
                requester.check_feature(feature)
        answer = await requester.ask(
            reading.LogRequest, reading.LogAnswer, **fields, after=after, limit=page_size(size, requester)
        )
        return ListPage(answer.version, answer.entries, answer.next)

    return Listing(partial(_JoinedLog, fetch, is_bare="with_ids" in fields))


async def blame(
    requester: Requester, id_: str, *, branch: BranchName, version: Version | None = None, path: str = pointer.ROOT
) -> tuple[BlameLine, ...]:
    """For each leaf of the value, or of the part at `path`: the commit that wrote it last."""
    pointer.parse(path)

    async def fetch(after: str | None, size: int | None) -> ListPage[BlameLine]:
        answer = await requester.ask(
            reading.BlameRequest,
            reading.BlameAnswer,
            entity=ids.entity_id(id_, requester.limits.id_bytes_max),
            branch=branch,
            version=optional_version(version),
            path=path,
            after=after,
            limit=size,
        )
        return ListPage(answer.version, tuple(map(blame_line, answer.lines)), answer.next)

    return tuple(await Listing(partial(PageTurner, fetch)).all())


def _log_fields(filters: LogFilters) -> dict[str, Any]:
    """The filters as the wire has them; what is None is left out."""
    fields: dict[str, Any] = {name: given for name, given in filters.items() if given is not None}
    for name in ("since", "until"):
        if name in fields:
            fields[name] = milliseconds(fields[name])
    if "version" in fields:
        fields["version"] = checked_version(fields["version"])
    if "prefix" in fields:
        fields["prefix"] = str(fields["prefix"]).removesuffix(EVERY)
    for name in ("with_ids", "kinds"):  # a server that is older than these refuses them
        if name in fields and not fields[name]:
            del fields[name]
    if "kinds" in fields:
        fields["kinds"] = tuple(fields["kinds"])
    if "with_ids" in fields and fields.get("with_facts"):
        del fields["with_ids"]
    if "branch" in fields:
        fields["branch"] = ids.branch_name(fields["branch"])
    return fields


class _JoinedLog:
    """Pages of the log with every commit whole: the last of a page may go on in the next, and waits for it."""

    def __init__(self, fetch: Fetch[reading.LogEntry], size: int | None, *, is_bare: bool) -> None:
        self._is_bare = is_bare
        self._turning = PageTurner(fetch, size)
        self._waiting: tuple[reading.LogEntry, ...] = ()
        self._version = Version(0)

    async def turn(self) -> ListPage[LogEntry] | None:
        page = await self._turning.turn()
        if page is None:
            return self._rest()
        pieces = (*self._waiting, *page.items)
        last = pieces[-1].version if pieces else None
        self._waiting = tuple(piece for piece in pieces if piece.version == last)
        self._version = page.version
        return self._page(pieces[: len(pieces) - len(self._waiting)])

    def _rest(self) -> ListPage[LogEntry] | None:
        waiting, self._waiting = self._waiting, ()
        return self._page(waiting) if waiting else None

    def _page(self, pieces: Sequence[reading.LogEntry]) -> ListPage[LogEntry]:
        entries = tuple(log_entry(one, is_bare=self._is_bare) for one in joined_entries(pieces))
        return ListPage(self._version, entries)
