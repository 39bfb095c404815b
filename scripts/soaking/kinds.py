"""What a kind of check is: a name, a promise, and a function of a seed that raises when the promise is broken."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, Literal, NamedTuple, Protocol, TypeAlias

SEED_SECONDS_MAX: Final = 600.0
"""What takes longer hangs. Far more than any seed needs, also on a busy machine."""


class Counts(NamedTuple):
    """What was done with one seed."""

    operations: int
    faults: int = 0
    """How many faults were injected: kills, images of a failed disk, cut connections."""


class Goal(NamedTuple):
    """How much a long run does in all."""

    amount: int
    of: Literal["runs", "operations", "faults", "seconds"]

    def __str__(self) -> str:
        return f"{self.amount:,} {self.of}"


class Kind(NamedTuple):
    """One kind of check. The same seed does the same again."""

    name: str
    checks: str
    """What must hold, in a sentence without its full stop."""
    quick: str
    """What of it runs on every change."""
    long: Goal | None
    """What of it a long run does; nothing is set for what has no row of its own."""
    run: Callable[[int], Counts]
    seconds_max: float = SEED_SECONDS_MAX


Kinds: TypeAlias = dict[str, Kind]
Load: TypeAlias = Callable[[], Kinds]
"""Gives the kinds; each worker process calls it for itself, so it must be importable by its name."""


class Report(Protocol):
    """What checks that are written elsewhere say of a run."""

    @property
    def operations(self) -> int: ...
    @property
    def faults(self) -> int | Mapping[str, int]: ...


def reported(run: Callable[[int], Report]) -> Callable[[int], Counts]:
    """The same check, with its report as counts; faults may be told by their kinds."""

    def counted(seed: int) -> Counts:
        report = run(seed)
        faults = report.faults
        return Counts(report.operations, faults if isinstance(faults, int) else sum(faults.values()))

    return counted
