"""etcd as the peer: its process, and clients that speak gRPC to it with as little work as the format allows.

Every client has a connection of its own, as our sessions do. Headers are sent as literals and never read: a call that
failed has no message, and a run that misses one stalls and says so.
"""

from __future__ import annotations

import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks import _engine

START_SECONDS = 20.0
_READ_BYTES = 1 << 18
_DATA, _HEADERS, _RESET, _SETTINGS, _PING, _GOAWAY, _WINDOW = 0, 1, 3, 4, 6, 7, 8
_ACK, _END_HEADERS, _END_STREAM = 0x1, 0x4, 0x1
_WINDOW_MAX = (1 << 31) - 1
_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_TXN, _WATCH = b"/etcdserverpb.KV/Txn", b"/etcdserverpb.Watch/Watch"
_SUCCEEDED = b"\x10\x01"
_EVENTS = 11


class Etcd:
    """One etcd process with one member."""

    def __init__(self, process: subprocess.Popen[bytes], port: int) -> None:
        self.process, self.pid, self.port = process, process.pid, port


def is_installed() -> bool:
    return shutil.which("etcd") is not None


@contextmanager
def served() -> Iterator[Etcd]:
    """etcd on loopback, as it comes: it syncs every batch before it answers."""
    with tempfile.TemporaryDirectory(prefix="etcd-bench-", dir=_engine.DIRECTORY) as name:
        port, peers = _free_port(), _free_port()
        ours, theirs = f"http://127.0.0.1:{port}", f"http://127.0.0.1:{peers}"
        command = [
            *("etcd", "--data-dir", str(Path(name) / "data"), "--log-level", "error"),
            *("--listen-client-urls", ours, "--advertise-client-urls", ours),
            *("--listen-peer-urls", theirs, "--initial-advertise-peer-urls", theirs),
            *("--initial-cluster", f"default={theirs}"),
        ]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)  # noqa: S603
        try:
            _wait_until_ready(port)
            yield Etcd(process, port)
        finally:
            process.terminate()
            process.wait(30)


def _free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


def _wait_until_ready(port: int) -> None:
    """Ready is whoever commits."""
    end = time.monotonic() + START_SECONDS
    while True:
        try:
            Writer(port, "ready", b"yes").link.close()
            return
        except OSError:
            if time.monotonic() > end:
                raise
            time.sleep(0.1)


class Grpc:
    """One HTTP/2 connection; whole gRPC messages go to `took`."""

    def __init__(self, port: int) -> None:
        self.sock = socket.create_connection(("127.0.0.1", port), timeout=START_SECONDS)
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.took: Callable[[bytes], None] = lambda _: None
        self._authority = f"127.0.0.1:{port}".encode()
        self._stream = -1
        self._buffer = b""
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

    def call(self, headers: bytes, message: bytes, *, ends: bool = True) -> None:
        self._stream += 2
        data = b"\x00" + len(message).to_bytes(4, "big") + message
        head = _frame(_HEADERS, _END_HEADERS, self._stream, headers)
        self.sock.sendall(head + _frame(_DATA, _END_STREAM if ends else 0, self._stream, data))

    def pull(self) -> None:
        data = self.sock.recv(_READ_BYTES)
        if not data:
            raise ConnectionError("etcd closed the connection")
        data = self._buffer + data if self._buffer else data
        at, end = 0, len(data)
        while end - at >= 9:
            size = int.from_bytes(data[at : at + 3], "big")
            if at + 9 + size > end:
                break
            kind, flags, body = data[at + 3], data[at + 4], data[at + 9 : at + 9 + size]
            at += 9 + size
            self._buffer = data[at:]
            self._take(kind, flags, body)
        self._buffer = data[at:]

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
            raise ConnectionError(f"etcd ended a call: {kind} {body!r}")

    def close(self) -> None:
        self.sock.close()


class Writer:
    """Puts one key, if its version is the one it wrote last: one transaction with a compare."""

    def __init__(self, port: int, key: str, value: bytes) -> None:
        self.link = Grpc(port)
        self.answered: Callable[[], None] = lambda: None
        self._key, self._version = key.encode(), 0
        self._headers = self.link.headers(_TXN)
        self._put = _field(2, _field(2, _field(1, self._key) + _field(2, value)))
        self._waits = False
        self.link.took = self._took
        self.send()
        while self._waits:
            self.link.pull()
        self.link.sock.setblocking(True)

    def send(self) -> None:
        self._waits = True
        compare = _field(1, _field(3, self._key) + b"\x20" + _varint(self._version))
        self.link.call(self._headers, compare + self._put)

    def put_blindly(self, value: bytes) -> None:
        """Whatever its version is."""
        self._waits = True
        self.link.call(self._headers, _field(2, _field(2, _field(1, self._key) + _field(2, value))))

    def _took(self, message: bytes) -> None:
        header = message[1]
        assert message[2 + header : 4 + header] == _SUCCEEDED, "the key has another version"
        self._version += 1
        self._waits = False
        self.answered()


class Watcher:
    """Watches one key, on a stream of its own connection."""

    def __init__(self, port: int, key: str) -> None:
        self.link = Grpc(port)
        self.event: Callable[[], None] = lambda: None
        self._is_made = False
        self.link.took = self._took
        self.link.call(self.link.headers(_WATCH), _field(1, _field(1, key.encode())), ends=False)
        while not self._is_made:
            self.link.pull()
        self.link.sock.setblocking(True)

    def _took(self, message: bytes) -> None:
        self._is_made = True
        for number in _numbers(message):
            if number == _EVENTS:
                self.event()


def _numbers(message: bytes) -> Iterator[int]:
    """The number of each field of a message; lengths and integers are all that these have."""
    at = 0
    while at < len(message):
        tag, at = _read_varint(message, at)
        value, at = _read_varint(message, at)
        if tag & 7 == 2:
            at += value
        yield tag >> 3


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at


def _varint(value: int) -> bytes:
    made = bytearray()
    while value > 0x7F:
        made.append(value & 0x7F | 0x80)
        value >>= 7
    made.append(value)
    return bytes(made)


def _field(number: int, value: bytes) -> bytes:
    return bytes((number << 3 | 2,)) + _varint(len(value)) + value


def _text(value: bytes) -> bytes:
    assert len(value) < 127
    return bytes((len(value),)) + value


def _frame(kind: int, flags: int, stream: int, body: bytes) -> bytes:
    return len(body).to_bytes(3, "big") + bytes((kind, flags)) + stream.to_bytes(4, "big") + body
