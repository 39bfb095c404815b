"""What a peer may send that is no message: frames before it is authenticated, fragments, pings. No I/O, no clock."""

from __future__ import annotations

from typing import Final

from stemmadb.protocol.errors import LimitExceeded, RateLimited, StemmaError
from stemmadb.server.service.base.rate_limits import Bucket
from stemmadb.server.serving.listeners.listener import ListenerSettings

SMALL_BYTES: Final = 1024
"""A fragment below this counts as a small frame. Pings and pongs always do."""


class FrameBounds:
    """Of one connection. Every method returns the error to close it with, or None."""

    def __init__(self, settings: ListenerSettings, now_ms: int) -> None:
        self.is_stranger = True
        self._settings = settings
        self._early = self._fragments = 0
        self._small = Bucket(settings.small_frames_per_second, now_ms)

    def frame_of_stranger(self) -> StemmaError | None:
        """Any frame before the peer is authenticated."""
        self._early += 1
        return _exceeded("opening_frames_max", self._settings.opening_frames_max, self._early)

    def control_frame(self, now_ms: int) -> StemmaError | None:
        """A ping or a pong."""
        wait_ms = self._small.take(now_ms)
        return RateLimited(retry_after_ms=wait_ms) if wait_ms else None

    def fragment(self, size: int, now_ms: int, *, is_last: bool) -> StemmaError | None:
        """A part of a message, the first and the last one too."""
        self._fragments += 1
        over = _exceeded("fragments_max", self._settings.fragments_max, self._fragments)
        if is_last:
            self._fragments = 0
        if over is None and size < SMALL_BYTES:
            return self.control_frame(now_ms)
        return over


def too_large(settings: ListenerSettings, actual: int) -> LimitExceeded:
    """The error for a message that is not even read to say which one it is (WIRE-4)."""
    return LimitExceeded(bound="message_bytes_max", maximum=settings.message_bytes_max, actual=actual)


def _exceeded(bound: str, maximum: int, actual: int) -> LimitExceeded | None:
    return LimitExceeded(bound=bound, maximum=maximum, actual=actual) if actual > maximum else None
