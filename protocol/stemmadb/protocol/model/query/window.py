"""The order of rows and the window of a query: `order`, `limit` and `after` (QUERY-8).

A row is a root that matched, by its id. Values ascend as null, false, true, numbers, strings by code point, then
arrays and objects, which count as equal; `descending` turns this round. A missing value comes last either way, and
ties go by id.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Annotated, Any, Final, NamedTuple, TypeAlias

import msgspec

from stemmadb.protocol.errors import InvalidQuery
from stemmadb.protocol.model.values import ids, pointer
from stemmadb.protocol.model.values.ids import EntityId
from stemmadb.protocol.model.values.json_values import Value
from stemmadb.protocol.model.values.limits import Limits

ORDER_MAX: Final = 4
LIMIT_MAX: Final = 1_000
BUCKET_MAX: Final = 512
"""Rows in one piece of a list that is kept in order."""


class OrderBy(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """One key of an order: a JSON Pointer into the value of the entity."""

    path: str
    descending: bool = False


class AfterRow(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The last row of the page before: for each key its value in an array, which is empty if it was missing."""

    keys: tuple[tuple[Any, ...], ...]
    id: str


Rank: TypeAlias = tuple[int] | tuple[int, int | float] | tuple[int, str]


@dataclass(frozen=True, slots=True)
class Reversed:
    """A rank in a descending order."""

    rank: Any

    def __lt__(self, other: Reversed) -> bool:
        return bool(other.rank < self.rank)


SortKey: TypeAlias = tuple[tuple[bool, Any], ...]
"""For each key of the order: whether the value is missing, and its rank."""


class Row(NamedTuple):
    """A root that matched, in the order of the query."""

    key: SortKey
    id: EntityId


class Window(NamedTuple):
    """The rows of a query that are in its answer: the first `limit` in `order` that come after `after`."""

    order: tuple[tuple[tuple[str, ...], bool], ...]
    """The tokens of each path, and whether it descends."""
    limit: int | None
    after: Row | None

    def row(self, id_: EntityId, value: Value) -> Row:
        return Row(tuple(_key(_found(value, path), descending) for path, descending in self.order), id_)

    def begins_before(self, row: Row) -> bool:
        """Whether the row comes after the page before."""
        return self.after is None or self.after < row


def prepare_window(
    order: tuple[OrderBy, ...], limit: int | None, after: AfterRow | None, limits: Limits
) -> Window | None:
    """The window, checked; None for a query that has none."""
    if not order and limit is None and after is None:
        return None
    if len(order) > ORDER_MAX:
        raise InvalidQuery(why=f"it has {len(order)} keys to order by, and at most {ORDER_MAX} are allowed")
    if limit is not None and (type(limit) is not int or not 1 <= limit <= LIMIT_MAX):
        raise InvalidQuery(why=f"the limit is not a number from 1 to {LIMIT_MAX}")
    keys = tuple((tuple(pointer.parse(one.path)), one.descending) for one in order)
    return Window(keys, limit, None if after is None else _after(after, keys, limits))


def _after(after: AfterRow, keys: tuple[tuple[tuple[str, ...], bool], ...], limits: Limits) -> Row:
    if len(after.keys) != len(keys) or any(len(one) > 1 for one in after.keys):
        raise InvalidQuery(
            why="'after' is not a row of this order: it has one array for each key, of one value or none"
        )
    made = tuple(_key(list(one), descending) for one, (_, descending) in zip(after.keys, keys, strict=True))
    return Row(made, ids.entity_id(after.id, limits.id_bytes_max))


def after_row(order: Iterable[OrderBy], id_: EntityId, value: Value) -> AfterRow:
    """The row as the next page names it; of an array or an object nothing matters but that it is one."""
    found = (_found(value, tuple(pointer.parse(one.path))) for one in order)
    return AfterRow(tuple(tuple({} if isinstance(v, list | dict) else v for v in one) for one in found), id_)


def _found(value: Value, path: tuple[str, ...]) -> list[Value]:
    """The value at a path, in a list that is empty where there is none."""
    part: Any = value
    for token in path:
        if isinstance(part, dict) and token in part:
            part = part[token]
        elif isinstance(part, list) and (index := pointer.index(token, len(part) - 1)) is not None:
            part = part[index]
        else:
            return []
    return [part]


def _key(found: list[Value], descending: bool) -> tuple[bool, Any]:
    if not found:
        return True, ()
    rank = _rank(found[0])
    return False, Reversed(rank) if descending else rank


def _rank(value: Value) -> Rank:
    if value is None:
        return (0,)
    if isinstance(value, bool):
        return (2,) if value else (1,)
    if isinstance(value, int | float):
        return (3, value)
    return (4, value) if isinstance(value, str) else (5,)


class OrderedRows:
    """The rows of a watch in their order, in buckets: adding and removing one costs O(log n) comparisons."""

    def __init__(self) -> None:
        self._buckets: list[list[Row]] = []
        self._rows: dict[EntityId, Row] = {}

    def __len__(self) -> int:
        return len(self._rows)

    def fill(self, rows: Iterable[Row]) -> None:
        """Takes all of them at once."""
        every = sorted(rows)
        self._rows = {row.id: row for row in every}
        self._buckets = [every[at : at + BUCKET_MAX] for at in range(0, len(every), BUCKET_MAX)]

    def put(self, id_: EntityId, row: Row | None) -> None:
        """The row of an entity is this one now, or it has none."""
        before = self._rows.pop(id_, None)
        if before is not None:
            self._remove(before)
        if row is not None:
            self._rows[id_] = row
            self._add(row)

    def first(self, count: int | None) -> Iterator[EntityId]:
        """The first of them in order; all without a count."""
        left = len(self._rows) if count is None else count
        for bucket in self._buckets:
            if left <= 0:
                return
            yield from (row.id for row in bucket[:left])
            left -= len(bucket)

    def _at(self, row: Row) -> int:
        """The bucket in which the row is, or belongs."""
        return max(0, bisect.bisect_right(self._buckets, row, key=lambda bucket: bucket[0]) - 1)

    def _add(self, row: Row) -> None:
        if not self._buckets:
            self._buckets.append([row])
            return
        at = self._at(row)
        bucket = self._buckets[at]
        bisect.insort(bucket, row)
        if len(bucket) > 2 * BUCKET_MAX:
            self._buckets[at : at + 1] = [bucket[:BUCKET_MAX], bucket[BUCKET_MAX:]]

    def _remove(self, row: Row) -> None:
        at = self._at(row)
        bucket = self._buckets[at]
        del bucket[bisect.bisect_left(bucket, row)]
        if not bucket:
            del self._buckets[at]


Limit: TypeAlias = Annotated[int, msgspec.Meta(ge=1, le=LIMIT_MAX)]
