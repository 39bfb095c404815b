"""What a cycle of faults comes to: how much was done, and which faults were met."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field


@dataclass(slots=True)
class Report:
    """Counts of one cycle; a cycle that finds a violation raises instead."""

    operations: int = 0
    kinds: Counter[str] = field(default_factory=Counter)
    """Faults by their names."""

    @property
    def faults(self) -> int:
        return self.kinds.total()
