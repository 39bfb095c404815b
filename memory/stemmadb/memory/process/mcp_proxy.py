"""`stemmadb mcp`: copies JSON-RPC lines between stdio and the memory server's socket, and outlives a memory server.

If the memory server dies, the proxy finds or starts another one, repeats the handshake, and sends again what was not
answered. Every tool call gets an idempotency key first, so that sending again does not do it twice. It imports
neither `mcp` nor the SDK.
"""

from __future__ import annotations

import socket
import threading
import time
import uuid
from collections.abc import Callable
from typing import Any, BinaryIO, Final, NamedTuple

import msgspec

from stemmadb.memory.process.finding import MemoryNote
from stemmadb.protocol.errors import StemmaError, Unavailable

TRIES_MAX: Final = 3
LAST_ANSWERS_SECONDS: Final = 60.0
"""How long the proxy waits for answers after its input has ended."""
CONNECT_SECONDS: Final = 20.0
PAUSE_SECONDS: Final = 0.1
"""Before the next try: a process that is dying needs a moment to let go of its socket and its directory."""
KEY: Final = "idempotency_key"
PARSE_ERROR, INVALID_REQUEST, INTERNAL_ERROR = -32_700, -32_600, -32_603
ACCEPTED: Final = {"accepted": True}
"""What the memory server says once it has read the greeting."""
HANDSHAKE: Final = ("initialize", "notifications/initialized")


class ProxyGreeting(NamedTuple):
    """The first line to the memory server."""

    secret: str | None
    space: str | None
    ns: str
    role: str | None

    def line(self) -> bytes:
        options = {"ns": self.ns} | ({} if self.role is None else {"role": self.role})
        message = {"protocol": "mcp", "secret": self.secret, "space": self.space, "options": options}
        return msgspec.json.encode(message) + b"\n"


class _Waiting:
    """A request that has no answer yet."""

    def __init__(self, line: bytes) -> None:
        self.line = line
        self.tries = 1


