"""The parts of docs/reliability.md that are made from the registry and from the state of the soak."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from scripts.soaking.kinds import Kinds
from scripts.soaking.state import Soaked, State, Tally
from scripts.soaking.summary import COLUMNS, rows, share, together

ROOT: Final = Path(__file__).parents[2]
PAGE: Final = ROOT / "docs" / "reliability.md"


class NoMarker(Exception):
    """The page does not say where a part belongs."""


def write(page: Path, state: State, kinds: Kinds) -> None:
    """Puts the parts between their markers and leaves the rest as it is."""
    text = page.read_text()
    for name, part in (("kinds", kinds_part(kinds)), ("soak", soak_part(state, kinds))):
        text = replaced(text, name, part)
    page.write_text(text)


def replaced(text: str, name: str, part: str) -> str:
    begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    if not (begin in text and end in text):
        raise NoMarker(f"the page needs the lines {begin} and {end}")
    before, rest = text.split(begin, 1)
    _, after = rest.split(end, 1)
    return f"{before}{begin}\n{part}\n{end}{after}"


def kinds_part(kinds: Kinds) -> str:
    columns = ("kind", "what must hold", "on every change", "long run")
    lines = [(f"`{one.name}`", one.checks, one.quick, str(one.long or "-")) for one in kinds.values()]
    return markdown(columns, lines)


def soak_part(state: State, kinds: Kinds) -> str:
    """All runs together, the longest one, and the last one."""
    if not state.runs:
        return "No run is kept."
    longest = max(state.runs, key=lambda run: run.seconds)
    parts = [_together(state, kinds), "### The longest run", _told(longest), _table(longest)]
    last = state.runs[-1]
    if last is not longest:
        parts += ["### The last run", _told(last), _table(last)]
    return "\n\n".join(parts)


def _together(state: State, kinds: Kinds) -> str:
    everything = together(state, kinds)
    lines = []
    for name, tally in everything.items():
        found = [one for one in state.violations if one.kind == name]
        gone = sum(one.passes_now for one in found)
        row = rows({name: tally})[0]
        lines.append((*row[:4], f"{len(found)}", f"{gone}", share(kinds[name].long, tally)))
    minutes = sum(run.seconds for run in state.runs) / 60
    columns = (*COLUMNS[:4], "violations found", "of these pass now", "done of the long run")
    return f"All {len(state.runs)} runs together, {minutes:,.0f} minutes:\n\n{markdown(columns, lines)}"


def _told(run: Soaked) -> str:
    return (
        f"`{run.command}`, {run.began}, revision `{run.revision}`, {run.jobs} worker processes, "
        f"{run.seconds / 60:,.1f} minutes: {sum(one.runs for one in run.kinds.values()):,} seeds, "
        f"{run.violations} violations."
    )


def _table(run: Soaked) -> str:
    seeds = [*(_seeds(tally) for tally in run.kinds.values()), "-"]
    lines = [(*row, span) for row, span in zip(rows(run.kinds), seeds, strict=True)]
    return markdown((*COLUMNS, "seeds"), lines)


def _seeds(tally: Tally) -> str:
    return "-" if tally.seeds is None else f"{tally.seeds[0]} to {tally.seeds[1]}"


def markdown(columns: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (columns, ["---"] * len(columns), *lines))
