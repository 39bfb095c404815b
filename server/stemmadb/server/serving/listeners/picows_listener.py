"""The listener on `picows`, which reads and writes frames in compiled code: the same promises for less work.

picows brings a whole server; only its frames are used. The handshake is ours, because that of picows takes no HEAD,
no HTTP/1.0, no `Connection: keep-alive, Upgrade` (which Firefox sends), and has no bounds on connections. So each
connection shows picows a plain handshake of its own and throws the answer away.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable, Iterable
from typing import Final, Protocol

from picows import (
    WSAutoPingStrategy,
    WSCloseCode,
    WSFrame,
    WSListener,
    WSMsgType,
    WSProtocolError,
    WSTransport,
    WSUpgradeRequest,
)
from picows.picows import WSProtocol  # type: ignore[attr-defined]  # compiled, and not in its stubs

from stemmadb.server.service.base.transport import DRAIN_BYTES
from stemmadb.server.serving.listeners.connection import Connection
from stemmadb.server.serving.listeners.frame_bounds import too_large
from stemmadb.server.serving.listeners.gate import Gate
from stemmadb.server.serving.listeners.read_share import READ_BYTES_MAX

BUFFER_BYTES: Final = 4 * 1024
"""What a connection reads into; it grows with what comes."""
BUFFER_KEPT_MAX: Final = 128 * 1024
"""A buffer that has grown beyond this is given back as soon as it is empty; picows would keep it."""

_HANDSHAKE: Final = (
    b"GET / HTTP/1.1\r\nUpgrade: websocket\r\nConnection: upgrade\r\nSec-WebSocket-Version: 13\r\n"
    b"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
)
_library_log: Final = logging.Logger("picows", logging.CRITICAL)  # it logs every protocol error of a peer
_TEXT: Final = WSMsgType.TEXT
_BINARY: Final = WSMsgType.BINARY
_CONTINUATION: Final = WSMsgType.CONTINUATION
_CLOSE: Final = WSMsgType.CLOSE
_PING: Final = WSMsgType.PING
_DROPPED: Final = memoryview(bytearray(READ_BYTES_MAX))
"""Takes what is read and not looked at."""
_FIN_CLOSE: Final = 0x88
_TOO_BIG: Final = (1009).to_bytes(2, "big")


class PicowsListener(Gate):
    """A `Listener`: the faster one."""

    def connect(self, transport: asyncio.Transport, address: str) -> Connection:
        connection = _Connection(self, transport, address)
        transport.set_protocol(connection)
        return connection


class _Frames(Protocol):
    """What is used of picows' protocol."""

    transport: WSTransport

    def connection_made(self, transport: object) -> None: ...
    def get_buffer(self, size_hint: int) -> memoryview: ...
    def buffer_updated(self, nbytes: int) -> None: ...
    def connection_lost(self, exc: Exception | None) -> None: ...


