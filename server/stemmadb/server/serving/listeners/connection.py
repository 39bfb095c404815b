"""A WebSocket as the service knows it: the half of a connection that is the same over every library."""

from __future__ import annotations

import asyncio
import logging
import struct
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from stemmadb.protocol.errors import StemmaError
from stemmadb.protocol.wire.codec.msgpack_codec import Data
from stemmadb.server.service.base.transport import (
    DRAIN_BYTES,
    Arrival,
    ConnectionHandler,
    HandlerFactory,
    RawWriter,
    Write,
)
from stemmadb.server.serving.listeners.frame_bounds import FrameBounds
from stemmadb.server.serving.listeners.half_close import half_close
from stemmadb.server.serving.listeners.read_share import ReadShare

if TYPE_CHECKING:
    from stemmadb.server.serving.listeners.gate import Gate

FAILED: Final = 1011
OVERRUN: Final = 1008
AWAY: Final = 1001
LATE_BYTES_MAX: Final = 1024 * 1024
"""What a peer that broke a rule may still send until it takes the close frame; beyond it, it is aborted."""
FIN_TEXT: Final = 0x81
FIN_BINARY: Final = 0x82
_MIDDLE: Final = struct.Struct("!BBH").pack
_LONG: Final = struct.Struct("!BBQ").pack
_log: Final = logging.getLogger(__name__)


