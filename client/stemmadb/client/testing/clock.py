"""The wall clock of a world: it goes with the time of the loop, and can be set forward and back."""

from __future__ import annotations

import asyncio
from typing import Final

from stemmadb.protocol.model.values.ids import TimeMs

EPOCH_MS: Final = 1_790_000_000_000
"""When every world begins: in September 2026."""


class Clock:
    """Milliseconds since 1970. Timers do not follow its jumps, as with the clock of a machine."""

    def __init__(self, epoch_ms: int = EPOCH_MS) -> None:
        self._ms = float(epoch_ms)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._since = 0.0

    def attach(self, loop: asyncio.AbstractEventLoop) -> None:
        """It goes with the time of this loop from now on, and goes on from where it is."""
        self._ms = self._exact()
        self._loop, self._since = loop, loop.time()

    def detach(self) -> None:
        """It stands still."""
        self._ms = self._exact()
        self._loop = None

    def __call__(self) -> TimeMs:
        return TimeMs(round(self._exact()))

    def jump(self, seconds: float) -> None:
        """Sets it forward, or back if negative: an operator, or a clock that was wrong."""
        self._ms += seconds * 1_000

    def _exact(self) -> float:
        return self._ms if self._loop is None else self._ms + (self._loop.time() - self._since) * 1_000
