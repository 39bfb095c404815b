"""Servers of one sentence: each connection is given to a function that may do anything a server should not."""

from __future__ import annotations

import asyncio
import ssl
from base64 import b64encode
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from hashlib import sha1

_MAGIC = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"


class RawConnection:
    """A connection as such a server sees it."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer
        self.head: dict[str, str] = {}
        self.line = ""

    async def read_head(self) -> None:
        """The request for a WebSocket."""
        text = (await self.reader.readuntil(b"\r\n\r\n")).decode()
        self.line, *lines = text.rstrip().split("\r\n")
        self.head = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}

    async def upgrade(self, **instead: str | None) -> None:
        """Takes the WebSocket; a header (dashes written `_`) may be another, or left out with None."""
        await self.read_head()
        accept = b64encode(sha1(self.head["sec-websocket-key"].encode() + _MAGIC, usedforsecurity=False).digest())
        headers: dict[str, str | None] = {
            "Upgrade": "websocket",
            "Connection": "Upgrade",
            "Sec-WebSocket-Accept": accept.decode(),
            "Sec-WebSocket-Protocol": self.head["sec-websocket-protocol"],
        }
        headers.update({name.replace("_", "-"): value for name, value in instead.items()})
        lines = [f"{name}: {value}" for name, value in headers.items() if value is not None]
        self.writer.write("\r\n".join(["HTTP/1.1 101 Switching Protocols", *lines, "", ""]).encode())

    async def answer(self, status: str, body: str = "", *, kind: str = "text/plain", more: str = "") -> None:
        """A plain answer instead of a WebSocket."""
        await self.read_head()
        head = f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len(body.encode())}\r\n{more}\r\n"
        self.writer.write(head.encode() + body.encode())

    async def stay(self) -> None:
        """Reads nothing, says nothing, and does not go."""
        await asyncio.get_running_loop().create_future()

    async def until_gone(self) -> None:
        """Reads until the client has hung up."""
        while await self.reader.read(65_536):
            pass


Manner = Callable[[RawConnection], Awaitable[None]]


@asynccontextmanager
async def misbehaving(manner: Manner, *, context: ssl.SSLContext | None = None) -> AsyncIterator[int]:
    """The port of a server with these manners; what it still does when the block ends is cancelled."""
    tasks: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        try:
            await manner(RawConnection(reader, writer))
        except (asyncio.CancelledError, ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.transport.abort()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks)
        await server.wait_closed()
