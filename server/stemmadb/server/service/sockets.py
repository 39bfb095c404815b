"""What the service and a listener promise each other: the seam behind which transports can be changed."""

from __future__ import annotations

from typing import Protocol, TypeAlias

import msgspec

from stemmadb.protocol.model.ids import Did
from stemmadb.protocol.wire.codec import Data
from stemmadb.protocol.wire.version import Subprotocol

Framed: TypeAlias = tuple[bytes, int]
"""A message as it goes over the wire, and its size without what the wire adds."""


class Arrival(msgspec.Struct, frozen=True, kw_only=True):
    """Who came, as far as the handshake tells."""

    space: Did
    subprotocol: Subprotocol
    address: str
    """The peer's address, for logs and limits; proxies are not believed."""


class Socket(Protocol):
    """One connection, as the service uses it. Nothing of it blocks, and all of it is used from one event loop."""

    @property
    def unsent(self) -> int:
        """The bytes given to `send` that the system has not taken yet."""
        ...

    def send(self, data: Data) -> None:
        """One message: text or binary, as the subprotocol says. Ignored once the connection is closing."""
        ...

    def framed(self, data: Data) -> Framed:
        """A message as `repeat` takes it, of this socket and of all others of its listener and subprotocol."""
        ...

    def repeat(self, frame: Framed) -> bool:
        """As `send`, of a message that was framed once for many; False, and nothing is sent, above `DRAIN_BYTES`."""
        ...

    def trust(self) -> None:
        """It is known who the peer is: its messages may be as large as any."""
        ...

    def pause(self) -> None:
        """Reads nothing more, so that the peer has to wait; what was read already still arrives."""
        ...

    def resume(self) -> None: ...

    def close(self, code: int) -> None:
        """Sends what was given, then the close frame; a peer that does not take it is cut off in bounded time."""
        ...


class Visitor(Protocol):
    """The service's side of one connection, as the listener uses it."""

    def received(self, data: Data) -> None:
        """One whole message, in the order they came."""
        ...

    def drained(self) -> None:
        """`unsent` was above `DRAIN_BYTES` and has fallen to it or below."""
        ...

    def lost(self) -> None:
        """The connection is over, whoever ended it. Called exactly once, last."""
        ...


DRAIN_BYTES = 64 * 1024
"""Below this a connection has drained."""


class Host(Protocol):
    """The service, as listeners use it."""

    def welcome(self, socket: Socket, arrival: Arrival) -> Visitor:
        """Called once the handshake is done; greets the peer at once (WIRE-2)."""
        ...
