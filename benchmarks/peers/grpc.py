"""gRPC over HTTP/2 with as little work as the formats allow.

Headers are sent as literals and never read: a call that failed has no message, and a run that misses one stalls and
says so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from benchmarks.peers.process import HOST
from benchmarks.peers.wire import Wire, nothing

_DATA, _HEADERS, _RESET, _SETTINGS, _PING, _GOAWAY, _WINDOW = 0, 1, 3, 4, 6, 7, 8
_ACK, _END_HEADERS, _END_STREAM = 0x1, 0x4, 0x1
_WINDOW_MAX = (1 << 31) - 1
_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"


class Grpc(Wire):
    """One HTTP/2 connection; whole gRPC messages go to `took`."""

    def __init__(self, port: int) -> None:
        super().__init__(port)
        self.took: Callable[[bytes], None] = nothing
        self.stream = b""
        """The stream of the message that is taken just now."""
        self._authority = f"{HOST}:{port}".encode()
        self._stream = -1
        wide = _frame(_SETTINGS, 0, 0, b"\x00\x04" + _WINDOW_MAX.to_bytes(4, "big"))
        more = _frame(_WINDOW, 0, 0, (_WINDOW_MAX - 65_535).to_bytes(4, "big"))
        self.sock.sendall(_PREFACE + wide + more)

    def headers(self, path: bytes) -> bytes:
        """The header block of a call: method and scheme from the static table, the rest as literals."""
        return (
            (b"\x83\x86" + b"\x04" + _text(path) + b"\x01" + _text(self._authority))
            + (b"\x0f\x10" + _text(b"application/grpc"))
            + (b"\x00" + _text(b"te") + _text(b"trailers"))
        )

    def call(self, headers: bytes, message: bytes, *, ends: bool = True) -> int:
        """Opens a stream of its own for the call, and gives its number."""
        self._stream += 2
        data = b"\x00" + len(message).to_bytes(4, "big") + message
        head = _frame(_HEADERS, _END_HEADERS, self._stream, headers)
        self.sock.sendall(head + _frame(_DATA, _END_STREAM if ends else 0, self._stream, data))
        return self._stream

    def _split(self, data: bytes) -> int:
        at, end = 0, len(data)
        while end - at >= 9:
            size = int.from_bytes(data[at : at + 3], "big")
            if at + 9 + size > end:
                break
            kind, flags, self.stream, body = (
                data[at + 3],
                data[at + 4],
                data[at + 5 : at + 9],
                data[at + 9 : at + 9 + size],
            )
            at += 9 + size
            self._take(kind, flags, body)
        return at

    def _take(self, kind: int, flags: int, body: bytes) -> None:
        if kind == _DATA:
            if body:
                assert int.from_bytes(body[1:5], "big") == len(body) - 5, "a small message is one frame"
                self.took(body[5:])
        elif kind == _PING and not flags & _ACK:
            self.sock.sendall(_frame(_PING, _ACK, 0, body))
        elif kind == _SETTINGS and not flags & _ACK:
            self.sock.sendall(_frame(_SETTINGS, _ACK, 0, b""))
        elif kind in (_RESET, _GOAWAY):
            raise ConnectionError(f"the peer ended a call: {kind} {body!r}")


def field(number: int, value: bytes) -> bytes:
    """A field of a protobuf message that holds bytes or a message."""
    return bytes((number << 3 | 2,)) + varint(len(value)) + value


def integer(number: int, value: int) -> bytes:
    """A field that holds an integer."""
    return bytes((number << 3,)) + varint(value)


def varint(value: int) -> bytes:
    made = bytearray()
    while value > 0x7F:
        made.append(value & 0x7F | 0x80)
        value >>= 7
    made.append(value)
    return bytes(made)


def fields(message: bytes) -> Iterator[tuple[int, int, int]]:
    """Number, value and end of each field; the value of bytes is their length. These messages have no other kinds."""
    at = 0
    while at < len(message):
        tag, at = _read_varint(message, at)
        value, at = _read_varint(message, at)
        if tag & 7 == 2:
            at += value
        yield tag >> 3, value, at


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at


def _text(value: bytes) -> bytes:
    assert len(value) < 127
    return bytes((len(value),)) + value


def _frame(kind: int, flags: int, stream: int, body: bytes) -> bytes:
    return len(body).to_bytes(3, "big") + bytes((kind, flags)) + stream.to_bytes(4, "big") + body
