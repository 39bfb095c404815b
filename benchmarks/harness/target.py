"""A target: a figure computed from rows, with two bounds."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from benchmarks.harness.rows import Key, Row
from benchmarks.harness.turns import Spread, ratios, spread

Rows: TypeAlias = Mapping[Key, Row]
Measure: TypeAlias = Callable[[Rows], Spread | None]
"""The figure, or None where a row of it is not there."""


@dataclass(frozen=True, kw_only=True)
class Target:
    """One figure. `first` is the bound to reach first, `goal` the one after it; None where there is none."""

    row: str
    """The row of the table."""
    figure: str
    measure: Measure
    more_is_better: bool
    first: float | None
    goal: float | None
    unit: str = "x"

    def reached(self, figure: Spread, bound: float) -> bool:
        return figure.median >= bound if self.more_is_better else figure.median <= bound


def ratio(column: str, ours: Key, other: Key) -> Measure:
    """Ours over the other, turn by turn."""

    def measure(rows: Rows) -> Spread | None:
        if ours not in rows or other not in rows:
            return None
        found = ratios(rows[ours]["turns"].get(column, []), rows[other]["turns"].get(column, []))
        return spread(found) if found else None

    return measure


def value(column: str, key: Key) -> Measure:
    """The figure itself."""

    def measure(rows: Rows) -> Spread | None:
        turns = rows[key]["turns"].get(column) if key in rows else None
        return spread(turns) if turns else None

    return measure


def flatness(column: str, keys: Sequence[Key]) -> Measure:
    """The largest over the smallest of several sizes, turn by turn."""

    def measure(rows: Rows) -> Spread | None:
        if any(key not in rows for key in keys):
            return None
        turns = zip(*(rows[key]["turns"][column] for key in keys), strict=False)
        return spread([max(turn) / min(turn) for turn in turns])

    return measure


def less(
    row: str, figure: str, measure: Measure, *, first: float | None, goal: float | None, unit: str = "x"
) -> Target:
    return Target(row=row, figure=figure, measure=measure, more_is_better=False, first=first, goal=goal, unit=unit)


def more(row: str, figure: str, measure: Measure, *, first: float | None, goal: float | None) -> Target:
    return Target(row=row, figure=figure, measure=measure, more_is_better=True, first=first, goal=goal)
