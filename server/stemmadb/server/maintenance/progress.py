"""Progress of a long piece of work, reported to a callback."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import msgspec


class MaintenanceProgress(msgspec.Struct, frozen=True):
    """One step: what is being done, how much of it is done, and of how much, if that is known."""

    stage: str
    done: int
    total: int | None = None


OnProgress: TypeAlias = Callable[[MaintenanceProgress], None]


def quiet(progress: MaintenanceProgress) -> None:
    """Shows nothing."""


class Counter:
    """Counts the steps of a stage, and tells every so many of them and at the end."""

    def __init__(self, on_progress: OnProgress, stage: str, total: int | None = None, *, every: int = 1_000) -> None:
        self._on_progress = on_progress
        self._stage = stage
        self._total = total
        self._every = every
        self._next = 0
        self.done = 0

    def add(self, steps: int = 1) -> None:
        self.done += steps
        if self.done >= self._next:
            self._next = self.done + self._every
            self._on_progress(MaintenanceProgress(self._stage, self.done, self._total))

    def finish(self) -> None:
        self._on_progress(MaintenanceProgress(self._stage, self.done, self._total))
