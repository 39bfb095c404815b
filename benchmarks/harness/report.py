"""The results as people read them: what was reached, how cost grows, every row; the generated part of the README."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.harness import growth, rows
from benchmarks.harness.rows import Row
from benchmarks.harness.target import Rows, Target
from benchmarks.harness.targets import TARGETS
from benchmarks.harness.turns import Spread, among

README = Path(__file__).parents[1] / "README.md"
BEGIN, END = "<!-- results: begin -->", "<!-- results: end -->"
PLOTS = {
    "commit_rate": "Durable commits per second",
    "commit_cpu": "Server CPU per durable commit",
    "fanout_p50": "From a write to its event at 100 watchers",
    "growth": "What one operation costs as it grows",
}


def generated(results: Mapping[str, Any]) -> str:
    """All of it, from what `results/latest.json` holds."""
    found: list[Row] = results["rows"]
    parts = [
        *("## Results", machine(results["machine"])),
        *("### To reach", _note(TARGETS, among(found)), reached(among(found))),
        *(f"![{PLOTS[name]}](plots/{name}.svg)" for name in plotted(found)),
        *("### How cost grows", grown(found)),
        *("### Every row", every(found)),
    ]
    return "\n\n".join(parts)


def plotted(found: Sequence[Row]) -> list[str]:
    """The plots that there are rows for; each is named after its scenario."""
    there = {"growth" if growth.SIZE in row else row["scenario"] for row in found}
    return [name for name in PLOTS if name.partition("_")[0] in there]


def refreshed(text: str, made: str) -> str:
    """The page with this part between its markers."""
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{made}\n{END}{after}"


# ------------------------------------------------------------ what was reached


def reached(found: Rows) -> str:
    """Each target with its figure; what is below "first" is LOST."""
    lines = [_target(target, target.measure(found)) for target in TARGETS]
    return table(("scenario", "figure", "median (range)", "first", "goal"), lines)


def _target(target: Target, figure: Spread | None) -> tuple[str, ...]:
    if figure is None:
        return target.row, target.figure, "not measured", _bound(target, target.first), _bound(target, target.goal)
    unit = target.unit
    shown = f"**{_short(figure.median)}{unit}** ({_short(figure.low)} to {_short(figure.high)})"
    return (
        target.row,
        target.figure,
        shown,
        _judged(target, figure, target.first, otherwise="**LOST**"),
        _judged(target, figure, target.goal, otherwise="not reached"),
    )


def _judged(target: Target, figure: Spread, bound: float | None, *, otherwise: str) -> str:
    if bound is None:
        return ""
    return f"{_bound(target, bound)} {'reached' if target.reached(figure, bound) else otherwise}"


def _bound(target: Target, bound: float | None) -> str:
    return "" if bound is None else f"{'>=' if target.more_is_better else '<='} {_short(bound)}{target.unit}"


def _note(targets: Sequence[Target], found: Rows) -> str:
    figures = [(target, target.measure(found)) for target in targets]
    counts = {"first": 0, "goal": 0, "lost": 0}
    for target, figure in figures:
        if figure is not None and target.first is not None:
            counts["first" if target.reached(figure, target.first) else "lost"] += 1
        if figure is not None and target.goal is not None:
            counts["goal"] += target.reached(figure, target.goal)
    missing = sum(figure is None for _, figure in figures)
    said = (
        f"{counts['first']} figures reach the first bound, {counts['lost']} are lost, {counts['goal']} reach the goal"
    )
    return f"{said}; {missing} were not measured." if missing else f"{said}."


# ------------------------------------------------------------ rows


def every(found: Iterable[Row]) -> str:
    figures = ("per second (range)", "p50 us", "p99 us", "server CPU us", "load CPU", "more")
    return table(("scenario", "system", "clients", *figures), [_row(row) for row in found])


def _row(row: Row) -> tuple[str, ...]:
    system = row["system"] if row["durable"] else f"{row['system']} (not durable)"
    rate = f"{_count(row['rate'])} ({_count(row['rate_min'])} to {_count(row['rate_max'])})" if row["rate"] else ""
    share = row.get("load_cpu_share")
    times = [_short(row[name]) if row[name] is not None else "" for name in ("p50_us", "p99_us", "cpu_us_per_op")]
    return (row["scenario"], system, str(row["clients"]), rate, *times, f"{share:.0%}" if share else "", _more(row))


_USUAL = {
    *(*rows.Key._fields, *rows.COLUMNS, "rate_min", "rate_max", "load_cpu_share"),
    *("durable", "n", "reps", "turns", growth.SIZE),
}


def _more(row: Row) -> str:
    own = {name: value for name, value in row.items() if name not in _USUAL and not name.startswith("slope_")}
    return ", ".join(f"{name} {_short(value)}" for name, value in own.items())


def grown(found: Iterable[Row]) -> str:
    """One line for each scenario at several sizes."""
    groups: dict[str, list[Row]] = {}
    for row in found:
        if growth.SIZE in row:
            groups.setdefault(rows.base(row["scenario"]), []).append(row)
    lines = []
    for name, group in groups.items():
        sizes = sorted(row[growth.SIZE] for row in group)
        slopes = {key: value for key, value in group[0].items() if key.startswith("slope_")}
        shown = ", ".join(f"{key.removeprefix('slope_')} {value:+.2f}" for key, value in slopes.items())
        lines.append((name, " / ".join(f"{size:,}" for size in sizes), shown))
    return table(("scenario", "sizes", "slope of log(cost) on log(size)"), lines)


# ------------------------------------------------------------ words


def machine(about: Mapping[str, Any]) -> str:
    if not about:
        return "Nothing was measured yet."
    systems = ", ".join(f"{name} {version}" for name, version in about["systems"].items())
    packages = ", ".join(f"{name} {version}" for name, version in about["packages"].items())
    where = f"{about['cores']} cores ({about['cpu']}), {about['memory_gb']} GB, {about['kernel']}"
    return f"Made by `make bench` on {where}, Python {about['python']}. Systems: {systems}. Packages: {packages}."


def table(head: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    """Markdown."""
    rule = "|".join(["---"] * len(head))
    return "\n".join([f"| {' | '.join(head)} |", f"|{rule}|", *(f"| {' | '.join(line)} |" for line in lines)])


def _short(figure: object) -> str:
    if not isinstance(figure, int | float):
        return str(figure)
    return f"{figure:,.0f}" if abs(figure) >= 100 else f"{figure:.3g}"


def _count(figure: float) -> str:
    return f"{figure:,.0f}" if figure >= 10 else f"{figure:.2g}"
