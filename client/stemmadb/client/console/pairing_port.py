"""The port that waits for the page: one request on 127.0.0.1, its answer, and the end (CONSOLE-2)."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Awaitable, Callable
from typing import Any, Final

from stemmadb.client.console.pairing import (
    HEAD_BYTES_MAX,
    Pairing,
    PairingRefused,
    PairRequest,
    read_head,
)
from stemmadb.protocol.model.values.ids import Did

REQUEST_SECONDS: Final = 10.0
"""How long a request that has begun may take."""
PREFLIGHTS_MAX: Final = 3
_REASONS: Final = {200: "OK", 204: "No Content"}

Grant = Callable[[Did], Awaitable[dict[str, Any]]]
"""Makes the answer for the identity of the page."""


class PairingPort:
    """Listens from `open` until `paired` returns. Connections that send nothing do not count: browsers open some."""

    def __init__(self, origin: str, code: str, grant: Grant) -> None:
        self._origin = origin
        self._code = code
        self._grant = grant
        self._server: asyncio.Server | None = None
        self._result: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self._is_taken = False
        self._preflights = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self.has_come = asyncio.Event()
        """Set once something was sent: then the page has been opened."""

    async def open(self) -> Pairing:
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", 0, limit=HEAD_BYTES_MAX)
        self._pairing = Pairing(self._origin, self._server.sockets[0].getsockname()[1], self._code)
        return self._pairing

    async def paired(self, seconds: float) -> dict[str, Any]:
        """What was granted; `PairingRefused` for a request that was another, or if none came in time."""
        try:
            async with asyncio.timeout(seconds):
                return await asyncio.shield(self._result)
        except TimeoutError:
            raise PairingRefused(f"Nobody clicked in {round(seconds)} s.", 408) from None
        finally:
            await self.close()

    async def close(self) -> None:
        if self._server is not None:
            self._server.close()
        self._result.cancel()
        waiting = [task for task in self._tasks if task is not asyncio.current_task()]
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            while await self._answered(reader, writer):
                pass
        except (ConnectionError, asyncio.IncompleteReadError):
            pass  # it sent nothing, or left: it was no request
        finally:
            self._tasks.discard(task)
            writer.close()

    async def _answered(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Reads a request and answers it; True while another may follow on this connection."""
        first = await reader.readexactly(1)
        self.has_come.set()
        try:
            async with asyncio.timeout(REQUEST_SECONDS):
                request = read_head(first + await _head(reader))
                self._pairing.check_place(request)
                if self._pairing.is_preflight(request) and self._preflights < PREFLIGHTS_MAX and not self._is_taken:
                    self._preflights += 1
                    await _write(writer, 204, b"", self._cors())
                    return True
                if self._is_taken:
                    raise PairingRefused("The code was used before.")
                self._is_taken = True
                said = await self._grant(self._pairing.audience(request, await _body(reader, request)))
            await _write(writer, 200, json.dumps(said).encode(), self._cors())
            self._settle(said)
        except TimeoutError:
            self._refuse(PairingRefused("A request came and did not end.", 408))
        except PairingRefused as refused:
            with contextlib.suppress(ConnectionError):
                await _write(writer, refused.status, json.dumps({"message": str(refused)}).encode(), self._cors())
            self._refuse(refused)
        except Exception as error:  # what the grant failed with is for the terminal
            with contextlib.suppress(ConnectionError):
                await _write(writer, 500, json.dumps({"message": str(error)}).encode(), self._cors())
            self._refuse(error)
        return False

    def _cors(self) -> list[tuple[str, str]]:
        """For the page of the server, and for no other: a browser gives no other the answer."""
        return [
            ("Access-Control-Allow-Origin", self._origin),
            ("Access-Control-Allow-Methods", "POST"),
            ("Access-Control-Allow-Headers", "Content-Type"),
            ("Vary", "Origin"),
        ]

    def _settle(self, said: dict[str, Any]) -> None:
        if not self._result.done():
            self._result.set_result(said)

    def _refuse(self, error: Exception) -> None:
        """One request, whatever it holds: after it the command ends."""
        self._is_taken = True
        if not self._result.done():
            self._result.set_exception(error)


async def _head(reader: asyncio.StreamReader) -> bytes:
    try:
        return await reader.readuntil(b"\r\n\r\n")
    except asyncio.LimitOverrunError:
        raise PairingRefused("The request is too large.", 431) from None


async def _body(reader: asyncio.StreamReader, request: PairRequest) -> bytes:
    return await reader.readexactly(request.length) if request.method == "POST" else b""


async def _write(writer: asyncio.StreamWriter, status: int, body: bytes, headers: list[tuple[str, str]]) -> None:
    lines = [
        f"HTTP/1.1 {status} {_REASONS.get(status, 'Refused')}",
        "Content-Type: application/json",
        f"Content-Length: {len(body)}",
        "Cache-Control: no-store",
        *(f"{name}: {value}" for name, value in headers),
    ]
    writer.write("\r\n".join(lines).encode() + b"\r\n\r\n" + body)
    await writer.drain()
