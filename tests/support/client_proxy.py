"""A TCP proxy between a client and a server that cuts, delays, tears, holds and goes silent when it is told to."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Final

CHUNK_BYTES: Final = 64 * 1_024


class Way:
    """One direction, for all connections."""

    def __init__(self) -> None:
        self.bytes = 0
        """What has passed."""
        self.open = asyncio.Event()
        """While it is cleared bytes wait here, and whoever sends them notices nothing."""
        self.open.set()
        self.piece_bytes = CHUNK_BYTES
        """Bytes go on in pieces of so many."""
        self.delay_seconds = 0.0
        self.cut_after: int | None = None
        """After so many more bytes the connection that brings them is cut, in the middle of whatever that is."""

    def hold(self) -> None:
        self.open.clear()

    def release(self) -> None:
        self.open.set()


class Proxy:
    """Listens at `url` and leads to a server. Use it with `async with`."""

    def __init__(self, server: tuple[str, int]) -> None:
        self.server = server
        self.up, self.down = Way(), Way()
        """Towards the server, and towards the client."""
        self.is_down = False
        """While it is, whoever comes is turned away."""
        self.made = 0
        """How many connections there have been."""
        self.url = ""
        self._listener: asyncio.Server | None = None
        self._pairs: dict[asyncio.Task[None], Pair] = {}

    async def __aenter__(self) -> Proxy:
        self._listener = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        host, port = self._listener.sockets[0].getsockname()
        self.url = f"ws://{host}:{port}"
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._listener is not None
        self._listener.close()
        self.cut()
        await asyncio.gather(*self._pairs)

    def cut(self) -> None:
        """Every connection ends at once, on both sides."""
        for pair in self._pairs.values():
            pair.cut()

    def silence(self) -> None:
        """Every connection that is there stays open for ever, and nothing comes through it any more."""
        for pair in self._pairs.values():
            pair.is_silent = True

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.made += 1
        pair = Pair(self, reader, writer)
        task = asyncio.create_task(pair.run())
        self._pairs[task] = pair
        task.add_done_callback(self._pairs.pop)


class Pair:
    """One connection of a client and the one to the server that belongs to it."""

    def __init__(self, proxy: Proxy, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._proxy = proxy
        self._reader = reader
        self._writers = [writer]
        self._is_cut = asyncio.Event()
        self.is_silent = False

    def cut(self) -> None:
        self._is_cut.set()

    async def run(self) -> None:
        """Until it is cut, or either side has ended."""
        pumps: list[asyncio.Task[None]] = []
        try:
            if self._proxy.is_down:
                return
            with suppress(OSError):
                there, back = await asyncio.open_connection(*self._proxy.server)
                self._writers.append(back)
                pumps.append(asyncio.create_task(self._pump(self._reader, back, self._proxy.up)))
                pumps.append(asyncio.create_task(self._pump(there, self._writers[0], self._proxy.down)))
                await self._is_cut.wait()
        finally:
            for pump in pumps:
                pump.cancel()
            await asyncio.gather(*pumps, return_exceptions=True)
            for writer in self._writers:
                writer.transport.abort()

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, way: Way) -> None:
        with suppress(OSError):
            while data := await reader.read(CHUNK_BYTES):
                while data:
                    piece, data = data[: way.piece_bytes], data[way.piece_bytes :]
                    await self._pass(piece, writer, way)
        if not self.is_silent:
            self.cut()

    async def _pass(self, piece: bytes, writer: asyncio.StreamWriter, way: Way) -> None:
        await way.open.wait()
        if way.delay_seconds:
            await asyncio.sleep(way.delay_seconds)
        if self.is_silent:
            return
        is_last = way.cut_after is not None and way.cut_after <= len(piece)
        if way.cut_after is not None:
            piece, way.cut_after = piece[: way.cut_after], None if is_last else way.cut_after - len(piece)
        way.bytes += len(piece)
        writer.write(piece)
        await writer.drain()
        if is_last:
            writer.transport.close()  # what was written still leaves
            self.cut()
