"""Runs scenarios: quickly beside their floors, or all of them, keeping what is done."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

from benchmarks.harness import catalog, floors, machine, plots, report, rows, systems
from benchmarks.harness.plan import Plan
from benchmarks.harness.resuming import Underway
from benchmarks.harness.rows import Row
from benchmarks.harness.turns import among
from benchmarks.load.processes import prepare_process

HOME = Path(__file__).parents[1]
_HIDDEN = ("scenario", "system", "turns")


def run_quick(plan: Plan, *, only: str | None) -> int:
    """Prints figures, then ratios beside the floors; writes nothing. 1 if one does not hold."""
    prepare_process()
    found: list[Row] = []
    for name in [only] if only else catalog.QUICK:
        found += measured(name, plan)
    lines, broken = floors.judged(floors.load(), found)
    for line in lines:
        print(line)
    return 1 if broken else 0


def run_one(plan: Plan, name: str, home: Path = HOME) -> int:
    """One scenario; its rows replace those that were kept of it."""
    prepare_process()
    keep(measured(name, plan), home)
    refresh(home)
    return 0


def run_all(plan: Plan, *, again: bool, home: Path = HOME) -> int:
    """Every scenario. What is done is kept after each, and a stopped run goes on where it was, unless `again`."""
    prepare_process()
    underway = Underway(home / "results" / ".underway.json")
    if again:
        underway.start_over()
    for name in [name for name in catalog.ORDER if name not in underway.done]:
        keep(measured(name, plan), home)
        underway.note(name)
    _drop_old(home)
    refresh(home)
    underway.end()
    print(report.reached(among(rows.load(_latest(home))["rows"])))
    return 0


def run_core(name: str, *, is_quick: bool, home: Path = HOME) -> int:
    """A micro benchmark of the core; its rows have a file of their own, as they compare with libraries."""
    found = catalog.run_core(name, is_quick=is_quick)
    show(found)
    if not is_quick:
        path = home / "results" / "core.json"
        others = [row for row in rows.load(path)["rows"] if row["benchmark"] != name]
        rows.save(machine.described({}), [*others, *({"benchmark": name, **row} for row in found)], path)
    return 0


# ------------------------------------------------------------ what is kept


def _latest(home: Path) -> Path:
    return home / "results" / "latest.json"


def keep(found: Sequence[Row], home: Path) -> None:
    """Into the file, in the place of what was there of the same scenarios."""
    old = rows.load(_latest(home))
    versions = old["machine"].get("systems", {}) | systems.VERSIONS
    rows.save(machine.described(versions), rows.merged(old["rows"], found), _latest(home))


def _drop_old(home: Path) -> None:
    """Rows of scenarios that are no more."""
    kept = rows.load(_latest(home))
    now = [row for row in kept["rows"] if rows.base(row["scenario"]) in catalog.ORDER]
    rows.save(kept["machine"], now, _latest(home))


def refresh(home: Path = HOME) -> None:
    """The tables and the plots of the README."""
    results, readme = rows.load(_latest(home)), home / "README.md"
    plots.save(results["rows"], home / "plots")
    readme.write_text(report.refreshed(readme.read_text(), report.generated(results)))


# ------------------------------------------------------------ what is shown


def measured(name: str, plan: Plan) -> list[Row]:
    print(f"-- {name}", file=sys.stderr, flush=True)
    began = time.perf_counter()
    found = catalog.run_scenario(name, plan)
    show(found)
    print(f"   {time.perf_counter() - began:.0f} s", file=sys.stderr, flush=True)
    return found


def show(found: Iterable[Row]) -> None:
    """Every figure of every row, as it is measured."""
    for row in found:
        figures = [_figure(name, value) for name, value in row.items() if name not in _HIDDEN and value is not None]
        print(f"{row['scenario']:<44} {row['system']:<10} {'  '.join(figures)}", flush=True)


def _figure(name: str, value: object) -> str:
    return f"{name} {value:,.2f}" if isinstance(value, float) else f"{name} {value}"
