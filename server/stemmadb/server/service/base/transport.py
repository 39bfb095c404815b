"""The interface between the service and a listener: transports can be exchanged behind it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeAlias

import msgspec

from stemmadb.protocol.errors import StemmaError
from stemmadb.protocol.model.values.ids import Did
from stemmadb.protocol.wire.codec.msgpack_codec import Data
from stemmadb.protocol.wire.version import Subprotocol

Write: TypeAlias = Callable[[bytes], object]


class Arrival(msgspec.Struct, frozen=True, kw_only=True):
    """A new connection, as far as the handshake describes it."""

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
        """A message as `raw_writer` writes it, for this socket and all others of its listener and subprotocol."""
        ...

    def raw_writer(self, end: Callable[[], None]) -> Write | None:
        """A function that writes framed messages straight to the transport; None if there can be none now.

        It is valid until it is released, or until `end` is called, once: more than `DRAIN_BYTES` are unsent, or the
        connection is closing. That may happen during a write; the bytes of that write, and of others in the same
        turn, are taken all the same.
        """
        ...

    def release_raw_writer(self) -> None: ...

    def repeated(self, count: int, size: int) -> None:
        """So many messages of this size were written by the raw writers of this socket and others."""
        ...

    def trust(self) -> None:
        """The peer is authenticated: its messages may have the full size."""
        ...

    def pause(self) -> None:
        """Reads nothing more, so that the peer has to wait; what was read already still arrives."""
        ...

    def resume(self) -> None: ...

    def close(self, code: int) -> None:
        """Sends what was given, then the close frame; a peer that does not take it is aborted in bounded time."""
        ...


class RawWriter:
    """The raw writer that a socket has given out: what to call when it is no longer valid."""

    __slots__ = ("_on_end",)

    def __init__(self) -> None:
        self._on_end: Callable[[], None] | None = None

    def begin(self, on_end: Callable[[], None]) -> None:
        self._on_end = on_end

    def release(self) -> None:
        self._on_end = None

    def end(self) -> None:
        """It was not released, and is no longer valid."""
        on_end, self._on_end = self._on_end, None
        if on_end is not None:
            on_end()


class ConnectionHandler(Protocol):
    """The service's side of one connection, as the listener calls it."""

    def received(self, data: Data) -> None:
        """One whole message, in the order they came."""
        ...

    def overrun(self, error: StemmaError) -> None:
        """The peer sends more frames than it may: says goodbye with this error and closes."""
        ...

    def drained(self) -> None:
        """`unsent` was above `DRAIN_BYTES` and has fallen to it or below."""
        ...

    def lost(self) -> None:
        """The connection is over, whichever side ended it. Called exactly once, last."""
        ...


DRAIN_BYTES = 64 * 1024
"""Below this a connection has drained."""


class HandlerFactory(Protocol):
    """The service, as listeners use it."""

    def welcome(self, socket: Socket, arrival: Arrival) -> ConnectionHandler:
        """Called once the handshake is done; greets the peer at once (WIRE-2)."""
        ...
