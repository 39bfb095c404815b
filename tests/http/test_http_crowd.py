"""More connections for streams than the server takes: the limits hold, and nobody else notices (HTTP-2, HTTP-10)."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from http_worlds import HttpWorld
from served import Process
from stemmadb.client import connect
from stream_crowd import crowd


@pytest.mark.rule("HTTP-2", "HTTP-10")
async def test_a_crowd_for_streams_is_bounded_and_harms_nobody(tmp_path: Path) -> None:
    limits = {"http-connections-max": 60, "http-streams-max": 30, "connections-per-principal-max": 1_000}
    flags = [f"--{name}={value}" for name, value in limits.items()]
    process = Process(tmp_path / "data", *flags)
    await asyncio.to_thread(process.start)
    try:
        async with connect(process.address, config=tmp_path / "config") as db:
            world = HttpWorld(process.address, tmp_path / "data", tmp_path / "config", db, await db.space("todo"))
            for connections in (300, 70):  # the second finds that everything was given back
                seen = await crowd(world, process.pid, connections=connections, http_max=60)
                assert (seen.streams, seen.refused) == (30, connections - 30)
    finally:
        await asyncio.to_thread(process.stop)
