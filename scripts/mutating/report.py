"""The report of mutation runs, docs/mutations.md: one row for each bug; a run of some of them renews their rows."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from scripts.mutating.mutations import ROOT, Mutation
from scripts.mutating.running import Ran

PAGE: Final = ROOT / "docs" / "mutations.md"
_NOTHING: Final = "**nothing**"
_ROW: Final = re.compile(r"^\| (.+?) \| `.+$", re.MULTILINE)
_TOP: Final = """\
# The mutation run

Deliberate bugs, applied one at a time to a copy of the tree, and the test that caught each. The list is in
`tests/mutations`; `python scripts/mutate.py` runs it and writes this page. The run fails if a bug survives.

"""
_HEAD: Final = ("| broken on purpose | file | caught by | seconds |", "|---|---|---|---|")


class Result(NamedTuple):
    """A mutation, whether it was caught, and the run that says so."""

    mutation: Mutation
    is_caught: bool
    ran: Ran

    @property
    def caught_by(self) -> str:
        if not self.is_caught:
            return _NOTHING
        return "the time limit" if self.ran.is_late else f"`{_shown(self.ran.failed or '')}`"


def line(result: Result) -> str:
    """For whoever watches the run."""
    said = "caught  " if result.is_caught else "SURVIVED"
    return (
        f"{said} {result.mutation.name} | {result.ran.failed} | {result.ran.why[:160]} | {result.ran.seconds:.1f} s"
    )


def known(page: Path = PAGE) -> dict[str, str]:
    """The rows of the page by the names of their bugs."""
    text = page.read_text() if page.exists() else ""
    return {found.group(1): found.group(0) for found in _ROW.finditer(text)}


def write(results: Sequence[Result], every: Sequence[Mutation], page: Path = PAGE) -> None:
    """Writes the page: new rows for these results, the others as they were, in the order of the list."""
    rows = known(page) | {one.mutation.name: _row(one) for one in results}
    listed = [rows[one.name] for one in every if one.name in rows]
    page.write_text(_TOP + _summary(listed, rows, every) + "\n".join([*_HEAD, *listed]) + "\n")


def _summary(listed: Sequence[str], rows: Mapping[str, str], every: Sequence[Mutation]) -> str:
    caught = sum(_NOTHING not in row for row in listed)
    missing = sum(one.name not in rows for one in every)
    rest = f" {missing} were not run yet." if missing else ""
    return f"{len(every)} bugs, {caught} caught.{rest}\n\n"


def _row(result: Result) -> str:
    mutation = result.mutation
    return f"| {mutation.name} | `{mutation.file}` | {result.caught_by} | {result.ran.seconds:.1f} |"


def _shown(test: str) -> str:
    """The name of a test in a table: what it was given may be bytes of any kind."""
    return test.partition("[")[0]
