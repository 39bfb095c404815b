"""Running named tests on a copy of the tree: what became of them, and how long they take."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from scripts.mutating.mutations import ROOT

COPIED: Final = (
    "protocol",
    "server",
    "client",
    "tests",
    "docs",
    "examples",
    "benchmarks",
    "scripts",
    "pyproject.toml",
)
OPTIONS: Final = ("-q", "-p", "no:cacheprovider", "--no-header", "--tb=short")
SECONDS_MAX: Final = 300.0
UNBROKEN_SECONDS_MAX: Final = 1_800.0
_TOOK: Final = re.compile(r"^([0-9.]+)s (?:call|setup|teardown) +(\S.*)$", re.MULTILINE)
_FAILED: Final = re.compile(r"^(?:FAILED|ERROR) (\S.*?)(?: - (.*))?$", re.MULTILINE)
_NOTHING_RAN: Final = (4, 5)
"""pytest's codes for a wrong command line and for no tests."""


class Ran(NamedTuple):
    """How a run ended. `failed` is the first test that did; None also if the time was over."""

    passed: bool
    failed: str | None
    why: str
    seconds: float
    is_late: bool = False


class Unbroken(NamedTuple):
    """The tests that fail without any bug, and the seconds that each takes."""

    failed: frozenset[str]
    seconds: Mapping[str, float]

    def passes(self, tests: Sequence[str]) -> bool:
        return not any(one.startswith(tuple(tests)) for one in self.failed)

    def of(self, tests: Sequence[str]) -> float:
        """How long they take together."""
        return sum(seconds for test, seconds in self.seconds.items() if test.startswith(tuple(tests)))


def copy_tree(target: Path) -> None:
    """What the tests need of the working tree, which is never touched; the extension would hide the bugs."""
    ignored = shutil.ignore_patterns("__pycache__", ".hypothesis", "*.egg-info")
    for name in COPIED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, target / name, ignore=ignored)
        elif source.exists():
            shutil.copy2(source, target / name)
    extension = target / "native/stemmadb/_native.py"
    extension.parent.mkdir(parents=True)
    extension.write_text('raise ImportError("bugs are put into the modules in Python")\n')


def run(tests: Sequence[str], tree: Path, *, seconds_max: float = SECONDS_MAX) -> Ran:
    """Runs the tests on the tree up to the first that fails; the packages are taken from there too."""
    started = time.monotonic()
    ended = _pytest(["-x", *tests], tree, seconds_max)
    seconds = time.monotonic() - started
    if ended is None:
        return Ran(False, None, "the time was over", seconds, is_late=True)
    code, output = ended
    found = _FAILED.search(output)
    if code == 0 or found is None:
        return Ran(code == 0, None if code == 0 else "(pytest)", output[-300:], seconds)
    return Ran(False, found.group(1), found.group(2) or "", seconds)


def unbroken(tests: Sequence[str], tree: Path) -> Unbroken:
    """Runs them all once without a bug."""
    ended = _pytest(["--durations=0", "--durations-min=0", "-vv", *tests], tree, UNBROKEN_SECONDS_MAX)
    if ended is None:
        raise RuntimeError("the tests take too long without a bug")
    _, output = ended
    seconds: dict[str, float] = {}
    for took, test in _TOOK.findall(output):
        seconds[test] = seconds.get(test, 0.0) + float(took)
    return Unbroken(frozenset(found.group(1) for found in _FAILED.finditer(output)), seconds)


def _pytest(arguments: Sequence[str], tree: Path, seconds_max: float) -> tuple[int, str] | None:
    """The exit code and what was said; None if the time was over, and then nothing is left running."""
    process = subprocess.Popen(  # noqa: S603
        [sys.executable, "-m", "pytest", *OPTIONS, *arguments],
        cwd=tree,
        env=_environment(tree),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        output, _ = process.communicate(timeout=seconds_max)
    except subprocess.TimeoutExpired:
        return None
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
    if process.returncode in _NOTHING_RAN:
        raise RuntimeError(f"no test ran:\n{output[-2_000:]}")
    return process.returncode, output


def _environment(tree: Path) -> dict[str, str]:
    roots = [str(tree / name) for name in ("protocol", "server", "client", "native")]
    return {**os.environ, "PYTHONPATH": os.pathsep.join([*roots, str(tree)]), "COLUMNS": "400"}
