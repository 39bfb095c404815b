"""When expired memories may be deleted for good. A wrong clock must not delete what is not expired."""

from __future__ import annotations

from typing import Final

from stemmadb.memory.rules.instants import Millis

GRACE_MS: Final = 24 * 3_600_000
"""What expired later than this before now stays."""
SETTLE_SECONDS: Final = 3_600.0
"""A memory server sweeps by itself only after so long: right after a start the clock may still be wrong."""
DRIFT_MAX_MS: Final = 5 * 60_000


class SweepGuard:
    """Compares the clock with the monotonic one. Once it has moved too far, no sweep until the server restarts."""

    def __init__(self, *, now: Millis, monotonic: float) -> None:
        self._now = now
        self._monotonic = monotonic
        self.has_moved = False

    def check(self, *, now: Millis, monotonic: float) -> bool:
        """Whether the clock can be believed; call it now and then, since a clock may be set back again."""
        expected = self._now + (monotonic - self._monotonic) * 1_000
        self.has_moved = self.has_moved or abs(now - expected) > DRIFT_MAX_MS
        return not self.has_moved

    def may_sweep(self, *, now: Millis, monotonic: float) -> bool:
        """Whether a sweep that nobody asked for may run."""
        return self.check(now=now, monotonic=monotonic) and monotonic - self._monotonic >= SETTLE_SECONDS
