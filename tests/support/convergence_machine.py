"""The machine under its former name: a run of the simulation of so many virtual seconds."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import NamedTuple

TESTS = Path(__file__).parents[1]
sys.path[:0] = [path for path in (str(TESTS), str(TESTS / "checkers")) if path not in sys.path]

from simulation.run import run as simulate  # noqa: E402


class Report(NamedTuple):
    """What a run came to."""

    commits: int
    confirmed: int
    rejected: int
    faults: int
    crashes: int
    lives: int
    checked: int
    trace: str


def run(seed: int, seconds: float = 15.0) -> Report:
    """One seed: raises at the first violation."""
    report = simulate(seed, seconds)
    return Report(
        commits=report.commits,
        confirmed=report.confirmed,
        rejected=report.rejected,
        faults=report.injected,
        crashes=report.crashes,
        lives=report.lives,
        checked=report.checks,
        trace=report.trace,
    )
