"""What a checker answers: nothing, or each promise that a history breaks, by name."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

SHOWN = 10
"""So many violations are told in full; the rest is a number."""


@dataclass(frozen=True, slots=True)
class Violation:
    """A promise that was broken, and where."""

    kind: str
    what: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.what}"


class Violated(AssertionError):
    """A history breaks a promise."""

    def __init__(self, violations: list[Violation]) -> None:
        more = len(violations) - SHOWN
        lines = [str(one) for one in violations[:SHOWN]] + ([f"and {more} more"] if more > 0 else [])
        super().__init__("\n".join(lines))
        self.violations = violations


def expect_none(*found: Iterable[Violation]) -> None:
    """Raises what any of the checkers found."""
    violations = [one for violations in found for one in violations]
    if violations:
        raise Violated(violations)
