"""Connections over WebSockets: a `Dial` that makes them, and the `Channel` that each one is (WIRE-1)."""

from __future__ import annotations

import asyncio
from ssl import SSLContext
from typing import Final

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed
from websockets.protocol import State
from websockets.typing import Subprotocol as Offered

from stemmadb.client.dialing.failures import Failures, not_spoken, unreachable
from stemmadb.client.dialing.tls import context_for
from stemmadb.client.dialing.urls import ServerUrl, server_url, space_url
from stemmadb.protocol.model.values.ids import Did
from stemmadb.protocol.model.values.limits import MEBIBYTE
from stemmadb.protocol.wire.channel import ChannelClosed
from stemmadb.protocol.wire.codec.msgpack_codec import Data
from stemmadb.protocol.wire.version import JSON, MSGPACK, Subprotocol

OPEN_SECONDS: Final = 10.0
"""How long an attempt may take, from the name of the host to the open WebSocket."""
CLOSE_SECONDS: Final = 0.25
"""How long what was written may take to leave when a connection is closed; then it is cut."""
MESSAGE_BYTES_MAX: Final = 64 * MEBIBYTE
"""The largest message that is taken off the socket: it guards memory. The codec keeps the server's own bound."""
JSON_GROWTH: Final = 6
"""How many times larger a message may be on the JSON subprotocol."""
WRITE_BYTES_MAX: Final = 256 * 1_024
"""What may wait to be sent before `send` waits."""
MESSAGES_WAITING_MAX: Final = 16
"""What may wait to be received before nothing more is read from the socket."""
_NORMAL: Final = 1000
_USER_AGENT: Final = "stemmadb"


class WebSocketDial:
    """A `Dial` to the server at a `ws://` or `wss://` address.

    The address is checked at once: `Malformed` says what to write instead. Proxies of the environment are not used
    unless one is given.

    >>> dial = WebSocketDial("ws://127.0.0.1:8420")
    >>> channel = await dial(space)  # doctest: +SKIP
    """

    def __init__(
        self,
        url: str,
        *,
        subprotocol: Subprotocol = MSGPACK,
        ssl: SSLContext | None = None,
        proxy: str | None = None,
        open_timeout: float = OPEN_SECONDS,
        message_bytes_max: int = MESSAGE_BYTES_MAX,
    ) -> None:
        self.url: ServerUrl = server_url(url)
        self._ssl = context_for(self.url, ssl)
        self._subprotocol: Subprotocol = subprotocol
        self._proxy = proxy
        self._open_timeout = open_timeout
        self._receive_bytes_max = message_bytes_max * (JSON_GROWTH if subprotocol == JSON else 1)

    async def __call__(self, space: Did) -> WebSocketChannel:
        """A channel for a session on this space; `Unreachable` says in plain words why there is none."""
        try:
            connection = await self._attempt(space)
        except Failures as failure:
            raise unreachable(self.url, failure, timeout=self._open_timeout) from failure
        assert isinstance(connection, _Connection), "it was made by our factory"
        channel = WebSocketChannel(connection, self._subprotocol)
        if connection.subprotocol != self._subprotocol:
            await channel.close()
            raise not_spoken(self.url, self._subprotocol)
        return channel

    def _attempt(self, space: Did) -> connect:
        return _Attempt(
            space_url(self.url, space),
            subprotocols=[Offered(self._subprotocol)],
            compression=None,
            user_agent_header=_USER_AGENT,
            proxy=self._proxy,
            open_timeout=self._open_timeout,
            ping_interval=None,
            close_timeout=CLOSE_SECONDS,
            max_size=self._receive_bytes_max,
            max_queue=MESSAGES_WAITING_MAX,
            write_limit=WRITE_BYTES_MAX,
            create_connection=_Connection,
            ssl=self._ssl,
        )


class WebSocketChannel:
    """One WebSocket; a `Channel`."""

    def __init__(self, connection: _Connection, subprotocol: Subprotocol) -> None:
        self.subprotocol: Subprotocol = subprotocol
        self._connection = connection

    async def receive(self) -> Data:
        """The next message, also of those that came before the close. Cancelling it loses none."""
        try:
            return await self._connection.recv()
        except ConnectionClosed as over:
            raise _closed(over) from None

    def send_at_once(self, data: Data) -> bool:
        return self._connection.write_at_once(data)

    async def send(self, data: Data) -> None:
        """Sends a message whole; waits while more than `WRITE_BYTES_MAX` wait to leave."""
        try:
            await self._connection.send(data)
        except ConnectionClosed as over:
            raise _closed(over) from None
        if self._connection.state is State.CLOSED:  # it ended while the message waited to leave
            raise _closed(self._connection.close_exc)

    async def close(self) -> None:
        """Says goodbye without waiting for an answer; what was written has `CLOSE_SECONDS` to leave."""
        await self._connection.end()


class _Attempt(connect):
    """An attempt that goes where it was told and nowhere else."""

    def process_redirect(self, exc: Exception) -> Exception | str:
        return exc


class _Connection(ClientConnection):
    """The library's connection, which waits for the peer to hang up, also for ever; this one hangs up itself."""

    _is_hanging_up = False

    def write_at_once(self, data: Data) -> bool:
        """What `send` does while nobody has to wait, without a task and a context of its own."""
        if self.state is not State.OPEN or self.paused:
            return False
        if isinstance(data, str):
            self.protocol.send_text(data.encode())
        else:
            self.protocol.send_binary(data)
        self.send_data()
        return True

    async def end(self) -> None:
        """Closes, and returns once the socket is closed."""
        if self.state is State.OPEN:
            self.protocol.send_close(_NORMAL)
            self.send_data()
        self._hang_up()
        try:
            await asyncio.shield(self.connection_lost_waiter)
        except asyncio.CancelledError:
            self.transport.abort()
            raise

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.state is State.CLOSING or self.protocol.handshake_exc is not None:
            self._hang_up()

    def eof_received(self) -> None:
        super().eof_received()
        self._hang_up()

    def _hang_up(self) -> None:
        """Closes the socket once what was written has left, and cuts it if that takes too long."""
        if not self._is_hanging_up:
            self._is_hanging_up = True
            self.transport.close()
            self.loop.call_later(CLOSE_SECONDS, self.transport.abort)


def _closed(over: ConnectionClosed) -> ChannelClosed:
    if over.rcvd is not None:
        return ChannelClosed(over.rcvd.code, over.rcvd.reason)
    return ChannelClosed(reason=over.sent.reason) if over.sent is not None else ChannelClosed()
