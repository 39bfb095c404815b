"""The plots of the README, from rows: commits, CPU, fan-out and growth."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from benchmarks.harness import growth, rows
from benchmarks.harness.charts import COLOURS, Groups, Points, bars, lines
from benchmarks.harness.report import PLOTS
from benchmarks.harness.rows import Row

DIRECTORY = Path(__file__).parents[1] / "plots"
_BY_SYSTEM = dict(zip(rows.SYSTEMS, COLOURS, strict=True))


def drawn(found: Sequence[Row]) -> dict[str, str]:
    """Each plot by its name, as far as there are rows for it."""
    made = {
        "commit_rate": _bars("commit_rate", "more is better", found, "commit", "rate"),
        "commit_cpu": _bars("commit_cpu", "us, less is better", found, "commit", "cpu_us_per_op"),
        "fanout_p50": _bars("fanout_p50", "p50 in us, less is better", found, "fanout", "p50_us"),
        "growth": _growth(found),
    }
    return {name: svg for name, svg in made.items() if svg is not None}


def save(found: Sequence[Row], directory: Path = DIRECTORY) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    for name, svg in drawn(found).items():
        (directory / f"{name}.svg").write_text(svg)


def _bars(name: str, unit: str, found: Sequence[Row], scenario: str, column: str) -> str | None:
    groups: dict[str, dict[str, float]] = {}
    for row in sorted(found, key=lambda row: (row["clients"], row["scenario"])):
        if row["scenario"] == scenario and row[column]:
            who = "watchers" if scenario == "fanout" else "clients" if row["clients"] > 1 else "client"
            groups.setdefault(f"{row['clients']} {who}", {})[_label(row)] = row[column]
    shown: Groups = groups
    colours = {_label(row): _BY_SYSTEM[row["system"]] for row in found}
    return bars(f"{PLOTS[name]} ({unit})", shown, colours) if groups else None


def _label(row: Row) -> str:
    return str(row["system"]) if row["durable"] else f"{row['system']}, not durable"


def _growth(found: Sequence[Row]) -> str | None:
    """CPU where it was measured, else the time of one operation."""
    series: dict[str, Points] = {}
    for name in sorted({rows.base(row["scenario"]) for row in found if growth.SIZE in row}):
        group = [row for row in found if growth.SIZE in row and rows.base(row["scenario"]) == name]
        column = "cpu_us_per_op" if all(row["cpu_us_per_op"] for row in group) else "p50_us"
        points = sorted((float(row[growth.SIZE]), float(row[column])) for row in group)
        what = "CPU" if column == "cpu_us_per_op" else "p50"
        series[f"{name.removeprefix('growth_')}, {what}"] = points
    title = f"{PLOTS['growth']} with size (flat is best)"
    return lines(title, series, x="size: entities, clients, watchers, facts, branches", y="us") if series else None
