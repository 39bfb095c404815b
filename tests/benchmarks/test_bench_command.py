"""`python -m benchmarks` as it is run: a tiny run from the load to the floors, and its list of scenarios."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from pathlib import Path

import pytest
from benchmarks import __main__ as command
from benchmarks.harness import catalog, report, rows, running
from benchmarks.harness.plan import QUICK, Plan

ROOT = Path(__file__).parents[2]


def test_a_tiny_run_measures_commits_and_writes_nothing() -> None:
    """Against nobody, so that it needs no other system; a floor that was not measured cannot break."""
    before = {path: path.read_bytes() for path in (ROOT / "benchmarks" / "results").iterdir()}
    words = ("--only", "commit", "--quick", "--reps", "1", "--seconds", "0.1", "--peers", "none")
    ran = subprocess.run(  # noqa: S603
        [sys.executable, "-m", "benchmarks", *words],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
        timeout=60,
    )
    lines = [line.split() for line in ran.stdout.splitlines()]
    assert [line[:4] for line in lines] == [["commit", "stemmadb", "clients", clients] for clients in ("32", "256")]
    assert {path: path.read_bytes() for path in (ROOT / "benchmarks" / "results").iterdir()} == before


def test_the_list_names_every_scenario_and_every_micro_benchmark(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["--list"]) == 0
    listed = [line.split()[0] for line in capsys.readouterr().out.splitlines()]
    assert listed == [*catalog.ORDER, *catalog.core_names()]


@pytest.mark.parametrize("words", [("--only", "nothing"), ("--peers", "nobody")])
def test_what_is_not_known_is_refused(words: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        command.main([*words])
    assert ended.value.code == 2
    assert words[1] in capsys.readouterr().err


# ------------------------------------------------------------ a whole run, with figures that are made up


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "README.md").write_text(f"about\n{report.BEGIN}\n{report.END}\n")
    rows.save({}, [_row("gone: a scenario that is no more"), _row("commit: an old variant")], _latest(tmp_path))
    return tmp_path


def _latest(home: Path) -> Path:
    return home / "results" / "latest.json"


def _row(scenario: str) -> rows.Row:
    return rows.made(rows.Key(scenario, "stemmadb", 1), [{"rate": 1.0}], n=1, durable=True)


def _run(
    home: Path, monkeypatch: pytest.MonkeyPatch, *, stop_at: str | None = None, again: bool = False
) -> list[str]:
    """The scenarios that were measured, until one is interrupted."""
    ran: list[str] = []

    def run_scenario(name: str, plan: Plan) -> list[rows.Row]:
        if name == stop_at:
            raise KeyboardInterrupt
        ran.append(name)
        return [_row(name)]

    monkeypatch.setattr(catalog, "run_scenario", run_scenario)
    monkeypatch.setattr(running, "prepare_process", lambda: None)
    with contextlib.suppress(KeyboardInterrupt):
        running.run_all(QUICK, again=again, home=home)
    return ran


def test_a_whole_run_keeps_one_row_for_each_scenario_and_drops_what_is_no_more(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert _run(home, monkeypatch) == list(catalog.ORDER)
    results = rows.load(_latest(home))
    assert sorted(row["scenario"] for row in results["rows"]) == sorted(catalog.ORDER)
    assert {"cores", "cpu", "kernel", "memory_gb", "python", "packages", "systems"} <= results["machine"].keys()
    assert report.generated(results) in (home / "README.md").read_text()
    assert (home / "plots" / "commit_rate.svg").exists()


def test_a_run_that_was_stopped_goes_on_where_it_was(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = _run(home, monkeypatch, stop_at=catalog.ORDER[3])
    assert first == list(catalog.ORDER[:3])
    kept = {row["scenario"] for row in rows.load(_latest(home))["rows"]}
    assert kept == {*first, "gone: a scenario that is no more"}, "each was kept when it was done"
    assert _run(home, monkeypatch) == list(catalog.ORDER[3:])
    assert _run(home, monkeypatch) == list(catalog.ORDER), "the run has ended, so the next one is a new one"


def test_a_run_that_was_stopped_can_start_over(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _run(home, monkeypatch, stop_at=catalog.ORDER[3])
    assert _run(home, monkeypatch, again=True) == list(catalog.ORDER)
