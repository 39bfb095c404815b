"""Watches that start in the past: the facts from a version on, in pages, then the stream (WATCH-3).

A page has the facts that concern the watch as it is now: of what its answer holds or looked at, and of all that is
under its prefixes, deletes included. The last page reaches the version at which the watch joins the stream.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Final, TypeAlias

import msgspec

from stemmadb.protocol.errors import Compacted, FutureVersion
from stemmadb.protocol.model.log.branch_spans import Span
from stemmadb.protocol.model.log.facts import Fact
from stemmadb.protocol.model.values.ids import EntityId, Version
from stemmadb.protocol.model.values.limits import Limits
from stemmadb.protocol.wire import records
from stemmadb.protocol.wire.messages.reading import WatchAnswer, WatchRequest
from stemmadb.protocol.wire.messages.sync import CommitItem
from stemmadb.server.engine.base import moments
from stemmadb.server.engine.base.moments import ReadMoment
from stemmadb.server.engine.base.space_port import SpaceApi
from stemmadb.server.service.base import cursors
from stemmadb.server.service.base.cursor_cover import covered, uncovered
from stemmadb.server.service.base.cursors import Cursors, Kind
from stemmadb.server.service.stream.frames import ITEM_BYTES
from stemmadb.server.service.watch.feed import Feed
from stemmadb.server.service.watch.watch_groups import WatchGroup
from stemmadb.server.storage.port import FactPosition, LogReader

COMMITS_MAX: Final = 512
"""Commits that one page looks at."""

WAIT_SECONDS: Final = 0.001
CURSORS: Final[Kind[FactPosition]] = Kind("watch", 1, cursors.HISTORY.write, cursors.HISTORY.read)
Join: TypeAlias = Callable[[Callable[[Version], WatchAnswer]], Awaitable[None]]
"""Lets the watch join, and sends what is made of the version it starts at."""
Concerns: TypeAlias = Callable[[Fact], bool]


class _Page(msgspec.Struct, frozen=True):
    items: tuple[CommitItem, ...]
    reached: FactPosition | None
    """Where it ended before the end of the log; None if it did not."""
    head: Version


async def answer(
    request: WatchRequest, group: WatchGroup, space: SpaceApi, feed: Feed, join: Join
) -> WatchAnswer | None:
    """A page of facts; with the last one the watch joins, and nothing between the two is left out."""
    assert request.since is not None
    since, limits = request.since, space.limits
    book = Cursors(CURSORS, space.did, (request.watch, msgspec.to_builtins(request.query), since))

    def ask(reader: LogReader) -> tuple[_Page, str, str]:
        at = None if request.after is None else book.read(uncovered(reader, request.after))
        after = FactPosition(since, _WHOLE) if at is None else at.place
        page = _page(reader, group, since, after, limits)

        def cursor(place: FactPosition) -> str:
            written = book.write([page.head], place)
            assert written is not None, "it names a place"
            return covered(reader, written)

        return page, cursor(page.reached or FactPosition(page.head, _WHOLE)), cursor(after)

    page, next_, again = await space.read(ask)
    if page.reached is not None:
        return WatchAnswer(version=page.head, commits=page.items, next=next_)
    while feed.version < page.head:  # it will be published in a moment
        await asyncio.sleep(WAIT_SECONDS)

    def last(version: Version) -> WatchAnswer:
        if feed.erased_at > page.head:  # what the page holds may be destroyed: it is asked for again (ERASE-1)
            return WatchAnswer(version=page.head, next=again)
        return _last(page, version, feed, group, next_)

    await join(last)
    return None


def _last(page: _Page, version: Version, feed: Feed, group: WatchGroup, next_: str) -> WatchAnswer:
    """If what became durable while it joined is not kept any more there is one page more, and it joins again."""
    since = _since(feed, group, page.head, version)
    if since is None:
        return WatchAnswer(version=page.head, commits=page.items, next=next_)
    return WatchAnswer(version=version, commits=(*page.items, *since))


_WHOLE: Final = 2**31
"""The index behind all facts of a commit: the page begins with the next one."""


def _page(reader: LogReader, group: WatchGroup, since: Version, after: FactPosition, limits: Limits) -> _Page:
    head = reader.tip().version
    if since < reader.floor():
        raise Compacted(version=since, oldest=reader.floor())
    if after.version > head:
        raise FutureVersion(version=after.version, head=head)
    spans = moments.resolve(reader, ReadMoment(group.prepared.branch)).spans
    concerns = _concerns(group, spans)
    return _filled(reader, concerns, after, head, limits)


def _filled(reader: LogReader, concerns: Concerns, after: FactPosition, head: Version, limits: Limits) -> _Page:
    items: list[CommitItem] = []
    capacity = limits.part_bytes_max
    first = Version(after.version if after.index < _WHOLE else after.version + 1)
    for looked_at, (commit, facts) in enumerate(reader.history(Version(first - 1)), start=1):
        rest = [fact for fact in facts if FactPosition(fact.version, fact.index) > after and concerns(fact)]
        taken = _fitting(rest, capacity) if items else _fitting(rest, max(capacity, _first_size(rest)))
        if taken:
            item = records.commit_item(commit, taken)
            goes_on = commit.version == after.version  # its note was on the page before (SYNC-1)
            items.append(msgspec.structs.replace(item, note=None) if goes_on else item)
            capacity -= sum(map(_size, taken))
        if len(taken) < len(rest):
            last = (
                FactPosition(commit.version, taken[-1].index)
                if taken
                else FactPosition(Version(commit.version - 1), _WHOLE)
            )
            return _Page(tuple(items), last, head)
        if looked_at == COMMITS_MAX and commit.version < head:
            return _Page(tuple(items), FactPosition(commit.version, _WHOLE), head)
    return _Page(tuple(items), None, head)


def _fitting(facts: Sequence[Fact], capacity: int) -> list[Fact]:
    taken: list[Fact] = []
    for fact in facts:
        capacity -= _size(fact)
        if capacity < 0:
            break
        taken.append(fact)
    return taken


def _first_size(facts: Sequence[Fact]) -> int:
    """One fact is sent however large it is."""
    return _size(facts[0]) if facts else 0


def _size(fact: Fact) -> int:
    return ITEM_BYTES + len(fact.id) + len(fact.body or b"")


def _concerns(group: WatchGroup, spans: Sequence[Span]) -> Concerns:
    def concerns(fact: Fact) -> bool:
        return _is_seen(fact, spans) and _is_watched(group, fact.id)

    return concerns


def _is_seen(fact: Fact, spans: Iterable[Span]) -> bool:
    return any(span.branch == fact.branch and span.after < fact.version <= span.upto for span in spans)


def _is_watched(group: WatchGroup, id_: EntityId) -> bool:
    return id_.startswith(group.scope) and bool(group.watch.concerns((id_,)))


def _since(feed: Feed, group: WatchGroup, after: Version, to: Version) -> list[CommitItem] | None:
    """What became durable while the watch was joining; None if that is not kept."""
    batches = feed.batches(after)
    if batches is None:
        return None
    events = [event for batch in batches for event in batch.commits]
    items: list[CommitItem] = []
    for event in events:
        if after < event.commit.version <= to:
            facts = [f for f in event.facts if f.branch == group.prepared.branch and _is_watched(group, f.id)]
            if facts:
                items.append(records.commit_item(event.commit, facts))
    return items
