"""What every listener does alike: accepts connections, counts and bounds them, and watches all with one timer."""

from __future__ import annotations

import asyncio
import socket
from abc import ABC, abstractmethod
from collections import Counter, deque
from functools import partial
from typing import Any, Final, Protocol

from stemmadb.server.service.base.transport import HandlerFactory
from stemmadb.server.serving.listeners.connection import Connection
from stemmadb.server.serving.listeners.front import EarlyRefusal, Front
from stemmadb.server.serving.listeners.http import Http
from stemmadb.server.serving.listeners.listener import ADDRESS, ALL, AnswersLater, ListenerSettings
from stemmadb.server.serving.listeners.origins import AllowedOrigins
from stemmadb.server.serving.listeners.web_port import WebServer
from stemmadb.server.serving.ownership.port import PassedConnection
from stemmadb.server.serving.ownership.routing import Routing

BACKLOG: Final = 1024
_SWEEPS_PER_PERIOD: Final = 4
_SOONEST_SWEEP: Final = 0.005
_READ_ON_MAX: Final = 8
"""Connections with more to read than their share that go on in one turn of the loop; the others wait in line."""


class HasDeadline(Protocol):
    """Something with a deadline."""

    def late(self) -> None:
        """The deadline has passed."""
        ...


class Gate(ABC):
    """A listener without the WebSocket library. It is a `Listener`."""

    def __init__(self, settings: ListenerSettings) -> None:
        self.settings = settings
        self.origins = AllowedOrigins(settings.origins, public=settings.public, is_loopback=settings.is_loopback)
        self.connections = self.refused = self.bytes_in = self.bytes_out = self.messages_in = self.messages_out = 0
        self._servers: list[asyncio.Server] = []
        self._is_started = self._is_serving = False
        self._timer: asyncio.TimerHandle | None = None
        self._addresses: Counter[str] = Counter()
        self._fronts: set[Front] = set()
        self._open: set[Connection] = set()
        self._deadlines: dict[HasDeadline, float] = {}
        self._unread: deque[Connection] = deque()
        self._beat_at = 0.0
        self.http_connections = 0
        self.relays = 0
        self.routing = Routing()
        self.answers_later: AnswersLater | None = None
        shortest = min(
            settings.handshake_timeout_ms,
            settings.close_timeout_ms,
            settings.heartbeat_ms,
            settings.body_timeout_ms,
            settings.idle_timeout_ms,
        )
        self._interval = max(shortest / 1000 / _SWEEPS_PER_PERIOD, _SOONEST_SWEEP)
        self._heartbeat = settings.heartbeat_ms / 1000

    @abstractmethod
    def connect(self, transport: asyncio.Transport, address: str) -> Connection:
        """A connection on a transport that has become a WebSocket; it is the transport's protocol from now on."""

    @property
    def port(self) -> int:
        assert self._is_started, "start first"
        return self._port

    async def start(
        self, handlers: HandlerFactory, http: Http, web: WebServer | None = None, routing: Routing | None = None
    ) -> None:
        assert not self._is_started, "a listener starts once"
        self.routing = routing or self.routing
        self._make_front = partial(Front, self, handlers, http, web)
        self.loop = asyncio.get_running_loop()
        settings = self.settings
        if settings.sockets is None:
            self._servers.append(await self._listen(host=settings.host, port=settings.port))
            self._port = int(self._servers[0].sockets[0].getsockname()[1])
        else:
            for sock in settings.sockets:
                self._servers.append(await self._listen(sock=sock))
            self._port = settings.port
        self._is_started = self._is_serving = True
        self._timer = self.loop.call_later(self._interval, self._sweep)

    async def _listen(self, **where: Any) -> asyncio.Server:
        settings = self.settings
        return await self.loop.create_server(
            self._make_front,
            ssl=settings.ssl,
            backlog=BACKLOG,
            ssl_handshake_timeout=settings.handshake_timeout_ms / 1000 if settings.ssl is not None else None,
            ssl_shutdown_timeout=settings.close_timeout_ms / 1000 if settings.ssl is not None else None,
            **where,
        )

    async def adopt(self, sock: socket.socket, passed: PassedConnection) -> None:
        """Goes on with a connection that another process has passed on: its own socket, or one that relays it."""
        if not self._is_serving:
            sock.close()
            return
        sock.setblocking(False)
        await self.loop.connect_accepted_socket(partial(self._make_front, passed), sock)

    async def stop(self) -> None:
        if not self._is_serving:
            return
        self._is_serving = False
        for server in self._servers:
            server.close()
        for front in list(self._fronts):
            front.stop()
        await asyncio.sleep(0)

    # ---------------------------------------------------------------- connections that come and go

    def arrived(self, front: Front) -> EarlyRefusal | None:
        """Counts a new connection; returns why it is refused, if it is."""
        self._fronts.add(front)
        self._deadlines[front] = self.loop.time() + self.settings.handshake_timeout_ms / 1000
        waiting = len(self._fronts) - self.relays
        if waiting + self.connections > self.settings.connections_max + self.settings.spare_max:
            return EarlyRefusal.SILENT
        return None if self._count(front) else EarlyRefusal.ADDRESS

    def _count(self, front: Front) -> bool:
        """False if its address has as many connections as it may."""
        most = self.settings.connections_per_address_max
        front.counted = most is None or self._addresses[front.address] < most
        if front.counted:
            self._addresses[front.address] += 1
        return front.counted

    def full(self) -> bool:
        tally = self.settings.tally
        return self.connections >= self.settings.connections_max or (tally is not None and tally.is_full(ALL))

    def answered(self, front: Front) -> bool:
        """The request of this peer is answered here; False if its address has too many in all processes."""
        tally = self.settings.tally
        if tally is None or self.settings.connections_per_address_max is None or front.tallied:
            return True
        if tally.is_full(ADDRESS + front.address):
            return False
        front.tallied = ADDRESS + front.address
        tally.count(front.tallied, 1)
        return True

    def upgraded(self, front: Front, connection: Connection) -> None:
        """The same peer goes on as a WebSocket."""
        self._fronts.discard(front)
        self._deadlines.pop(front, None)
        self._open.add(connection)
        self.connections += 1
        connection.tallied = front.tallied
        if self.settings.tally is not None:
            self.settings.tally.count(ALL, 1)

    def handed(self, front: Front) -> bool:
        """The same peer goes on with HTTP, whose requests have their own deadlines; False if there are too many."""
        if self.http_connections >= self.settings.http_connections_max:
            return False
        self.http_connections += 1
        front.is_handed = True
        self._deadlines.pop(front, None)
        return True

    def may_relay(self) -> bool:
        """Whether one more connection may go through here to another process."""
        return self.relays < self.settings.connections_max

    def relayed(self, front: Front) -> None:
        """The peer's connection goes through here from now on; the limits for it are those of the owner."""
        self.relays += 1
        front.is_relayed = True
        self._deadlines.pop(front, None)
        if front.counted:
            front.counted = False
            self._forget(front.address)

    def readdress(self, front: Front, address: str) -> bool:
        """The peer is another process of ours, and this is its client's address; False if that has too many here."""
        if front.counted:
            self._forget(front.address)
        front.address = address
        return self._count(front)

    def await_by(self, front: Front, milliseconds: int | None) -> None:
        """Sets the deadline of an HTTP connection anew, or takes it away."""
        if milliseconds is None:
            self._deadlines.pop(front, None)
        else:
            self._deadlines[front] = self.loop.time() + milliseconds / 1000

    def left(self, front: Front) -> None:
        """It is gone and was no WebSocket."""
        self._fronts.discard(front)
        self._deadlines.pop(front, None)
        self.http_connections -= front.is_handed
        self.relays -= front.is_relayed
        self._untally(front.tallied)
        if front.counted:
            self._forget(front.address)

    def ended(self, connection: Connection) -> None:
        """A WebSocket is gone."""
        self._open.discard(connection)
        self._deadlines.pop(connection, None)
        self.connections -= 1
        self._forget(connection.address)
        self._untally(connection.tallied)
        if self.settings.tally is not None:
            self.settings.tally.count(ALL, -1)

    def hurry(self, ending: Front | Connection) -> None:
        """It is being closed, and is aborted if that takes too long."""
        if isinstance(ending, Connection):
            self._open.discard(ending)
        self._deadlines[ending] = self.loop.time() + self.settings.close_timeout_ms / 1000

    def wait_a_turn(self, connection: Connection) -> None:
        """It has had its share of this turn of the loop, and reads on in a later one."""
        if not self._unread:
            self.loop.call_soon(self._read_on)
        self._unread.append(connection)

    def _read_on(self) -> None:
        for _ in range(min(_READ_ON_MAX, len(self._unread))):
            self._unread.popleft().read_on()
        if self._unread:
            self.loop.call_soon(self._read_on)

    def _untally(self, key: str) -> None:
        if key and self.settings.tally is not None:
            self.settings.tally.count(key, -1)

    def _forget(self, address: str) -> None:
        self._addresses[address] -= 1
        if not self._addresses[address]:
            del self._addresses[address]

    # ---------------------------------------------------------------- the one timer

    def _sweep(self) -> None:
        if self._is_serving or self._deadlines or self.connections or self.http_connections:
            self._timer = self.loop.call_later(self._interval, self._sweep)
        now = self.loop.time()
        for late in [it for it, deadline in self._deadlines.items() if now >= deadline]:
            del self._deadlines[late]
            late.late()
        if now >= self._beat_at:
            self._beat_at = now + self._heartbeat / _SWEEPS_PER_PERIOD
            for connection in list(self._open):
                connection.beat(now, self._heartbeat)
