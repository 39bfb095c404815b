"""HTTP and WebSocket writers together, and a server that was restored: nothing is lost, and no tag lies (HTTP-8)."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

import pytest

from command_line import here
from event_reader import EventReader
from http_worlds import http_world, reopened
from stemmadb.client import Transaction


async def _add_one(tx: Transaction) -> None:
    value = await tx.get("urn:n:1")
    assert isinstance(value, int)
    tx.set("urn:n:1", value + 1)


@pytest.mark.rule("HTTP-5", "HTTP-8")
@pytest.mark.parametrize("seed", [1, 2])
async def test_writers_of_both_kinds_lose_no_update(tmp_path: Path, seed: int) -> None:
    """Each adds one to a counter that it has read; every accepted write is in the log, once, on what it read."""
    async with http_world(tmp_path) as world:
        await world.put("urn:n:1", 0)

        async def over_http(chance: random.Random) -> int:
            done = 0
            while done < 8:
                got = await world.get("/entity?id=urn:n:1")
                await asyncio.sleep(chance.random() / 100)
                put = await world.put("urn:n:1", got.json() + 1, If_Match=got.headers["etag"])
                assert put.status in (200, 412), put.body
                done += put.status == 200
            return done

        async def over_websocket() -> int:
            for _ in range(8):
                await world.space.transact(_add_one, tries=1_000)
            return 8

        work = [over_http(random.Random(seed + n)) for n in range(3)]
        total = sum(await asyncio.gather(*work, over_websocket()))
        assert (await world.get("/entity?id=urn:n:1")).json() == total
        entries = (await world.get("/entity/history?id=urn:n:1&order=oldest")).json()["entries"]
        assert [one["body"] for one in entries] == list(range(total + 1))


@pytest.mark.rule("HTTP-7", "HTTP-10")
async def test_a_tag_of_a_lost_history_matches_nothing_after_a_restore(tmp_path: Path) -> None:
    data, copy = tmp_path / "data", tmp_path / "copy"
    async with http_world(tmp_path) as world:
        await world.put("urn:a:1", "first")
        config = world.config
        assert (await asyncio.to_thread(here, "backup", copy, "--data", data)).code == 0
        await world.put("urn:a:1", "second")
        lost = (await world.get("/entity?id=urn:a:1")).headers["etag"]
        reader = EventReader(world, "urn:a:*")
        await reader.connect()
        await reader.until("ready")
        reader.cut()
    restored = tmp_path / "again"
    restored.mkdir()
    assert here("restore", copy, "--data", restored / "data").code == 0
    (restored / "config").symlink_to(config)
    async with reopened(restored, world) as again:
        assert (await again.put("urn:a:1", "another")).status == 200
        got = await again.get("/entity?id=urn:a:1", If_None_Match=lost)
        assert (got.status, got.json()) == (200, "another")
        assert got.headers["etag"].split(".")[0] == lost.split(".")[0], "the same version, of another history"
        late = await again.put("urn:a:1", "late", If_Match=lost)
        assert (late.status, late.code) == (412, "conflict")
        assert (await again.get("/entity?id=urn:a:1")).json() == "another"
        resumed = EventReader(again, "urn:a:*")
        resumed.last = reader.last
        await resumed.connect()
        assert (await resumed.until("reset")) == {"why": "history"}
        await resumed.until("ready")
        assert resumed.map == {"urn:a:1": "another"}
