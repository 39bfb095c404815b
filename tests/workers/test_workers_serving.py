"""What clients and operators see of a server with workers, of which worker 0 alone accepts connections."""

from __future__ import annotations

import asyncio
import json
import resource
import socket
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from subprocess import PIPE
from typing import Any

import pytest
from websockets.asyncio.client import ClientConnection
from websockets.asyncio.client import connect as connect_socket
from websockets.exceptions import InvalidStatus

from command_line import here, run, start
from http_worlds import HttpWorld, http_world
from listening import certificate
from plain_client import Gone
from plain_content import query_of, set_
from plain_world import ServedSpace, new_key, space_key
from stemmadb.client import Space
from stemmadb.protocol.model.values.ids import Did, TimeMs
from stemmadb.protocol.wire.version import MSGPACK, space_path
from stemmadb.server.serving.ownership.worker_ownership import worker_of

pytestmark = pytest.mark.workers
WORKERS = 3


@asynccontextmanager
async def world(folder: Path, **settings: Any) -> AsyncIterator[HttpWorld]:
    async with http_world(folder, **({"workers": WORKERS, "accept_only": 0} | settings)) as made:
        yield made


async def one_of_each(it: HttpWorld) -> list[Space]:
    """A space of each worker."""
    found: dict[int, Space] = {}
    number = 0
    while len(found) < WORKERS:
        space = await it.db.space(f"space {number}")
        found.setdefault(worker_of(space.did, WORKERS), space)
        number += 1
    return [found[number] for number in range(WORKERS)]


def numbers(metrics: bytes) -> dict[str, float]:
    lines = (line.rpartition(" ") for line in metrics.decode().splitlines() if not line.startswith("#"))
    return {name: float(value) for name, _, value in lines}


@pytest.mark.rule("STORE-4")
async def test_requests_of_one_client_reach_the_workers_of_their_spaces(short: Path) -> None:
    async with world(short) as it:
        spaces = await one_of_each(it)
        for number, space in enumerate(spaces):
            token = it.token_of(it.db.identity, space=space.did)
            path = f"//v1/spaces/{space.did}/entity?id=urn:a:1"
            put = await it.ask("PUT", f"{path}&blind=true", {"n": number}, token=token)
            assert put.status in (200, 201)
            got = await it.get(path, token=token)
            assert (got.status, got.json()) == (200, {"n": number})
            assert got.headers["connection"] == "close"
        for space in spaces:
            async with space.transaction() as tx:
                tx.set("urn:a:2", {"by": "websocket"})
            await tx.confirmed()
        soon = TimeMs(int(time.time() * 1_000) + 600_000)
        everywhere = it.token_of(it.db.identity, space=None, expires=soon)
        listed = await it.get("//v1/spaces", token=everywhere)
        assert {row["space"] for row in listed.json()["spaces"]} >= {space.did for space in spaces}
        scraped = numbers((await it.get("//metrics")).body)
        assert scraped["stemmadb_workers"] == WORKERS
        assert scraped["stemmadb_workers_missing"] == 0
        assert scraped["stemmadb_sessions"] >= WORKERS
        commits = {name: value for name, value in scraped.items() if name.startswith("stemmadb_space_commits_total{")}
        assert sum(commits.values()) == scraped["stemmadb_commits_total"]
        assert all(any(space.did in name and value >= 2 for name, value in commits.items()) for space in spaces)
        verified = await asyncio.to_thread(here, "verify", "--data", it.data, "--json")
        assert verified.code == 0
        shown = (await asyncio.to_thread(here, "status", "--data", it.data, "--json")).json
        assert sum(one["spaces"] for one in shown["server"]["workers"]) == len(shown["spaces"])
        # The list of spaces is made anew from the spaces themselves, for each worker.
        assert (await asyncio.to_thread(here, "space", "reindex", "--data", it.data, "--json")).code == 0
        again = await it.get("//v1/spaces", token=everywhere)
        assert again.json() == listed.json()


@pytest.mark.rule("WIRE-3")
async def test_a_session_that_is_opened_twice_is_taken_over_by_its_owner(short: Path) -> None:
    async with world(short) as it:
        space = ServedSpace(it.url, key=space_key(workers=WORKERS, owner=2))
        await space.found()
        first = await space.enter()
        second = await space.enter(session=first.holding.session)
        with pytest.raises(Gone) as gone:
            await first.query(query_of("*"))
        assert gone.value.farewell["code"] == "taken_over"
        await second.write_now(set_("urn:a:1", 1))
        await space.close()


@pytest.mark.rule("STORE-4")
async def test_tls_is_relayed_to_the_worker_of_the_space(short: Path) -> None:
    _, client = certificate(short)
    (short / "key.pem").chmod(0o600)
    tls = {"tls_cert": short / "cert.pem", "tls_key": short / "key.pem"}
    async with world(short, ssl=client, **tls) as it:
        it.context = client
        for number, space in enumerate(await one_of_each(it)):
            async with space.transaction() as tx:
                tx.set("urn:a:1", {"n": number, "long": "x" * 300_000})
            await tx.confirmed()
            token = it.token_of(it.db.identity, space=space.did)
            got = await it.get(f"//v1/spaces/{space.did}/entity?id=urn:a:1", token=token)
            assert (got.status, got.json()["n"]) == (200, number)


