"""An asynchronous standby is promoted that lost acknowledged commits: clients start over in the history that is left.

Beside it: a wait for a synchronous standby that was cancelled, and the promotion of that standby afterwards.
"""

from __future__ import annotations

import asyncio
import json
import threading
import time
from pathlib import Path
from typing import Any

import psycopg
import pytest

from appends import append_to
from database_commands import run
from logs import LogMaker
from node_processes import NodeProcess
from plain_client import Gone, PlainClient
from plain_content import query_of, set_
from plain_world import ServedSpace, agree
from postgres_server import OwnServer
from space import SPACE
from space import set_ as write_of
from standbys import a_pair, promoted, wait_until_caught_up, waiting_for_standby
from stemmadb.protocol.model.values.ids import Version
from stemmadb.server.storage.port import StorageFailed
from stemmadb.server.storage.postgres import PostgresStorage
from stemmadb.server.storage.postgres.connection import UnknownOutcome

PATIENCE = 120.0
EVERYTHING = query_of("urn:*")
KEPT, LOST, NEW = 3, 3, 4


def either(primary: OwnServer, standby: OwnServer) -> str:
    """As `--storage` takes it: whichever of the two can be written."""
    return f"postgresql://stemmadb@127.0.0.1:{primary.port},127.0.0.1:{standby.port}/postgres"


def verified_version(url: str) -> int:
    """By the command, which exits with 0 if every space of the database holds."""
    done = run("verify", "--storage", url, "--json")
    assert done.returncode == 0, done.stderr
    (space,) = json.loads(done.stdout.splitlines()[-1])["spaces"]
    return int(space["version"])


async def come_back(client: PlainClient) -> dict[str, Any]:
    """Connects until it is let in; the first frame."""
    while True:
        try:
            return await client.open()
        except (OSError, Gone, TimeoutError):
            await asyncio.sleep(0.05)
        except Exception as refused:
            if type(refused).__name__ != "InvalidStatus":  # 503: the node has no owner to name yet
                raise
            await asyncio.sleep(0.05)


@pytest.mark.rule("STORE-8", "STORE-9", "RESUME-1", "RESUME-4", "QUERY-6")
async def test_lost_history_is_told_to_every_client_and_nobody_sees_a_mixed_one(tmp_path: Path) -> None:
    with a_pair(synchronous=False) as (primary, standby):
        node = NodeProcess(either(primary, standby), tmp_path / "data")
        try:
            async with asyncio.timeout(PATIENCE):
                await _lose_history(primary, standby, node)
        finally:
            node.close()


async def _lose_history(primary: OwnServer, standby: OwnServer, node: NodeProcess) -> None:
    served = ServedSpace(node.url)
    await served.found()
    writer, watcher, behind = await served.enter(), await served.enter(), await served.enter()
    await watcher.watch_filled(1, EVERYTHING)
    for number in range(KEPT):
        await writer.write_now(set_(f"urn:{number}", {"kept": number}))
    await behind.watch_filled(1, EVERYTHING)
    await behind.close()  # it holds nothing of what will be lost
    await asyncio.to_thread(wait_until_caught_up, primary, standby)
    await asyncio.to_thread(standby.kill)
    for number in range(LOST):
        await writer.write_now(set_(f"urn:{number}", {"lost": number}))
    await watcher.reach(1 + KEPT + LOST)
    page = await watcher.request("log", order="oldest", limit=1)
    held = (watcher.holding.to, watcher.holding.hash)

    await asyncio.to_thread(primary.kill)
    await asyncio.to_thread(standby.start)
    await asyncio.to_thread(promoted, standby)
    fresh = await _entered(served)
    for number in range(NEW):  # the versions that were lost are there again, with other commits
        await fresh.write_now(set_(f"urn:{number}", {"new": number}))

    for client in (writer, watcher):
        await client.farewell()  # what it was told before it ended is read, and checked
        assert (await come_back(client))["reset"] == "history"
    assert sorted(local for _, local in writer.holding.lost) == list(range(KEPT + 1, KEPT + LOST + 1))
    assert watcher.holding.to >= held[0]
    assert watcher.holding.hash != held[1]
    assert "reset" not in await come_back(behind)
    for client in (watcher, behind):
        await agree(client, 1)
        values = [value for _, _, value in client.holding.held_by(1).values()]
        assert not [value for value in values if "lost" in value]
    assert (await watcher.refusal("log", order="oldest", limit=1, after=page["next"])).code == "malformed"
    hashes = {await client.verified() for client in (fresh, watcher, behind)}
    assert len(hashes) == 1
    await served.close()
    assert any("another_server" in line for line in node.log)
    assert await asyncio.to_thread(verified_version, standby.url) == 1 + KEPT + NEW


async def _entered(served: ServedSpace) -> PlainClient:
    client = served.client()
    await come_back(client)
    return client


@pytest.mark.rule("STORE-9", "COMMIT-10")
@pytest.mark.parametrize("level", ["notice", "error"], ids=["warnings are shown", "the role hides warnings"])
def test_cancelled_wait_ends_in_a_claim_that_waits_for_the_standby_which_is_promoted_then(level: str) -> None:
    with a_pair(synchronous=True) as (primary, standby):
        with psycopg.connect(primary.url, autocommit=True) as connection:
            connection.execute(f"ALTER ROLE stemmadb SET client_min_messages = {level}")
        storage = PostgresStorage(primary.url, lease_ms=60_000)
        maker, log = LogMaker(), storage.open(SPACE, create=True)
        append_to(log, Version(0), [maker.commit(write_of("urn:x", 1, blind=True))])
        standby.kill()
        failures: list[BaseException] = []

        def append() -> None:
            try:
                append_to(log, Version(1), [maker.commit(write_of("urn:x", 2, blind=True))])
            except StorageFailed as failure:
                failures.append(failure)

        appending = threading.Thread(target=append)
        appending.start()
        _cancel_what_waits(primary.url)
        appending.join()
        assert [type(failure) for failure in failures] == [UnknownOutcome]
        log.close()
        claims: list[int] = []

        def claim() -> None:
            with storage.open(SPACE).reader() as reader:
                claims.append(reader.tip().version)

        claiming = threading.Thread(target=claim)
        claiming.start()
        while not waiting_for_standby(primary.url):
            time.sleep(0.01)
        assert claims == []  # what it would show is on one machine only
        standby.start()
        claiming.join()
        assert claims == [2]
        primary.kill()
        assert verified_version(promoted(standby)) == 2
        storage.close()


def _cancel_what_waits(url: str) -> None:
    while not (waiting := waiting_for_standby(url)):
        time.sleep(0.01)
    with psycopg.connect(url, autocommit=True) as connection:
        for pid in waiting:
            connection.execute("SELECT pg_cancel_backend(%s)", (pid,))
