"""The bound of work that one value may cost: whatever loops over a value or over subschemas pays for it (QUERY-3).

A unit is about a fifth of a microsecond on a common machine. What is counted depends on the schema and the value
alone, never on a clock or on what is cached, so that the same question is refused everywhere or nowhere.
"""

from __future__ import annotations

from typing import Final

from stemmadb.protocol.errors import LimitExceeded

JUDGEMENTS_MAX: Final = 4_000_000
"""Units of one run: one judgement of one value by the schemas that apply together, or one search for its links."""
REMEMBERED: Final = 8
"""Units for an answer that is kept, which bounds the memory of a run as well: 500,000 answers."""


class Run(dict[tuple[int, int], bool]):
    """Answers already found in one run, by subschema and value; `left` is the work that may still be done.

    `left` is set by whoever begins the run, and the loops take from it in place: at a few dozen nanoseconds each, a
    constructor or a call would be felt.
    """

    __slots__ = ("left",)
    left: int


def begun() -> Run:
    """A run that has all of its work before it."""
    run = Run()
    run.left = JUDGEMENTS_MAX
    return run


def spend(run: Run, units: int) -> None:
    """Takes from what is left; `LimitExceeded` if that was not enough."""
    run.left -= units
    if run.left < 0:
        raise exceeded(run)


def exceeded(run: Run) -> LimitExceeded:
    """The error for a run with less than nothing left."""
    return LimitExceeded(bound="schema_judgements_max", maximum=JUDGEMENTS_MAX, actual=JUDGEMENTS_MAX - run.left)
