"""Histories of lists: transactions that append unique elements to lists and read whole lists."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import Literal, TypeAlias

Key: TypeAlias = str
Element: TypeAlias = int
Outcome: TypeAlias = Literal["ok", "failed", "unknown"]
"""`failed`: it surely did not happen. `unknown`: it may have happened, or may yet."""


@dataclass(frozen=True, slots=True)
class Append:
    """Appends an element that nobody else ever appends to that list."""

    key: Key
    element: Element


@dataclass(frozen=True, slots=True)
class Read:
    """Reads a whole list; a list that is not there is empty."""

    key: Key
    elements: tuple[Element, ...]


Step: TypeAlias = Append | Read


@dataclass(frozen=True, slots=True)
class Transaction:
    """What one transaction did, and between which two moments.

    The transactions of a process are in the order in which the process made them. If a process has several in flight
    its order is the one that was promised to it.
    """

    process: str
    began: float
    ended: float
    """When the process knew; of no meaning unless it is ok."""
    outcome: Outcome
    steps: tuple[Step, ...]
    name: str = ""
    """For people."""

    @property
    def known(self) -> float:
        """The moment from which on everybody must see it."""
        return self.ended if self.outcome == "ok" else inf

    def __str__(self) -> str:
        steps = ", ".join(map(_shown, self.steps))
        return f"{self.name or self.process}[{steps}]"


def _shown(step: Step) -> str:
    if isinstance(step, Append):
        return f"append {step.key} {step.element}"
    tail = "... " if len(step.elements) > 4 else ""
    return f"read {step.key} [{tail}{' '.join(map(str, step.elements[-4:]))}]"
