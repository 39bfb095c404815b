"""Real nodes whose line to the database, or whose database, fails: nothing is lost, doubled, or shown too late."""

from __future__ import annotations

import asyncio
import os
import secrets
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psycopg
import pytest

import postgres_server
from node_processes import LEASE_MS
from node_sites import Site, check, comes_back, site, writes
from plain_client import Gone
from plain_content import query_of, set_
from plain_world import ServedSpace, agree
from postgres_server import OwnServer
from stemmadb.server.storage.port import StorageFailed
from stemmadb.server.storage.postgres import PostgresStorage

CLOCK_SECONDS = 10
SHIFTED_CLOCK = f"""
import time
real, real_ns = time.time, time.time_ns
time.time = lambda: real() + {CLOCK_SECONDS}
time.time_ns = lambda: real_ns() + {CLOCK_SECONDS} * 10**9
"""
STOPS_BEFORE_IT_WRITES = """
import os, signal, sys
from stemmadb.server.serving.nodes.ownership import NodeOwnership
real = NodeOwnership.is_alive
def is_alive(self):
    found = real(self)
    if found and sys._getframe(1).f_code.co_name == "_may_send" and os.path.exists({trigger!r}):
        os.unlink({trigger!r})
        os.kill(os.getpid(), signal.SIGSTOP)
    return found
NodeOwnership.is_alive = is_alive
"""


