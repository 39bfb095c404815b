"""Systems take turns, so that a busy moment of the machine hits all alike; what each turn measured becomes rows."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from benchmarks.harness import rows
from benchmarks.harness.rows import Key, Row, Turn
from benchmarks.load.figures import Figures


class Spread(NamedTuple):
    """The median of some turns, and their range."""

    median: float
    low: float
    high: float


def spread(figures: Sequence[float]) -> Spread:
    return Spread(float(statistics.median(figures)), min(figures), max(figures))


def ratios(ours: Sequence[float], other: Sequence[float]) -> list[float]:
    """Turn by turn; a turn of one of them that the other did not have counts for nothing."""
    return [a / b for a, b in zip(ours, other, strict=False) if b]


class Turns:
    """What was measured so far."""

    def __init__(self) -> None:
        self._turns: dict[Key, list[Turn]] = {}
        self._n: dict[Key, int] = {}
        self._durable: dict[Key, bool] = {}
        self._more: dict[Key, dict[str, object]] = {}

    def add(self, key: Key, turn: Turn, *, n: int, durable: bool = True) -> None:
        self._turns.setdefault(key, []).append(turn)
        self._n[key] = self._n.get(key, 0) + n
        self._durable[key] = durable

    def add_figures(self, key: Key, figures: Figures, *, durable: bool = True, **more: float) -> None:
        self.add(key, columns(figures) | more, n=figures.n, durable=durable)

    def note(self, key: Key, **more: object) -> None:
        """Columns that are no figures of turns."""
        self._more.setdefault(key, {}).update(more)

    def rows(self) -> list[Row]:
        return [
            rows.made(key, turns, n=self._n[key], durable=self._durable[key], **self._more.get(key, {}))
            for key, turns in self._turns.items()
        ]


def columns(figures: Figures) -> dict[str, float]:
    return {
        "rate": figures.rate,
        "p50_us": figures.p50_us,
        "p99_us": figures.p99_us,
        "cpu_us_per_op": figures.cpu_us_per_op,
        "load_cpu_share": figures.load_cpu_share,
    }


def of_times(seconds: Sequence[float]) -> dict[str, float]:
    """One turn of something that was timed again and again, one at a time."""
    ordered = sorted(seconds)
    return {
        "rate": len(ordered) / sum(ordered),
        "p50_us": ordered[len(ordered) // 2] * 1e6,
        "p99_us": ordered[min(len(ordered) - 1, len(ordered) * 99 // 100)] * 1e6,
    }


def among(found: Sequence[Row]) -> Mapping[Key, Row]:
    return {rows.key_of(row): row for row in found}
