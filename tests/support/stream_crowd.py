"""A crowd that wants streams: far more connections than the server takes, beside a client that goes on writing."""

from __future__ import annotations

import asyncio
import os
import time
from contextlib import suppress
from typing import Final, NamedTuple

from http_worlds import HttpPeer, HttpWorld

AT_ONCE: Final = 100
PATIENCE: Final = 60.0
SELECTED: Final = "urn:crowd:*"
WRITTEN: Final = "urn:crowd:1"


class CrowdSeen(NamedTuple):
    """What happened to a crowd."""

    streams: int
    refused: int
    """503, with a time to come back after."""
    descriptors: tuple[int, int, int]
    """Of the server: before the crowd, the most that settled while it was there, and after it."""
    commits: list[float]
    """Seconds of each commit of the other client while the crowd came and was there."""


async def crowd(world: HttpWorld, pid: int, *, connections: int, http_max: int) -> CrowdSeen:
    """Opens so many connections, each for a stream; those that are refused do not hang up by themselves."""
    before, stop, commits = descriptors(pid), asyncio.Event(), list[float]()
    writing = asyncio.create_task(_write(world, stop, commits))
    streams, refused, most = list[HttpPeer](), list[HttpPeer](), 0
    try:
        while len(streams) + len(refused) < connections:
            count = min(AT_ONCE, connections - len(streams) - len(refused))
            for peer, status in await asyncio.gather(*(_asked(world) for _ in range(count))):
                (streams if status == 200 else refused).append(peer)
        most = await settled(pid, before + http_max)
        for path in ("//healthz", "//readyz", "//metrics", "//"):
            assert (await world.get(path, token="")).status == 200, f"{path} is answered at the limit"
        full = await world.get("")
        assert (full.status, "retry-after" in full.headers) == (503, True), "all connections are taken"
        for peer in streams:
            await _until(peer, b"event: change")
        assert not writing.done()
        assert commits, "the other client was not kept waiting"
    finally:
        stop.set()
        for peer in (*streams, *refused):
            peer.leave()
        await writing
    after = await settled(pid, before)
    return CrowdSeen(len(streams), len(refused), (before, most, after), commits)


async def _asked(world: HttpWorld) -> tuple[HttpPeer, int]:
    peer = await world.peer()
    peer.write(world.request("GET", f"/watch?select={SELECTED}"))
    answer = await peer.answer()
    assert answer.status in (200, 503), answer
    assert answer.status == 200 or "retry-after" in answer.headers
    return peer, answer.status


async def _write(world: HttpWorld, stop: asyncio.Event, commits: list[float]) -> None:
    number = 0
    while not stop.is_set():
        number += 1
        began = time.perf_counter()
        async with world.space.transaction() as tx:
            tx.set(WRITTEN, number)
        await tx.confirmed()
        commits.append(time.perf_counter() - began)
        with suppress(TimeoutError):
            await asyncio.wait_for(stop.wait(), 0.02)


async def _until(peer: HttpPeer, text: bytes) -> None:
    async with asyncio.timeout(PATIENCE):
        await peer.reader.readuntil(text)


def descriptors(pid: int) -> int:
    return len(os.listdir(f"/proc/{pid}/fd"))


async def settled(pid: int, most: int) -> int:
    """Waits until the process has no more descriptors than that, but for a few that its storage opens."""
    async with asyncio.timeout(PATIENCE):
        while (now := descriptors(pid)) > most + 16:
            await asyncio.sleep(0.05)
    return now
