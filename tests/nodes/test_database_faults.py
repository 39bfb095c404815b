"""Real nodes on a database that others hold up, that has no room, or that stops waiting for its standby."""

from __future__ import annotations

import asyncio
import os
import secrets
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

import psycopg
import pytest

import postgres_server
from node_sites import Site, check, site, writes
from plain_client import PlainClient
from plain_content import set_
from plain_world import ServedSpace
from postgres_programs import own_user
from postgres_server import OwnServer
from standbys import a_pair, promise_a_standby, promoted

ROOM_BYTES: Final = 64 << 20
BODY: Final = 48_000
HELD_SECONDS: Final = 2.5
"""Longer than an append waits for a row (2 s): it fails, and the claim waits (5 s)."""
LOCK: Final = "SELECT * FROM stemmadb.tip WHERE space = (SELECT space FROM stemmadb.space WHERE did = %s) FOR UPDATE"


@pytest.fixture(scope="module")
def server() -> Iterator[OwnServer]:
    postgres_server.need()
    with postgres_server.own_server() as made:
        yield made


# ------------------------------------------------------------ others


@pytest.mark.rule("STORE-8", "STORE-9", "COMMIT-1", "COMMIT-5")
async def test_a_long_foreign_transaction_holds_up_the_spaces_it_has_locked_and_no_others(
    server: OwnServer, tmp_path: Path
) -> None:
    async with site(server, tmp_path) as made:
        await made.begin()
        free = ServedSpace(made.nodes[0].url)
        made.served.append(free)
        await free.found()
        held_up, other = await made.served[0].enter(), await free.enter()
        confirmed = await writes(held_up, "before", 1)
        with psycopg.connect(made.url) as foreign:
            foreign.execute(LOCK, (made.served[0].space,))
            waiting = asyncio.create_task(writes(held_up, "during", 2))
            ends = time.monotonic() + HELD_SECONDS
            count = 0
            while time.monotonic() < ends:
                await writes(other, f"other:{count}", 1)
                count += 1
            assert not waiting.done()
            assert count > 1
        confirmed += await waiting
        confirmed += [f"urn:other:{number}:0" for number in range(count)]
        await asyncio.to_thread(check, made, confirmed)


# ------------------------------------------------------------ room


@contextmanager
def small_disk() -> Iterator[Path]:
    """A file system of its own, which is soon full."""
    with tempfile.TemporaryDirectory(prefix="stemmadb-small-") as name:
        mounted = subprocess.run(  # noqa: S603
            ["mount", "-t", "tmpfs", "-o", f"size={ROOM_BYTES}", "tmpfs", name],  # noqa: S607
            capture_output=True,
            check=False,
        )
        if mounted.returncode:
            pytest.skip("a small file system can only be mounted by root")
        try:
            Path(name).chmod(0o755)
            yield Path(name)
        finally:
            subprocess.run(["umount", "-l", name], check=True)  # noqa: S603, S607


def tablespace_in(disk: Path, server: OwnServer) -> str:
    place, user = disk / "tables", own_user()
    place.mkdir()
    if user is not None:
        os.chown(place, user.uid, user.gid)
    with psycopg.connect(server.url, autocommit=True) as connection:
        connection.execute(f"CREATE TABLESPACE small LOCATION '{place}'")
    return "small"


def fill(disk: Path) -> Path:
    ballast = disk / "ballast"
    with ballast.open("wb", buffering=0) as file, suppress(OSError):
        while file.write(bytes(1 << 20)):
            pass
    return ballast


async def is_accepted(client: PlainClient, number: int) -> bool:
    """Or it is deferred, since there is no room."""
    local = await client.commit(set_(f"urn:large:{number}", secrets.token_hex(BODY // 2)))
    await client.until(lambda: bool(client.deferred) or (client.holding.session, local) in client.holding.verdicts)
    if client.deferred:
        assert client.deferred[-1]["code"] == "storage_full"
    return not client.deferred


@pytest.mark.rule("STORE-9", "COMMIT-1", "COMMIT-10")
async def test_a_disk_that_is_full_refuses_commits_and_loses_none(server: OwnServer, tmp_path: Path) -> None:
    with small_disk() as disk:
        async with site(server, tmp_path, tablespace_in(disk, server)) as made:
            await made.begin()
            client = await made.served[0].enter()
            confirmed = await writes(client, "before", 2)
            ballast = await asyncio.to_thread(fill, disk)
            number = 0
            while await is_accepted(client, number):  # pages that have room are filled first
                confirmed.append(f"urn:large:{number}")
                number += 1
            ballast.unlink()
            confirmed += [f"urn:large:{number}", *await writes(client, "after", 2)]  # what is deferred is sent again
            await asyncio.to_thread(check, made, confirmed)
            for node in made.nodes:
                await asyncio.to_thread(node.close)
        drop_all(server, made)


def drop_all(server: OwnServer, made: Site) -> None:
    with psycopg.connect(server.url, autocommit=True) as connection:
        connection.execute(f"DROP DATABASE {made.name} WITH (FORCE)")
        connection.execute("DROP TABLESPACE small")


# ------------------------------------------------------------ the standby


@pytest.mark.rule("STORE-9", "COMMIT-1")
async def test_names_of_standbys_that_are_emptied_under_load_lose_nothing_that_the_standby_gets_later(
    tmp_path: Path,
) -> None:
    """What is acknowledged meanwhile is on one machine, and on two again once the names are back."""
    with a_pair(synchronous=True) as (primary, standby):
        async with site(primary, tmp_path) as made:
            await made.begin()
            client = await made.served[0].enter()
            work = asyncio.create_task(writes(client, "x", 60))
            for _ in range(3):
                await asyncio.to_thread(empty_names, primary.url)
                await asyncio.to_thread(promise_a_standby, primary.url)
            confirmed = await work
            await asyncio.to_thread(check, made, confirmed)
            confirmed += await writes(client, "promised", 1)  # acknowledged after all before it are on the standby
            for node in made.nodes:
                await asyncio.to_thread(node.close)
            await asyncio.to_thread(primary.kill)
            made.url = (await asyncio.to_thread(promoted, standby)).replace("/postgres", f"/{made.name}")
            await asyncio.to_thread(check, made, confirmed)


def empty_names(url: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("ALTER SYSTEM SET synchronous_standby_names = ''")
        connection.execute("SELECT pg_reload_conf()")
        while connection.execute("SHOW synchronous_standby_names").fetchone() != ("",):
            time.sleep(0.01)
