"""The soak as a command, with real worker processes: what adds up, what a violation is, how it is repeated."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import time
from pathlib import Path

import msgspec
import pytest
from scripts.soaking import state as states
from scripts.soaking import workers
from scripts.soaking.command import main
from scripts.soaking.kinds import Load
from scripts.soaking.state import FIRST_SEED, State, Violation

import soak_kinds
from soak_kinds import BAD_SEED, FAULTS, OPERATIONS

ROOT = Path(__file__).parents[2]
SHORT = ("--minutes", "0.004", "--jobs", "2")


def soak(file: Path, *words: str, kinds: Load = soak_kinds.good) -> int:
    return main([*SHORT, "--state", str(file), *words], kinds)


def test_two_runs_add_up(tmp_path: Path) -> None:
    file = tmp_path / "soak.json"
    assert soak(file) == 0
    assert soak(file) == 0
    state = states.load(file)
    assert len(state.runs) == 2
    for kind in soak_kinds.good():
        tallies = [run.kinds[kind] for run in state.runs]
        both = states.total(tallies)
        assert both.runs == state.next[kind] - FIRST_SEED, "no seed is run twice or left out"
        assert both.seeds == (FIRST_SEED, state.next[kind] - 1)
        assert (both.operations, both.faults) == (OPERATIONS * both.runs, FAULTS * both.runs)
        assert tallies[1].seeds is None or tallies[0].seeds is None or tallies[0].seeds[1] + 1 == tallies[1].seeds[0]


def test_a_violation_is_told_with_the_command_that_repeats_it(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "soak.json"
    assert soak(file, "--kind", "wrong", "--kind", "plain", kinds=soak_kinds.bad) == 1
    told = capfd.readouterr().err
    command = f".venv/bin/python scripts/soak.py --kind wrong --seed {BAD_SEED}"
    assert f"repeat it with: {command}\n" in told
    assert f"AssertionError: seed {BAD_SEED} is lost" in told
    kept = file.read_bytes()
    assert main(shlex.split(command)[2:], soak_kinds.bad) == 1
    assert f"seed {BAD_SEED} is lost" in capfd.readouterr().err
    assert main(["--kind", "wrong", "--seed", f"{BAD_SEED + 1}"], soak_kinds.bad) == 0
    assert file.read_bytes() == kept, "a seed that is repeated counts for nothing"


def test_a_seed_that_showed_a_violation_is_the_first_of_the_next_run(tmp_path: Path) -> None:
    file = tmp_path / "soak.json"
    words = ("--kind", "wrong")
    assert soak(file, *words, kinds=soak_kinds.bad) == 1
    assert soak(file, *words, kinds=soak_kinds.bad) == 1
    state = states.load(file)
    assert state.runs[1].kinds["wrong"].seeds is not None
    assert state.runs[1].kinds["wrong"].seeds[0] == BAD_SEED
    assert soak(file, *words, kinds=soak_kinds.mended) == 0
    lost = f"AssertionError: seed {BAD_SEED} is lost"
    assert states.load(file).violations == [Violation("wrong", BAD_SEED, lost, passes_now=True)]


@pytest.mark.parametrize(
    ("kind", "what"),
    [
        ("hanging", "it hangs: no end after 1 s"),
        ("dying", "its process died with code 3"),
        ("failing", "Failed: as a test does"),
    ],
)
def test_a_check_that_does_not_end_well_is_a_violation(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], kind: str, what: str
) -> None:
    file = tmp_path / "soak.json"
    assert soak(file, "--kind", kind, "--jobs", "1", "--json", kinds=soak_kinds.bad) == 1
    out, err = capfd.readouterr()
    assert f"--kind {kind} --seed {FIRST_SEED}\n" in err
    told = msgspec.json.decode(out)
    assert told["run"]["kinds"][kind]["violations"] == 1
    assert told["violations"] == [{"kind": kind, "seed": FIRST_SEED, "what": what, "passes_now": False}]


@pytest.mark.parametrize(("seeds_max", "processes"), [(1, 3), (2, 2), (3, 1)])
def test_a_worker_that_ran_many_seeds_is_replaced(
    monkeypatch: pytest.MonkeyPatch, seeds_max: int, processes: int
) -> None:
    monkeypatch.setattr(workers, "SEEDS_MAX", seeds_max)
    seen = set()
    with workers.Processes(soak_kinds.who, jobs=1) as pool:
        for seed in range(3):
            pool.start(soak_kinds.who()["numbered"], seed, time.monotonic())
            (outcome,) = pool.wait(60)
            assert outcome.counts is not None
            seen.add(outcome.counts.operations)
    assert len(seen) == processes


def test_the_summary_is_a_table(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    for _ in range(2):
        assert soak(tmp_path / "soak.json") == 0
    out = capfd.readouterr().out
    rows = [line.split() for line in out.splitlines() if line]
    assert ["kind", "runs", "operations", "faults", "injected", "violations", "seconds"] in rows
    assert {"plain", "told", "all"} <= {row[0] for row in rows}
    assert "% of 1,000 runs" in out


def test_a_state_that_is_not_replaced_whole_is_the_old_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "soak.json"
    states.keep(State(states.FORMAT, next={"plain": 7}), file)

    def fail(_descriptor: int) -> None:
        raise OSError("no room")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="no room"):
        states.keep(State(states.FORMAT, next={"plain": 8}), file)
    assert states.load(file).next == {"plain": 7}


@pytest.mark.parametrize("content", ['{"plain": {"seeds": 54}}', '{"format": 1}', "{", ""])
def test_a_state_that_is_not_understood_is_left_alone(tmp_path: Path, content: str) -> None:
    file = tmp_path / "soak.json"
    file.write_text(content)
    with pytest.raises(SystemExit) as ended:
        soak(file)
    assert ended.value.code == 2
    assert file.read_text() == content


@pytest.mark.parametrize(
    "words", [["--seed", "1"], ["--kind", "plain", "--kind", "told", "--seed", "1"], ["--jobs", "0"]]
)
def test_what_makes_no_sense_is_refused(words: list[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(words, soak_kinds.good)
    assert ended.value.code == 2


def test_the_real_command_runs_one_seed() -> None:
    words = [sys.executable, str(ROOT / "scripts" / "soak.py"), "--kind", "bodies", "--seed", "1"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=120, check=False)  # noqa: S603
    assert done.returncode == 0, done.stderr
    assert "no violation" in done.stderr
