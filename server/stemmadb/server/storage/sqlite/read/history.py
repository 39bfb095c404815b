"""History: facts of an entity in order, and the whole log as a stream."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import groupby
from typing import TypeAlias

from stemmadb.protocol.errors import BrokenChain
from stemmadb.protocol.model.log.branch_spans import Span
from stemmadb.protocol.model.log.commit_record import Commit
from stemmadb.protocol.model.log.facts import Fact
from stemmadb.protocol.model.values.ids import Did, EntityId, Version
from stemmadb.server.storage import positions
from stemmadb.server.storage.port import FactPosition, Order
from stemmadb.server.storage.sqlite.connection import DamagedFile, Row
from stemmadb.server.storage.sqlite.read import records
from stemmadb.server.storage.sqlite.read.read_view import ReadView
from stemmadb.server.storage.sqlite.read.stored_structure import StoredStructure
from stemmadb.server.storage.stored_records import commit_of, fact_of

Range: TypeAlias = tuple[int, int, int]
"""A branch, and the least and the greatest number of a place there."""

_BRANCHES_OF = (  # from one branch of the entity to the next by the index, whatever the number of its facts
    "WITH RECURSIVE found (branch) AS ("
    "SELECT (SELECT branch FROM fact INDEXED BY fact_entity WHERE entity = ?1 ORDER BY branch LIMIT 1) "
    "UNION ALL SELECT (SELECT branch FROM fact INDEXED BY fact_entity "
    "WHERE entity = ?1 AND branch > found.branch ORDER BY branch LIMIT 1) FROM found WHERE branch IS NOT NULL) "
    "SELECT branch FROM found WHERE branch IS NOT NULL"
)
_PLACES = (
    "SELECT place FROM fact INDEXED BY fact_entity "
    "WHERE entity = ? AND branch = ? AND place BETWEEN ? AND ? ORDER BY place {} LIMIT ?"
)
_ALL_COMMITS = records.COMMIT.format('"commit" AS c') + " WHERE c.version > ? ORDER BY c.version"
_ALL_FACTS = records.FACT.format("fact AS f") + " WHERE f.place > ? ORDER BY f.place"


def facts_of(
    view: ReadView,
    structure: StoredStructure,
    id_: EntityId,
    spans: Sequence[Span] | None,
    *,
    order: Order,
    after: FactPosition | None,
    limit: int | None,
) -> list[Fact]:
    """The facts of an entity in the spans, or on all branches, in the order of their places."""
    row = view.row("SELECT entity FROM entity WHERE id = ?", (id_,))
    if row is None:
        return []
    ranges = _every_branch(view, row[0]) if spans is None else _ranges(structure, spans)
    direction = "DESC" if order == "newest" else "ASC"
    numbers: list[int] = []
    for branch, low, high in _beyond(ranges, order, after):
        values = (row[0], branch, low, high, -1 if limit is None else limit)
        numbers += [number for (number,) in view.rows(_PLACES.format(direction), values)]
    numbers.sort(reverse=order == "newest")
    return records.facts_at(view, numbers[:limit])


def _every_branch(view: ReadView, entity: int) -> list[Range]:
    return [(branch, 0, positions.last(view.tip.version)) for (branch,) in view.rows(_BRANCHES_OF, (entity,))]


def _ranges(structure: StoredStructure, spans: Sequence[Span]) -> Iterator[Range]:
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


def every(view: ReadView, space: Did, after: Version) -> Iterator[tuple[Commit, tuple[Fact, ...]]]:
    """Every commit after a version with its facts; the facts of no more than two commits are in memory.

    `BrokenChain` names the place where the file cannot be read, so that a walk that verifies it can say so.
    """
    groups = _by_version(_facts(view, after))
    waiting = next(groups, None)
    for row in _commits(view, after):
        its: list[Fact] = []
        if waiting is not None and waiting[0].version <= row[0]:
            _check_owner(waiting[0].version, row[0])
            its, waiting = waiting, next(groups, None)
        yield commit_of(row, space, [(fact.hash, fact.branch) for fact in its]), tuple(its)
    if waiting is not None:
        _check_owner(waiting[0].version, None)


def _check_owner(version: Version, commit: Version | None) -> None:
    if version != commit:
        raise BrokenChain(version=version, place="commit", why="it is missing, and its facts are there")


def _commits(view: ReadView, after: Version) -> Iterator[Row]:
    version = after
    try:
        for row in view.stream(_ALL_COMMITS, (after,)):
            version = row[0]
            yield row
    except DamagedFile as damage:
        raise BrokenChain(version=Version(version + 1), place="commit", why=str(damage)) from damage


def _facts(view: ReadView, after: Version) -> Iterator[Fact]:
    number = positions.last(after)
    try:
        for row in view.stream(_ALL_FACTS, (number,)):
            number = row[0]
            yield fact_of(row)
    except DamagedFile as damage:
        place = _place_after(view, number)
        raise BrokenChain(version=place.version, place=f"fact {place.index}", why=str(damage)) from damage


def _place_after(view: ReadView, number: int) -> FactPosition:
    """The next place there is a fact at, or what comes closest if not even that can be read."""
    with suppress(DamagedFile):
        row = view.row("SELECT place FROM fact WHERE place > ? ORDER BY place LIMIT 1", (number,))
        number = number if row is None else row[0]
    return positions.place_of(number)


def _by_version(facts: Iterable[Fact]) -> Iterator[list[Fact]]:
    return (list(group) for _, group in groupby(facts, key=lambda fact: fact.version))
