"""A WebSocket as the service knows it: the half of a connection that is the same over every library."""

from __future__ import annotations

import asyncio
import logging
import struct
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from stemmadb.protocol.wire.codec import Data
from stemmadb.server.service.sockets import DRAIN_BYTES, Arrival, Host, Loan, Visitor, Write
from stemmadb.server.serving.front import half_close

if TYPE_CHECKING:
    from stemmadb.server.serving.gate import Gate

FAILED: Final = 1011
FIN_TEXT: Final = 0x81
FIN_BINARY: Final = 0x82
_MIDDLE: Final = struct.Struct("!BBH").pack
_LONG: Final = struct.Struct("!BBQ").pack
_log: Final = logging.getLogger(__name__)


class Connection(ABC):
    """A `Socket`, and what calls its `Visitor`: `received` until closing begins, then only `lost`, once and last.

    A visitor that raises loses its connection and nothing else. What is sent while messages are being received is
    held and goes out in one write at the end.
    """

    def __init__(self, gate: Gate, transport: asyncio.Transport, address: str) -> None:
        self.address = address
        self._gate = gate
        self._transport = transport
        self._visitor: Visitor | None = None
        self._closing = False
        self._paused = False
        self._receiving = False
        self._clogged = False
        self._loan = Loan()
        self._held: list[bytes] = []
        self._held_bytes = 0
        self._early_left: int | None = gate.settings.opening_bytes_max
        """What may still come from one who is not known; None once it is."""
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

    def _too_much(self, nbytes: int) -> bool:
        """Whether a stranger has sent more than an opening may have; then it is cut off."""
        if self._early_left is None:
            return False
        self._early_left -= nbytes
        if self._early_left >= 0:
            return False
        self.cut()
        return True

    def send(self, data: Data) -> None:
        if self._closing:
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

    def lend(self, end: Callable[[], None]) -> Write | None:
        if self._clogged or self._closing:
            return None
        self._loan.begin(end)
        return self._transport.write

    def give_back(self) -> None:
        self._loan.give_back()

    def repeated(self, count: int, size: int) -> None:
        self._gate.messages_out += count
        self._gate.bytes_out += count * size

    def pause_writing(self) -> None:
        """Of the transport: more than `DRAIN_BYTES` wait."""
        self._clogged = True
        self._loan.end()

    def _hold(self, frame: bytes) -> None:
        self._held.append(frame)
        self._held_bytes += len(frame)
        # Never more than this: then it is the transport that knows whether the connection has drained.
        if self._held_bytes > DRAIN_BYTES:
            self._write_held()

    def _write_held(self) -> None:
        if self._held:
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
            self._transport.resume_reading()

    def close(self, code: int) -> None:
        if not self._closing:
            self._write_close(code)
            self._begin_closing()

    # ---------------------------------------------------------------- the visitor

    def greet(self, host: Host, arrival: Arrival, rest: bytes) -> None:
        """The handshake is done. `rest` came with it and is read only after the welcome."""
        try:
            self._visitor = host.welcome(self, arrival)
        except Exception:
            _log.exception("a connection could not be welcomed")
            self.close(FAILED)
        if rest:
            self._feed(rest)

    def _deliver(self, data: Data, size: int) -> None:
        if self._closing:
            return
        assert self._visitor is not None, "one that was not welcomed is closing"
        self._gate.messages_in += 1
        self._gate.bytes_in += size
        try:
            self._visitor.received(data)
        except Exception:
            self._failed("a message could not be handled")

    def resume_writing(self) -> None:
        """Of the transport: `DRAIN_BYTES` or less wait again."""
        self._clogged = False
        if self._closing or self._visitor is None:
            return
        try:
            self._visitor.drained()
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
            self._loan.end()
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
        self._loan.end()
        self._gate.ended(self)
        visitor, self._visitor = self._visitor, None
        if visitor is not None:
            try:
                visitor.lost()
            except Exception:
                _log.exception("the end of a connection could not be handled")

    def cut(self) -> None:
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
            self.cut()


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
