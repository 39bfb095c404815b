"""The memory server's socket. The first line of a connection says who comes and which protocol follows.

    {"protocol": "call", "secret": "...", "space": "memory"}        then requests and answers, one JSON object a line

Only the user can open the socket. A protocol is a handler in `ControlServer.protocols`: it gets the greeting and both
streams and keeps the connection until it returns. An interface that needs its own protocol adds a handler.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, Final

import msgspec

from stemmadb.memory.process.places import listening_privately, make_private

LINE_BYTES_MAX: Final = 16 * 1024 * 1024
GREETING_SECONDS: Final = 10.0


class ControlGreeting(msgspec.Struct, frozen=True, kw_only=True):
    """The first line of a connection."""

    protocol: str
    secret: str | None = None
    space: str | None = None
    """The memory space; may be left out if there is only one."""
    options: dict[str, Any] = msgspec.field(default_factory=dict)
    """Whatever the protocol wants to know."""


ControlProtocol = Callable[[ControlGreeting, asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class ControlServer:
    """Counts its connections, so that a memory server that nobody uses can stop."""

    def __init__(self, protocols: Mapping[str, ControlProtocol]) -> None:
        self.protocols: Final = dict(protocols)
        self.connections = 0
        self.used_at = asyncio.get_running_loop().time()
        self._tasks: set[asyncio.Task[None]] = set()

    def used(self) -> None:
        """Somebody used the memory server just now, by this socket or by another interface."""
        self.used_at = asyncio.get_running_loop().time()

    @property
    def idle_seconds(self) -> float:
        return 0.0 if self.connections else asyncio.get_running_loop().time() - self.used_at

    @asynccontextmanager
    async def listening(self, listener: socket.socket) -> AsyncIterator[None]:
        """Serves what connects while the block runs."""
        # `start_unix_server` would remove the path, on which another process may go on listening.
        server = await asyncio.start_server(self._connected, sock=listener, limit=LINE_BYTES_MAX)
        try:
            yield
        finally:
            server.close()
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.get_running_loop().create_task(self._serve(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            async with asyncio.timeout(GREETING_SECONDS):
                greeting = msgspec.json.decode(await reader.readline(), type=ControlGreeting)
            protocol = self.protocols.get(greeting.protocol)
            if protocol is None:
                known = ", ".join(sorted(self.protocols))
                send_line(writer, {"error": {"code": "bad_request", "message": f"Protocols are {known}."}})
            else:
                await protocol(greeting, reader, writer)
        except (msgspec.DecodeError, TimeoutError, ValueError):
            send_line(writer, {"error": {"code": "bad_request", "message": "The first line is no greeting."}})
        except ConnectionError:
            pass  # the client has gone
        finally:
            self.connections -= 1
            self.used()
            writer.close()


@contextmanager
def control_listener(path: Path) -> Iterator[socket.socket]:
    """The socket, until the block ends. The caller holds the data directory, so an older socket there is dead."""
    make_private(path.parent)
    path.unlink(missing_ok=True)
    with listening_privately(path) as listener:
        try:
            yield listener
        finally:
            path.unlink(missing_ok=True)


def send_line(writer: asyncio.StreamWriter, message: Mapping[str, object]) -> None:
    writer.write(msgspec.json.encode(message) + b"\n")
