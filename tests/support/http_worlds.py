"""A server with HTTP, an owner and other callers with tokens, and a raw peer that can send anything.

async with http_world(tmp_path) as it:
    answer = await it.get("/entity?id=urn:a:1")
"""

from __future__ import annotations

import asyncio
import json
import os
import ssl
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

from served import config_of, served
from stemmadb.client import Database, Identity, Space, connect
from stemmadb.client.dialing.websocket import WebSocketDial
from stemmadb.protocol.model.access import access_token
from stemmadb.protocol.model.access.access_token import AccessToken
from stemmadb.protocol.model.values.ids import Did, TimeMs
from stemmadb.server.serving import server_identity

PATIENCE = 20.0
HOUR_MS = 3_600_000


class Answer(NamedTuple):
    """A response that was read to its end."""

    status: int
    headers: dict[str, str]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def code(self) -> str:
        return str(self.json()["code"])


class HttpPeer:
    """One connection, byte by byte."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    def write(self, data: bytes) -> None:
        self.writer.write(data)

    async def answer(self, *, is_head: bool = False) -> Answer:
        """The next response; status 0 if the connection ended instead."""
        async with asyncio.timeout(PATIENCE):
            try:
                head = (await self.reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
            except (asyncio.IncompleteReadError, ConnectionError):
                return Answer(0, {}, b"")
            headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in head[1:-2])}
            body = b"" if is_head else await self.reader.readexactly(int(headers.get("content-length", "0")))
        return Answer(int(head[0].split(" ")[1]), headers, body)

    async def is_closed(self) -> bool:
        """True once the server has ended the connection; whatever it still says is read."""
        async with asyncio.timeout(PATIENCE):
            try:
                while await self.reader.read(65_536):
                    pass
            except ConnectionError:
                pass
        return True

    def leave(self) -> None:
        self.writer.transport.abort()


class HttpWorld:
    """A server that runs, with one space."""

    def __init__(self, url: str, data: Path, config: Path, db: Database, space: Space) -> None:
        self.url = url
        self.data = data
        self.config = config
        self.db = db
        self.space = space
        self.did = space.did
        self.server: Did = server_identity.keep(data).did
        self.path = f"/v1/spaces/{space.did}"
        self.port = int(url.rsplit(":", 1)[1])
        self.token = self.token_of(db.identity)
        self.context: ssl.SSLContext | None = None
        self.server_name = "localhost"
        """Whom the certificate names, where there is TLS."""
        self._peers: list[HttpPeer] = []

    def token_of(self, identity: Identity, *, delegations: Sequence[bytes] = (), **how: Any) -> str:
        """A token that the identity signs for itself: to write everything for an hour, unless told otherwise."""
        return access_token.write_text(self.token_bytes(identity, **how), delegations)

    def token_bytes(self, identity: Identity, **how: Any) -> bytes:
        now = int(time.time() * 1_000)
        said: dict[str, Any] = {
            "server": self.server,
            "space": self.did,
            "principal": identity.did,
            "role": "write",
            "prefixes": ("",),
            "not_before": TimeMs(now),
            "expires": TimeMs(now + HOUR_MS),
            "nonce": os.urandom(16),
        }
        return access_token.issue(AccessToken(**(said | how)), identity.sign)

    async def peer(self) -> HttpPeer:
        name = None if self.context is None else self.server_name
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", self.port, ssl=self.context, server_hostname=name, limit=1 << 20
        )
        self._peers.append(HttpPeer(reader, writer))
        return self._peers[-1]

    def keep_peers(self) -> None:
        """Those that are connected stay when the server stops."""
        self._peers.clear()

    def end(self) -> None:
        for peer in self._peers:
            peer.leave()

    def request(
        self, method: str, path: str, body: object = None, *, token: str | None = None, **headers: str
    ) -> bytes:
        """The bytes of a request; a path that begins with / is below the space, one with // is not."""
        target = path[1:] if path.startswith("//") else self.path + path
        data = b"" if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
        given = {"Host": f"127.0.0.1:{self.port}"}
        if token != "":
            given["Authorization"] = f"Bearer {token or self.token}"
        if body is not None:
            given |= {"Content-Length": str(len(data)), "Content-Type": "application/json"}
        given |= {name.replace("_", "-"): value for name, value in headers.items()}
        lines = [f"{method} {target} HTTP/1.1", *(f"{name}: {value}" for name, value in given.items())]
        return "\r\n".join(lines).encode() + b"\r\n\r\n" + data

    async def ask(self, method: str, path: str, body: object = None, **how: Any) -> Answer:
        peer = await self.peer()
        peer.write(self.request(method, path, body, **how))
        answer = await peer.answer(is_head=method == "HEAD")
        peer.leave()
        return answer

    async def get(self, path: str, **how: Any) -> Answer:
        return await self.ask("GET", path, **how)

    async def put(self, id_: str, value: object, **how: Any) -> Answer:
        blind = "" if {"If_Match", "If_None_Match"} & how.keys() else "&blind=true"
        return await self.ask("PUT", f"/entity?id={quote(id_)}{blind}", value, **how)


@asynccontextmanager
async def http_world(folder: Path, *, ssl: Any = None, **settings: Any) -> AsyncIterator[HttpWorld]:
    data, config = folder / "data", folder / "config"
    async with served(config_of(data, **settings)) as url:
        named = url.replace("127.0.0.1", "localhost")
        dial = None if ssl is None else WebSocketDial(named, ssl=ssl)
        async with connect(url, config=config, dial=dial) as db:
            world = HttpWorld(url, data, config, db, await db.space("todo"))
            try:
                yield world
            finally:
                world.end()


@asynccontextmanager
async def reopened(folder: Path, before: HttpWorld) -> AsyncIterator[HttpWorld]:
    """A server on other data that has the space of another world, which is asked by the same identity."""
    async with (
        served(config_of(folder / "data")) as url,
        connect(url, config=before.config) as db,
    ):
        world = HttpWorld(url, folder / "data", before.config, db, await db.space(before.did))
        try:
            yield world
        finally:
            world.end()
