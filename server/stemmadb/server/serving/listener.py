"""What a listener is: the process starts one, the service talks to its sockets, and metrics read its counters."""

from __future__ import annotations

import ssl
from typing import Protocol

import msgspec

from stemmadb.protocol.model.limits import DEFAULTS
from stemmadb.server.service.sockets import Host
from stemmadb.server.serving.http import Http


class ListenerSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Where to listen, and every bound on those who come."""

    host: str
    port: int
    handshake_timeout_ms: int = 10_000
    """A connection that has not become a WebSocket by then is cut."""
    heartbeat_ms: int = 20_000
    """A peer that was silent so long is pinged, and is dead if it is silent once more as long."""
    close_timeout_ms: int = 2_000
    """How long a connection that is being closed may take."""
    message_bytes_max: int = DEFAULTS.message_bytes_max
    """Of one message, whatever it is made of; more is answered by the close code 1009."""
    connections_max: int = 10_000
    """WebSockets at a time; one more gets 503."""
    spare_max: int = 1_024
    """Connections beyond that, so that handshakes and probes go on while all places are taken."""
    opening_bytes_max: int = 3 * DEFAULTS.schema_bytes_max
    """What a peer may send before it is known who it is."""
    connections_per_address_max: int | None = None
    """Connections of any kind from one address; one more gets 429. Not for a server behind a proxy."""
    origins: tuple[str, ...] = ()
    """The browser origins that may connect, or `*`."""
    ssl: ssl.SSLContext | None = None


class Listener(Protocol):
    """Accepts connections and gives those that become WebSockets to a host."""

    connections: int
    """WebSockets now."""
    refused: int
    """Connections and handshakes that were turned away."""
    bytes_in: int
    """Of messages, without their framing."""
    bytes_out: int
    messages_in: int
    messages_out: int

    @property
    def port(self) -> int:
        """The port that is listened on, also if the settings said 0."""
        ...

    async def start(self, host: Host, http: Http) -> None:
        """Listens from now on."""
        ...

    async def stop(self) -> None:
        """Accepts nobody any more. WebSockets stay: the service closes them."""
        ...
