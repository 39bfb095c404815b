"""Two real nodes on a database of their own, clients that come back, and what is in the log in the end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from itertools import count
from pathlib import Path
from typing import Any

import psycopg

from client_proxy import Proxy
from node_processes import NodeProcess
from plain_client import Gone, PlainClient
from plain_content import set_
from plain_world import ServedSpace
from postgres_server import OwnServer
from stemmadb.server.maintenance.verify import verify_space
from stemmadb.server.storage.postgres import PostgresStorage

PATIENCE = 120.0
DATABASES = count(1)


class Site:
    """Two nodes on a database of their own: the first reaches it through a proxy."""

    def __init__(self, server: OwnServer, directory: Path, tablespace: str = "pg_default") -> None:
        self.name = f"faults_{next(DATABASES)}"
        self.server, self.directory = server, directory
        with psycopg.connect(server.url, autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {self.name} TABLESPACE {tablespace}")
        self.url = self.at(server.port)
        self.proxy = Proxy(("127.0.0.1", server.port))
        self.nodes: list[NodeProcess] = []
        self.served: list[ServedSpace] = []

    def at(self, port: int) -> str:
        return f"postgresql://stemmadb@127.0.0.1:{port}/{self.name}"

    async def begin(self, *, second: dict[str, str] | None = None) -> None:
        port = int(self.proxy.url.rpartition(":")[2])
        for url, environment in ((self.at(port), None), (self.url, second)):
            node = await asyncio.to_thread(NodeProcess, url, self.directory / "data", environment=environment)
            self.nodes.append(node)
        self.served = [ServedSpace(node.url) for node in self.nodes]
        self.served[1].key, self.served[1].owner = self.served[0].key, self.served[0].owner
        await self.served[0].found()

    def rows(self, sql: str) -> list[tuple[object, ...]]:
        with psycopg.connect(self.url, autocommit=True) as connection:
            return connection.execute(sql).fetchall()

    def verified(self) -> list[tuple[str, object]]:
        """The ids and bodies of all facts, of spaces that verify."""
        storage, found = PostgresStorage(self.url, read_only=True), list[tuple[str, object]]()
        try:
            for space in storage.spaces():
                verify_space(storage, space)
                with storage.open(space).reader() as reader:
                    found += [(str(fact.id), fact.body) for _, facts in reader.history() for fact in facts]
            return found
        finally:
            storage.close()


@asynccontextmanager
async def site(server: OwnServer, directory: Path, tablespace: str = "pg_default") -> AsyncIterator[Site]:
    made = Site(server, directory, tablespace)
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(made.proxy)
        try:
            async with asyncio.timeout(PATIENCE):
                yield made
        finally:
            for served in made.served:
                await served.close()
            for node in made.nodes:
                await asyncio.to_thread(node.close)


async def comes_back(client: PlainClient, where: Callable[[], str] | None = None) -> None:
    """Until it is let in, at any of the addresses that `where` gives."""
    while True:
        client.address = client.address if where is None else where()
        try:
            await client.resume()
        except (OSError, Gone, TimeoutError):
            await asyncio.sleep(0.05)
        except Exception as refused:
            if type(refused).__name__ not in ("InvalidStatus", "InvalidMessage"):
                raise
            await asyncio.sleep(0.05)
        else:
            return


async def writes(client: PlainClient, name: str, times: int) -> list[str]:
    """Commits one after the other, over as many connections as it takes; the ids that were acknowledged."""
    done = []
    for number in range(times):
        local, sent = client.last_local + 1, False
        while True:
            try:
                if not sent:
                    sent = True
                    await client.commit(set_(f"urn:{name}:{number}", number))
                verdict = await decided(client, local)
                break
            except (Gone, OSError, TimeoutError):
                await comes_back(client)
        assert verdict["verdict"] == "accepted"
        done.append(f"urn:{name}:{number}")
    return done


async def decided(client: PlainClient, local: int) -> dict[str, Any]:
    """The verdict; what is deferred is sent again."""
    while (identity := (client.holding.session, local)) not in client.holding.verdicts:
        await client.pump()
        if client.deferred:
            await asyncio.sleep(client.deferred[-1].get("retry_after_ms", 50) / 1_000)
            client.deferred.clear()
            await client.send_again()
    return client.holding.verdicts[identity]


def check(made: Site, confirmed: list[str]) -> None:
    ids = [id_ for id_, _ in made.verified() if id_.startswith("urn:")]
    assert sorted(ids) == sorted(confirmed)
