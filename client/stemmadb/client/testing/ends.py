"""The two ends of a connection: the client's channel, and the socket that the service writes to."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final, Protocol

from stemmadb.client.testing.pipe import CUT, End, HoldReason, Item, SimulatedPipe
from stemmadb.protocol.wire.channel import ChannelClosed
from stemmadb.protocol.wire.codec.msgpack_codec import Data
from stemmadb.protocol.wire.version import Subprotocol
from stemmadb.server.service.base.transport import DRAIN_BYTES, ConnectionHandler, RawWriter, Write

NORMAL: Final = 1000
FAILED: Final = 1011
TOO_BIG: Final = 1009
SYSTEM_BYTES: Final = 64 * 1024
"""What the buffers of the two systems take: beyond it a sender sees that the other is slow."""
CLOSE_SECONDS: Final = 2.0
"""How long a connection that the server closes may take, as with the real listener."""


class Opposite(Protocol):
    """The connection, as its ends see it."""

    up: SimulatedPipe
    down: SimulatedPipe

    @property
    def is_carrying(self) -> bool:
        """Whether anything is on its way to the client."""
        ...

    def server_sent(self, data: Data) -> None:
        """The server sends this, now."""
        ...

    def client_gone(self, *, was_carrying: bool) -> None:
        """The client's system will tell the server's that nobody is there."""
        ...

    def over(self) -> None:
        """One of the ends is."""
        ...


class ClientEnd:
    """A `Channel`."""

    def __init__(self, subprotocol: Subprotocol, link: Opposite) -> None:
        self.subprotocol: Subprotocol = subprotocol
        self._link = link
        self._inbox: deque[Data] = deque()
        self._closed: int | None = None
        self._woken = asyncio.Event()
        self.unread = 0
        """Bytes that arrived and were not received."""
        self.on_taken: Callable[[], None] = _nothing

    async def receive(self) -> Data:
        while not self._inbox:
            if self._closed is not None:
                raise ChannelClosed(self._closed)
            await self._wait()
        data = self._inbox.popleft()
        self.unread -= len(data)
        self.on_taken()
        return data

    def send_at_once(self, data: Data) -> bool:
        may_send = self._closed is None and self._link.up.bytes <= SYSTEM_BYTES
        if may_send:
            self._link.up.put(data)
        return may_send

    async def send(self, data: Data) -> None:
        while self._closed is None and self._link.up.bytes > SYSTEM_BYTES:
            await self._wait()
        if self._closed is not None:
            raise ChannelClosed(self._closed)
        self._link.up.put(data)

    async def close(self) -> None:
        if self._closed is None:
            self._closed = NORMAL
            was_carrying = self._link.is_carrying
            self._link.down.shut()
            self._link.up.put(End(NORMAL))
            self._link.client_gone(was_carrying=was_carrying)
        self._inbox.clear()
        self.wake()
        self._link.over()

    @property
    def is_over(self) -> bool:
        return self._closed is not None

    async def _wait(self) -> None:
        self._woken.clear()
        await self._woken.wait()

    def wake(self) -> None:
        """Something has come, or gone."""
        self._woken.set()

    def arrived(self, item: Item) -> None:
        """What comes out of the pipe. A library answers a close frame by itself."""
        if isinstance(item, End):
            self._closed = item.code
            self._link.up.put(item)
            self._link.over()
        else:
            self._inbox.append(item)
            self.unread += len(item)
        self.wake()


class ServerEnd:
    """A `Socket` that calls its `ConnectionHandler` as the real listener does: `received` until closing begins, then
    only `lost`, once and last. A handler that raises loses its connection and nothing else."""

    def __init__(self, link: Opposite, client: ClientEnd, *, message_bytes_max: int, opening_bytes_max: int) -> None:
        self._loop = asyncio.get_running_loop()
        self._link = link
        self._client = client
        self._bytes_max = message_bytes_max
        self._early_left: int | None = opening_bytes_max
        self._handler: ConnectionHandler | None = None
        self.is_over = False
        self._is_closing = self._is_full = self._is_paused = self._is_reset = False
        self._timer: asyncio.TimerHandle | None = None
        self._raw_writer = RawWriter()
        client.on_taken = self._taken

    # ------------------------------------------------------------ for the service

    @property
    def unsent(self) -> int:
        return max(0, self._link.down.bytes + self._client.unread - SYSTEM_BYTES)

    def send(self, data: Data) -> None:
        if self._is_reset:
            self._loop.call_soon(self.gone)
        elif not self._is_closing:
            self._link.server_sent(data)
            self._link.down.put(data)
            if not self._is_full and self.unsent > DRAIN_BYTES:
                self._is_full = True
                self._raw_writer.end()

    def framed(self, data: Data) -> bytes:
        return b"t" + data.encode() if isinstance(data, str) else b"b" + data

    def raw_writer(self, end: Callable[[], None]) -> Write | None:
        if self._is_full or self._is_closing:
            return None
        self._raw_writer.begin(end)
        return self._write

    def _write(self, frame: bytes) -> None:
        kind, data = frame[:1], frame[1:]
        self.send(data.decode() if kind == b"t" else data)

    def release_raw_writer(self) -> None:
        self._raw_writer.release()

    def repeated(self, count: int, size: int) -> None:
        """Nobody asks for it here."""

    def trust(self) -> None:
        self._early_left = None

    def pause(self) -> None:
        if not self._is_closing:
            self._is_paused = True
            self._link.up.hold(HoldReason.PAUSED)

    def resume(self) -> None:
        self._is_paused = False
        self._link.up.release(HoldReason.PAUSED)

    def close(self, code: int) -> None:
        if not self._is_closing:
            self._begin_closing()
            self._link.down.put(End(code))
            self._timer = self._loop.call_later(CLOSE_SECONDS, self.gone)

    # ------------------------------------------------------------ for the connection

    def welcome(self, greet: Callable[[], ConnectionHandler]) -> None:
        """`greet` is the service's welcome, which may already send and close."""
        try:
            self._handler = greet()
        except Exception as error:
            self._failed("a connection could not be welcomed", error)

    def arrived(self, item: Item) -> None:
        self._client.wake()  # there is room for another
        if isinstance(item, End):
            self.gone()
        elif not self._is_closing and not self._is_too_much(len(item)):
            assert self._handler is not None, "one that was not welcomed is closing"
            try:
                self._handler.received(item)
            except Exception as error:
                self._failed("a message could not be handled", error)

    def _is_too_much(self, size: int) -> bool:
        if size > self._bytes_max:
            self.close(TOO_BIG)
            return True
        if self._early_left is None:
            return False
        self._early_left -= size
        if self._early_left < 0:
            self.gone()
        return self._early_left < 0

    def _taken(self) -> None:
        if self._is_full and self.unsent <= DRAIN_BYTES:
            self._is_full = False
            self._loop.call_soon(self._drained)

    def _drained(self) -> None:
        if self._is_closing or self._handler is None:
            return
        try:
            self._handler.drained()
        except Exception as error:
            self._failed("a drained connection could not be used", error)

    def _failed(self, what: str, error: Exception) -> None:
        self._loop.call_exception_handler({"message": what, "exception": error})
        self.close(FAILED)

    def _begin_closing(self) -> None:
        self.resume()  # the peer's answer has to be read
        self._is_closing = True
        self._raw_writer.end()

    def reset(self, *, was_writing: bool) -> None:
        """The system knows that the peer is gone; who does not read learns it when it writes."""
        self._is_reset = True
        if was_writing and self._is_paused:
            self.gone()

    def gone(self) -> None:
        """The connection is over for the server, whichever side ended it."""
        if self.is_over:
            return
        self._begin_closing()
        handler = self.die()
        if handler is not None:
            handler.lost()
        self._link.down.put(End(CUT))  # for a client that was not told why
        self._link.over()

    def die(self) -> ConnectionHandler | None:
        """The process is no more: what it sends is not heard. Gives the handler that was not told of the end."""
        self.is_over = self._is_closing = True
        if self._timer is not None:
            self._timer.cancel()
        handler, self._handler = self._handler, None
        return handler


def _nothing() -> None:
    """Nobody asks."""
