"""The time of a soak is shared fairly, on a clock and workers of the test's own: nothing here waits."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from scripts.soaking.kinds import Counts, Kind
from scripts.soaking.running import TOLD_SECONDS, Run, Surroundings
from scripts.soaking.state import FORMAT, Soaked, State, Tally
from scripts.soaking.workers import Outcome, Task

SECONDS = 600.0


class VirtualWorkers:
    """Seeds take the time that is said of their kind, and no time passes otherwise."""

    def __init__(self, lasting: Mapping[str, float], *, jobs: int, failing: str | None = None) -> None:
        self.now = 1_000.0
        self._lasting = lasting
        self._jobs = jobs
        self._failing = failing
        self._tasks: list[Task] = []

    def clock(self) -> float:
        return self.now

    def has_room(self) -> bool:
        return len(self._tasks) < self._jobs

    def start(self, kind: Kind, seed: int, begun: float) -> None:
        self._tasks.append(Task(kind, seed, begun))

    def wait(self, seconds: float) -> list[Outcome]:
        task = min(self._tasks, key=self._end)
        if self._end(task) > self.now + seconds:
            self.now += seconds
            return []
        self.now = self._end(task)
        self._tasks.remove(task)
        counts = None if task.kind.name == self._failing else task.kind.run(task.seed)
        return [task.ended(counts, "" if counts else "it is broken", self.now)]

    def _end(self, task: Task) -> float:
        return task.begun + self._lasting[task.kind.name]


def soaked(workers: VirtualWorkers, names: Mapping[str, float]) -> tuple[dict[str, Tally], list[str]]:
    """What a run came to, and the lines it told."""
    kinds = {name: Kind(name, "Nothing", "-", None, lambda _seed: Counts(1)) for name in names}
    told: list[str] = []
    run = Soaked("none", "never", "none", 1)
    around = Surroundings(workers.clock, told.append, lambda _state: None)
    Run(kinds, State(FORMAT), run, workers, around).go(SECONDS)
    return run.kinds, told


@pytest.mark.parametrize("jobs", [1, 2, 3, 8])
def test_a_kind_that_is_slow_for_each_seed_gets_as_much_time_as_the_others_and_no_more(jobs: int) -> None:
    lasting = {"swift": 0.1, "slow": 20.0, "middling": 1.0, "steady": 0.3}
    tallies, _ = soaked(VirtualWorkers(lasting, jobs=jobs), lasting)
    fair = SECONDS * jobs / len(lasting)
    for name, tally in tallies.items():
        assert tally.seconds == pytest.approx(fair, abs=2 * lasting["slow"]), name
    assert tallies["swift"].runs > 100 * tallies["slow"].runs


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_kind_whose_seed_takes_nearly_all_of_the_time_starves_nobody(jobs: int) -> None:
    lasting = {"huge": 500.0, "swift": 1.0, "steady": 2.0}
    tallies, _ = soaked(VirtualWorkers(lasting, jobs=jobs), lasting)
    assert tallies["huge"].runs == 1
    assert min(tallies["swift"].seconds, tallies["steady"].seconds) > (jobs * SECONDS - 500) / 3


def test_one_kind_alone_has_all_workers() -> None:
    lasting = {"alone": 5.0}
    tallies, _ = soaked(VirtualWorkers(lasting, jobs=4), lasting)
    assert tallies["alone"].seconds == pytest.approx(4 * SECONDS, rel=0.05)


def test_a_run_ends_when_its_time_is_over() -> None:
    lasting = {"slow": 70.0, "swift": 0.5}
    workers = VirtualWorkers(lasting, jobs=2)
    soaked(workers, lasting)
    assert 1_000 + SECONDS - 1 <= workers.now <= 1_000 + SECONDS


def test_a_kind_with_a_violation_stops_and_the_others_go_on_to_the_end() -> None:
    lasting = {"broken": 1.0, "sound": 1.0}
    workers = VirtualWorkers(lasting, jobs=1, failing="broken")
    tallies, told = soaked(workers, lasting)
    assert (tallies["broken"].runs, tallies["broken"].violations) == (1, 1)
    assert tallies["sound"].seconds == pytest.approx(SECONDS, abs=3)
    assert sum("VIOLATION" in line for line in told) == 1


def test_the_progress_is_told_every_quarter_of_a_minute_also_while_one_seed_takes_long() -> None:
    lasting = {"huge": 590.0}
    _, told = soaked(VirtualWorkers(lasting, jobs=1), lasting)
    assert len(told) == int(590 / TOLD_SECONDS)
    assert told[0] == "  9.8 min left, 0 seeds, 0 faults, 0 violations"
