"""The listener on the `websockets` library, without its I/O: plain Python, no task per connection.

The library reads frames and keeps the rules of the protocol. Messages are framed here: without extensions a frame is
a header and the data.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from websockets.exceptions import PayloadTooBig
from websockets.frames import Frame, Opcode
from websockets.protocol import State
from websockets.server import ServerProtocol

from stemmadb.protocol.errors import StemmaError
from stemmadb.server.service.base.transport import DRAIN_BYTES
from stemmadb.server.serving.listeners.connection import Connection
from stemmadb.server.serving.listeners.frame_bounds import too_large
from stemmadb.server.serving.listeners.gate import Gate
from stemmadb.server.serving.listeners.listener import ListenerSettings

READ_BYTES: Final = 64 * 1024
_FIN_PONG: Final = 0x8A
_INVALID_TEXT: Final = 1007

_library_log: Final = logging.getLogger("stemmadb.websockets")
_library_log.setLevel(logging.WARNING)  # it logs every connection


class WebsocketsListener(Gate):
    """A `Listener`: runs everywhere, needs no compiled code."""

    def __init__(self, settings: ListenerSettings) -> None:
        super().__init__(settings)
        # One for all connections: what was read is taken out before anything else is read.
        self._buffer = memoryview(bytearray(READ_BYTES))

    def connect(self, transport: asyncio.Transport, address: str) -> Connection:
        connection = _Connection(self, transport, address, self._buffer)
        transport.set_protocol(connection)
        return connection


class _Connection(Connection, asyncio.BufferedProtocol):
    def __init__(self, gate: Gate, transport: asyncio.Transport, address: str, buffer: memoryview) -> None:
        super().__init__(gate, transport, address)
        self._buffer = buffer
        self._rules = ServerProtocol(state=State.OPEN, max_size=gate.settings.received_bytes_max, logger=_library_log)
        self._parts: bytearray | None = None
        self._parts_are_text = False

    # ---------------------------------------------------------------- sending

    def _write_ruled(self) -> None:
        """What the rules of the protocol want sent: pongs, the close frame, the end of our direction."""
        writes = self._rules.data_to_send()
        if not writes:
            return
        if self._transport.get_write_buffer_size() > DRAIN_BYTES:
            # A peer that pings and does not read would fill our memory; a later pong answers earlier pings.
            writes = [write for write in writes if write[:1] != bytes((_FIN_PONG,))]
        self._transport.write(b"".join(writes))
        if b"" in writes:
            self._hang_up()

    def _write_ping(self) -> None:
        self._rules.send_ping(b"")
        self._write_ruled()

    def _write_close(self, code: int) -> None:
        if self._rules.state is State.OPEN:
            self._rules.send_close(code)
            if not self._receiving:
                self._write_ruled()

    # ---------------------------------------------------------------- receiving

    def get_buffer(self, _: int) -> memoryview:
        return self._buffer[: self._share.size]

    def buffer_updated(self, nbytes: int) -> None:
        self._feed(bytes(self._buffer[:nbytes]))

    def _feed(self, data: bytes) -> None:
        self._heard = True
        if self._too_much(len(data)):
            return
        self._rules.receive_data(data)
        self._receiving = True
        for event in self._rules.events_received():
            assert isinstance(event, Frame), "the handshake is over"
            self._take(event)
        if isinstance(self._rules.parser_exc, PayloadTooBig):  # the close frame is not written yet
            self._overrun(too_large(self._gate.settings, self._gate.settings.received_bytes_max + 1))
        self._receiving = False
        self._write_held()
        self._write_ruled()
        self._end_read(len(data))

    def _take(self, frame: Frame) -> None:
        """One frame; that fragments come in order is checked, and so is the size of what they will be joined to."""
        self._share.frames += 1
        if self._closing or frame.opcode is Opcode.CLOSE:
            return
        if (over := self._over(frame)) is not None:
            self._overrun(over)
        elif frame.opcode in (Opcode.TEXT, Opcode.BINARY):
            if frame.fin:
                self._message(bytes(frame.data), text=frame.opcode is Opcode.TEXT)
            else:
                self._parts = bytearray(frame.data)
                self._parts_are_text = frame.opcode is Opcode.TEXT
        elif frame.opcode is Opcode.CONT:
            assert self._parts is not None, "the library refuses it otherwise"
            self._parts += frame.data
            if frame.fin:
                data, self._parts = bytes(self._parts), None
                self._message(data, text=self._parts_are_text)

    def _over(self, frame: Frame) -> StemmaError | None:
        bounds = self._frame_bounds
        if bounds.is_stranger and (over := bounds.frame_of_stranger()) is not None:
            return over
        if frame.opcode in (Opcode.PING, Opcode.PONG):
            return bounds.control_frame(self._now_ms())
        if frame.opcode is Opcode.CONT or not frame.fin:
            return bounds.fragment(len(frame.data), self._now_ms(), is_last=frame.fin)
        return None

    def _message(self, data: bytes, *, text: bool) -> None:
        if not text:
            self._deliver(data, len(data))
            return
        try:
            decoded = data.decode()
        except UnicodeDecodeError:
            self.close(_INVALID_TEXT)
            return
        self._deliver(decoded, len(data))

    def eof_received(self) -> None:
        self._rules.receive_eof()
        self._rules.data_to_send()  # nothing can be said any more
        super().eof_received()
