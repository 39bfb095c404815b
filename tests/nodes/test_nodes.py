"""Two nodes on one database, as processes: one owner for a space, and what clients see when it is gone."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import psycopg
import pytest

import postgres_server
from node_processes import NodeProcess, url_of
from stemmadb.client import Identity, Space, connect
from stemmadb.server.maintenance.verify import verify_space
from stemmadb.server.storage.postgres import PostgresStorage

WRITERS = 6
COMMITS = 12
PATIENCE = 60.0


@pytest.fixture
def nodes(url: str, tmp_path: Path) -> Iterator[list[NodeProcess]]:
    made: list[NodeProcess] = []
    try:
        made += [NodeProcess(url_of(url), tmp_path / "data") for _ in range(2)]
        yield made
    finally:
        for node in made:
            node.close()


class Clients:
    """SDK clients of one principal."""

    def __init__(self, stack: AsyncExitStack, directory: Path) -> None:
        self._stack = stack
        self._directory = directory
        self._identity = Identity.from_seed(bytes(range(32)))

    async def space(self, node: NodeProcess, name: str = "shared") -> Space:
        database = await self._stack.enter_async_context(
            connect(node.url, identity=self._identity, config=self._directory / "config")
        )
        return await database.space(name)


@asynccontextmanager
async def clients_in(directory: Path) -> AsyncIterator[Clients]:
    async with asyncio.timeout(PATIENCE), AsyncExitStack() as stack:
        yield Clients(stack, directory)


async def write(space: Space, name: str, count: int, begun: asyncio.Event | None = None) -> list[str]:
    """The ids that were confirmed, one commit each; `begun` is set with the first."""
    confirmed = []
    for number in range(count):
        id_ = f"urn:{name}:{number}"
        async with space.transaction() as tx:
            tx.set(id_, {"n": number})
        await tx.confirmed()
        confirmed.append(id_)
        if begun is not None:
            begun.set()
    return confirmed


def owners(url: str) -> list[int]:
    with psycopg.connect(url) as connection:
        return [
            owner
            for (owner,) in connection.execute(
                "SELECT DISTINCT owner FROM stemmadb.tip AS t JOIN stemmadb.space AS s ON s.space = t.space"
            )
        ]


def stored(url: str, space: Space) -> tuple[int, list[str]]:
    """The version of a verified space, and the ids of all facts in order."""
    storage = PostgresStorage(url, read_only=True)
    try:
        verified = verify_space(storage, space.did)
        with storage.open(space.did).reader() as reader:
            ids = [str(fact.id) for _, facts in reader.history() for fact in facts]
        return int(verified.version), ids
    finally:
        storage.close()


@pytest.mark.rule("STORE-8")
async def test_what_one_node_commits_another_shows_and_the_space_has_one_owner(
    nodes: list[NodeProcess], url: str, tmp_path: Path
) -> None:
    async with clients_in(tmp_path) as clients:
        one, other = await clients.space(nodes[0]), await clients.space(nodes[1])
        assert one.did == other.did
        watch = other.live("urn:w:*")
        await watch.ready
        await write(one, "w", 3)
        await write(other, "v", 3)
        while len(watch) < 3:
            await asyncio.sleep(0.01)
        assert await other.get("urn:w:2") == {"n": 2}
        assert await one.get("urn:v:2") == {"n": 2}
        assert len(owners(url)) == 1


@pytest.mark.rule("STORE-8", "COMMIT-1", "COMMIT-5")
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
async def test_writes_go_on_at_the_other_node_and_nothing_is_lost_or_doubled(
    nodes: list[NodeProcess], url: str, tmp_path: Path, how: signal.Signals
) -> None:
    async with clients_in(tmp_path) as clients:
        founder = await clients.space(nodes[0])
        await write(founder, "first", 1)
        writers = [await clients.space(nodes[1]) for _ in range(WRITERS)]
        before, begun = owners(url), asyncio.Event()
        work = [asyncio.create_task(write(one, f"w{number}", COMMITS, begun)) for number, one in enumerate(writers)]
        await begun.wait()
        assert (nodes[0].end(how) == 0) is (how is signal.SIGTERM)
        confirmed = [id_ for done in await asyncio.gather(*work) for id_ in done]
        assert owners(url) != before
    version, ids = stored(url, founder)
    written = [id_ for id_ in ids if id_.startswith("urn:w")]
    assert sorted(written) == sorted(confirmed)
    assert version == len(confirmed) + 2


@pytest.mark.rule("STORE-8")
async def test_a_node_that_was_paused_beyond_its_lease_shows_nothing_of_what_it_remembers(
    nodes: list[NodeProcess], url: str, tmp_path: Path
) -> None:
    async with clients_in(tmp_path) as clients:
        slow = await clients.space(nodes[0])
        await write(slow, "before", 1)
        watch = slow.live("urn:after:*")
        await watch.ready
        quick = await clients.space(nodes[1])  # through the other node, to the one that is paused
        nodes[0].pause()
        await write(quick, "after", 3)
        nodes[0].go_on()
        while len(watch) < 3:
            await asyncio.sleep(0.01)
        assert await slow.get("urn:after:2") == {"n": 2}
    nodes[0].end(signal.SIGTERM)
    assert any("node_begins_anew" in line for line in nodes[0].log)
    assert stored(url, quick)[0] == 5


def test_a_node_with_another_key_does_not_start(nodes: list[NodeProcess], url: str, tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="--server-key"):
        NodeProcess(url_of(url), tmp_path / "other")


@pytest.mark.rule("STORE-8", "STORE-9", "COMMIT-1", "COMMIT-5")
async def test_a_restart_of_the_database_costs_clients_nothing_but_time(tmp_path: Path) -> None:
    with postgres_server.own_server() as server:
        node = NodeProcess(server.url, tmp_path / "data")
        try:
            async with clients_in(tmp_path) as clients:
                space = await clients.space(node)
                confirmed = await write(space, "before", 3)
                begun = asyncio.Event()
                work = asyncio.create_task(write(space, "during", COMMITS, begun))
                await begun.wait()
                await asyncio.to_thread(server.kill)
                await asyncio.to_thread(server.start)
                confirmed += await work
            node.end(signal.SIGTERM)
            version, ids = stored(server.url, space)
            assert sorted(id_ for id_ in ids if id_.startswith(("urn:before", "urn:during"))) == sorted(confirmed)
            assert version == len(confirmed) + 1
        finally:
            node.close()
