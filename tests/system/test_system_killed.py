"""Kill -9 of a real server process under load: what was acknowledged is there, and every commit is there once."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path

import pytest
import pytest_asyncio

from plain_client import Gone, PlainClient
from plain_content import increment, patch_, query_of, set_
from plain_world import ServedSpace, agree
from served import Process

pytestmark = pytest.mark.asyncio(loop_scope="module")
CYCLES = 3
CLIENTS = 4


@pytest_asyncio.fixture(loop_scope="module")
async def process(tmp_path: Path) -> AsyncIterator[Process]:
    made = Process(tmp_path / "data")
    made.start()
    yield made
    made.kill()


async def count_until_gone(client: PlainClient) -> None:
    """Sends increments, a few ahead of their verdicts, until the server is gone; what is undecided stays pending."""
    sent: list[int] = []
    with suppress(Gone):
        while True:
            sent.append(await client.commit(patch_("urn:a:1", increment("/n"))))
            if len(sent) > 8:
                await client.verdict(sent[-8])


@pytest.mark.rule("RESUME-2", "RESUME-3", "COMMIT-1", "COMMIT-5")
async def test_every_commit_is_there_once_whatever_the_server_was_doing(process: Process) -> None:
    chance = random.Random(1)
    served_space = ServedSpace(process.address)
    await served_space.found()
    clients = [await served_space.enter() for _ in range(CLIENTS)]
    await clients[0].write_now(set_("urn:a:1", {"n": 0}))
    for client in clients:
        await client.watch_filled(1, query_of("urn:a:*"))
    for _ in range(CYCLES):
        counting = [asyncio.ensure_future(count_until_gone(client)) for client in clients]
        heard = chance.randint(20, 200)
        while len(clients[0].holding.verdicts) < heard and not counting[0].done():
            await asyncio.sleep(0)
            heard -= 1
        process.kill()
        await asyncio.gather(*counting)
        process.start()
        for client in clients:
            client.address = process.address
            await client.resume()
        for client in clients:
            for session, local in list(client.holding.pending):
                assert (await client.verdict(local, session))["verdict"] == "accepted"
    total = sum(client.last_local for client in clients) - 1
    for client in clients:
        await agree(client)
        assert client.holding.value("urn:a:1") == {"n": total}
        versions = [version for version, _ in client.holding.confirmed.values()]
        assert len(set(versions)) == len(versions)
        assert await client.verified() == client.holding.hash
    await served_space.close()


@pytest.mark.rule("RESUME-3")
async def test_a_server_that_is_asked_to_stop_says_goodbye_and_ends_well(process: Process) -> None:
    served_space = ServedSpace(process.address)
    await served_space.found()
    client = await served_space.enter()
    local = await client.commit(set_("urn:a:1", 1))
    verdict = await client.verdict(local)
    stopping = asyncio.get_running_loop().run_in_executor(None, process.stop)
    gone = await client.farewell()
    assert gone.farewell["code"] == "going_away"
    assert await stopping == 0
    process.start()
    client.address = process.address
    frame = await client.resume()
    assert (frame["to"], frame["hash"]) == (verdict["version"], verdict["hash"])
    await served_space.close()
