"""What differs between any two moments, per entity and per path, in pages by id (HISTORY-1)."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import msgspec
from msgspec.structs import replace

from stemmadb.protocol.model import branch, difference, ids, patch
from stemmadb.protocol.model.body import encode
from stemmadb.protocol.model.branch import Span
from stemmadb.protocol.model.difference import Content, PathChange
from stemmadb.protocol.model.ids import EntityId, Version
from stemmadb.protocol.model.limits import DEFAULTS, Limits
from stemmadb.protocol.model.state import Missing
from stemmadb.protocol.wire.messages.reading import EntityChange
from stemmadb.server.engine.batches import scan
from stemmadb.server.engine.moments import Moment
from stemmadb.server.engine.paging import ITEM_BYTES, LOOKED_AT_MAX, Budget, MayRead, anything, fill
from stemmadb.server.engine.reading import cut_at
from stemmadb.server.engine.states import Loaded
from stemmadb.server.storage.port import LogReader


@dataclass(frozen=True)
class Side:
    """An entity at one of the moments; `version` is that of its last fact, None where it is not there."""

    content: Content
    version: Version | None


@dataclass(frozen=True)
class Changed:
    """An entity that is not the same at both moments."""

    id: EntityId
    left: Side
    right: Side

    @cached_property
    def paths(self) -> list[PathChange]:
        """Place by place, for people."""
        return difference.entity(self.left.content, self.right.content)

    @cached_property
    def told(self) -> EntityChange:
        """How to get from left to right: a patch, or, where a side has no value, the value of the other.

        A side without a version has no value: the entity was never written there or is deleted. With both versions
        and no patch one of the sides was erased: the left one if there is a body, the value on the right.
        """
        change = EntityChange(id=self.id, left=self.left.version, right=self.right.version)
        left, right = self.left.content, self.right.content
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
    left: Moment,
    right: Moment,
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
    one, other = cut_at(reader, left), cut_at(reader, right)
    spans = branch.apart(one.spans, other.spans)
    changed = _changed(reader, spans, ids.id_prefix(prefix, limits.id_bytes_max), after)
    looked_at = (
        (seen.id, _compared(seen.id, *seen.states))
        for seen in scan(reader, [one.spans, other.spans], changed, may_read)
    )
    changes, next_ = fill(looked_at, _size, budget)
    return Differences(one.version, other.version, tuple(changes), next_)


def _changed(reader: LogReader, spans: Sequence[Span], prefix: str, after: EntityId | None) -> Iterator[EntityId]:
    """The entities written in the spans, by id; no more are kept than one call looks at, and one to know of more."""
    written = (id_ for id_ in reader.changed(spans, prefix) if after is None or id_ > after)
    return iter(heapq.nsmallest(LOOKED_AT_MAX + 1, written))


def _compared(id_: EntityId, left: Loaded | None, right: Loaded | None) -> Changed | None:
    one, other = _side(left), _side(right)
    return None if difference.same(one.content, other.content) else Changed(id_, one, other)


def _side(loaded: Loaded | None) -> Side:
    if loaded is None or loaded.value is Missing.ABSENT:
        return Side(Missing.ABSENT, None)
    return Side(loaded.value, loaded.place.version)


def _size(changed: Changed) -> int:
    told = changed.told
    return len(told.id.encode()) + len(told.patch or b"") + len(told.body or b"") + ITEM_BYTES
