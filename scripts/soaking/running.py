"""One run of the soak: seeds until the time is over, everything noted, a violation stops its kind alone."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final, NamedTuple

from scripts.soaking.kinds import Kinds
from scripts.soaking.shares import Shares
from scripts.soaking.state import Soaked, State, Tally
from scripts.soaking.workers import Outcome, Workers

TOLD_SECONDS: Final = 15.0


class Surroundings(NamedTuple):
    """What a run needs of the world."""

    clock: Callable[[], float]
    tell: Callable[[str], None]
    """Shows a line to whoever waits."""
    keep: Callable[[State], None]
    """Makes what is known so far durable."""


class Run:
    """Runs seeds of the kinds on the workers for so many seconds; the state and its newest run are kept current."""

    def __init__(self, kinds: Kinds, state: State, soaked: Soaked, workers: Workers, around: Surroundings) -> None:
        self._kinds = kinds
        self._state = state
        self._soaked = soaked
        self._workers = workers
        self._around = around
        self._shares = Shares(kinds)
        self._again = {name: deque(one.seed for one in state.open(name)) for name in kinds}
        soaked.kinds = {name: Tally() for name in kinds}
        state.runs.append(soaked)

    def go(self, seconds: float) -> None:
        """What is under way when the time is over is waited for."""
        began = told = self._around.clock()
        while True:
            self._start(ends=began + seconds)
            if not self._shares.under_way:
                break
            for outcome in self._workers.wait(TOLD_SECONDS):
                self._take(outcome)
            now = self._around.clock()
            self._soaked.seconds = now - began
            if now - told >= TOLD_SECONDS:
                told = now
                self._tell(left=max(0.0, began + seconds - now))
        self._around.keep(self._state)

    def _start(self, *, ends: float) -> None:
        """Gives every free worker a seed."""
        while self._workers.has_room():
            now = self._around.clock()
            name = self._shares.next(now, ends=ends)
            if name is None:
                return
            seed = self._again[name].popleft() if self._again[name] else self._state.take_seed(name)
            self._shares.begin(name, now)
            self._workers.start(self._kinds[name], seed, now)

    def _take(self, outcome: Outcome) -> None:
        name, seed = outcome.kind, outcome.seed
        self._shares.end(name, outcome.begun, outcome.ended)
        self._soaked.kinds[name].add(seed, outcome.counts, outcome.ended - outcome.begun)
        problem = outcome.problem if outcome.counts is None else None
        self._state.judge(name, seed, problem and problem.strip().splitlines()[-1])
        if problem is not None:
            self._shares.stop(name)
            self._around.tell(f"{problem}\n{violation(name, seed)}")
            self._around.keep(self._state)

    def _tell(self, *, left: float) -> None:
        tallies = self._soaked.kinds.values()
        runs, faults = sum(one.runs for one in tallies), sum(one.faults for one in tallies)
        self._around.tell(
            f"{left / 60:5.1f} min left, {runs:,} seeds, {faults:,} faults, {self._soaked.violations} violations"
        )
        self._around.keep(self._state)


def violation(kind: str, seed: int) -> str:
    """What to type to see it again."""
    return f"VIOLATION: repeat it with: .venv/bin/python scripts/soak.py --kind {kind} --seed {seed}"
