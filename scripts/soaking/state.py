"""What all soaks so far came to, kept in a file, so that seeds go on and counts add up over runs."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import msgspec
from scripts.soaking.kinds import Counts

FIRST_SEED: Final = 1_000_000
"""Beyond the seeds of the tests on every change."""
FORMAT: Final = 2


class Tally(msgspec.Struct):
    """What came of one kind."""

    runs: int = 0
    operations: int = 0
    faults: int = 0
    violations: int = 0
    seconds: float = 0.0
    seeds: tuple[int, int] | None = None
    """The first and the last one that was run."""

    def add(self, seed: int, counts: Counts | None, seconds: float) -> None:
        """No counts: the seed showed a violation."""
        self.runs += 1
        self.operations += counts.operations if counts else 0
        self.faults += counts.faults if counts else 0
        self.violations += counts is None
        self.seconds += seconds
        self.seeds = (seed, seed) if self.seeds is None else (min(self.seeds[0], seed), max(self.seeds[1], seed))


class Soaked(msgspec.Struct):
    """One run of the soak."""

    command: str
    began: str
    revision: str
    jobs: int
    seconds: float = 0.0
    kinds: dict[str, Tally] = {}

    @property
    def violations(self) -> int:
        return sum(tally.violations for tally in self.kinds.values())


class Violation(msgspec.Struct):
    """A seed that showed one. It is the first to be tried when its kind is run again."""

    kind: str
    seed: int
    what: str
    passes_now: bool = False


class State(msgspec.Struct):
    """Everything that is kept. A seed that was under way when a run was broken off is left out, not counted twice."""

    format: int
    next: dict[str, int] = {}
    runs: list[Soaked] = []
    violations: list[Violation] = []

    def take_seed(self, kind: str) -> int:
        seed = self.next.get(kind, FIRST_SEED)
        self.next[kind] = seed + 1
        return seed

    def open(self, kind: str) -> list[Violation]:
        return [one for one in self.violations if one.kind == kind and not one.passes_now]

    def judge(self, kind: str, seed: int, problem: str | None) -> None:
        """Notes what a seed showed: a new violation, one that is still there, or one that is gone."""
        known = next((one for one in self.violations if (one.kind, one.seed) == (kind, seed)), None)
        if known is not None:
            known.passes_now = problem is None
        elif problem is not None:
            self.violations.append(Violation(kind, seed, problem))


def total(tallies: Iterable[Tally]) -> Tally:
    """All of them as one; the seeds go from the first to the last."""
    made = Tally()
    for one in tallies:
        made.runs += one.runs
        made.operations += one.operations
        made.faults += one.faults
        made.violations += one.violations
        made.seconds += one.seconds
        ends = [*(made.seeds or ()), *(one.seeds or ())]
        made.seeds = (min(ends), max(ends)) if ends else None
    return made


class UnknownState(Exception):
    """The file is not one that this soak wrote."""


def load(file: Path) -> State:
    """What the file holds; nothing yet, if there is none."""
    if not file.exists():
        return State(FORMAT)
    try:
        state = msgspec.json.decode(file.read_bytes(), type=State)
    except msgspec.DecodeError as error:
        raise UnknownState(f"{file} cannot be read ({error}): move it away, or name another with --state") from error
    if state.format != FORMAT:
        raise UnknownState(f"{file} has format {state.format}, not {FORMAT}: move it away, or name another")
    return state


def keep(state: State, file: Path) -> None:
    """The file holds the old state or the new one, whatever happens meanwhile."""
    fresh = file.with_name(f"{file.name}.new")
    with fresh.open("wb") as out:
        out.write(msgspec.json.format(msgspec.json.encode(state)))
        out.flush()
        os.fsync(out.fileno())
    fresh.replace(file)
