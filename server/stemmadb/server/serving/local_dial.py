"""In-process dial: a client of the same process speaks to the service without a socket.

    db = connect("ws://in-process", dial=local_dial(service), ...)

Every message is the one that a WebSocket would carry, so rights, limits and order are those of any other session.
Memory stays bounded in both directions: a client that does not read is slow for the service (`unsent`), and a client
that writes to a paused connection waits in `send`.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final

from stemmadb.protocol.errors import Unreachable
from stemmadb.protocol.model.values.ids import Did
from stemmadb.protocol.wire.channel import ChannelClosed, Dial
from stemmadb.protocol.wire.codec.msgpack_codec import Data
from stemmadb.protocol.wire.version import MSGPACK, Subprotocol
from stemmadb.server.service.base.transport import (
    DRAIN_BYTES,
    Arrival,
    ConnectionHandler,
    HandlerFactory,
    RawWriter,
    Write,
)

URL: Final = "ws://in-process"
"""Names the server in messages; nothing listens there."""
ADDRESS: Final = "in-process"
"""The peer's address in logs and limits."""
NORMAL: Final = 1000
FAILED: Final = 1011
QUEUED_MAX: Final = 64
"""Messages of the client that may wait for the service before `send` waits too."""


def local_dial(service: HandlerFactory, *, is_open: Callable[[], bool] = lambda: True) -> Dial:
    """Makes channels into a running service; `Unreachable` once `is_open` says that it has stopped."""

    async def dial(space: Did) -> LocalChannel:
        if not is_open():
            raise Unreachable(url=URL, why="the service has stopped")
        socket = LocalSocket()
        socket.handler = service.welcome(socket, Arrival(space=space, subprotocol=MSGPACK, address=ADDRESS))
        return LocalChannel(socket)

    return dial


class LocalSocket:
    """The service's end (`Socket`), with what is on its way in either direction."""

    def __init__(self) -> None:
        self.handler: ConnectionHandler | None = None
        self.inbox: deque[Data] = deque()
        """Sent to the client and not received."""
        self.unsent = 0
        """The bytes of the inbox."""
        self.outgoing: deque[Data] = deque()
        """Sent by the client; each waits for a turn of the loop of its own, or until the service resumes."""
        self.code: int | None = None
        """The close code, once either end has closed."""
        self.changed = asyncio.Event()
        """Wakes the client: something came, there is room again, or it is over."""
        self._loop = asyncio.get_running_loop()
        self._is_delivering = self._is_paused = self._is_full = False
        self._raw_writer = RawWriter()

    # ------------------------------------------------------------ for the service

    def send(self, data: Data) -> None:
        if self.code is not None:
            return
        self.inbox.append(data)
        self.unsent += len(data)
        self.changed.set()
        if not self._is_full and self.unsent > DRAIN_BYTES:
            self._is_full = True
            self._raw_writer.end()

    def framed(self, data: Data) -> bytes:
        assert isinstance(data, bytes), "an in-process connection speaks MessagePack"
        return data

    def raw_writer(self, end: Callable[[], None]) -> Write | None:
        if self._is_full or self.code is not None:
            return None
        self._raw_writer.begin(end)
        return self.send

    def release_raw_writer(self) -> None:
        self._raw_writer.release()

    def repeated(self, count: int, size: int) -> None:
        """Listeners count messages; there is no listener here."""

    def trust(self) -> None:
        """The process trusts itself: messages may have the full size from the start."""

    def pause(self) -> None:
        self._is_paused = True

    def resume(self) -> None:
        self._is_paused = False
        self.schedule()

    def close(self, code: int) -> None:
        """The handler learns it once and last, in a turn of its own, as from a real listener."""
        if self.code is not None:
            return
        self.code = code
        self.outgoing.clear()
        self._raw_writer.end()
        self.changed.set()
        self._loop.call_soon(self._lost)

    def _lost(self) -> None:
        handler, self.handler = self.handler, None
        if handler is not None:
            handler.lost()

    # ------------------------------------------------------------ for the client's end

    def schedule(self) -> None:
        """One message in each turn of the loop, so that a busy client does not hold up other sessions."""
        if self.outgoing and not self._is_delivering and not self._is_paused:
            self._is_delivering = True
            self._loop.call_soon(self._deliver)

    def _deliver(self) -> None:
        self._is_delivering = False
        if self.code is not None or self._is_paused or not self.outgoing:
            return
        data = self.outgoing.popleft()
        self.changed.set()
        self._call(lambda handler: handler.received(data))
        self.schedule()

    def taken(self, data: Data) -> None:
        """The client has received this message."""
        self.unsent -= len(data)
        if self._is_full and self.unsent <= DRAIN_BYTES:
            self._is_full = False
            self._loop.call_soon(self._drained)

    def _drained(self) -> None:
        if self.code is None:
            self._call(lambda handler: handler.drained())

    def _call(self, action: Callable[[ConnectionHandler], None]) -> None:
        """A handler that raises loses its connection and nothing else."""
        if self.handler is None:
            return
        try:
            action(self.handler)
        except Exception as error:
            self._loop.call_exception_handler({"message": "an in-process connection failed", "exception": error})
            self.close(FAILED)


class LocalChannel:
    """The client's end (`Channel`)."""

    def __init__(self, socket: LocalSocket) -> None:
        self.subprotocol: Subprotocol = MSGPACK
        self._socket = socket

    async def receive(self) -> Data:
        socket = self._socket
        while not socket.inbox:
            if socket.code is not None:
                raise ChannelClosed(socket.code)
            await self._wait()
        data = socket.inbox.popleft()
        socket.taken(data)
        return data

    def send_at_once(self, data: Data) -> bool:
        socket = self._socket
        may_send = socket.code is None and len(socket.outgoing) < QUEUED_MAX
        if may_send:
            socket.outgoing.append(data)
            socket.schedule()
        return may_send

    async def send(self, data: Data) -> None:
        socket = self._socket
        while socket.code is None and len(socket.outgoing) >= QUEUED_MAX:
            await self._wait()
        if socket.code is not None:
            raise ChannelClosed(socket.code)
        socket.outgoing.append(data)
        socket.schedule()

    async def close(self) -> None:
        self._socket.inbox.clear()
        self._socket.close(NORMAL)

    async def _wait(self) -> None:
        self._socket.changed.clear()
        await self._socket.changed.wait()
