"""The page on reliability: its tables are made from the registry and from what the soak kept."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from scripts.soaking import state as states
from scripts.soaking.command import main
from scripts.soaking.report import PAGE, ROOT
from scripts.soaking.state import FORMAT, Soaked, State, Tally, Violation

import soak_kinds

MARKED = """\
# Before
<!-- kinds: begin -->
old
<!-- kinds: end -->
Between
<!-- soak: begin -->
old
<!-- soak: end -->
After
"""


def run_of(minutes: int, **tallies: Tally) -> Soaked:
    command = f"scripts/soak.py --minutes {minutes}"
    return Soaked(command, "2026-01-02 03:04 UTC", "abc", 2, minutes * 60.0, tallies)


def written(tmp_path: Path, state: State, page: str = MARKED) -> str:
    file, kept = tmp_path / "page.md", tmp_path / "soak.json"
    file.write_text(page)
    states.keep(state, kept)
    assert main(["--state", str(kept), "--write-report", str(file)], soak_kinds.good) == 0
    return file.read_text()


def test_the_page_tells_of_all_runs_and_of_the_longest_and_the_last_one(tmp_path: Path) -> None:
    long = run_of(60, plain=Tally(2_000, 6_000, 4_000, 1, 3_000.0, (1_000_000, 1_001_999)))
    last = run_of(5, plain=Tally(100, 300, 200, 0, 250.0, (1_002_000, 1_002_099)), told=Tally())
    found = [Violation("plain", 1_000_007, "it is lost", passes_now=True), Violation("told", 1_000_001, "too")]
    text = written(tmp_path, State(FORMAT, runs=[run_of(1), long, last], violations=found))
    assert "All 3 runs together, 66 minutes:" in text
    assert "| plain | 2,100 | 6,300 | 4,200 | 1 | 1 | 210 % of 1,000 runs |" in text
    assert "| told | 0 | 0 | 0 | 1 | 0 | - |" in text
    longest, final = text.split("### The longest run")[1].split("### The last run")
    assert "`scripts/soak.py --minutes 60`, 2026-01-02 03:04 UTC, revision `abc`, 2 worker processes" in longest
    assert "| plain | 2,000 | 6,000 | 4,000 | 1 | 3,000 | 1000000 to 1001999 |" in longest
    assert "5.0 minutes: 100 seeds, 0 violations." in final


def test_what_is_not_between_the_markers_stays_and_writing_again_changes_nothing(tmp_path: Path) -> None:
    state = State(FORMAT, runs=[run_of(1, plain=Tally(1, 1, 1, 0, 1.0, (1_000_000, 1_000_000)))])
    text = written(tmp_path, state)
    assert [text.count(word) for word in ("# Before\n", "\nBetween\n", "\nAfter\n", "\nold\n")] == [1, 1, 1, 0]
    assert written(tmp_path, state, text) == text


def test_a_page_without_markers_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "page.md"
    file.write_text("nothing here")
    with pytest.raises(SystemExit) as ended:
        main(["--state", str(tmp_path / "none"), "--write-report", str(file)], soak_kinds.good)
    assert ended.value.code == 2
    assert file.read_text() == "nothing here"


def test_the_page_names_every_kind_that_there_is(tmp_path: Path) -> None:
    copy = tmp_path / "page.md"
    copy.write_text(PAGE.read_text())
    soak = [sys.executable, str(ROOT / "scripts" / "soak.py")]
    words = [*soak, "--state", str(tmp_path / "none"), "--write-report", str(copy)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=120, check=False)  # noqa: S603
    assert done.returncode == 0, done.stderr
    assert kinds_of(copy) == kinds_of(PAGE), "run scripts/soak.py --write-report"


def kinds_of(page: Path) -> str:
    return page.read_text().split("<!-- kinds: begin -->")[1].split("<!-- kinds: end -->")[0]
