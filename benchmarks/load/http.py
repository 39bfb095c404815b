"""HTTP clients for load: one request in flight on a kept connection, and readers of a stream of events."""

from __future__ import annotations

import socket
from collections.abc import Callable

from benchmarks.load.websocket import PATIENCE_SECONDS, Gone

_READ_BYTES = 1 << 16
_HEAD_END = b"\r\n\r\n"


class HttpLink:
    """A connection; `took` gets the head and the body of each answer that has a length."""

    def __init__(self, port: int) -> None:
        self.sock = socket.create_connection(("127.0.0.1", port), PATIENCE_SECONDS)
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.took: Callable[[bytes, bytes], None] = _nothing
        self._buffer = b""

    def send(self, request: bytes) -> None:
        self.sock.sendall(request)

    def ask(self, request: bytes) -> tuple[bytes, bytes]:
        """Sends, and waits for the answer."""
        found: list[tuple[bytes, bytes]] = []
        before, self.took = self.took, lambda head, body: found.append((head, body))
        self.send(request)
        while not found:
            self.pull()
        self.took = before
        return found[0]

    def pull(self) -> None:
        data = self.sock.recv(_READ_BYTES)
        if not data:
            raise Gone("the server closed the connection")
        self._buffer += data
        while (end := self._buffer.find(_HEAD_END)) >= 0:
            head = self._buffer[:end]
            size = int(field(head, b"Content-Length") or 0)
            begin = end + len(_HEAD_END)
            if len(self._buffer) < begin + size:
                return
            body, self._buffer = self._buffer[begin : begin + size], self._buffer[begin + size :]
            self.took(head, body)

    def close(self) -> None:
        self.sock.close()


class HttpReader:
    """A client of a closed loop that sends the same request again and again."""

    def __init__(self, port: int, request: bytes) -> None:
        self.link = HttpLink(port)
        self.answered: Callable[[], None] = _done
        self._request = request
        self.link.took = self._took

    def send(self) -> None:
        self.link.send(self._request)

    def _took(self, head: bytes, body: bytes) -> None:
        if b" 200 " not in head[:13]:
            raise Gone((head + body).decode(errors="replace"))
        self.answered()


class EventLink:
    """A stream of events: `event` is called for each change once the stream was ready."""

    def __init__(self, port: int, request: bytes) -> None:
        self.sock = socket.create_connection(("127.0.0.1", port), PATIENCE_SECONDS)
        self.link = self
        self.event: Callable[[], None] = _done
        self._tail = b""
        self.sock.sendall(request)
        seen = b""
        while b"event: ready" not in seen:
            data = self.sock.recv(_READ_BYTES)
            if not data or b" 200 " not in (seen + data)[:13]:
                raise Gone((seen + data).decode(errors="replace"))
            seen += data

    def pull(self) -> None:
        data = self.sock.recv(_READ_BYTES)
        if not data:
            raise Gone("the server ended the stream")
        text = self._tail + data
        for _ in range(text.count(_CHANGE)):
            self.event()
        self._tail = text[text.rfind(_CHANGE) + len(_CHANGE) :][-len(_CHANGE) :]

    def close(self) -> None:
        self.sock.close()


def request(method: str, target: str, token: str | None, body: bytes = b"", **headers: str) -> bytes:
    lines = [f"{method} {target} HTTP/1.1", "Host: 127.0.0.1"]
    lines += [] if token is None else [f"Authorization: Bearer {token}"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    if body:
        lines += ["Content-Type: application/json", f"Content-Length: {len(body)}"]
    return "\r\n".join(lines).encode() + _HEAD_END + body


def field(head: bytes, name: bytes) -> str | None:
    at = head.lower().find(b"\r\n" + name.lower() + b":")
    if at < 0:
        return None
    return head[at + len(name) + 3 :].partition(b"\r\n")[0].strip().decode()


_CHANGE = b"event: change"


def _nothing(head: bytes, body: bytes) -> None: ...


def _done() -> None: ...
