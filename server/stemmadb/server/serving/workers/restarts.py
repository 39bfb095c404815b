"""When a worker that has died is started again, and when a server with such a worker is no longer ready. No I/O.

deaths in the last 60 s    1   2     3   4   5   6 and more
pause before the restart   0   0.5   1   2   5   10 s
"""

from __future__ import annotations

from collections import deque
from typing import Final

PAUSES: Final = (0.0, 0.5, 1.0, 2.0, 5.0, 10.0)
WINDOW_SECONDS: Final = 60.0
TROUBLED: Final = 5
"""After so many deaths in the window the server is not ready."""


class Restarts:
    """Of one worker."""

    def __init__(self) -> None:
        self._deaths: deque[float] = deque(maxlen=len(PAUSES))

    def died(self, now: float) -> float:
        """It has died; returns the seconds until it should be started again."""
        self._deaths.append(now)
        return PAUSES[self._recent(now) - 1]

    def is_troubled(self, now: float) -> bool:
        return self._recent(now) >= TROUBLED

    def _recent(self, now: float) -> int:
        return sum(now - death <= WINDOW_SECONDS for death in self._deaths)
