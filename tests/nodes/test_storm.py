"""Kills of nodes and the loss of the primary in one run, under writers that append to lists they have read."""

from __future__ import annotations

import asyncio
import random
import signal
import time
from itertools import count
from pathlib import Path
from typing import Final

import pytest

from list_cycles import anomalies
from list_history import Append, Read, Transaction
from node_processes import NodeProcess
from node_sites import comes_back, decided
from plain_client import Gone, PlainClient
from plain_content import patch_, query_of, read_, set_
from plain_world import ServedSpace, agree
from postgres_server import OwnServer
from standbys import a_pair, promoted
from stemmadb.server.maintenance.verify import verify_space
from stemmadb.server.storage.postgres import PostgresStorage
from violations import expect_none

SPACES: Final = 4
WRITERS: Final = 3
"""On each space."""
KILLS: Final = 4
BETWEEN: Final = 12
"""Transactions that end well between two faults."""
LIST: Final = "urn:list"
PATIENCE: Final = 120.0


class Storm:
    """Nodes on a primary and its standby, and what the writers did."""

    def __init__(self, primary: OwnServer, standby: OwnServer, data: Path) -> None:
        self.primary, self.standby, self.data = primary, standby, data
        self.url = f"postgresql://stemmadb@127.0.0.1:{primary.port},127.0.0.1:{standby.port}/postgres"
        self.nodes: list[NodeProcess] = []
        self.done: list[Transaction] = []
        self.ends: list[tuple[int, ...]] = []
        """What each list held in the end."""
        self.is_over = False
        self._elements = count(1)
        self._chance = random.Random(0)

    def start(self) -> None:
        self.nodes.append(NodeProcess(self.url, self.data))

    def where(self) -> str:
        return self._chance.choice(self.nodes).url

    async def at_least(self, more: int) -> None:
        wanted = self.accepted + more
        while self.accepted < wanted:
            await asyncio.sleep(0.02)

    @property
    def accepted(self) -> int:
        return sum(one.outcome == "ok" for one in self.done)

    def elements(self, outcome: str) -> set[int]:
        """What was appended, with this outcome."""
        made = [step for one in self.done if one.outcome == outcome for step in one.steps]
        return {step.element for step in made if isinstance(step, Append)}

    async def kill_one(self) -> None:
        """The oldest, which owns most; another takes its place."""
        node = self.nodes.pop(0)
        await asyncio.to_thread(node.end, signal.SIGKILL)
        await asyncio.to_thread(self.start)

    async def write(self, client: PlainClient) -> None:
        while not self.is_over:
            version, _, elements = client.holding.held_by(1)[LIST]
            element, began = next(self._elements), time.monotonic()
            verdict = await self._committed(client, element, version)
            is_ok = verdict == "accepted"
            read = [Read(client.space, tuple(elements))] if is_ok else []
            steps = (*read, Append(client.space, element))
            outcome = "ok" if is_ok else "failed"
            process = client.holding.session.hex()
            self.done.append(Transaction(process, began, time.monotonic(), outcome, steps))  # type: ignore[arg-type]

    async def _committed(self, client: PlainClient, element: int, version: int) -> str:
        local = client.last_local + 1
        appended = patch_(LIST, {"op": "add", "path": "/-", "value": element}, blind=False)
        is_sent = False
        while True:
            try:
                if not is_sent:
                    is_sent = True
                    await client.commit(appended, reads=[read_(version, entity=LIST)])
                return str((await decided(client, local))["verdict"])
            except (Gone, OSError, TimeoutError):
                await comes_back(client, self.where)

    async def read_all(self, client: PlainClient) -> None:
        """What is there in the end, as a transaction of its own."""
        began = time.monotonic()
        found = tuple((await client.query(query_of(LIST)))[LIST][2])
        self.ends.append(found)
        read = (Read(client.space, found),)
        self.done.append(Transaction(f"end of {client.space}", began, time.monotonic(), "ok", read))


@pytest.mark.rule("STORE-8", "STORE-9", "COMMIT-1", "COMMIT-2", "COMMIT-5", "COMMIT-10", "RESUME-1")
async def test_nodes_that_are_killed_and_a_promotion_lose_double_and_reorder_nothing(tmp_path: Path) -> None:
    with a_pair(synchronous=True) as pair:
        storm = Storm(*pair, tmp_path / "data")
        spaces: list[ServedSpace] = []
        try:
            async with asyncio.timeout(PATIENCE):
                for _ in range(2):
                    await asyncio.to_thread(storm.start)
                spaces += [ServedSpace(storm.where()) for _ in range(SPACES)]
                clients = await entered(spaces)
                work = [asyncio.create_task(storm.write(client)) for client in clients]
                for number in range(KILLS):
                    await storm.at_least(BETWEEN)
                    if number == KILLS // 2:
                        await asyncio.to_thread(storm.primary.kill)
                        await asyncio.to_thread(promoted, storm.standby)
                        await storm.at_least(BETWEEN)
                    await storm.kill_one()
                await storm.at_least(BETWEEN)
                storm.is_over = True
                await asyncio.gather(*work)
                for client in clients:
                    await comes_back(client, storm.where)
                    await agree(client, 1)
                for client in clients[::WRITERS]:
                    await storm.read_all(client)
            await asyncio.to_thread(verify, storm.standby.url)
        finally:
            for space in spaces:
                await space.close()
            for node in storm.nodes:
                await asyncio.to_thread(node.close)
    kept = [element for end in storm.ends for element in end]
    assert sorted(kept) == sorted(storm.elements("ok"))
    assert not storm.elements("failed") & set(kept), "rejected, and in the log"
    expect_none(anomalies(storm.done))


async def entered(spaces: list[ServedSpace]) -> list[PlainClient]:
    clients = []
    for space in spaces:
        await space.found()
        first = await space.enter()
        await first.write_now(set_(LIST, []))
        writers = [first, *[await space.enter() for _ in range(WRITERS - 1)]]
        for client in writers:
            await client.watch_filled(1, query_of(LIST))
        clients += writers
    return clients


def verify(url: str) -> None:
    storage = PostgresStorage(url, read_only=True)
    try:
        for space in storage.spaces():
            verify_space(storage, space)
    finally:
        storage.close()
