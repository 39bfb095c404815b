"""What one worker asks all others, over their Unix sockets: metrics, and the spaces of a principal."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

from stemmadb.server.serving.workers import opening
from stemmadb.server.serving.workers.opening import LENGTH, Opening

ANSWER_SECONDS: Final = 1.0
"""A worker that has not answered by then is missing in the answer."""
READ_BYTES: Final = 256 * 1024


class Others:
    """The other workers of this server."""

    def __init__(self, secret: bytes, addresses: Sequence[str]) -> None:
        self._secret = secret
        self._addresses = addresses

    async def ask(self, question: bytes) -> list[bytes]:
        """The answers of those that answer in time."""
        asked = [self._ask(address, question) for address in self._addresses]
        return [answer for answer in await asyncio.gather(*asked) if answer is not None]

    async def _ask(self, address: str, question: bytes) -> bytes | None:
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                return await self._answer(address, question)
        except (OSError, TimeoutError):
            return None

    async def _answer(self, address: str, question: bytes) -> bytes | None:
        loop = asyncio.get_running_loop()
        with await opening.connect(address) as sock:
            await loop.sock_sendall(sock, opening.encode(self._secret, Opening("question", "", question)))
            data = bytearray()
            while more := await loop.sock_recv(sock, READ_BYTES):
                data += more
        is_whole = len(data) >= LENGTH.size and LENGTH.unpack_from(data)[0] == len(data) - LENGTH.size
        return bytes(data[LENGTH.size :]) if is_whole else None
