"""What the service and a listener promise each other: the seam behind which transports can be changed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeAlias

import msgspec

from stemmadb.protocol.model.ids import Did
from stemmadb.protocol.wire.codec import Data
from stemmadb.protocol.wire.version import Subprotocol

Write: TypeAlias = Callable[[bytes], object]


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

    def framed(self, data: Data) -> bytes:
        """A message as `lend` writes it, for this socket and all others of its listener and subprotocol."""
        ...

    def lend(self, end: Callable[[], None]) -> Write | None:
        """What writes messages that were framed once for many, with nothing in between; None if that cannot be now.

        It holds until it is given back, or until `end` is called, once: more than `DRAIN_BYTES` are unsent, or the
        connection is closing. That may be while it writes, and what it was given is then taken all the same.
        """
        ...

    def give_back(self) -> None: ...

    def repeated(self, count: int, size: int) -> None:
        """So many messages of this size were written by what this socket and others have lent."""
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


class Loan:
    """What a socket has lent, as it keeps it: who is told when it ends."""

    __slots__ = ("_told",)

    def __init__(self) -> None:
        self._told: Callable[[], None] | None = None

    def begin(self, told: Callable[[], None]) -> None:
        self._told = told

    def give_back(self) -> None:
        self._told = None

    def end(self) -> None:
        """It was not given back, and is good no more."""
        told, self._told = self._told, None
        if told is not None:
            told()


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
