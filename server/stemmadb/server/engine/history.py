"""The history of one entity: its facts as a moment sees them, with their commits, in pages (HISTORY-1)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from stemmadb.protocol.errors import NotFound
from stemmadb.protocol.model.branch import Span
from stemmadb.protocol.model.facts import Fact
from stemmadb.protocol.model.ids import EntityId, Version
from stemmadb.protocol.model.limits import DEFAULTS, Limits
from stemmadb.server.engine.made import Made, made
from stemmadb.server.engine.moments import Moment
from stemmadb.server.engine.paging import ITEM_BYTES, Budget, MayRead, Pace, anything, fill
from stemmadb.server.engine.reading import HEAD, cut_at
from stemmadb.server.storage.port import LogReader, Order, Place


class Told(msgspec.Struct, frozen=True):
    """A fact and what made it. Its body may be gone, its digest and hash are not (ERASE-1, COMPACT-1)."""

    fact: Fact
    made: Made


class HistoryPage(msgspec.Struct, frozen=True):
    """A page, as of `version`; `next` is given back as `after`, with `version` as that of the moment."""

    version: Version
    entries: tuple[Told, ...]
    next: Place | None


def page(
    reader: LogReader,
    id_: EntityId,
    moment: Moment = HEAD,
    *,
    order: Order = "newest",
    after: Place | None = None,
    limit: int | None = None,
    may_read: MayRead = anything,
    limits: Limits = DEFAULTS,
) -> HistoryPage:
    """The next facts of the entity on the lineage of the moment; `NotFound` if it was never written there."""
    budget = Budget(limit, limits)
    cut = cut_at(reader, moment)
    check_written(reader, id_, moment, cut.spans, may_read)
    looked_at = (
        (Place(fact.version, fact.index), Told(fact, by)) for fact, by in _told(reader, id_, cut.spans, order, after)
    )
    entries, next_ = fill(looked_at, _size, budget)
    return HistoryPage(cut.version, tuple(entries), next_)


def check_written(reader: LogReader, id_: EntityId, moment: Moment, spans: Sequence[Span], may_read: MayRead) -> None:
    """`NotFound` for an entity without a fact in the spans, and for one that may not be read (HISTORY-2)."""
    if not may_read(id_) or not reader.facts_of(id_, spans, order="newest", limit=1):
        raise NotFound(id=id_, branch=moment.branch)


def facts_in_chunks(
    reader: LogReader, id_: EntityId, spans: Sequence[Span], order: Order, after: Place | None = None
) -> Iterator[list[Fact]]:
    """The facts of an entity in the spans, some at a time, however many there are."""
    pace = Pace()
    while facts := reader.facts_of(id_, spans, order=order, after=after, limit=pace.count):
        yield facts
        pace.learn(sum(len(fact.body or b"") for fact in facts))
        after = Place(facts[-1].version, facts[-1].index)


def _told(
    reader: LogReader, id_: EntityId, spans: Sequence[Span], order: Order, after: Place | None
) -> Iterator[tuple[Fact, Made]]:
    for facts in facts_in_chunks(reader, id_, spans, order, after):
        by = made(reader, (fact.version for fact in facts))
        for fact in facts:
            yield fact, by[fact.version]


def _size(told: Told) -> int:
    return len(told.fact.body or b"") + len(told.made.note or b"") + ITEM_BYTES