async def entered(url: str, space: Did) -> ClientConnection | int:
    """A connection that was greeted, or the status of its refusal."""
    try:
        peer = await connect_socket(url + space_path(space), subprotocols=[MSGPACK])  # type: ignore[list-item]
    except InvalidStatus as refused:
        return refused.response.status_code
    await peer.recv()
    return peer


@pytest.mark.parametrize("setting", ["connections_max", "connections_per_address_max"])
async def test_limits_on_connections_hold_for_all_workers_together(short: Path, setting: str) -> None:
    async with world(short, **{setting: 6}) as it:
        spaces = [Did(space_key(workers=WORKERS, owner=number % WORKERS).did) for number in range(8)]
        held: list[ClientConnection] = []
        for space in spaces:
            peer = await entered(it.url, space)
            if isinstance(peer, int):
                assert peer == (503 if setting == "connections_max" else 429)
                break
            held.append(peer)
            await asyncio.sleep(0.1)  # one message goes from worker to worker
        assert 3 <= len(held) <= 6
        for peer in held:
            await peer.close()
        async with asyncio.timeout(30):
            while isinstance(peer := await entered(it.url, spaces[-1]), int):
                await asyncio.sleep(0.05)
        await peer.close()


async def test_the_limit_of_a_principal_holds_for_all_workers_together(short: Path) -> None:
    async with world(short, connections_per_principal_max=3) as it:
        key, spaces = new_key(), []
        for number in range(4):
            space = ServedSpace(it.url, key=space_key(workers=WORKERS, owner=number % WORKERS))
            space.owner, space.roles = key, {key.did: "own"}
            await space.found()
            spaces.append(space)
        for space in spaces[:3]:
            await space.enter()
            await asyncio.sleep(0.5)  # one message goes from worker to worker
        with pytest.raises(Gone) as gone:
            await spaces[3].enter()
        assert gone.value.farewell["details"]["bound"] == "connections_per_principal_max"
        for space in spaces:
            await space.close()


async def test_the_owner_logs_the_address_of_the_client(short: Path, capfd: pytest.CaptureFixture[str]) -> None:
    async with world(short, log_level="debug", log_format="json") as it:
        space = ServedSpace(it.url, key=space_key(workers=WORKERS, owner=2))
        await space.found()
        heard, lines = "", list[dict[str, Any]]()
        async with asyncio.timeout(60):
            while not lines:
                heard += capfd.readouterr().err
                opened = [line for line in heard.splitlines() if '"session_opened"' in line and line.endswith("}")]
                lines = [line for line in map(json.loads, opened) if line["space"] == space.space]
                await asyncio.sleep(0.01)
        assert (lines[0]["worker"], lines[0]["address"]) == (2, "127.0.0.1")
        await space.close()


def test_bad_input_ends_with_one_line_that_says_what_to_do(short: Path) -> None:
    cases = [
        (["--workers", "0"], 2, "workers"),
        (["--workers", "1000"], 2, "workers"),
        (["--workers", "2", "--accept-only", "2"], 2, "accept_only"),
        (["--workers", "2", "--data", str(short / ("x" * 90))], 3, "--workers 1"),
    ]
    for flags, code, says in cases:
        ended = run("serve", "--port", "0", "--data", short / "data", *flags)
        assert (ended.code, ended.out) == (code, "")
        assert says in ended.err
        assert len(ended.err.splitlines()) <= 2


def test_workers_that_the_descriptors_are_too_few_for_are_not_started(short: Path) -> None:
    """They would be tried again and again, and the server never ready."""

    def few() -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (60, 60))

    words = ("serve", "--port", "0", "--data", short / "data", "--workers", "16")
    with start(*words, stdout=PIPE, stderr=PIPE, preexec_fn=few) as server:
        out, err = server.communicate(timeout=60)
    assert (server.returncode, out) == (3, b"")
    assert b"Start with --workers 7" in err
    assert len(err.splitlines()) == 1


async def test_a_second_server_on_the_directory_or_the_port_says_so(short: Path) -> None:
    async with world(short) as it:
        second = await asyncio.to_thread(run, "serve", "--port", "0", "--workers", "2", "--data", it.data, "--json")
        assert (second.code, second.error) == (3, "directory_held")
        there = ("--port", it.port, "--data", short / "other", "--workers", "2", "--json")
        other = await asyncio.to_thread(run, "serve", *there)
        assert other.code == 3
        assert "--port" in json.loads(other.out)["error"]["message"]
        with socket.create_connection(("127.0.0.1", it.port)):
            pass
