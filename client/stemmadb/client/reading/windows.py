"""How an order, a limit and the page before are written, for queries and watches alike (QUERY-8)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias, TypedDict

from stemmadb.protocol.errors import InvalidQuery
from stemmadb.protocol.model.query.query import Query, Root
from stemmadb.protocol.model.query.window import AfterRow, OrderBy
from stemmadb.protocol.model.values.ids import BranchName

DESCENDING = "-"
OrderKey: TypeAlias = str | OrderBy
"""A JSON Pointer such as `/rank`; `-/rank` for the highest first."""


class WindowOptions(TypedDict, total=False):
    """`space.query("urn:todo:*", order="-/rank", limit=20)`, and the next page with `after=found.after`."""

    order: OrderKey | Iterable[OrderKey]
    """The keys to order by, at most four; ties go by id."""
    limit: int | None
    """The number of roots, from 1 to 1,000."""
    after: AfterRow | None
    """`QueryResult.after` of the page before."""


def windowed(roots: tuple[Root, ...], branch: BranchName, options: WindowOptions) -> Query:
    """The query at the head of a branch."""
    order, limit, after = options.get("order", ()), options.get("limit"), options.get("after")
    written = (order,) if isinstance(order, str | OrderBy) else tuple(order)
    if limit is not None and type(limit) is not int:
        raise InvalidQuery(why="the limit is not a whole number")
    if after is not None and not isinstance(after, AfterRow):
        raise InvalidQuery(why="'after' is not what `QueryResult.after` gave")
    return Query(roots, branch, order=tuple(map(_key, written)), limit=limit, after=after)


def _key(written: OrderKey) -> OrderBy:
    if isinstance(written, OrderBy):
        return written
    if not isinstance(written, str):
        raise InvalidQuery(why="a key to order by is a JSON Pointer, as '/rank', or '-/rank' for the highest first")
    return OrderBy(written.removeprefix(DESCENDING), written.startswith(DESCENDING))
