"""The cooldown between two writes of one secret. Only a write starts it that was accepted, or cancelled."""

from __future__ import annotations

from typing import Final

from stemmadb.memory.rules.refusals import RateLimitExceeded

COOLDOWN_SECONDS: Final = 2.0


class Cooldown:
    """Kept in memory, on a monotonic clock that the caller gives."""

    def __init__(self, seconds: float = COOLDOWN_SECONDS) -> None:
        self.seconds = seconds
        self._wrote: dict[str, float] = {}

    def check(self, name: str, monotonic: float) -> None:
        """`RateLimitExceeded` with the seconds left if this caller wrote too short a time ago."""
        wrote = self._wrote.get(name)
        if wrote is not None and monotonic - wrote < self.seconds:
            raise RateLimitExceeded(self.seconds - (monotonic - wrote))

    def start(self, name: str, monotonic: float) -> None:
        """A write of this caller was accepted, or may still be."""
        self._wrote[name] = monotonic
