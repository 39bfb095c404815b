"""The history of one entity: its facts as a moment sees them, with their commits, in pages (HISTORY-1)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from stemmadb.protocol.errors import NotFound
from stemmadb.protocol.model.log.branch_spans import Span
from stemmadb.protocol.model.log.facts import Fact
from stemmadb.protocol.model.values.ids import EntityId, Version
from stemmadb.protocol.model.values.limits import DEFAULTS, Limits
from stemmadb.server.engine.base.moments import ReadMoment
from stemmadb.server.engine.base.paging import ITEM_BYTES, Budget, MayRead, Pace, anything, fill
from stemmadb.server.engine.read.created_by import CreatedBy, created_by
from stemmadb.server.engine.read.entities import HEAD, resolve_moment
from stemmadb.server.storage.port import FactPosition, LogReader, Order


class AuthoredFact(msgspec.Struct, frozen=True):
    """A fact and what made it. Its body may be gone, its digest and hash are not (ERASE-1, COMPACT-1)."""

    fact: Fact
    created_by: CreatedBy


class HistoryPage(msgspec.Struct, frozen=True):
    """A page, as of `version`; `next` is given back as `after`, with `version` as that of the moment."""

    version: Version
    entries: tuple[AuthoredFact, ...]
    next: FactPosition | None


def page(
    reader: LogReader,
    id_: EntityId,
    moment: ReadMoment = HEAD,
    *,
    order: Order = "newest",
    after: FactPosition | None = None,
    limit: int | None = None,
    may_read: MayRead = anything,
    limits: Limits = DEFAULTS,
) -> HistoryPage:
    """The next facts of the entity on the lineage of the moment; `NotFound` if it was never written there."""
    budget = Budget(limit, limits)
    resolved = resolve_moment(reader, moment)
    check_written(reader, id_, moment, resolved.spans, may_read)
    looked_at = (
        (FactPosition(fact.version, fact.index), AuthoredFact(fact, by))
        for fact, by in _changes(reader, id_, resolved.spans, order, after)
    )
    entries, next_ = fill(looked_at, _size, budget)
    return HistoryPage(resolved.version, tuple(entries), next_)


def check_written(
    reader: LogReader, id_: EntityId, moment: ReadMoment, spans: Sequence[Span], may_read: MayRead
) -> None:
    """`NotFound` for an entity without a fact in the spans, and for one that may not be read (HISTORY-2)."""
    if not may_read(id_) or not reader.facts_of(id_, spans, order="newest", limit=1):
        raise NotFound(id=id_, branch=moment.branch)


def facts_in_chunks(
    reader: LogReader, id_: EntityId, spans: Sequence[Span], order: Order, after: FactPosition | None = None
) -> Iterator[list[Fact]]:
    """The facts of an entity in the spans, some at a time, however many there are."""
    pace = Pace()
    while facts := reader.facts_of(id_, spans, order=order, after=after, limit=pace.count):
        yield facts
        pace.learn(sum(len(fact.body or b"") for fact in facts))
        after = FactPosition(facts[-1].version, facts[-1].index)


def _changes(
    reader: LogReader, id_: EntityId, spans: Sequence[Span], order: Order, after: FactPosition | None
) -> Iterator[tuple[Fact, CreatedBy]]:
    for facts in facts_in_chunks(reader, id_, spans, order, after):
        by = created_by(reader, (fact.version for fact in facts))
        for fact in facts:
            yield fact, by[fact.version]


def _size(one: AuthoredFact) -> int:
    return len(one.fact.body or b"") + len(one.created_by.note or b"") + ITEM_BYTES
