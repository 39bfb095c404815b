"""A client of a stream of events that keeps the map which they describe."""

from __future__ import annotations

import asyncio
import json
from typing import Any
from urllib.parse import quote

from http_worlds import PATIENCE, HttpPeer, HttpWorld


class EventReader:
    """Reads events, and keeps the map that they describe."""

    def __init__(self, world: HttpWorld, select: str, **params: str) -> None:
        self._world = world
        self._path = "/watch?" + "&".join(f"{k}={quote(v)}" for k, v in ({"select": select} | params).items())
        self.map: dict[str, Any] = {}
        self.last: str | None = None
        self.events: list[tuple[str, dict[str, Any]]] = []
        self._peer: HttpPeer | None = None
        self._text = b""

    async def connect(self, token: str | None = None) -> None:
        self._peer, self._text = await self._world.peer(), b""
        how = {} if self.last is None else {"Last_Event_ID": self.last}
        self._peer.write(self._world.request("GET", self._path, token=token, **how))
        answer = await self._peer.answer()
        assert answer.status == 200, answer
        assert answer.headers["content-type"] == "text/event-stream"

    def goes_on_from(self, other: EventReader) -> None:
        """With what another one has read, of this server or of one before it."""
        self.map, self.last = dict(other.map), other.last

    def cut(self) -> None:
        assert self._peer is not None
        self._peer.leave()

    def pause(self) -> None:
        """Reads nothing more, so that the server cannot go on writing."""
        self._transport().pause_reading()

    def resume(self) -> None:
        self._transport().resume_reading()

    def _transport(self) -> Any:
        assert self._peer is not None
        return self._peer.writer.transport

    async def until(self, name: str) -> dict[str, Any]:
        """Takes events up to the next of this name."""
        while True:
            found, data = await self._next()
            if found == name:
                return data

    async def _next(self) -> tuple[str, dict[str, Any]]:
        async with asyncio.timeout(PATIENCE):
            while b"\n\n" not in self._text:
                self._text += await self._chunk()
        block, _, self._text = self._text.partition(b"\n\n")
        fields = dict(line.split(": ", 1) for line in block.decode().split("\n") if not line.startswith(":"))
        if "event" not in fields:
            return "", {}
        data = json.loads(fields["data"])
        self._apply(fields["event"], data)
        self.events.append((fields["event"], data))
        self.last = fields.get("id", self.last)
        return fields["event"], data

    async def _chunk(self) -> bytes:
        assert self._peer is not None
        size = int((await self._peer.reader.readuntil(b"\r\n")).strip(), 16)
        data = await self._peer.reader.readexactly(size)
        await self._peer.reader.readexactly(2)
        assert size, "the stream has ended"
        return data

    def _apply(self, event: str, data: dict[str, Any]) -> None:
        if event == "reset":
            self.map.clear()
        elif event == "change":
            for one in (*data["updated"], *data["entered"]):
                self.map[one["id"]] = one["value"]
            for id_ in data["left"]:
                self.map.pop(id_, None)
