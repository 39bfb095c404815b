"""What a soak came to, as a table for people and as JSON for programs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec
from scripts.soaking.kinds import Goal, Kinds
from scripts.soaking.state import Soaked, State, Tally, total

COLUMNS: Final = ("kind", "runs", "operations", "faults injected", "violations", "seconds")


def rows(tallies: Mapping[str, Tally]) -> list[Sequence[str]]:
    """A row for each kind, and one for all of them."""
    named = [*tallies.items(), ("all", total(tallies.values()))]
    return [(name, *_numbers(tally)) for name, tally in named]


def _numbers(tally: Tally) -> tuple[str, ...]:
    whole = (tally.runs, tally.operations, tally.faults, tally.violations, round(tally.seconds))
    return tuple(f"{number:,}" for number in whole)


def together(state: State, kinds: Kinds) -> dict[str, Tally]:
    """Each kind over all runs."""
    found = {name: [run.kinds[name] for run in state.runs if name in run.kinds] for name in kinds}
    return {name: total(tallies) for name, tallies in found.items()}


def share(goal: Goal | None, tally: Tally) -> str:
    """How much of the long run is done."""
    if goal is None:
        return "-"
    done: float = getattr(tally, goal.of)
    return f"{100 * done / goal.amount:.0f} % of {goal}"


def table(columns: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """The first column to the left, the others to the right."""
    widths = [max(len(line[at]) for line in (columns, *lines)) for at in range(len(columns))]
    return "\n".join(
        "  ".join(cell.rjust(width) if at else cell.ljust(width) for at, (cell, width) in enumerate(cells))
        for cells in (list(zip(line, widths, strict=True)) for line in (columns, *lines))
    )


def as_text(state: State, soaked: Soaked, kinds: Kinds) -> str:
    """This run; and all runs together, with how much of the long run is done."""
    parts = [f"This run, {soaked.seconds / 60:.1f} minutes:", table(COLUMNS, rows(soaked.kinds))]
    if len(state.runs) > 1:
        everything = together(state, kinds)
        goals = [share(kinds[name].long, tally) for name, tally in everything.items()]
        lines = [(*row, goal) for row, goal in zip(rows(everything), [*goals, "-"], strict=True)]
        minutes = sum(run.seconds for run in state.runs) / 60
        parts += [f"All {len(state.runs)} runs, {minutes:.1f} minutes:", table((*COLUMNS, "long run"), lines)]
    return "\n\n".join(parts)


def as_json(state: State, soaked: Soaked, kinds: Kinds) -> str:
    """The same, and the violations that are still open."""
    told = {
        "run": soaked,
        "all": {"runs": len(state.runs), "kinds": together(state, kinds)},
        "violations": [one for name in kinds for one in state.open(name)],
    }
    return msgspec.json.format(msgspec.json.encode(told)).decode()
