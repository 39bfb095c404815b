"""Checks of HTTP that are too large for every change: a crowd, a stream cut 200 times, a blob of a GiB."""

from __future__ import annotations

import asyncio
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from scripts.soaking.kinds import Counts

from http_worlds import HttpWorld
from large_blob import stored_and_read
from served import Process
from stemmadb.client import connect
from stream_crowd import crowd
from stream_cuts import cut_and_restored

CONNECTIONS: Final = 10_000
HTTP_MAX: Final = 2_000
STREAMS_MAX: Final = 1_000
CUTS: Final = 40
"""In each life of the server."""
LIVES: Final = 5
GIB: Final = 1 << 30
GROWN_MAX: Final = 192 << 20
"""Bytes that the server may take more than before, however large the blob is."""


@asynccontextmanager
async def _served(*flags: str) -> AsyncIterator[tuple[HttpWorld, Process]]:
    with tempfile.TemporaryDirectory(prefix="stemmadb-soak-") as name:
        folder = Path(name)
        process = Process(folder / "data", *flags)
        await asyncio.to_thread(process.start)
        try:
            async with connect(process.address, config=folder / "config") as db:
                world = HttpWorld(process.address, folder / "data", folder / "config", db, await db.space("todo"))
                try:
                    yield world, process
                finally:
                    world.end()
        finally:
            await asyncio.to_thread(process.stop)


def http_crowd(_: int) -> Counts:
    """Ten times as many connections as there may be streams, at the limits that a server has by itself."""
    return asyncio.run(_crowd())


async def _crowd() -> Counts:
    async with _served(f"--connections-per-principal-max={CONNECTIONS}") as (world, process):
        seen = await crowd(world, process.pid, connections=CONNECTIONS, http_max=HTTP_MAX)
        assert (seen.streams, seen.refused) == (STREAMS_MAX, CONNECTIONS - STREAMS_MAX), seen
    waits = sorted(seen.commits)
    print(
        f"http_crowd: {seen.streams} streams, {seen.refused} refused, descriptors {seen.descriptors}; "
        f"{len(waits)} commits beside it, p50 {waits[len(waits) // 2] * 1e3:.1f} ms, "
        f"p99 {waits[len(waits) * 99 // 100] * 1e3:.1f} ms, at most {waits[-1] * 1e3:.1f} ms",
        file=sys.stderr,
    )
    return Counts(CONNECTIONS + len(waits), seen.refused)


def http_streams(seed: int) -> Counts:
    """One reader over five lives of a server, each but the last ended by a restore."""
    with tempfile.TemporaryDirectory(prefix="stemmadb-soak-") as name:
        seen = asyncio.run(cut_and_restored(Path(name), seed=seed, cuts=CUTS, lives=LIVES))
    print(
        f"http_streams: {seen.cuts} cuts, resets {dict(seen.resets)}, at most {seen.most} entities", file=sys.stderr
    )
    assert seen.resets["history"] == LIVES - 1, seen
    return Counts(seen.cuts, seen.cuts)


def http_blobs(seed: int) -> Counts:
    """A blob of a GiB: every byte comes back, whole and in ranges, and the server takes no more memory for it."""
    return asyncio.run(_blobs(seed))


async def _blobs(seed: int) -> Counts:
    async with _served() as (world, process):
        seen = await stored_and_read(world, process, seed=seed, size=GIB)
    grown = seen.resident_most - seen.resident_before
    before, most = seen.resident_before >> 20, seen.resident_most >> 20
    print(f"http_blobs: {before} MiB before, {most} MiB at most", file=sys.stderr)
    assert grown < GROWN_MAX, f"the server took {grown >> 20} MiB more"
    return Counts(seen.requests)
