"""The bounds of work for one value and for one question: each loop over values or subschemas pays (QUERY-3, QUERY-6).

A unit is about a fifth of a microsecond on a common machine. What is counted depends on the schema and the value
alone, never on a clock or on what is cached, so that the same question is refused everywhere or nowhere.
"""

from __future__ import annotations

from typing import Final

from stemmadb.protocol.errors import LimitExceeded
from stemmadb.protocol.model.values.limits import DEFAULTS

JUDGEMENTS_MAX: Final = 4_000_000
"""Units of one run: one judgement of one value by the schemas that apply together, or one search for its links."""
REMEMBERED: Final = 8
"""Units for an answer that is kept, which bounds the memory of a run as well: 500,000 answers."""
GRANTED: Final = 250_000
"""Units that a run may spend before it looks at its budget again: about 50 ms."""


class WorkCancelled(Exception):
    """The caller is gone: nobody waits for the result, and nobody is told."""


class TurnOver(Exception):
    """The units of this turn are spent; the same work can be done again with more of them."""


class WorkBudget:
    """The work that one question may cost: a query, or one step of a watch. It counts units and knows no clock.

    `cancel` may be called from any thread; the work that spends from the budget then stops soon. `turn` bounds the
    work of one turn: work on an event loop stops there and goes on elsewhere.
    """

    __slots__ = ("_is_cancelled", "maximum", "spent", "turn")

    def __init__(self, maximum: int = DEFAULTS.query_work_max, *, turn: int | None = None) -> None:
        self.maximum = maximum
        self.spent = 0
        self.turn = turn
        self._is_cancelled = False

    def cancel(self) -> None:
        """The caller is gone."""
        self._is_cancelled = True

    def spend(self, units: int) -> None:
        """Counts work that was done."""
        spent = self.spent = self.spent + units
        if self._is_cancelled or spent > self.maximum or (self.turn is not None and spent > self.turn):
            self.check(0)

    def check(self, more: int) -> None:
        """Raises if the work so far, and that much more, is not to go on."""
        if self._is_cancelled:
            raise WorkCancelled
        spent = self.spent + more
        if spent > self.maximum:
            raise LimitExceeded(bound="query_work_max", maximum=self.maximum, actual=spent)
        if self.turn is not None and spent > self.turn:
            raise TurnOver


class SchemaRun(dict[tuple[int, int], bool]):
    """Answers already found in one run, by subschema and value; `left` is the work that may be done before `refill`.

    The loops take from `left` in place: at a few dozen nanoseconds each, a constructor or a call would be felt.
    """

    __slots__ = ("budget", "granted", "left")
    left: int
    granted: int
    """Units that were in `left` so far."""
    budget: WorkBudget | None
    """Of the question that this run is a part of."""


def begun(budget: WorkBudget | None = None) -> SchemaRun:
    """A run that has all of its work before it."""
    run = SchemaRun()
    run.left = run.granted = min(GRANTED, JUDGEMENTS_MAX)
    if budget is not None and budget.turn is not None:
        run.left = run.granted = min(run.left, max(budget.turn - budget.spent, 0))
    run.budget = budget
    return run


def spent(run: SchemaRun) -> int:
    """The units of the run so far."""
    return run.granted - run.left


def ended(run: SchemaRun) -> None:
    """The run is over: its work counts for the question."""
    if run.budget is not None:
        run.budget.spend(run.granted - run.left)


def spend(run: SchemaRun, units: int) -> None:
    """Takes from what is left; `LimitExceeded` if that was not enough."""
    run.left -= units
    if run.left < 0:
        refill(run)


def refill(run: SchemaRun) -> None:
    """Grants more to a run that has overspent; `LimitExceeded` if the value or the question may cost no more."""
    used = run.granted - run.left
    if used > JUDGEMENTS_MAX:
        ended(run)  # a caller that goes on with other values pays for this one too
        raise LimitExceeded(bound="schema_judgements_max", maximum=JUDGEMENTS_MAX, actual=used)
    if run.budget is not None:
        run.budget.check(used)
    more = min(max(GRANTED, -run.left), JUDGEMENTS_MAX - run.granted)
    run.left += more
    run.granted += more
