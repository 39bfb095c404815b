"""The simulation: many seeds, each a world of its own; a seed repeats its run, and a failing one is made smaller."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from simulation.options import FAULTS, WORK, Options, changed, expand, shown
from simulation.report import NONE
from simulation.run import run, run_with
from simulation.shrinking import shrink

CHUNKS = 8
SEEDS = 25
REPEATED = (3, 7, 55)
COMMAND = Path(__file__).with_name("run.py")


@pytest.mark.rule("COMMIT-5", "COMMIT-10", "COMMIT-11", "RESUME-1", "RESUME-2", "RESUME-3", "RESUME-4", "RESUME-5")
@pytest.mark.rule("NURSERY-1", "NURSERY-3", "NURSERY-4", "NURSERY-5", "NURSERY-7", "SYNC-1", "WATCH-1", "WATCH-3")
@pytest.mark.rule("ACL-1", "ACL-2", "ACL-4", "HISTORY-2", "ERASE-1", "COMPACT-1", "MERGE-2", "WIRE-3")
@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_while_everything_fails_nothing_is_lost_and_then_all_agree(chunk: int) -> None:
    total = NONE
    for seed in range(SEEDS * chunk, SEEDS * (chunk + 1)):
        total += run(seed)
    assert total.confirmed > 100
    assert total.rejected > 10
    assert total.injected > 50
    assert total.checks > 1_000
    assert len(total.faults) > len(FAULTS) // 2
    assert set(total.work) >= set(WORK) - {"access", "delegate"}


def test_the_same_seed_gives_the_same_run() -> None:
    for seed in REPEATED:
        assert run(seed) == run(seed)


def test_the_same_seed_gives_the_same_run_in_any_process() -> None:
    """Also where Python hashes texts in another way."""
    for seed in REPEATED[:2]:
        told = {
            subprocess.run(  # noqa: S603
                [sys.executable, str(COMMAND), "--seed", str(seed)],
                capture_output=True,
                text=True,
                check=True,
                env={"PYTHONHASHSEED": hashing},
            ).stdout
            for hashing in ("1", "2")
        }
        assert len(told) == 1
        assert run(seed).trace in told.pop()


def test_seeds_differ_in_everything_and_each_kind_of_fault_and_work_is_in_many() -> None:
    options = [expand(seed) for seed in range(CHUNKS * SEEDS)]
    for name in Options.__struct_fields__:
        assert len({getattr(one, name) for one in options}) > 1, name
    for kind in FAULTS:
        assert sum(kind in one.faults for one in options) > CHUNKS * SEEDS // 4
    for kind in WORK:
        assert sum(kind in one.work for one in options) > CHUNKS * SEEDS // 4


def test_options_that_are_shown_can_be_given() -> None:
    for seed in range(20):
        options = expand(seed)
        pairs = shown(options).replace("--option ", "").split(" ")
        assert changed(expand(seed + 1), pairs) == options
    with pytest.raises(msgspec.ValidationError):
        changed(expand(0), ["colour=red"])


def test_a_run_without_faults_and_one_without_work_are_quiet() -> None:
    options = msgspec.structs.replace(expand(1), faults=(), work=("write", "watch"))
    report = run_with(1, options)
    assert not report.injected
    assert not report.crashes
    assert report.commits


def test_a_failing_run_shrinks_to_what_it_needs() -> None:
    def fails(options: Options) -> bool:
        return "crash" in options.faults and {"merge", "erase"} <= set(options.work) and options.seconds > 0.3

    found = next(options for options in map(expand, range(500)) if fails(options))
    small = shrink(found, fails)
    assert fails(small)
    assert small.faults == ("crash",)
    assert set(small.work) == {"merge", "erase"}
    assert small.seconds < 0.4
    assert (small.apps, small.workers, small.journals) == (2, 1, 0.0)


def test_a_failure_says_how_to_repeat_it() -> None:
    options = msgspec.structs.replace(expand(1), work=("dance",))
    with pytest.raises(ExceptionGroup) as failed:
        run_with(1, options)
    assert any("run.py --seed 1 " in note for note in failed.value.__notes__)