class McpProxy:
    """`run` returns at the end of the input. One thread reads the socket, the caller's thread reads stdin."""

    def __init__(
        self, find: Callable[[], MemoryNote], greeting: ProxyGreeting, stdin: BinaryIO, stdout: BinaryIO
    ) -> None:
        self._find = find
        self._greeting = greeting
        self._stdin = stdin
        self._stdout = stdout
        self._changed = threading.Condition(threading.RLock())
        self._waiting: dict[bytes, _Waiting] = {}
        self._handshake: list[bytes] = []
        self._repeated: set[bytes] = set()
        """Ids of requests that only the proxy repeated: the client has their answer already."""
        self._connection: socket.socket | None = None
        self._refusal: str | None = None
        self._is_accepted = False
        """Whether the memory server of this connection has read the greeting: one that is dying does not."""
        self._unaccepted_since: float | None = None
        self._is_ending = False

    def run(self) -> str | None:
        """None, or why the memory server refuses this client."""
        self._connect()
        reading = threading.Thread(target=self._read_answers, daemon=True)
        reading.start()
        for line in self._stdin:
            if line.strip():
                self._take(line)
            if self._refusal is not None:
                return self._refusal
        with self._changed:
            self._changed.wait_for(lambda: not self._waiting or self._refusal is not None, LAST_ANSWERS_SECONDS)
            self._is_ending = True
            self._close()
        return self._refusal

    # ------------------------------------------------------------ from the client

    def _take(self, line: bytes) -> None:
        try:
            message = msgspec.json.decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError):
            return self._fail(None, PARSE_ERROR, "This line is no JSON.")
        if not isinstance(message, dict):
            return self._fail(None, INVALID_REQUEST, "This line is no JSON-RPC request.")
        line = msgspec.json.encode(_with_key(message)) + b"\n"
        with self._changed:
            if message.get("method") in HANDSHAKE:
                self._handshake.append(line)
            if message.get("method") == "notifications/cancelled" and isinstance(message.get("params"), dict):
                self._waiting.pop(_id(message["params"].get("requestId")), None)
            if "method" in message and message.get("id") is not None:
                self._waiting[_id(message["id"])] = _Waiting(line)
            self._send(line)
        return None

    def _send(self, line: bytes) -> None:
        """What cannot be sent now is sent again by the thread that reads, which sees the same end."""
        try:
            if self._connection is not None:
                self._connection.sendall(line)
        except OSError:
            return

    # ------------------------------------------------------------ from the memory server

    def _read_answers(self) -> None:
        while True:
            connection = self._connection
            if connection is not None:
                self._read_until_end(connection)
            if not self._is_ending:
                time.sleep(PAUSE_SECONDS)
            with self._changed:
                if self._is_ending or self._refusal is not None:
                    return
                self._again()

    def _read_until_end(self, connection: socket.socket) -> None:
        try:
            with connection.makefile("rb") as stream:
                for line in stream:
                    if line.endswith(b"\n"):
                        self._answered(line)
        except (OSError, ValueError):
            return

    def _answered(self, line: bytes) -> None:
        message = msgspec.json.decode(line)
        with self._changed:
            if message == ACCEPTED:
                self._is_accepted, self._unaccepted_since = True, None
                return
            if "jsonrpc" not in message:
                self._refusal = str(message.get("error", {}).get("message", "The memory server refused."))
                for number in list(self._waiting):
                    self._fail(msgspec.json.decode(number), INTERNAL_ERROR, self._refusal)
            elif "method" not in message and _id(message.get("id")) in self._repeated:
                self._repeated.discard(_id(message.get("id")))
                return
            else:
                if "method" not in message:
                    self._waiting.pop(_id(message.get("id")), None)
                self._write(line)
            self._changed.notify_all()

    def _again(self) -> None:
        """Finds or starts another memory server and sends what was not answered; each request at most 3 times."""
        if self._counts():
            for number, one in list(self._waiting.items()):
                if one.tries >= TRIES_MAX:
                    self._fail(msgspec.json.decode(number), INTERNAL_ERROR, "The memory server went away. Try again.")
                one.tries += 1
        try:
            self._connect()
        except StemmaError as failed:
            self._refusal = failed.message
            for number in list(self._waiting):
                self._fail(msgspec.json.decode(number), INTERNAL_ERROR, failed.message)
            self._changed.notify_all()
            return
        waiting = {one.line for one in self._waiting.values()}
        for line in self._handshake:
            if line not in waiting:
                number = msgspec.json.decode(line).get("id")
                if number is not None:
                    self._repeated.add(_id(number))
            self._send(line)
        for one in self._waiting.values():
            if one.line not in self._handshake:
                self._send(one.line)

    def _counts(self) -> bool:
        """Whether the memory server may have read what was sent. One that is dying still lets clients connect."""
        if self._is_accepted:
            return True
        now = time.monotonic()
        self._unaccepted_since = now if self._unaccepted_since is None else self._unaccepted_since
        return now - self._unaccepted_since > CONNECT_SECONDS

    def _connect(self) -> None:
        """A memory server that was killed a moment ago can still be found; then the next one is looked for."""
        self._close()
        until = time.monotonic() + CONNECT_SECONDS
        while self._connection is None:
            path = self._find().socket_of(self._greeting.space)
            connection = socket.socket(socket.AF_UNIX)
            try:
                connection.connect(path)
                connection.sendall(self._greeting.line())
                self._connection, self._is_accepted = connection, False
            except OSError as failed:
                connection.close()
                if time.monotonic() > until:
                    raise Unavailable(f"The memory server does not answer on {path}: {failed.strerror}.") from None
                time.sleep(PAUSE_SECONDS)

    def _close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    # ------------------------------------------------------------ to the client

    def _fail(self, number: Any, code: int, message: str) -> None:
        with self._changed:
            self._waiting.pop(_id(number), None)
            error = {"code": code, "message": message}
            self._write(msgspec.json.encode({"jsonrpc": "2.0", "id": number, "error": error}) + b"\n")
            self._changed.notify_all()

    def _write(self, line: bytes) -> None:
        self._stdout.write(line)
        self._stdout.flush()


def _id(number: Any) -> bytes:
    """A JSON-RPC id as a key: 1 and "1" are two."""
    return msgspec.json.encode(number)


def _with_key(message: dict[str, Any]) -> dict[str, Any]:
    """A tool call without an idempotency key gets a random one."""
    params = message.get("params")
    if message.get("method") != "tools/call" or not isinstance(params, dict):
        return message
    meta = params.get("_meta")
    if meta is not None and not isinstance(meta, dict):
        return message
    keyed = {KEY: str(uuid.uuid4())} | (meta or {})
    return message | {"params": params | {"_meta": keyed}}
