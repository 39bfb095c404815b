"""The floors of a quick run: ratios that may not fall below them, and costs that may not rise above."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.harness.rows import OURS, Key, Row
from benchmarks.harness.target import ratio
from benchmarks.harness.turns import Spread, among

FLOORS = Path(__file__).parents[1] / "floors.toml"


@dataclass(frozen=True, kw_only=True)
class Floor:
    """Ours over another system, by one column of one scenario. One of the bounds is there."""

    scenario: str
    clients: int
    column: str
    against: str
    at_least: float | None = None
    at_most: float | None = None

    @property
    def name(self) -> str:
        return f"{self.scenario}, {self.clients} clients: {self.column} over {self.against}"

    @property
    def bound(self) -> str:
        return f">= {self.at_least:g}" if self.at_least is not None else f"<= {self.at_most:g}"

    def figure(self, rows: Sequence[Row]) -> Spread | None:
        ours, other = (Key(self.scenario, system, self.clients) for system in (OURS, self.against))
        return ratio(self.column, ours, other)(among(rows))

    def holds(self, figure: Spread) -> bool:
        """By the median; a single bad turn is no loss."""
        if self.at_least is not None:
            return figure.median >= self.at_least
        return self.at_most is not None and figure.median <= self.at_most


def load(path: Path = FLOORS) -> list[Floor]:
    entries: list[dict[str, Any]] = tomllib.loads(path.read_text())["floor"]
    floors = [Floor(**entry) for entry in entries]
    for floor in floors:
        if (floor.at_least is None) == (floor.at_most is None):
            raise ValueError(f"{path.name}: say either at_least or at_most for {floor.name}")
    return floors


def judged(floors: Sequence[Floor], rows: Sequence[Row]) -> tuple[list[str], int]:
    """A line for each floor that was measured, and how many do not hold."""
    lines, broken = [], 0
    for floor in floors:
        figure = floor.figure(rows)
        if figure is None:
            continue
        holds = floor.holds(figure)
        broken += not holds
        spans = f"{figure.median:6.2f} x ({figure.low:.2f} to {figure.high:.2f})"
        lines.append(f"{'holds ' if holds else 'BROKEN'}  {floor.name:<58} {spans}  floor {floor.bound}")
    return lines, broken
