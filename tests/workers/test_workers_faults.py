"""Workers, their parent and all of them are killed under load: nothing acknowledged is lost or there twice."""

from __future__ import annotations

import asyncio
import fcntl
import os
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest

import faults_cycles
from client_processes import PATIENCE_SECONDS, Server, running, until
from command_line import here
from faults_cycles import Weather
from plain_client import Gone, PlainClient
from plain_content import increment, patch_, query_of, set_
from plain_world import ServedSpace, space_key

pytestmark = pytest.mark.workers
WORKERS = 3


def is_running(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return "Z" not in Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]


async def founded(server: Server, *, owner: int) -> ServedSpace:
    """A space of this worker."""
    made = ServedSpace(server.url, key=space_key(workers=server.workers, owner=owner))
    await made.found()
    return made


async def counted(space: ServedSpace, commits: int) -> PlainClient:
    """A client with an entity that has counted its commits."""
    client = await space.enter()
    await client.write_now(set_("urn:a:1", {"n": 0}))
    for _ in range(commits):
        await client.write_now(patch_("urn:a:1", increment("/n")))
    return client


async def write_on(client: PlainClient) -> None:
    while True:
        await client.write_now(patch_("urn:a:1", increment("/n")))


async def count_in(space: ServedSpace) -> int:
    client = await space.enter()
    found = await client.query(query_of("urn:a:1"))
    await client.close()
    number: int = found["urn:a:1"][2]["n"]
    return number


def verified(server: Server) -> int:
    return here("verify", "--data", server.data, "--json").code


@pytest.mark.rule("COMMIT-1", "COMMIT-5", "STORE-6", "WATCH-1")
def test_three_kills_of_workers_under_load_lose_nothing() -> None:
    report = faults_cycles.worker_kills(7, Weather(commits=300, faults=3, kinds=("worker",), workers=WORKERS))
    assert report.kinds["worker"] == 3


@pytest.mark.rule("STORE-4", "STORE-6")
async def test_all_workers_go_with_their_parent_and_another_number_of_them_loses_nothing(short: Path) -> None:
    async with running(short, workers=4) as server:
        spaces = [await founded(server, owner=number) for number in range(4)]
        clients = [await counted(space, 30 + number) for number, space in enumerate(spaces)]
        for workers in (2, 1, 4):
            processes = [server.worker(number) for number in range(server.workers)] if server.workers > 1 else []
            began = time.monotonic()
            await server.kill()
            await until(lambda: not any(map(is_running, processes)))  # noqa: B023
            assert time.monotonic() - began < PATIENCE_SECONDS
            server.workers = workers
            await server.start()
            assert [await count_in(space) for space in spaces] == [30, 31, 32, 33]
            assert await asyncio.to_thread(verified, server) == 0
        for client in clients:
            await client.close()
        assert await server.stop() == 0
        assert await asyncio.to_thread(verified, server) == 0
        server._process = None


@pytest.mark.rule("STORE-4", "STORE-6")
async def test_everything_is_killed_at_once_and_a_start_with_fewer_workers_loses_nothing(short: Path) -> None:
    async with running(short, workers=3) as server:
        spaces = [await founded(server, owner=number) for number in range(3)]
        clients = [await counted(space, 10 + number) for number, space in enumerate(spaces)]
        server.freeze()  # so that no worker has time to see that its parent is gone
        processes = [server.worker(number) for number in range(3)]
        for number in range(3):
            server.kill_worker(number)
        await server.kill()
        await until(lambda: not any(map(is_running, processes)))  # a signal takes its time on a busy machine
        server.workers = 2
        await server.start()
        assert [await count_in(space) for space in spaces] == [10, 11, 12]
        for client in clients:
            await client.close()


@pytest.mark.rule("STORE-4")
async def test_a_killed_worker_is_back_and_other_sessions_notice_nothing(short: Path) -> None:
    async with running(short, workers=WORKERS, accept_only=0) as server:
        one, two = await founded(server, owner=1), await founded(server, owner=2)
        dies, lives = await counted(one, 5), await counted(two, 5)
        before = server.worker(1)
        server.kill_worker(1)
        with pytest.raises(Gone):
            await write_on(dies)
        await lives.write_now(patch_("urn:a:1", increment("/n")))
        await until(lambda: server.worker(1) != before)
        assert await count_in(one) >= 5
        assert await count_in(two) == 6
        shown = (await asyncio.to_thread(here, "status", "--data", server.data, "--json")).json["server"]
        assert [(each["worker"], each["spaces"]) for each in shown["workers"]] == [(0, 0), (1, 1), (2, 1)]
        assert [each["pid"] for each in shown["workers"]] == [server.worker(number) for number in range(WORKERS)]
        await lives.close()


def asked(server: Server, path: str) -> tuple[int, str]:
    address = server.url.replace("ws://", "http://")
    try:
        with urllib.request.urlopen(address + path, timeout=10) as answer:  # noqa: S310
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as refused:
        with refused:
            return refused.code, refused.read().decode()


@pytest.mark.rule("STORE-4")
async def test_a_worker_that_dies_at_every_start_is_told_of_and_the_others_serve(short: Path) -> None:
    async with running(short, workers=WORKERS, accept_only=0) as server:
        served, broken = await founded(server, owner=0), space_key(workers=WORKERS, owner=1)
        assert asked(server, "/readyz") == (200, "ok\n")
        server.kill_worker(1)
        lock = server.data / "workers" / "1" / "lock"
        with lock.open("rb+") as held:
            await asyncio.to_thread(fcntl.flock, held, fcntl.LOCK_EX)
            async with asyncio.timeout(PATIENCE_SECONDS):
                while (answer := await asyncio.to_thread(asked, server, "/readyz"))[0] == 200:
                    await asyncio.sleep(0.1)
            assert answer[0] == 503
            assert "1" in answer[1]
            client = await counted(served, 3)
            await client.close()
            status, _ = await asyncio.to_thread(asked, server, f"/v1/spaces/{broken.did}/entities")
            assert status == 503
