"""The command: reads what is wanted, runs it, shows what came of it, and says by its exit code if all is well."""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from scripts.soaking import report, summary
from scripts.soaking.kinds import Kinds, Load
from scripts.soaking.report import PAGE, ROOT
from scripts.soaking.running import Run, Surroundings, violation
from scripts.soaking.state import Soaked, UnknownState, keep, load
from scripts.soaking.workers import Processes, tried

DESCRIPTION: Final = """\
Every generated test with seed after seed, for as long as you like: `make soak MINUTES=30`.

Kinds of checks share the time. Seeds and counts are kept in a file and go on in the next run. A seed that shows a
violation is printed with the command that repeats it, its kind stops, and the exit code is 1.
"""
STATE: Final = ROOT / ".soak.json"
INTERRUPTED: Final = 130


def parser(kinds: Kinds) -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(description=DESCRIPTION, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--minutes", type=float, default=10)
    made.add_argument("--kind", choices=sorted(kinds), action="append", help="only this one; may be given again")
    made.add_argument("--seed", type=int, help="with one --kind: run that seed alone, and keep nothing")
    made.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="worker processes; one for each core")
    made.add_argument("--state", type=Path, default=STATE, help="the file where counts add up")
    made.add_argument("--json", action="store_true", help="the summary as JSON")
    made.add_argument(
        "--write-report",
        type=Path,
        nargs="?",
        const=PAGE,
        metavar="PAGE",
        help="fill docs/reliability.md, run nothing",
    )
    return made


def main(words: Sequence[str], kinds_of: Load) -> int:
    """0: all is well. 1: a violation. 2: wrong use. 130: interrupted; what was done until then is kept."""
    kinds = kinds_of()
    read = parser(kinds)
    wanted = read.parse_args(words)
    if wanted.seed is not None:
        if len(wanted.kind or ()) != 1:
            read.error("--seed needs one --kind")
        return repeat(kinds, wanted.kind[0], wanted.seed)
    if wanted.jobs < 1:
        read.error("--jobs is at least 1")
    try:
        if wanted.write_report:
            report.write(wanted.write_report, load(wanted.state), kinds)
            return 0
        return soak(wanted, {name: kinds[name] for name in wanted.kind or kinds}, kinds_of)
    except (UnknownState, report.NoMarker) as error:
        read.error(str(error))


def repeat(kinds: Kinds, name: str, seed: int) -> int:
    """In this process, so that a debugger can look at it."""
    began = time.monotonic()
    counts, problem = tried(kinds[name], seed, is_alone=True)
    if counts is None:
        tell(f"{problem}\n{violation(name, seed)}")
        return 1
    tell(f"{name} {seed}: {counts.operations:,} operations, {counts.faults:,} faults, no violation", began)
    return 0


def soak(wanted: argparse.Namespace, kinds: Kinds, kinds_of: Load) -> int:
    state = load(wanted.state)
    began = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    chosen = "".join(f" --kind {name}" for name in wanted.kind or ())
    command = f"scripts/soak.py --minutes {wanted.minutes:g} --jobs {wanted.jobs}{chosen}"
    soaked = Soaked(command, began, revision(), wanted.jobs)
    around = Surroundings(time.monotonic, tell, lambda state: keep(state, wanted.state))
    was_interrupted = False
    try:
        with Processes(kinds_of, jobs=wanted.jobs) as workers:
            Run(kinds, state, soaked, workers, around).go(wanted.minutes * 60)
    except KeyboardInterrupt:
        was_interrupted = True
        keep(state, wanted.state)
    print(summary.as_json(state, soaked, kinds) if wanted.json else summary.as_text(state, soaked, kinds), flush=True)
    if soaked.violations:
        for one in (one for name in kinds for one in state.open(name)):
            tell(f"{one.what}\n{violation(one.kind, one.seed)}")
        return 1
    return INTERRUPTED if was_interrupted else 0


def tell(line: str, since: float | None = None) -> None:
    """Beside the summary, which others may want to read alone."""
    took = "" if since is None else f", {time.monotonic() - since:.1f} s"
    print(f"{line}{took}", file=sys.stderr, flush=True)


def revision() -> str:
    """What was tested; `dirty` says that there were changes on top."""
    git = shutil.which("git")
    if git is None:
        return "unknown"
    words = [git, "describe", "--always", "--dirty"]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)  # noqa: S603
    return done.stdout.strip() or "unknown"
