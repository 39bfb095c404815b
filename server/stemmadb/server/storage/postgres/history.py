"""History: facts of an entity in order, and the whole log page by page."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import Final, TypeAlias

from stemmadb.protocol.errors import BrokenChain
from stemmadb.protocol.model.log.branch_spans import Span
from stemmadb.protocol.model.log.commit_record import Commit
from stemmadb.protocol.model.log.facts import Fact
from stemmadb.protocol.model.values.ids import Did, EntityId, Version
from stemmadb.server.storage import positions
from stemmadb.server.storage.port import FactPosition, Order
from stemmadb.server.storage.postgres import records
from stemmadb.server.storage.postgres.read_view import OpenView, PostgresView, alive
from stemmadb.server.storage.postgres.structure import PostgresStructure
from stemmadb.server.storage.stored_records import commit_of

Range: TypeAlias = tuple[int, int, int]
"""A branch, and the least and the greatest number of a place there."""

COMMITS_IN_PAGE: Final = 256
FACTS_AT_ONCE: Final = 512

_BRANCHES_OF: Final = """
WITH RECURSIVE found (branch) AS (  -- from one branch of the entity to the next, whatever the number of its facts
  (SELECT branch FROM fact WHERE space = %(space)s::int AND entity = %(entity)s::int
   ORDER BY space, entity, branch LIMIT 1)
  UNION ALL SELECT (SELECT branch FROM fact WHERE space = %(space)s::int AND entity = %(entity)s::int
    AND branch > found.branch ORDER BY space, entity, branch LIMIT 1) FROM found WHERE branch IS NOT NULL
)
SELECT branch FROM found WHERE branch IS NOT NULL
"""
_PLACES: Final = (
    "SELECT place FROM fact WHERE space = %(space)s::int AND entity = %(entity)s::int AND branch = %(branch)s::int "
    "AND place BETWEEN %(low)s AND %(high)s ORDER BY place {} LIMIT %(limit)s"
)


def facts_of(
    view: PostgresView,
    structure: PostgresStructure,
    id_: EntityId,
    spans: Sequence[Span] | None,
    *,
    order: Order,
    after: FactPosition | None,
    limit: int | None,
) -> list[Fact]:
    """The facts of an entity in the spans, or on all branches, in the order of their places."""
    row = view.row("SELECT entity FROM entity WHERE space = %(space)s::int AND id = %(id)s", {"id": id_})
    if row is None:
        return []
    ranges = _every_branch(view, row[0]) if spans is None else _ranges(structure, spans)
    sql = _PLACES.format("DESC" if order == "newest" else "ASC")
    numbers: list[int] = []
    for branch, low, high in _beyond(ranges, order, after):
        values = {"entity": row[0], "branch": branch, "low": low, "high": high, "limit": limit}
        numbers += [number for (number,) in view.rows(sql, values)]
    numbers.sort(reverse=order == "newest")
    return records.facts_at(view, numbers[:limit])


def _every_branch(view: PostgresView, entity: int) -> list[Range]:
    found = view.rows(_BRANCHES_OF, {"entity": entity})
    return [(branch, 0, positions.last(view.tip.version)) for (branch,) in found]


def _ranges(structure: PostgresStructure, spans: Sequence[Span]) -> Iterator[Range]:
    structure.branches_named([span.branch for span in spans])
    for span in spans:
        number = structure.number(span.branch)
        if number is not None:
            yield number, *positions.bounds(span)


def _beyond(ranges: Iterable[Range], order: Order, after: FactPosition | None) -> Iterator[Range]:
    """The parts of the ranges that come after a place in that order."""
    for branch, low, high in ranges:
        if after is None:
            yield branch, low, high
        elif order == "newest":
            yield branch, low, min(high, positions.number_of(after) - 1)
        elif positions.number_of(after) < high:
            yield branch, max(low, positions.number_of(after) + 1), high


def every(
    view: PostgresView, space: Did, after: Version, open_view: OpenView
) -> Iterator[tuple[Commit, tuple[Fact, ...]]]:
    """Every commit after a version with its facts, a page of them in memory.

    Pages come from this read view while it lives, and each of the later ones from a read view of its own: below the
    version of this one the log does not change. Only what was destroyed meanwhile is gone there.
    """
    upto = view.tip.version
    while True:
        with alive(view, open_view) as page_view:
            page = _page(page_view, space, after, upto)
        yield from page
        if len(page) < COMMITS_IN_PAGE:
            return
        after = page[-1][0].version


def _page(view: PostgresView, space: Did, after: Version, upto: Version) -> list[tuple[Commit, tuple[Fact, ...]]]:
    rows = records.commit_rows(view, after, upto, COMMITS_IN_PAGE)
    end = upto if len(rows) < COMMITS_IN_PAGE else rows[-1][0]
    groups = {version: tuple(its) for version, its in groupby(_facts(view, after, end), lambda fact: fact.version)}
    page = []
    for row in rows:
        its = groups.pop(row[0], ())
        page.append((commit_of(row, space, [(fact.hash, fact.branch) for fact in its]), its))
    if groups:
        raise BrokenChain(version=min(groups), place="commit", why="it is missing, and its facts are there")
    return page


def _facts(view: PostgresView, after: Version, upto: Version) -> Iterator[Fact]:
    low, high = positions.last(after), positions.last(upto)
    while True:
        page = records.fact_page(view, low, high, FACTS_AT_ONCE)
        yield from page
        if len(page) < FACTS_AT_ONCE:
            return
        low = positions.number(page[-1].version, page[-1].index)