def patched(directory: Path, program: str) -> dict[str, str]:
    """The environment of a node that runs this before it starts."""
    directory.mkdir()
    (directory / "sitecustomize.py").write_text(program)
    return {"PYTHONPATH": os.pathsep.join([str(directory), os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep)}


@pytest.fixture(scope="module")
def server() -> Iterator[OwnServer]:
    postgres_server.need()
    with postgres_server.own_server() as made:
        yield made


@pytest.mark.rule("STORE-8", "STORE-9", "COMMIT-1", "COMMIT-5", "COMMIT-10")
async def test_connections_that_are_cut_cost_time_only(server: OwnServer, tmp_path: Path) -> None:
    async with site(server, tmp_path) as made:
        await made.begin()
        clients = [await made.served[n].enter() for n in (0, 1)]
        work = [asyncio.create_task(writes(client, f"c{n}", 15)) for n, client in enumerate(clients)]
        for _ in range(5):
            made.proxy.up.cut_after = secrets.randbelow(3_000)
            await asyncio.sleep(0.1)
            made.proxy.cut()
        made.proxy.up.cut_after = None
        confirmed = [id_ for ids in await asyncio.gather(*work) for id_ in ids]
        await asyncio.to_thread(check, made, confirmed)


@pytest.mark.rule("STORE-8", "STORE-9", "COMMIT-1", "COMMIT-5", "COMMIT-10")
async def test_a_node_whose_connections_are_half_open_is_replaced_and_lives_again(
    server: OwnServer, tmp_path: Path
) -> None:
    async with site(server, tmp_path) as made:
        await made.begin()
        client = await made.served[0].enter()
        confirmed = await writes(client, "before", 2)
        first = await asyncio.to_thread(made.rows, "SELECT node FROM stemmadb.node ORDER BY 1")
        made.proxy.silence()
        client.address = made.nodes[1].url
        client.abort()
        await comes_back(client)
        confirmed += await writes(client, "after", 3)
        made.proxy.cut()  # as TCP does after some seconds, if nobody acknowledges
        while len(now := await asyncio.to_thread(made.rows, "SELECT node FROM stemmadb.node ORDER BY 1")) < 2:
            await asyncio.sleep(0.05)
        assert now != first
        again = made.served[0].client()  # through the node that lives again
        await comes_back(again)
        confirmed += await writes(again, "again", 2)
        await asyncio.to_thread(check, made, confirmed)


@pytest.mark.rule("STORE-8")
async def test_a_renewal_whose_answer_comes_after_the_end_of_its_row_revives_nothing(
    server: OwnServer, tmp_path: Path
) -> None:
    async with site(server, tmp_path) as made:
        await made.begin()
        writer, watcher = await made.served[0].enter(), await made.served[0].enter()
        await watcher.watch_filled(1, query_of("urn:*"))
        confirmed = await writes(writer, "before", 2)
        await watcher.reach(3)
        made.proxy.down.hold()
        writer.address = made.nodes[1].url
        writer.abort()
        await comes_back(writer)  # once the row of the first node has ended
        confirmed += await writes(writer, "after", 3)
        frames, heard = len(watcher.holding.frames), len(watcher.heard)
        with suppress(Gone, TimeoutError):
            await watcher.ask("ping")  # the answer would come from memory
            async with asyncio.timeout(0.3):
                await watcher.pump()
        made.proxy.down.release()
        with suppress(Gone):
            while True:
                await watcher.pump()
        assert len(watcher.holding.frames) == frames  # nothing that the first node remembers
        assert set(watcher.heard[heard:]) <= {"goodbye"}
        await comes_back(watcher)
        await agree(watcher, 1)
        assert sorted(watcher.holding.held_by(1)) == sorted(confirmed)
        assert any("node_begins_anew" in line for line in made.nodes[0].log)


@pytest.mark.rule("STORE-9", "COMMIT-1", "COMMIT-5")
async def test_while_the_database_has_no_connection_left_nothing_is_lost(server: OwnServer, tmp_path: Path) -> None:
    async with site(server, tmp_path) as made:
        await made.begin()
        client = await made.served[0].enter()
        confirmed = await writes(client, "before", 2)
        held = await asyncio.to_thread(take_all_connections, server.url)
        work = asyncio.create_task(writes(client, "during", 10))
        await asyncio.sleep(LEASE_MS / 1_000 * 2)  # a fault, not a wait: the leases lapse meanwhile
        assert not work.done()
        for connection in held:
            connection.close()
        confirmed += await work
        await asyncio.to_thread(check, made, confirmed)


def take_all_connections(url: str) -> list[psycopg.Connection[tuple[object, ...]]]:
    """Ends those of the nodes, and leaves them none."""
    held: list[psycopg.Connection[tuple[object, ...]]] = [psycopg.connect(url, autocommit=True)]
    while True:
        held[0].execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'stemmadb'")
        try:
            while True:
                held.append(psycopg.connect(url, autocommit=True))
        except psycopg.OperationalError:
            left = held[0].execute("SELECT 1 FROM pg_stat_activity WHERE application_name = 'stemmadb'").fetchall()
            if not left:
                return held


@pytest.mark.rule("STORE-8")
def test_two_nodes_never_have_one_number(server: OwnServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = Site(server, tmp_path)
    with monkeypatch.context() as patched:
        patched.setattr(secrets, "randbits", lambda _: 7)
        one = PostgresStorage(made.url, lease_ms=LEASE_MS)
        with pytest.raises((StorageFailed, psycopg.Error)):
            PostgresStorage(made.url, lease_ms=LEASE_MS)
    other = PostgresStorage(made.url, lease_ms=LEASE_MS)
    assert one.node.is_alive
    assert sorted([7, other.node.number]) == sorted(
        int(str(node)) for (node,) in made.rows("SELECT node FROM stemmadb.node")
    )
    one.close()
    other.close()


@pytest.mark.rule("STORE-8", "COMMIT-7")
def test_a_node_has_the_time_of_the_database_before_its_first_renewal(server: OwnServer, tmp_path: Path) -> None:
    storage = PostgresStorage(Site(server, tmp_path).url, lease_ms=600_000)  # renewed after 100 s
    try:
        assert abs(storage.node.now() - time.time() * 1_000) < 5_000
    finally:
        storage.close()


@pytest.mark.rule("STORE-8", "COMMIT-7")
async def test_a_node_whose_clock_is_off_by_ten_seconds_takes_the_time_of_the_database(
    server: OwnServer, tmp_path: Path
) -> None:
    async with site(server, tmp_path) as made:
        await made.begin(second=patched(tmp_path / "clock", SHIFTED_CLOCK))
        ahead = ServedSpace(made.nodes[1].url)
        await ahead.found()  # the second node owns it
        served = [made.served[0], ahead]
        times: list[int] = []
        for one in (served[0], served[1], served[0], served[1]):
            client = await one.enter()
            before = time.time() * 1_000
            verdict = await client.write_now(set_("urn:x", 1))
            assert before - 2_000 < verdict["time"] < time.time() * 1_000 + 2_000
            times.append(verdict["time"])
        assert times == sorted(times)
        assert len(await asyncio.to_thread(made.rows, "SELECT node FROM stemmadb.node")) == 2


@pytest.mark.rule("STORE-8", "COMMIT-1", "COMMIT-5")
async def test_an_owner_that_is_stopped_between_its_check_and_the_write_sends_a_verdict_that_is_true(
    server: OwnServer, tmp_path: Path
) -> None:
    """The check was made, so the frame goes out, long after another node has the space; nothing else does."""
    trigger = tmp_path / "stop"
    program = STOPS_BEFORE_IT_WRITES.format(trigger=str(trigger))
    async with site(server, tmp_path) as made:
        await made.begin(second=patched(tmp_path / "patch", program))
        stopped, other = (ServedSpace(made.nodes[n].url) for n in (1, 0))
        made.served += [stopped, other]
        other.key, other.owner = stopped.key, stopped.owner
        await stopped.found()  # the second node owns it
        client = await stopped.enter()
        await client.watch_filled(1, query_of("urn:*"))
        confirmed = await writes(client, "before", 1)
        trigger.touch()
        local = await client.commit(set_("urn:late", 1))
        while trigger.exists():
            await asyncio.sleep(0.01)
        quick = other.client()
        await comes_back(quick)
        confirmed += await writes(quick, "after", 3)
        made.nodes[1].go_on()
        heard = len(client.heard)
        with suppress(Gone):
            while True:
                await client.pump()
        late = client.holding.verdicts[client.holding.session, local]
        assert late["verdict"] == "accepted"
        assert client.holding.to == late["version"]
        assert client.heard[heard:].count("sync") == 1
        await comes_back(client)
        await agree(client, 1)
        assert sorted(client.holding.held_by(1)) == sorted([*confirmed, "urn:late"])
        await asyncio.to_thread(check, made, [*confirmed, "urn:late"])
