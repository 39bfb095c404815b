"""A proxy that ends TLS, as people put one before a server: it passes bytes on, and says for whom.

async with tls_proxy(context) as proxy:
    proxy.upstream = server_port
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

FORWARDED = (
    b"Forwarded: for=192.0.2.7;host=forwarded.example;proto=https\r\n"
    b"X-Forwarded-For: 192.0.2.7\r\nX-Forwarded-Host: forwarded.example\r\nX-Forwarded-Proto: https\r\n"
)
"""What it adds to the first head of a connection."""


class TlsProxy:
    """Listens on loopback; `upstream` is the port of the server."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.upstream = 0
        self._tasks: set[asyncio.Task[None]] = set()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            await self._pass_on(reader, writer)
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            self._tasks.discard(task)
            writer.transport.abort()

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        line = await reader.readuntil(b"\r\n")
        upstream, server = await asyncio.open_connection("127.0.0.1", self.upstream)
        server.write(line + FORWARDED)
        try:
            ways = [asyncio.create_task(_copy(*way)) for way in ((reader, server), (upstream, writer))]
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
            for way in ways:
                way.cancel()
            await asyncio.gather(*ways, return_exceptions=True)
        finally:
            server.transport.abort()

    async def end(self) -> None:
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(65_536):
        writer.write(data)
        await writer.drain()


@asynccontextmanager
async def tls_proxy(context: ssl.SSLContext) -> AsyncIterator[TlsProxy]:
    proxy = TlsProxy(0)
    server = await asyncio.start_server(proxy.serve, "127.0.0.1", 0, ssl=context)
    proxy.port = server.sockets[0].getsockname()[1]
    try:
        yield proxy
    finally:
        server.close()
        with suppress(asyncio.CancelledError):
            await proxy.end()
