"""Connections and clients of peers: what all of their protocols have in common."""

from __future__ import annotations

import socket
from abc import ABC, abstractmethod
from collections.abc import Callable

from benchmarks.load.document import DOCUMENT
from benchmarks.load.loop import Client
from benchmarks.peers.process import HOST
from stemmadb.protocol.model.values.body import encode

PATIENCE_SECONDS = 20.0
_READ_BYTES = 1 << 16
"""More is a mapping of its own for each read, which costs the load seven times the read."""


class Wire(ABC):
    """One connection. What came is split into whole messages; `_split` says how."""

    def __init__(self, port: int) -> None:
        self.sock = socket.create_connection((HOST, port), timeout=PATIENCE_SECONDS)
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._buffer = b""

    def pull(self) -> None:
        """A connection on which something went wrong is closed."""
        try:
            data = self.sock.recv(_READ_BYTES)
            if not data:
                raise ConnectionError("the peer closed the connection")
            if self._buffer:
                data = self._buffer + data
            taken = self._split(data)
            self._buffer = data[taken:]
        except BaseException:
            self.close()
            raise

    @abstractmethod
    def _split(self, data: bytes) -> int:
        """Gives on every whole message, and says how many bytes those were."""

    def ready(self) -> None:
        """From here on a loop says when there is something to read, so that no read needs a timeout."""
        self.sock.setblocking(True)

    def close(self) -> None:
        self.sock.close()


def nothing(*_: object) -> None:
    """Nobody listens."""


def ask(client: Client, sends: Callable[[], None] | None = None, *, answers: int = 1) -> None:
    """Sends, once by the client's own `send`, and waits until that many answers came."""
    left = answers

    def answered() -> None:
        nonlocal left
        left -= 1

    client.answered = answered
    (sends or client.send)()
    while left > 0:
        client.link.pull()
    client.answered = nothing


def past_values(facts: int) -> list[bytes]:
    """The values of a history, each another one; the version that comes first is the first here."""
    return [encode(DOCUMENT | {"count": number}) for number in range(1, facts + 1)]
