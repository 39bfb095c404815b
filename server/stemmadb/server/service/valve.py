"""Reading from a connection, stopped for as long as there is a reason to: the peer waits, and nothing piles up."""

from __future__ import annotations

from enum import Enum

from stemmadb.server.service.sockets import Socket


class Why(Enum):
    OPENING = "the session is being opened"
    FULL = "the queue of the space is full"
    SLOW = "the client does not take what it is sent"
    BUSY = "its requests take too much memory while they wait"
    STOPPING = "the server stops"


class Valve:
    """Closed while one reason holds or more."""

    def __init__(self, socket: Socket) -> None:
        self._socket = socket
        self._reasons: set[Why] = set()

    @property
    def is_shut(self) -> bool:
        return bool(self._reasons)

    def shut(self, why: Why) -> None:
        if not self._reasons:
            self._socket.pause()
        self._reasons.add(why)

    def open(self, why: Why) -> None:
        """This reason is gone."""
        if why in self._reasons:
            self._reasons.discard(why)
            if not self._reasons:
                self._socket.resume()
