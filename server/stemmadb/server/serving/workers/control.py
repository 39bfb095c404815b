"""The messages between the parent and a worker, as lines of JSON over a pair of sockets.

worker -> parent    {"ready": notes}           it serves; notes of its companions
                    {"failed": [code, text]}   it cannot start, and why, for a person
                    {"counts": {key: count}}   connections, for the shared limits
parent -> worker    {"full": [keys]}           what has reached its limit
                    {"trouble": text or null}  why the server as a whole is not ready
                    {"stop": true}             finish and stop
"""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

LINE_BYTES_MAX: Final = 16 * 1024 * 1024

Message: TypeAlias = Mapping[str, Any]


class ControlChannel:
    """One end. `received` gets each message, in order; `ended` is called when the other process is gone."""

    def __init__(self, writer: asyncio.StreamWriter, reading: asyncio.Task[None]) -> None:
        self._writer = writer
        self._reading = reading

    def send(self, message: Message) -> None:
        if not self._writer.is_closing():
            self._writer.write(json.dumps(message).encode() + b"\n")

    def close(self) -> None:
        self._reading.cancel()
        self._writer.close()


async def open_channel(
    sock: socket.socket, received: Callable[[Message], None], ended: Callable[[], None]
) -> ControlChannel:
    reader, writer = await asyncio.open_unix_connection(sock=sock, limit=LINE_BYTES_MAX)

    async def read() -> None:
        while line := await _line(reader):
            received(json.loads(line))
        ended()

    return ControlChannel(writer, asyncio.create_task(read()))


async def _line(reader: asyncio.StreamReader) -> bytes:
    """Empty at the end."""
    try:
        return await reader.readline()
    except (ConnectionError, ValueError):
        return b""
