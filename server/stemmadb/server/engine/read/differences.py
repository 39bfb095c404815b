"""What differs between any two moments, per entity and per path, in pages by id (HISTORY-1)."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import msgspec
from msgspec.structs import replace

from stemmadb.protocol.model import patch
from stemmadb.protocol.model.history import difference
from stemmadb.protocol.model.history.difference import Content, PathChange
from stemmadb.protocol.model.log import branch_spans
from stemmadb.protocol.model.log.branch_spans import Span
from stemmadb.protocol.model.log.state import Missing
from stemmadb.protocol.model.values import ids
from stemmadb.protocol.model.values.body import encode
from stemmadb.protocol.model.values.ids import EntityId, Version
from stemmadb.protocol.model.values.limits import DEFAULTS, Limits
from stemmadb.protocol.wire.messages.reading import EntityChange, ErasedSides
from stemmadb.server.engine.base.moments import ReadMoment
from stemmadb.server.engine.base.paging import ITEM_BYTES, LOOKED_AT_MAX, Budget, MayRead, anything, fill
from stemmadb.server.engine.base.state_chunks import scan
from stemmadb.server.engine.base.states import LoadedEntity
from stemmadb.server.engine.read.entities import resolve_moment
from stemmadb.server.storage.port import LogReader

WALKED_FIRST: Final = 16
WALKED_AT_ONCE: Final = 256
SPARSE: Final = 8
"""If fewer than one in so many entities was written, those that were are gathered first."""


@dataclass(frozen=True)
class ComparedSide:
    """An entity at one of the moments; `version` is that of its last fact, None where it is not there."""

    content: Content
    version: Version | None


@dataclass(frozen=True)
class Changed:
    """An entity that is not the same at both moments."""

    id: EntityId
    left: ComparedSide
    right: ComparedSide

    @cached_property
    def paths(self) -> list[PathChange]:
        """Place by place, for people."""
        return difference.entity(self.left.content, self.right.content)

    @cached_property
    def change(self) -> EntityChange:
        """How to get from left to right: a patch, or, where a side has no value, the value of the other.

        A side without a version has no value: the entity was never written there or is deleted. `erased` names the
        sides whose value is not known any more.
        """
        left, right = self.left.content, self.right.content
        change = EntityChange(
            id=self.id, left=self.left.version, right=self.right.version, erased=_erased(left, right)
        )
        if not isinstance(right, Missing):
            if isinstance(left, Missing):
                return replace(change, body=encode(right))
            return replace(change, patch=encode(patch.diff(left, right)))
        if right is Missing.ABSENT and not isinstance(left, Missing):
            return replace(change, body=encode(left))
        return change


class Differences(msgspec.Struct, frozen=True):
    """A page; `left` and `right` are the versions compared, given back as those of the moments with `next`."""

    left: Version
    right: Version
    changes: tuple[Changed, ...]
    next: EntityId | None


def page(
    reader: LogReader,
    left: ReadMoment,
    right: ReadMoment,
    prefix: str = "",
    *,
    after: EntityId | None = None,
    limit: int | None = None,
    may_read: MayRead = anything,
    limits: Limits = DEFAULTS,
) -> Differences:
    """The next entities under the prefix that differ.

    Only entities with a fact where the two lineages are apart can differ: it costs what was written there.
    """
    budget = Budget(limit, limits)
    one, other = resolve_moment(reader, left), resolve_moment(reader, right)
    spans = branch_spans.apart(one.spans, other.spans)
    changed = _changed(reader, spans, ids.id_prefix(prefix, limits.id_bytes_max), after)
    looked_at = (
        (seen.id, _compared(seen.id, *seen.states))
        for seen in scan(reader, [one.spans, other.spans], changed, may_read)
    )
    changes, next_ = fill(looked_at, _size, budget)
    return Differences(one.version, other.version, tuple(changes), next_)


def _changed(reader: LogReader, spans: Sequence[Span], prefix: str, after: EntityId | None) -> Iterator[EntityId]:
    """The entities written in the spans, by id, found as the page fills.

    Where many of the entities were written there, they are looked at one after the other, so that a page costs what
    it returns. Where few were, what was written is gathered and sorted, so that the others cost nothing.
    """
    count = WALKED_FIRST
    while chunk := reader.ids(prefix, after, count):
        written = 0
        for id_ in chunk:
            if reader.facts_of(id_, spans, order="newest", limit=1):
                written += 1
                yield id_
        after, count = chunk[-1], WALKED_AT_ONCE
        if written * SPARSE < len(chunk):
            yield from _gathered(reader, spans, prefix, after)
            return


def _gathered(reader: LogReader, spans: Sequence[Span], prefix: str, after: EntityId) -> Iterator[EntityId]:
    """No more are kept than one call looks at, and one to know of more."""
    written = (id_ for id_ in reader.changed(spans, prefix) if id_ > after)
    return iter(heapq.nsmallest(LOOKED_AT_MAX + 1, written))


def _compared(id_: EntityId, left: LoadedEntity | None, right: LoadedEntity | None) -> Changed | None:
    one, other = _side(left), _side(right)
    return None if difference.same(one.content, other.content) else Changed(id_, one, other)


def _side(loaded: LoadedEntity | None) -> ComparedSide:
    if loaded is None or loaded.value is Missing.ABSENT:
        return ComparedSide(Missing.ABSENT, None)
    return ComparedSide(loaded.value, loaded.place.version)


def _erased(left: Content, right: Content) -> ErasedSides | None:
    if difference.is_gone(left) and difference.is_gone(right):
        return "both"
    if difference.is_gone(right):
        return "right"
    return "left" if difference.is_gone(left) else None


def _size(changed: Changed) -> int:
    change = changed.change
    return len(change.id.encode()) + len(change.patch or b"") + len(change.body or b"") + ITEM_BYTES
