"""PostgreSQL's protocol by hand: prepared statements with binary values, and notifications."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence

from benchmarks.peers.wire import Wire, nothing

USER, DATABASE = "bench", "postgres"
_PROTOCOL = 196_608
_ROW, _READY, _ERROR, _NOTIFICATION = b"DZEA"
_SYNC = b"S\x00\x00\x00\x04"
_EXECUTE = b"E" + struct.pack(">I", 9) + b"\x00" + bytes(4)
_BINARY = b"\x00\x01\x00\x01"
"""One format code for all: binary."""


class PostgresWire(Wire):
    """One connection. `took` is called when the server is ready for more, with the first column of the last row."""

    def __init__(self, port: int, *, user: str = USER, database: str = DATABASE) -> None:
        super().__init__(port)
        self.took: Callable[[bytes | None], None] = self._keep
        self.notified: Callable[[], None] = nothing
        self._first: bytes | None = None
        self._is_ready = False
        parameters = f"user\0{user}\0database\0{database}\0\0".encode()
        self._sent_until_ready(struct.pack(">II", 8 + len(parameters), _PROTOCOL) + parameters)

    def query(self, text: str) -> None:
        """Runs statements without parameters, and waits for their end."""
        self._sent_until_ready(_message(b"Q", text.encode() + b"\0"))

    def prepare(self, text: str) -> None:
        """Prepares the one statement of this connection."""
        self._sent_until_ready(_message(b"P", b"\0" + text.encode() + b"\0\0\0") + _SYNC)

    def execute(self, *values: bytes) -> None:
        self.sock.sendall(bound(values) + _EXECUTE + _SYNC)

    def execute_all(self, rows: Sequence[Sequence[bytes]]) -> None:
        """All in one transaction, and waits for its end."""
        self._sent_until_ready(b"".join(bound(row) + _EXECUTE for row in rows) + _SYNC)

    def _sent_until_ready(self, data: bytes) -> None:
        self._is_ready = False
        self.sock.sendall(data)
        while not self._is_ready:
            self.pull()

    def _keep(self, _: bytes | None) -> None:
        self._is_ready = True

    def _split(self, data: bytes) -> int:
        at, end = 0, len(data)
        while end - at >= 5:
            after = at + 1 + int.from_bytes(data[at + 1 : at + 5], "big")
            if after > end:
                break
            kind = data[at]
            if kind == _ROW:
                size = int.from_bytes(data[at + 7 : at + 11], "big")
                self._first = data[at + 11 : at + 11 + size]
            elif kind == _READY:
                first, self._first = self._first, None
                self.took(first)
            elif kind == _NOTIFICATION:
                self.notified()
            elif kind == _ERROR:
                raise ConnectionError(data[at + 5 : after].replace(b"\0", b" ").decode(errors="replace"))
            at = after
        return at


def int8(value: int) -> bytes:
    return struct.pack(">q", value)


def bound(values: Sequence[bytes]) -> bytes:
    """The values for the statement's parameters; the result is asked for in binary too."""
    given = b"".join([len(value).to_bytes(4, "big") + value for value in values])
    return _message(b"B", b"\0\0" + _BINARY + len(values).to_bytes(2, "big") + given + _BINARY)


def _message(kind: bytes, body: bytes) -> bytes:
    return kind + (4 + len(body)).to_bytes(4, "big") + body
