"""The seam of the transport: what a client needs of a connection, whatever carries it."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Protocol

from stemmadb.protocol.model.values.ids import Did
from stemmadb.protocol.wire.codec.msgpack_codec import Data
from stemmadb.protocol.wire.version import Subprotocol


class ChannelClosed(Exception):
    """The channel is over; `code` is the WebSocket close code, 1006 where there was none."""

    def __init__(self, code: int = 1006, reason: str = "") -> None:
        super().__init__(f"closed ({code}) {reason}".rstrip())
        self.code = code


class Channel(Protocol):
    """One connection. Messages arrive whole, in order, each once, or the channel is closed."""

    subprotocol: Subprotocol

    async def receive(self) -> Data:
        """The next message; `ChannelClosed` once there will be none."""
        ...

    def send_at_once(self, data: Data) -> bool:
        """Takes a message if that needs no waiting; where it is False, `send` takes it or says why. Never raises."""
        ...

    async def send(self, data: Data) -> None:
        """Takes a message; waits while the peer is slow. `ChannelClosed` if it cannot be sent."""
        ...

    async def close(self) -> None:
        """Ends it, at once and without waiting for the peer; safe to call twice."""
        ...


class Dial(Protocol):
    """Makes channels to one server."""

    def __call__(self, space: Did) -> Awaitable[Channel]:
        """A channel for a session on this space; `Unreachable` if there is no answer."""
        ...
