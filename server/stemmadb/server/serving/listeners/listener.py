"""What a listener is: the process starts one, the service talks to its sockets, and metrics read its counters."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Awaitable, Callable
from typing import Final, Protocol, TypeAlias

import msgspec

from stemmadb.protocol.model.values.limits import DEFAULTS
from stemmadb.server.service.base.transport import HandlerFactory
from stemmadb.server.serving.listeners.http import Http, HttpAnswer, HttpRequest
from stemmadb.server.serving.listeners.web_port import WebServer
from stemmadb.server.serving.ownership.port import PassedConnection
from stemmadb.server.serving.ownership.routing import Routing

RECEIVED_FACTOR: Final = 2
"""How much larger than `message_bytes_max` a message may be that is answered with an error and not with 1009."""


ALL: Final = "all"
"""The key of all WebSockets in a tally."""
ADDRESS: Final = "a:"
"""What the keys of addresses begin with in a tally."""

AnswersLater: TypeAlias = Callable[[HttpRequest], Awaitable[HttpAnswer] | None]
"""Answers a plain request, but not at once; None if it does not."""


class ConnectionTally(Protocol):
    """Counts the connections of all processes of a server, where there are several."""

    def count(self, key: str, step: int) -> None:
        """One more or one fewer here."""
        ...

    def is_full(self, key: str) -> bool:
        """Whether there are as many in all processes together as there may be."""
        ...


class ListenerSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Where to listen, and every limit on connections."""

    host: str
    port: int
    handshake_timeout_ms: int = 10_000
    """A connection that has not become a WebSocket by then is aborted."""
    heartbeat_ms: int = 20_000
    """A peer that was silent so long is pinged, and is dead if it is silent once more as long."""
    close_timeout_ms: int = 2_000
    """How long a connection that is being closed may take."""
    body_timeout_ms: int = 30_000
    """An HTTP body that brings no byte for so long is refused; an answer that nobody reads for so long ends."""
    idle_timeout_ms: int = 75_000
    """An HTTP connection that is silent for so long between two requests is closed."""
    message_bytes_max: int = DEFAULTS.message_bytes_max
    """Of one message. A larger one is still received, so that the answer can name it, up to `received_bytes_max`."""
    connections_max: int = 10_000
    """WebSockets at a time; one more gets 503."""
    http_connections_max: int = 2_000
    """HTTP connections at a time; one more gets 503."""
    spare_max: int = 1_024
    """Connections beyond that, so that handshakes and probes still work when the server is full."""
    opening_bytes_max: int = 3 * DEFAULTS.schema_bytes_max
    """Bytes that a peer may send before it is authenticated."""
    opening_frames_max: int = 1_000
    """Frames that a peer may send before it is authenticated."""
    fragments_max: int = 4_096
    """Fragments of one message."""
    small_frames_per_second: int = 1_000
    """Pings, pongs and fragments below 1 KiB of one connection."""
    connections_per_address_max: int | None = None
    """Connections of any kind from one address; one more gets 429. Not for a server behind a proxy."""
    origins: tuple[str, ...] = ()
    """The browser origins that may connect, or `*`."""
    public: tuple[str, ...] = ()
    """The addresses under which people reach the server, as origins (HTTP-3)."""
    is_loopback: bool = False
    """Whether only programs of this machine reach the address."""
    ssl: ssl.SSLContext | None = None
    sockets: tuple[socket.socket, ...] | None = None
    """What to listen on, if another process has opened it; then host and port only describe it."""
    tally: ConnectionTally | None = None
    """The connections of all processes of the server together; None if this is the only one."""

    @property
    def received_bytes_max(self) -> int:
        """A message beyond this is not received: the connection is closed with 1009."""
        return RECEIVED_FACTOR * self.message_bytes_max


class Listener(Protocol):
    """Accepts connections and gets a connection handler for each that becomes a WebSocket."""

    answers_later: AnswersLater | None
    """Asked for each GET and HEAD, before anything else, where several processes serve the spaces."""

    connections: int
    """WebSockets now."""
    http_connections: int
    """HTTP connections now that were passed a request on to the HTTP library."""
    relays: int
    """Connections now that go through here to the process that serves their space."""
    refused: int
    """Connections and handshakes that were refused."""
    bytes_in: int
    """Of messages, without their framing."""
    bytes_out: int
    messages_in: int
    messages_out: int

    @property
    def port(self) -> int:
        """The port that is listened on, also if the settings said 0."""
        ...

    async def start(
        self, handlers: HandlerFactory, http: Http, web: WebServer | None = None, routing: Routing | None = None
    ) -> None:
        """Listens from now on. `web` answers requests that are neither for a WebSocket nor answered by `http`.

        `routing` says which process answers requests that name a space; None: this one.
        """
        ...

    async def adopt(self, sock: socket.socket, passed: PassedConnection) -> None:
        """Goes on with a connection that another process has passed on: its own socket, or one that relays it."""
        ...

    async def stop(self) -> None:
        """Accepts no more connections. WebSockets stay open: the service closes them."""
        ...
