"""How many entities a query finds, and under which prefixes: looked at and not loaded (QUERY-10, QUERY-11)."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Final, NamedTuple

import msgspec

from stemmadb.protocol.errors import InvalidQuery
from stemmadb.protocol.model.log.branch_spans import Span
from stemmadb.protocol.model.query.query import Prepared
from stemmadb.protocol.model.values.ids import EntityId, Version
from stemmadb.server.engine.base import last_states
from stemmadb.server.engine.base.moments import ReadMoment
from stemmadb.server.engine.base.paging import LOOKED_AT_MAX, MayRead, anything
from stemmadb.server.engine.read import store_queries
from stemmadb.server.engine.read.entities import resolve_moment
from stemmadb.server.engine.read.id_pages import needs_values
from stemmadb.server.engine.read.store_queries import candidates, resolve_query
from stemmadb.server.storage.port import LogReader

COUNTED_MAX: Final = 100_000
"""Entities that a count looks at, deleted ones included."""
CHILD_MAX: Final = 1_000
"""Entities that are looked at below one child of a prefix."""
CHILDREN_LOOKED_AT_MAX: Final = 20_000
"""Entities that one page of children looks at."""
SEEK: Final = 256
_LAST: Final = "\U0010ffff"
"""Sorts after every other character. An id may begin with a place that ends so: such a child comes only once."""


class Counted(msgspec.Struct, frozen=True):
    """How many entities there are; a lower bound unless `exact`."""

    version: Version
    entities: int
    exact: bool


def count(reader: LogReader, prepared: Prepared, *, may_read: MayRead = anything) -> Counted:
    """How many entities the pages of the query have together; `InvalidQuery` for one that has no pages."""
    if prepared.window is not None or any(start.conjuncts is not None for start in prepared.starts):
        raise InvalidQuery(why="only a query without a schema and without order, limit and after can be counted")
    if needs_values(prepared):
        return _count_by_values(reader, prepared, may_read)
    resolved = resolve_query(reader, prepared)
    readable = filter(may_read, candidates(reader, prepared))
    found = 0
    for looked_at, (_, last) in enumerate(last_states.scan(reader, resolved.spans, readable)):
        if looked_at == COUNTED_MAX:
            return Counted(resolved.version, found, False)
        found += last is not None and last.state == "value"
    return Counted(resolved.version, found, True)


def _count_by_values(reader: LogReader, prepared: Prepared, may_read: MayRead) -> Counted:
    """Where a root has a path: at most as many ids as a page looks at, one value after the other."""
    resolved = resolve_query(reader, prepared)
    found = 0
    for looked_at, is_in in enumerate(store_queries.matching(reader, resolved, prepared, may_read=may_read)):
        if looked_at == LOOKED_AT_MAX:
            return Counted(resolved.version, found, False)
        found += is_in
    return Counted(resolved.version, found, True)


class ChildPrefix(msgspec.Struct, frozen=True):
    """A child of a prefix: it ends with a separator, or it is an id."""

    prefix: str
    entities: int
    exact: bool


class ChildrenPage(msgspec.Struct, frozen=True):
    """A page, as of `version`; `next` is the last child that was looked at."""

    version: Version
    children: tuple[ChildPrefix, ...]
    next: str | None


def children(
    reader: LogReader,
    prefix: str,
    moment: ReadMoment,
    *,
    within: Sequence[str],
    separators: str,
    after: str | None = None,
    limit: int,
) -> ChildrenPage:
    """The next children of the prefix that have an entity under one of the prefixes `within`.

    These are in order and under `prefix`, and none is under another.
    """
    resolved = resolve_moment(reader, moment)
    walk = _Walk(reader, resolved.spans, within)
    naming = _Naming(prefix, separators)
    if after is not None:
        walk.seek(naming.behind(after))
    found: list[ChildPrefix] = []
    looked_at, last = 0, after
    while (entry := walk.peek()) is not None:
        if looked_at >= CHILDREN_LOOKED_AT_MAX or len(found) == limit:
            return ChildrenPage(resolved.version, tuple(found), last)
        child = naming.child_of(entry.id)
        count_, entities = 0, 0
        while entry is not None and count_ <= CHILD_MAX and naming.child_of(entry.id) == child:
            count_, entities = count_ + 1, entities + (entry.has_value and count_ < CHILD_MAX)
            walk.step()
            entry = walk.peek()
        is_whole = count_ <= CHILD_MAX
        if not is_whole:
            walk.seek(naming.behind(child))
        if (entities or not is_whole) and child != last:
            found.append(ChildPrefix(child, entities, is_whole))
        looked_at, last = looked_at + count_, child
    return ChildrenPage(resolved.version, tuple(found), None)


class _Naming(NamedTuple):
    """Which child of a prefix an id belongs to."""

    prefix: str
    separators: str

    def child_of(self, id_: str) -> str:
        """Up to the first separator after the prefix, or the id."""
        ends = (id_.find(one, len(self.prefix)) for one in self.separators)
        end = min((at for at in ends if at >= 0), default=None)
        return id_ if end is None else id_[: end + 1]

    def behind(self, child: str) -> str:
        """A place after every id of the child. One that is an id has no others."""
        return child + _LAST if child[-1:] in self.separators and child[-1:] else child


class _Entry(NamedTuple):
    id: EntityId
    has_value: bool


class _Walk:
    """The ids under some prefixes, in order, with whether they have a value; some are read ahead."""

    def __init__(self, reader: LogReader, spans: Sequence[Span], within: Sequence[str]) -> None:
        self._reader = reader
        self._spans = spans
        self._within = deque(within)
        self._place: str | None = None
        self._ahead: deque[_Entry] = deque()

    def peek(self) -> _Entry | None:
        """The next one; None at the end."""
        while not self._ahead and self._within:
            after = None if self._place is None else EntityId(self._place)
            ids = self._reader.ids(self._within[0], after, SEEK)
            if not ids:
                self._within.popleft()
                continue
            states = last_states.load(self._reader, self._spans, ids)
            self._ahead.extend(_Entry(id_, id_ in states and states[id_].state == "value") for id_ in ids)
        return self._ahead[0] if self._ahead else None

    def step(self) -> None:
        self._place = self._ahead.popleft().id

    def seek(self, place: str) -> None:
        """Goes on after that place."""
        while self._ahead and self._ahead[0].id <= place:
            self._ahead.popleft()
        self._place = place
