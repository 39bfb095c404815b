"""A WebSocket client for load: bytes in, bytes out, and as little between as the format allows."""

from __future__ import annotations

import socket
import ssl
import struct
from collections.abc import Callable
from typing import ClassVar

PATIENCE_SECONDS = 30.0
_READ_BYTES = 1 << 16
"""More is a mapping of its own for each read, which costs the load seven times the read."""
_TEXT, _BINARY, _CLOSE, _PING, _PONG = 0x81, 0x82, 0x88, 0x89, 0x8A
_NO_MASK = bytes(4)
"""A mask of zeros changes no byte, so that the server works as always and the load does not."""


class Gone(Exception):
    """The server closed the connection."""


class WebSocket:
    """One connection. First `recv` waits for messages one by one; later a loop gives them to `took`."""

    secure: ClassVar[ssl.SSLContext | None] = None
    """With TLS, for as long as a scenario sets it."""

    def __init__(self, port: int, target: str, subprotocol: str, *, receive_bytes: int | None = None) -> None:
        self.sock = socket.socket()
        if receive_bytes is not None:
            self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
        self.sock.settimeout(PATIENCE_SECONDS)
        self.sock.connect(("127.0.0.1", port))
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if self.secure is not None:
            self.sock = self.secure.wrap_socket(self.sock, server_hostname="localhost")
        self.took: Callable[[bytes], None] = self._keep
        self.received_bytes = 0
        self._kept: list[bytes] = []
        self._buffer = b""
        self._shake(port, target, subprotocol)

    def _shake(self, port: int, target: str, subprotocol: str) -> None:
        self.sock.sendall(upgrade(port, target, subprotocol))
        while b"\r\n\r\n" not in self._buffer:
            self._read()
        head, _, self._buffer = self._buffer.partition(b"\r\n\r\n")
        if not head.startswith(b"HTTP/1.1 101"):
            raise Gone(head.decode(errors="replace"))

    def _keep(self, message: bytes) -> None:
        self._kept.append(message)

    def _read(self) -> None:
        data = self.sock.recv(_READ_BYTES)
        if not data:
            raise Gone("the server closed the connection")
        while isinstance(self.sock, ssl.SSLSocket) and self.sock.pending():  # no poll tells of these bytes
            data += self.sock.recv(_READ_BYTES)
        self._buffer = self._buffer + data if self._buffer else data

    def send(self, payload: bytes) -> None:
        self.sock.sendall(frame(payload))

    def recv(self) -> bytes:
        """The next message; waits for it."""
        while not self._kept:
            self._split()
            if not self._kept:
                self._read()
        return self._kept.pop(0)

    def pull(self) -> None:
        self._read()
        self._split()

    def _split(self) -> None:
        """Gives on every whole message of the buffer."""
        data, at, end = self._buffer, 0, len(self._buffer)
        while end - at >= 2:
            kind, size, body = data[at], data[at + 1], at + 2
            if size == 126:
                size, body = (int.from_bytes(data[at + 2 : at + 4], "big") if end - at >= 4 else end), at + 4
            elif size == 127:
                size, body = (int.from_bytes(data[at + 2 : at + 10], "big") if end - at >= 10 else end), at + 10
            if body + size > end:
                break
            at = body + size
            self._buffer = data[at:]
            self._take(kind, data[body:at])

    def _take(self, kind: int, payload: bytes) -> None:
        if kind in (_BINARY, _TEXT):
            self.received_bytes += len(payload)
            self.took(payload)
        elif kind == _PING:
            self.sock.sendall(frame(payload, _PONG))
        elif kind == _CLOSE:
            raise Gone(f"the server closed the connection: {payload!r}")

    def close(self) -> None:
        self.sock.close()

    def leave(self) -> None:
        """Says goodbye first, as a client does that ends well."""
        self.sock.sendall(frame(struct.pack(">H", 1000), _CLOSE))
        self.sock.close()


def frame(payload: bytes, kind: int = _BINARY) -> bytes:
    size = len(payload)
    if size < 126:
        return bytes((kind, 0x80 | size)) + _NO_MASK + payload
    if size < 1 << 16:
        return struct.pack(">BBH", kind, 0x80 | 126, size) + _NO_MASK + payload
    return struct.pack(">BBQ", kind, 0x80 | 127, size) + _NO_MASK + payload


def upgrade(port: int, target: str, subprotocol: str) -> bytes:
    return (
        f"GET {target} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        f"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Version: 13\r\n"
        f"Sec-WebSocket-Protocol: {subprotocol}\r\n\r\n"
    ).encode()