class Connection(ABC):
    """A `Socket` that calls its `ConnectionHandler`: `received` until closing begins, then `lost`, once and last.

    A handler that raises loses its connection and nothing else. What is sent while messages are being received is
    held and goes out in one write at the end.
    """

    def __init__(self, gate: Gate, transport: asyncio.Transport, address: str) -> None:
        self.address = address
        self.tallied = ""
        """Under which key its address is counted for all processes; the gate's."""
        self._gate = gate
        self._transport = transport
        self._is_single = gate.routing.ownership.is_single
        self._handler: ConnectionHandler | None = None
        self._closing = False
        self._paused = False
        self._share = ReadShare()
        self._waits_a_turn = False
        """Whether it has had its share of this turn of the loop."""
        self._rest = memoryview(b"")
        """What came with the handshake and was not handled yet."""
        self._is_unwelcome = False
        """Whether the peer broke a rule and is being closed."""
        self._late_left = LATE_BYTES_MAX
        self._frame_bounds = FrameBounds(gate.settings, self._now_ms())
        self._receiving = False
        self._clogged = False
        self._raw_writer = RawWriter()
        self._held: list[bytes] = []
        self._held_bytes = 0
        self._early_left: int | None = gate.settings.opening_bytes_max
        """Bytes that a peer may still send before it is authenticated; None afterwards."""
        self._heard = True
        self._quiet_since = 0.0
        self._asked_at: float | None = None
        # Plain transports pause above the high mark, those of TLS at it; both go on at the low mark.
        secure = transport.get_extra_info("ssl_object") is not None
        transport.set_write_buffer_limits(high=DRAIN_BYTES + secure, low=DRAIN_BYTES)

    # ---------------------------------------------------------------- what the library's half does

    @abstractmethod
    def _feed(self, data: bytes) -> None:
        """Bytes that came with the handshake."""

    @abstractmethod
    def _write_ping(self) -> None: ...

    @abstractmethod
    def _write_close(self, code: int) -> None:
        """The close frame, behind all that was sent, unless one was written before."""

    # ---------------------------------------------------------------- the socket, for the service

    @property
    def unsent(self) -> int:
        return self._held_bytes + self._transport.get_write_buffer_size()

    def trust(self) -> None:
        self._early_left = None
        self._frame_bounds.is_stranger = False

    def _now_ms(self) -> int:
        return int(self._gate.loop.time() * 1_000)

    def _too_much(self, nbytes: int) -> bool:
        """Whether an unauthenticated peer has sent more than it may; then the connection is aborted."""
        if self._early_left is None:
            return False
        self._early_left -= nbytes
        if self._early_left >= 0:
            return False
        self.abort()
        return True

    def send(self, data: Data) -> None:
        if self._closing or not (self._is_single or self._may_send()):
            return
        frame, size = framed(data)
        gate = self._gate
        gate.messages_out += 1
        gate.bytes_out += size
        if self._receiving:
            self._hold(frame)
        else:
            self._transport.write(frame)

    def framed(self, data: Data) -> bytes:
        return framed(data)[0]

    def raw_writer(self, end: Callable[[], None]) -> Write | None:
        if self._clogged or self._closing:
            return None
        self._raw_writer.begin(end)
        return self._transport.write if self._is_single else self._write_raw

    def _write_raw(self, frame: bytes) -> None:
        if self._may_send():
            self._transport.write(frame)

    def _may_send(self) -> bool:
        """False where another process may serve the space by now: the peer learns no more here and connects anew."""
        if self._gate.routing.ownership.is_alive():
            return True
        self._gate.loop.call_soon(self._end_unsure)
        return False

    def _end_unsure(self) -> None:
        """What is held back is dropped. The close frame says no more than that the server is away."""
        self._held, self._held_bytes = [], 0
        self.close(AWAY)

    def release_raw_writer(self) -> None:
        self._raw_writer.release()

    def repeated(self, count: int, size: int) -> None:
        self._gate.messages_out += count
        self._gate.bytes_out += count * size

    def pause_writing(self) -> None:
        """Of the transport: more than `DRAIN_BYTES` wait."""
        self._clogged = True
        self._raw_writer.end()

    def _hold(self, frame: bytes) -> None:
        self._held.append(frame)
        self._held_bytes += len(frame)
        # Never more than this: then it is the transport that knows whether the connection has drained.
        if self._held_bytes > DRAIN_BYTES:
            self._write_held()

    def _write_held(self) -> None:
        if self._held and (self._is_single or self._may_send()):
            frames, self._held, self._held_bytes = self._held, [], 0
            self._transport.write(b"".join(frames) if len(frames) > 1 else frames[0])

    def pause(self) -> None:
        if not self._closing:
            self._paused = True
            self._transport.pause_reading()

    def resume(self) -> None:
        if self._paused:
            self._paused = False
            self._heard = True  # what it said meanwhile could not be heard
            if not self._waits_a_turn:
                self._transport.resume_reading()

    def _end_read(self, nbytes: int) -> None:
        """A read was handled. If the peer has had its share, it is read from again in a later turn of the loop."""
        if self._is_unwelcome:
            self._late_left -= nbytes
            if self._late_left < 0:
                self.abort()
        if self._share.end_read(nbytes) and not self._waits_a_turn and not self._transport.is_closing():
            self._waits_a_turn = True
            self._transport.pause_reading()
            self._gate.wait_a_turn(self)

    def read_on(self) -> None:
        """Called by the gate, in a later turn."""
        self._waits_a_turn = False
        self._feed_rest()
        if not (self._waits_a_turn or self._paused or self._transport.is_closing()):
            self._transport.resume_reading()

    def _feed_rest(self) -> None:
        while self._rest and not self._waits_a_turn:
            size = self._share.size
            data, self._rest = self._rest[:size], self._rest[size:]
            self._feed(bytes(data))

    def close(self, code: int) -> None:
        if not self._closing:
            self._write_close(code)
            self._begin_closing()

    # ---------------------------------------------------------------- the connection handler

    def greet(self, handlers: HandlerFactory, arrival: Arrival, rest: bytes) -> None:
        """The handshake is done. `rest` are bytes that came with it; they are read after the greeting."""
        try:
            self._handler = handlers.welcome(self, arrival)
        except Exception:
            _log.exception("a connection could not be welcomed")
            self.close(FAILED)
        self._rest = memoryview(rest)
        self._feed_rest()

    def _deliver(self, data: Data, size: int) -> None:
        if self._closing:
            return
        assert self._handler is not None, "a connection without a handler is closing"
        self._gate.messages_in += 1
        self._gate.bytes_in += size
        try:
            self._handler.received(data)
        except Exception:
            self._failed("a message could not be handled")

    def _overrun(self, error: StemmaError) -> None:
        """The peer has passed a bound on frames: the handler says goodbye, and the connection is closed."""
        if self._closing:
            return
        self._is_unwelcome = True
        if self._handler is not None:
            try:
                self._handler.overrun(error)
            except Exception:
                self._failed("a goodbye could not be said")
        self.close(OVERRUN)

    def resume_writing(self) -> None:
        """Of the transport: `DRAIN_BYTES` or less wait again."""
        self._clogged = False
        if self._closing or self._handler is None:
            return
        try:
            self._handler.drained()
        except Exception:
            self._failed("a drained connection could not be used")

    def _failed(self, what: str) -> None:
        _log.exception(what)
        self.close(FAILED)

    # ---------------------------------------------------------------- the end

    def _begin_closing(self) -> None:
        """From now on nothing is sent or received, and the end comes in bounded time."""
        if not self._closing:
            self.resume()  # the peer's answer has to be read
            self._closing = True
            self._raw_writer.end()
            self._gate.hurry(self)

    def _hang_up(self) -> None:
        """Both sides have said that they close, or the peer broke the protocol: ends our direction."""
        self._begin_closing()
        half_close(self._transport)

    def eof_received(self) -> None:
        """Of the transport, which closes itself after this."""
        self._begin_closing()

    def connection_lost(self, _: Exception | None) -> None:
        """Of the transport: called once, whatever happened."""
        self._closing = True
        self._rest = memoryview(b"")
        self._raw_writer.end()
        self._gate.ended(self)
        handler, self._handler = self._handler, None
        if handler is not None:
            try:
                handler.lost()
            except Exception:
                _log.exception("the end of a connection could not be handled")

    def late(self) -> None:
        """It did not close in time."""
        self.abort()

    def abort(self) -> None:
        self._begin_closing()
        self._transport.abort()

    # ---------------------------------------------------------------- the heartbeat

    def beat(self, now: float, period: float) -> None:
        """Called several times in a period. While we do not read, silence says nothing; the system watches then."""
        if self._heard:
            self._heard = False
            self._quiet_since = now
            self._asked_at = None
        elif self._asked_at is None:
            if now - self._quiet_since >= period:
                self._asked_at = now
                self._write_ping()
        elif now - self._asked_at >= period and not self._paused:
            self.abort()


def framed(data: Data) -> tuple[bytes, int]:
    """A message as it goes over the wire, and its size without what the wire adds."""
    first = FIN_BINARY
    if isinstance(data, str):
        data = data.encode()
        first = FIN_TEXT
    size = len(data)
    return header(first, size) + data, size


def header(first: int, length: int) -> bytes:
    """Of a frame from a server, which masks nothing (RFC 6455, 5.2)."""
    if length < 126:
        return bytes((first, length))
    if length < 1 << 16:
        return _MIDDLE(first, 126, length)
    return _LONG(first, 127, length)
