"""How cost grows with size: the slope of log(cost) on log(size); 0 is not at all, 1 is in step with it."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

from benchmarks.harness.rows import Row

SIZE = "size"
"""The column that says how large it was."""


def slope(sizes: Sequence[float], costs: Sequence[float]) -> float:
    """Fitted over all points; turns of one size are points of their own."""
    logs = [math.log(size) for size in sizes]
    return statistics.linear_regression(logs, [math.log(cost) for cost in costs]).slope


def fitted(rows: Sequence[Row], columns: Sequence[str]) -> list[Row]:
    """The rows of one scenario at several sizes, each with `slope_<column>`; a column with zeros has none."""
    slopes = {}
    for column in columns:
        points = [(row[SIZE], cost) for row in rows for cost in row["turns"].get(column, ())]
        if points and all(cost > 0 for _, cost in points):
            slopes[f"slope_{column}"] = round(slope(*zip(*points, strict=True)), 3)
    return [_inserted(row, slopes) for row in rows]


def _inserted(row: Row, slopes: dict[str, float]) -> Row:
    """The turns stay last, where nobody has to look past them."""
    return {name: value for name, value in row.items() if name != "turns"} | slopes | {"turns": row["turns"]}
