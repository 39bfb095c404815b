"""A node that is stopped: it says that it is not ready, gives its spaces back, ends their sessions, then its row."""

from __future__ import annotations

import asyncio
import signal
import time
import urllib.error
import urllib.request
from itertools import pairwise
from pathlib import Path

import psycopg
import pytest

from node_processes import NodeProcess, url_of
from plain_client import PlainClient
from plain_content import set_
from plain_world import ServedSpace, new_key
from stemmadb.protocol.model.values.ids import Did
from stemmadb.server.serving.nodes.drain_steps import SPACES_AT_ONCE, retry_after_ms, steps
from stemmadb.server.storage.port import StorageFailed
from stemmadb.server.storage.postgres import PostgresStorage
from stemmadb.server.storage.postgres.connection import PgConnection, Values

DRAIN_MS = 9_000
PATIENCE = 60.0


@pytest.mark.parametrize("count", [0, 1, SPACES_AT_ONCE, SPACES_AT_ONCE + 1, 2_500, 10_000])
def test_up_to_a_thousand_spaces_go_at_once_and_more_in_steps_over_the_time(count: int) -> None:
    spaces = [Did(f"did:{number}") for number in range(count)]
    made = list(steps(spaces, DRAIN_MS))
    assert [did for step in made for did in step.spaces] == spaces
    assert all(len(step.spaces) <= SPACES_AT_ONCE for step in made)
    assert len(made) == -(-count // SPACES_AT_ONCE)
    assert all(step.at == 0 for step in made[:1])
    pauses = {round(after.at - before.at, 6) for before, after in pairwise(made)}
    assert pauses <= {round(DRAIN_MS / 1_000 / max(1, len(made)), 6)}
    assert all(step.at < DRAIN_MS / 1_000 for step in made)


def test_sessions_come_back_within_a_millisecond_for_each_and_within_the_time_of_the_drain() -> None:
    assert {retry_after_ms(3, DRAIN_MS) for _ in range(400)} == {0, 1, 2, 3}
    assert {retry_after_ms(10**6, 2) for _ in range(400)} == {0, 1, 2}


@pytest.mark.rule("STORE-8")
def test_what_a_draining_node_closes_is_given_back_with_one_statement(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage = PostgresStorage(url)
    try:
        spaces = [Did(new_key().did) for _ in range(12)]
        logs = [storage.open(space, create=True) for space in spaces]
        logs.pop().close()
        storage.claim(spaces)  # the last one is claimed and not open
        storage.drain()
        statements: list[str] = []
        change = PgConnection.change

        def counted(connection: PgConnection, sql: str, values: Values = ()) -> int:
            statements.append(sql)
            return change(connection, sql, values)

        monkeypatch.setattr(PgConnection, "change", counted)
        for log in logs:
            log.close()
        assert statements == []
        with pytest.raises(StorageFailed, match="stopping"):
            storage.open(spaces[0])
        assert owners(url) == {storage.node.number}
        storage.give_back_closed()
        assert len(statements) == 1
        assert owners(url) == {None}
    finally:
        storage.close()


@pytest.mark.rule("STORE-8")
def test_what_a_claim_under_way_brings_to_a_draining_node_is_given_back_too(url: str) -> None:
    storage = PostgresStorage(url)
    try:
        space = Did(new_key().did)
        storage.open(space, create=True).close()
        storage.drain()
        storage.claim([space])  # it had begun before
        assert owners(url) == {storage.node.number}
        storage.give_back_closed()
        assert owners(url) == {None}
    finally:
        storage.close()


@pytest.mark.rule("STORE-8", "RESUME-2")
async def test_readiness_then_hubs_then_goodbyes_then_the_row(url: str, tmp_path: Path) -> None:
    node = NodeProcess(url_of(url), tmp_path / "data")
    try:
        async with asyncio.timeout(PATIENCE):
            served = ServedSpace(node.url)
            await served.found()
            clients = [await served.enter() for _ in range(3)]
            await clients[0].write_now(set_("urn:x", 1))
            with psycopg.connect(url) as held:
                held.execute("SELECT 1 FROM stemmadb.tip FOR UPDATE")  # it cannot be given back meanwhile
                node.process.send_signal(signal.SIGTERM)
                await asyncio.to_thread(wait_for_lock, url)
                assert await asyncio.to_thread(readyz, node) == 503
                assert owners(url) == nodes(url) != set()
                assert not any([await says_anything(client) for client in clients])
            for client in clients:
                gone = await client.farewell()
                assert gone.farewell["code"] == "going_away"
                assert 0 <= gone.farewell["retry_after_ms"] <= len(clients)
                assert owners(url) == {None}
            assert await asyncio.to_thread(node.wait) == 0
            assert nodes(url) == set()
    finally:
        node.close()


async def says_anything(client: PlainClient) -> bool:
    """Whether there is a message now."""
    try:
        async with asyncio.timeout(0.05):
            await client.pump()
    except TimeoutError:
        return False
    return True


def readyz(node: NodeProcess) -> int:
    try:
        with urllib.request.urlopen(f"http{node.url.removeprefix('ws')}/readyz", timeout=PATIENCE) as answer:  # noqa: S310
            return int(answer.status)
    except urllib.error.HTTPError as refused:
        return refused.code


def wait_for_lock(url: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        sql = "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
        while not connection.execute(sql).fetchall():
            time.sleep(0.01)


def owners(url: str) -> set[int | None]:
    with psycopg.connect(url, autocommit=True) as connection:
        return {
            owner
            for (owner,) in connection.execute(
                "SELECT t.owner FROM stemmadb.tip AS t JOIN stemmadb.space AS s ON s.space = t.space"
            )
        }


def nodes(url: str) -> set[int]:
    with psycopg.connect(url, autocommit=True) as connection:
        return {node for (node,) in connection.execute("SELECT node FROM stemmadb.node")}