class _RelayedSocket:
    """A Unix socket that another process relays through: it has none of the options of TCP that picows sets."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def fileno(self) -> int:
        return self._descriptor

    def setsockopt(self, level: int, option: int, value: int) -> None:
        """There is nothing to set."""

    def getsockopt(self, level: int, option: int) -> int:  # noqa: ARG002
        return 0


class _Transport:
    """The transport as picows sees it: it writes frames, but neither the handshake nor the end is its business."""

    def __init__(
        self, transport: asyncio.Transport, given_up: Callable[[], None], write: Callable[[bytes], None]
    ) -> None:
        self._write = write
        self.close = given_up  # picows calls it soon after any protocol error of the peer
        self._extra_info = transport.get_extra_info
        self.get_write_buffer_size = transport.get_write_buffer_size
        self.write = write  # picows takes it now, for its frames

    def get_extra_info(self, name: str) -> object:
        """Says that it is TLS: otherwise picows writes straight to the socket, past `write`."""
        if name == "ssl_object":
            return True
        found = self._extra_info(name)
        return _RelayedSocket(found.fileno()) if name == "socket" and found.family == socket.AF_UNIX else found

    def writelines(self, parts: Iterable[bytes]) -> None:
        """Copies: picows uses the memory of a header again, while asyncio may keep it (since Python 3.12)."""
        self._write(b"".join(parts))

    def swallow(self, _: bytes) -> None:
        """The answer to the handshake."""


class _Connection(Connection, WSListener, asyncio.BufferedProtocol):
    def __init__(self, gate: Gate, transport: asyncio.Transport, address: str) -> None:
        super().__init__(gate, transport, address)
        self._bytes_max = gate.settings.received_bytes_max
        self._parts: bytearray | None = None
        self._parts_are_text = False
        self._unread = 0
        self._says_why = False
        self._deaf = self._peer_closed = False
        self._frames: _Frames = self._new_frames()
        self._ws = self._frames.transport

    def _new_frames(self) -> _Frames:
        frames: _Frames = WSProtocol(
            None, None, False, self._admit, _library_log, True, None,  # no host, no path, a server, no timeout
            False, 1.0, 1.0, WSAutoPingStrategy.PING_WHEN_IDLE, False,  # neither pings nor pongs by itself
            self._bytes_max, None, BUFFER_BYTES,
        )  # fmt: skip
        transport = _Transport(self._transport, self._give_up, self._write_frame)
        frames.connection_made(transport)
        transport.write = transport.swallow
        _pour(frames, _HANDSHAKE)
        assert frames.transport.response is not None, "picows refused a plain handshake"
        return frames

    def _admit(self, _: WSUpgradeRequest) -> WSListener:
        return self

    # ---------------------------------------------------------------- sending

    def _write_ping(self) -> None:
        self._ws.send_ping()

    def _write_close(self, code: int) -> None:
        self._says_why = True  # whoever closes has said why
        self._write_held()
        self._ws.send_close(code)  # type: ignore[arg-type]  # any code, also those without a name

    def _write_frame(self, data: bytes) -> None:
        """A control frame of picows. Before it closes for the size of a message, the handler says why."""
        if data[0] == _FIN_CLOSE and data[2:4] == _TOO_BIG and not (self._closing or self._says_why):
            self._says_why = True
            self._overrun(too_large(self._gate.settings, self._bytes_max + 1))
            self._peer_closed = True  # picows reads no further
            return
        self._transport.write(bytes(data))

    # ---------------------------------------------------------------- receiving, called by asyncio

    def get_buffer(self, sizehint: int) -> memoryview:
        if self._deaf:
            return _DROPPED[: self._share.size]
        free = self._frames.get_buffer(sizehint)
        if len(free) > BUFFER_KEPT_MAX and not self._unread and not self._closing:
            self._frames.connection_lost(None)  # lets go of its memory at once
            self._frames = self._new_frames()
            self._ws = self._frames.transport
            free = self._frames.get_buffer(sizehint)
        return free[: self._share.size]

    def buffer_updated(self, nbytes: int) -> None:
        self._heard = True
        if self._deaf:
            self._end_read(nbytes)
            return
        if self._early_left is not None and self._too_much(nbytes):
            return  # the same memory is filled again
        self._unread = nbytes  # until a frame says what is left behind it
        self._receiving = True
        self._frames.buffer_updated(nbytes)
        self._receiving = False
        self._end_read(nbytes)
        if self._peer_closed or (self._ws.is_close_frame_sent and not self._closing):
            self._give_up()
        elif self._held:
            self._write_held()

    def _give_up(self) -> None:
        """Nothing more is read: the peer has closed or broken the protocol, and the close frame is written."""
        if not self._deaf:
            self._deaf = self._is_unwelcome = True
            self._held.clear()  # after a protocol error nothing may follow the close frame
            self._held_bytes = 0
            self._hang_up()

    def _feed(self, data: bytes) -> None:
        while data:
            free = self.get_buffer(-1)
            taken = min(len(free), len(data))
            free[:taken] = data[:taken]
            self.buffer_updated(taken)
            data = data[taken:]

    def connection_lost(self, exc: Exception | None) -> None:
        self._deaf = True
        self._frames.connection_lost(exc)
        super().connection_lost(exc)
        # They refer to each other: the memory of what was being received would wait for the garbage collector.
        del self._frames, self._ws
        self._parts = None

    # ---------------------------------------------------------------- frames, called by picows

    def on_ws_frame(self, _: WSTransport, frame: WSFrame) -> None:
        self._unread = frame.tail_size
        if frame.rsv1 or frame.rsv2 or frame.rsv3:
            raise WSProtocolError(WSCloseCode.PROTOCOL_ERROR, "reserved bits")
        kind = frame.msg_type
        self._share.frames += 1
        if self._closing and kind != _CLOSE:
            return
        if self._frame_bounds.is_stranger and (over := self._frame_bounds.frame_of_stranger()) is not None:
            self._overrun(over)
        elif kind == _BINARY and frame.fin and self._parts is None:
            data = frame.get_payload_as_bytes()
            self._deliver(data, len(data))
        elif kind in (_TEXT, _BINARY, _CONTINUATION):
            self._take(kind, frame)
        elif kind == _CLOSE:
            self._closed_by_peer(frame)
        elif (over := self._frame_bounds.control_frame(self._now_ms())) is not None:
            self._overrun(over)
        elif kind == _PING and self.unsent <= DRAIN_BYTES:
            # A peer that pings and does not read would fill our memory; a later pong answers earlier pings.
            self._ws.send_pong(frame.get_payload_as_bytes())

    def _take(self, kind: WSMsgType, frame: WSFrame) -> None:
        """A fragment, or a whole text."""
        if (kind == _CONTINUATION) is (self._parts is None):
            raise WSProtocolError(WSCloseCode.PROTOCOL_ERROR, "fragments out of order")
        if not (frame.fin and self._parts is None):
            over = self._frame_bounds.fragment(frame.payload_size, self._now_ms(), is_last=bool(frame.fin))
            if over is not None:
                self._overrun(over)
                return
        if self._parts is None:
            self._parts = bytearray()
            self._parts_are_text = kind == _TEXT
        if len(self._parts) + frame.payload_size > self._bytes_max:
            self._overrun(too_large(self._gate.settings, len(self._parts) + frame.payload_size))
            return
        self._parts += frame.get_payload_as_memoryview()
        if frame.fin:
            parts, self._parts = self._parts, None
            self._message(parts)

    def _message(self, parts: bytearray) -> None:
        if not self._parts_are_text:
            self._deliver(bytes(parts), len(parts))
            return
        try:
            text = parts.decode()
        except UnicodeDecodeError:
            raise WSProtocolError(WSCloseCode.INVALID_TEXT, "text that is not UTF-8") from None
        self._deliver(text, len(parts))

    def _closed_by_peer(self, frame: WSFrame) -> None:
        """Answers, unless this is the answer; the end comes when all that was read is dealt with."""
        self.close(int(frame.get_close_code()) or 1000)  # type: ignore[call-overload]
        self._peer_closed = True


def _pour(frames: _Frames, data: bytes) -> None:
    frames.get_buffer(-1)[: len(data)] = data
    frames.buffer_updated(len(data))
