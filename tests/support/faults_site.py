"""A server process, a line to it that has faults, and the clients of the list workload on it."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, Final

from client_processes import Server, running
from client_proxy import Proxy
from client_stage import WATCHFUL, settings_of
from faults_lists import LISTS, all_keys
from faults_storm import Storm
from plain_bytes import Key
from plain_chain import join_pages
from plain_client import PlainClient
from stemmadb.client import Identity, Space, Watch, connect

WRITERS: Final = 6
READERS: Final = 2
LISTS_AT_ONCE: Final = 500
"""Lists that one commit makes."""
PATIENT: Final = {**WATCHFUL, "dead_seconds": 1.0, "first_pause_seconds": 0.05, "most_pause_seconds": 0.4}
"""Settings of clients that find a dead connection soon, also on a machine that does much else."""


class Site:
    """SDK clients of one owner: one that looks from outside, and those behind the line."""

    def __init__(self, directory: Path, server: Server, line: Proxy, clients: AsyncExitStack, *, seed: int) -> None:
        self.server, self.line = server, line
        self.storm = Storm(server, line, seed=seed)
        self._directory = directory
        self._seed = random.Random(seed).randbytes(32)
        self._clients = clients
        self.outside: Space
        self.writers: list[Space] = []
        self.readers: list[Space] = []
        self.watch: Watch
        """Of the first writer, on all lists."""

    async def make(self, commits: int) -> None:
        """The space with all lists that so many commits need, and everybody who works there."""
        self.outside = await self._client(self.server.url, "lists")
        self.storm.space = self.outside.did
        keys = all_keys(commits)
        for first in range(0, len(keys), LISTS_AT_ONCE):
            async with self.outside.transaction(note="lists") as tx:
                for key in keys[first : first + LISTS_AT_ONCE]:
                    tx.set(key, [], blind=True)
            await tx.confirmed()
        self.writers = [await self._client(self.line.url, self.outside.did) for _ in range(WRITERS)]
        self.readers = [await self._client(self.line.url, self.outside.did) for _ in range(READERS)]
        self.watch = self.writers[0].watch(f"{LISTS}*")

    async def _client(self, url: str, space: str) -> Space:
        settings, config = settings_of(PATIENT), self._directory / "config"
        made = connect(url, identity=Identity.from_seed(self._seed), config=config, settings=settings)
        return await (await self._clients.enter_async_context(made)).space(space)

    def plain_client(self, url: str) -> PlainClient:
        """A client of the same owner that knows the specification only; it is not connected yet."""
        return PlainClient(url, self.outside.did, Key(self._seed))

    async def log_as_told(self) -> list[dict[str, Any]]:
        """Every commit with its facts, as a client that knows the specification only is told them."""
        client = self.plain_client(self.server.url)
        await client.open()
        pages = await client.pages("log", "entries", order="oldest", with_facts=True)
        await client.close()
        return join_pages(pages)


@asynccontextmanager
async def opened(directory: Path, *, seed: int, commits: int, workers: int = 1) -> AsyncIterator[Site]:
    """A site on a fresh directory, until the block ends."""
    async with (
        running(directory, workers=workers) as server,
        Proxy(server.address) as line,
        AsyncExitStack() as clients,
    ):
        site = Site(directory, server, line, clients, seed=seed)
        await site.make(commits)
        yield site
