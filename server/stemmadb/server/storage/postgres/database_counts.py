"""What a node counts of its work with the database; `/metrics` reads it."""

from __future__ import annotations

from collections import Counter
from threading import Lock
from typing import Literal, TypeAlias

What: TypeAlias = Literal[
    "appends", "append_commits", "busy", "deposed", "unknown", "claims", "reconnects", "read_views_ended"
]


class DatabaseCounts:
    """Counted in several threads."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._counts: Counter[What] = Counter()

    def add(self, what: What, by: int = 1) -> None:
        with self._lock:
            self._counts[what] += by

    def of(self, what: What) -> int:
        return self._counts[what]
