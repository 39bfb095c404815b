"""What a run came to."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Report:
    """Counts of one run; `trace` is the hash of all that happened in it, in order."""

    operations: int
    """Deeds of workers and changes told to watches."""
    faults: Counter[str]
    """By kind; those of apps are among them."""
    crashes: int
    """Of the server."""
    commits: int
    """That were made."""
    confirmed: int
    rejected: int
    versions: int
    """In the log at the end."""
    lives: int
    """Of apps."""
    checks: int
    """Things that were held against what is durable."""
    work: Counter[str] = field(default_factory=Counter)
    """Deeds by kind."""
    trace: str = ""

    @property
    def injected(self) -> int:
        """Faults of all kinds."""
        return self.faults.total()

    def __add__(self, other: Report) -> Report:
        """Both together; a sum has no trace."""
        own: dict[str, Any] = {name: getattr(self, name) for name in self.__slots__ if name != "trace"}
        return Report(**{name: value + getattr(other, name) for name, value in own.items()})


NONE = Report(0, Counter(), 0, 0, 0, 0, 0, 0, 0)
