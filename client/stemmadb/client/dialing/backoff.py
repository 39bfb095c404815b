"""How long to wait before the next try: longer each time, never twice the same for two clients (RESUME-5). Pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

FIRST_SECONDS: Final = 0.1
"""The most that is waited before the first new try."""
MOST_SECONDS: Final = 10.0
"""The most that is waited before any try, unless the server asks for more."""
FACTOR: Final = 2.0
FLOOR_SECONDS: Final = 0.01
"""The least that is waited, so that a server that closes at once is not asked in a tight loop."""
RETRY_AFTER_MAX_SECONDS: Final = 3_600.0
"""A server that asks for more is tried again after this."""


class Backoff:
    """The pauses between tries. A pause is drawn evenly from nothing to a ceiling that grows (full jitter), so that
    clients that lost their server together do not come back together.

    `random` gives numbers from 0 to 1, such as `random.random`.
    """

    def __init__(
        self,
        random: Callable[[], float],
        *,
        first_s: float = FIRST_SECONDS,
        most_s: float = MOST_SECONDS,
        factor: float = FACTOR,
    ) -> None:
        assert FLOOR_SECONDS <= first_s <= most_s, "the first pause is the shortest"
        assert factor >= 1, "pauses do not shrink"
        self._random = random
        self._first, self._most, self._factor = first_s, most_s, factor
        self._ceiling = first_s

    def next(self, retry_after_ms: int | None = None) -> float:
        """Seconds to wait now. What a server asked for is waited in full, and the pause on top of it."""
        pause = max(FLOOR_SECONDS, self._random() * self._ceiling)
        self._ceiling = min(self._most, self._ceiling * self._factor)
        return pause + min(max(retry_after_ms or 0, 0) / 1_000, RETRY_AFTER_MAX_SECONDS)

    def reset(self) -> None:
        """It worked: the next pause is a short one again."""
        self._ceiling = self._first
