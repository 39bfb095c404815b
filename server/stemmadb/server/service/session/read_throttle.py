"""Stops reading from a connection while there is a reason to: the peer waits, and nothing piles up in memory."""

from __future__ import annotations

from enum import Enum

from stemmadb.server.service.base.transport import Socket


class PauseReason(Enum):
    OPENING = "the session is being opened"
    FULL = "the queue of the space is full"
    SLOW = "the client does not read what it is sent"
    BUSY = "its waiting requests take too much memory"
    STOPPING = "the server is stopping"


class ReadThrottle:
    """Reading is paused while at least one reason holds."""

    def __init__(self, socket: Socket) -> None:
        self._socket = socket
        self.reasons: set[PauseReason] = set()

    def pause(self, reason: PauseReason) -> None:
        if not self.reasons:
            self._socket.pause()
        self.reasons.add(reason)

    def resume(self, reason: PauseReason) -> None:
        """This reason no longer holds."""
        if reason in self.reasons:
            self.reasons.discard(reason)
            if not self.reasons:
                self._socket.resume()
