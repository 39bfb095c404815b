"""The picture of branches: where they fork, merge, stand and end, the newest on top. Pure: rows of cells.

Every branch has a column of its own while it lives, and a row for each thing that happened to it. Ordinary commits in
between are counted, not drawn.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Final, Literal, NamedTuple

from stemmadb.client.reading.branches import Branch
from stemmadb.client.reading.entries import LogEntry
from stemmadb.protocol.model.values.ids import MAIN, BranchName, Version

Kind = Literal["head", "merge", "fork", "end", "here", "gap"]
NODES: Final[dict[Kind, str]] = {"head": "●", "merge": "●", "end": "✕", "here": "◆"}
_ABOVE: Final = {"fork": 0, "here": 2, "end": 1, "merge": 3, "head": 3}
"""Of several rows of one version the fork is on top: it comes after the commit it forks from."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """Something that happened to `branch`. `other` is the source of a merge, or the parent of a fork."""

    version: Version
    kind: Kind
    branch: BranchName
    other: BranchName | None = None
    entry: LogEntry | None = None
    count: int = 0
    """How many commits a gap stands for."""


class Here(NamedTuple):
    """Where one stands."""

    branch: BranchName
    version: Version


class GraphCell(NamedTuple):
    """A letter, and the branch whose line it belongs to."""

    letter: str
    branch: BranchName | None


class GraphRow(NamedTuple):
    """A line of the picture and what it is about."""

    cells: tuple[GraphCell, ...]
    mark: Mark


class _Span(NamedTuple):
    """The rows between which a branch has a line; it goes on below the picture if it has no last one."""

    top: int
    bottom: int


def draw(branches: Sequence[Branch], log: Iterable[LogEntry], *, here: Here | None) -> list[GraphRow]:
    """The rows, newest first. `log` are the newest commits of all branches; `here` is where one stands, if not at a
    head."""
    entries = {entry.version: entry for entry in log}
    names = {branch.name for branch in branches}
    marks = _with_gaps(sorted(_marks(branches, entries, names, here), key=_order), entries, names)
    spans = _spans(marks, branches)
    columns = _columns(spans)
    return [GraphRow(_cells(at, mark, spans, columns), mark) for at, mark in enumerate(marks)]


# ---------------------------------------------------------------- what is drawn


def _order(mark: Mark) -> tuple[int, int, str]:
    return (-mark.version, _ABOVE[mark.kind], mark.branch)


def _marks(
    branches: Sequence[Branch],
    entries: dict[Version, LogEntry],
    names: set[BranchName],
    here: Here | None,
) -> Iterator[Mark]:
    oldest = min(entries, default=Version(0))
    merges = {entry.version: _source(entry) for entry in entries.values() if _is_drawn_merge(entry, names)}
    for version, source in merges.items():
        entry = entries[version]
        assert entry.branch is not None, "a merge is on its target"
        yield Mark(version=version, kind="merge", branch=entry.branch, other=source, entry=entry)
    for branch in branches:
        if branch.version >= max(oldest, 1) and branch.version not in merges:
            yield Mark(version=branch.version, kind="head", branch=branch.name, entry=entries.get(branch.version))
        if branch.parent is not None and branch.fork >= oldest:
            parent = branch.parent if branch.parent in names else None
            yield Mark(version=branch.fork, kind="fork", branch=branch.name, other=parent)
        if branch.deleted is not None:
            yield Mark(version=branch.deleted, kind="end", branch=branch.name, entry=entries.get(branch.deleted))
    if here is not None and here.branch in names:
        has_row = {*merges, *(branch.version for branch in branches)}
        own = None if here.version in has_row else entries.get(here.version)
        own = own if own is not None and own.branch == here.branch else None
        yield Mark(version=here.version, kind="here", branch=here.branch, entry=own)


def _source(entry: LogEntry) -> BranchName | None:
    source = (entry.details or {}).get("source")
    return BranchName(source) if isinstance(source, str) else None


def _is_drawn_merge(entry: LogEntry, names: set[BranchName]) -> bool:
    return entry.kind == "merge" and entry.branch in names and _source(entry) in names


def _with_gaps(marks: list[Mark], entries: dict[Version, LogEntry], names: set[BranchName]) -> list[Mark]:
    """The same with a row for the commits between two rows, and for those below the last."""
    shown = {mark.version for mark in marks if mark.entry is not None}
    hidden = [entry for entry in entries.values() if entry.branch in names and entry.version not in shown]
    filled: list[Mark] = []
    for above, below in zip_longest(marks, marks[1:]):
        lowest = 0 if below is None else _height(below)
        filled += [above, *_gap([entry for entry in hidden if lowest < 2 * entry.version < _height(above)])]
    return filled


def _height(mark: Mark) -> int:
    """Twice the version, so that there is room above a commit for what has none of its own."""
    return 2 * mark.version + (mark.entry is None)


def _gap(between: Sequence[LogEntry]) -> list[Mark]:
    if not between:
        return []
    newest = max(between, key=lambda entry: entry.version)
    assert newest.branch is not None, "it is on one of the branches"
    return [Mark(version=newest.version, kind="gap", branch=newest.branch, count=len(between))]


# ---------------------------------------------------------------- where it is drawn


def _spans(marks: Sequence[Mark], branches: Sequence[Branch]) -> dict[BranchName, _Span]:
    spans: dict[BranchName, _Span] = {}
    forks = {mark.branch: at for at, mark in enumerate(marks) if mark.kind == "fork"}
    for branch in branches:
        rows = [
            at for at, mark in enumerate(marks) if branch.name in (mark.branch, mark.other) and mark.kind != "gap"
        ]
        if rows:
            spans[branch.name] = _Span(rows[0], forks.get(branch.name, len(marks)))
    return spans


def _columns(spans: dict[BranchName, _Span]) -> dict[BranchName, int]:
    """The first column that is free all along, the oldest branches to the left; that of main is its own."""
    taken: list[list[_Span]] = []
    columns: dict[BranchName, int] = {}
    for name, span in sorted(spans.items(), key=lambda one: (-one[1].bottom, one[1].top)):
        free = (at for at, column in enumerate(taken) if not any(_overlap(span, other) for other in column))
        at = next(free, len(taken))
        if at == len(taken):
            taken.append([])
        taken[at].append(span._replace(top=0) if name == MAIN else span)
        columns[name] = at
    return columns


def _overlap(one: _Span, other: _Span) -> bool:
    return one.top <= other.bottom and other.top <= one.bottom


# ---------------------------------------------------------------- the letters


def _cells(
    at: int, mark: Mark, spans: dict[BranchName, _Span], columns: dict[BranchName, int]
) -> tuple[GraphCell, ...]:
    """One cell for each column and one between any two."""
    width = 2 * max(columns.values(), default=0) + 1
    cells = [GraphCell(" ", None)] * width
    for name, span in spans.items():
        if span.top <= at <= span.bottom:
            cells[2 * columns[name]] = GraphCell("│", name)
    if mark.kind in NODES:
        cells[2 * columns[mark.branch]] = GraphCell(NODES[mark.kind], mark.branch)
    if mark.kind == "gap":
        cells[2 * columns[mark.branch]] = GraphCell("┊", mark.branch)
    if mark.kind == "merge" and mark.other is not None:
        _connect(cells, columns[mark.branch], columns[mark.other], mark.other)
        cells[2 * columns[mark.other]] = _corner(at, mark.other, mark.branch, spans, columns)
    elif mark.kind == "fork":
        _draw_fork(cells, at, mark, spans, columns)
    return tuple(cells)


def _draw_fork(
    cells: list[GraphCell], at: int, mark: Mark, spans: dict[BranchName, _Span], columns: dict[BranchName, int]
) -> None:
    child = columns[mark.branch]
    is_empty = spans[mark.branch].top == at
    if mark.other is None:
        cells[2 * child] = GraphCell("╵", mark.branch)
        return
    parent = columns[mark.other]
    _connect(cells, parent, child, mark.branch)
    leftwards = "╯" if parent < child else "╰"
    cells[2 * child] = GraphCell("○" if is_empty else leftwards, mark.branch)
    if spans[mark.other].top < at:
        cells[2 * parent] = GraphCell("├" if parent < child else "┤", mark.other)
    else:
        cells[2 * parent] = GraphCell("╭" if parent < child else "╮", mark.other)


def _corner(
    at: int, source: BranchName, target: BranchName, spans: dict[BranchName, _Span], columns: dict[BranchName, int]
) -> GraphCell:
    """Where a merge leaves its source, which comes from below and goes on above, or not."""
    goes_on = spans[source].top < at
    if columns[source] > columns[target]:
        return GraphCell("┤" if goes_on else "╮", source)
    return GraphCell("├" if goes_on else "╭", source)


def _connect(cells: list[GraphCell], one: int, other: int, branch: BranchName) -> None:
    """A line between two columns, over those that it crosses."""
    for at in range(2 * min(one, other) + 1, 2 * max(one, other)):
        letter, crossed = cells[at]
        cells[at] = GraphCell("─", branch) if crossed is None else GraphCell("┼" if letter == "│" else "─", crossed)
