"""One space with memories, opened: connection, access, index, background jobs. Closed in the opposite order."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

from stemmadb.client import ClientSettings, Space, connect
from stemmadb.client.keys.ring import KeyRing
from stemmadb.memory.index.space_index import SpaceIndex
from stemmadb.memory.operations.erasing import OURSELVES, EraseJob
from stemmadb.memory.operations.memory_space import MemoryClock, MemorySpace, SystemClock, random_id
from stemmadb.memory.operations.sweeping import sweep
from stemmadb.memory.process.agent_writers import AgentWriters
from stemmadb.memory.process.places import SPACE
from stemmadb.memory.rules.sweeps import SweepGuard

IDENTITY: Final = "memory"
"""The memory server's own key, in the directory `keys` of the data."""
SETTINGS: Final = ClientSettings(ask_seconds=600.0, lost_bytes_max=0)
"""Erasing rewrites the database, which takes seconds in a large one."""
SWEEP_SECONDS: Final = 3_600.0
LOOK_SECONDS: Final = 30.0
"""How often the clock is compared with the monotonic one."""


class OpenedMemory(NamedTuple):
    """What interfaces work with."""

    name: str
    memory: MemorySpace
    job: EraseJob
    guard: SweepGuard
    writers: AgentWriters


@asynccontextmanager
async def opened_memory(
    dial: Any,
    *,
    url: str,
    data: Path,
    space: str = SPACE,
    clock: MemoryClock | None = None,
    new_id: Callable[[], str] | None = None,
    is_new: bool = False,
) -> AsyncIterator[OpenedMemory]:
    """Opens the space of a data directory, makes it if it is not there, and brings its index up to the log.

    The user's own identity owns the space too, so that `stemmadb get` and the like work on it. `is_new`: it has a
    name and a key and nothing else yet, and that it is made now is no news.
    """
    keys, clock = data / "keys", clock or SystemClock()
    ring = KeyRing(keys)
    identity = ring.identity(IDENTITY)
    told: dict[str, Any] = {"notice": _untold} if is_new else {}
    async with connect(url, dial=dial, config=keys, identity=identity, settings=SETTINGS, **told) as db:
        opened = await db.space(space)
        await _grant_own(opened)
        index = await SpaceIndex.opened(data / "index" / f"{opened.did.rpartition(':')[2]}.db", opened)
        try:
            memory = MemorySpace(opened, index, clock=clock, new_id=new_id or random_id)
            job, guard = EraseJob(memory), SweepGuard(now=clock.now(), monotonic=clock.monotonic())
            writers = AgentWriters(memory, dial, url=url, keys=keys, settings=SETTINGS)
            sweeping = asyncio.create_task(_sweep_now_and_then(memory, job, guard))
            try:
                await job.start()
                yield OpenedMemory(space, memory, job, guard, writers)
            finally:
                await writers.close()
                sweeping.cancel()
                await asyncio.gather(sweeping, return_exceptions=True)
                await job.close()
        finally:
            await index.close()


def _untold(notice: str) -> None:
    """That it was made."""


async def _grant_own(space: Space) -> None:
    user = KeyRing().identity().did
    if (await space.acl.get()).roles.get(user) != "own":
        await space.acl.set(user, "own")


async def _sweep_now_and_then(memory: MemorySpace, job: EraseJob, guard: SweepGuard) -> None:
    clock, next_sweep = memory.clock, memory.clock.monotonic() + SWEEP_SECONDS
    while True:
        await asyncio.sleep(LOOK_SECONDS)
        may_sweep = guard.may_sweep(now=clock.now(), monotonic=clock.monotonic())
        if may_sweep and clock.monotonic() >= next_sweep:
            next_sweep = clock.monotonic() + SWEEP_SECONDS
            await _reported(sweep, memory)
            job.ask(None)


async def _reported(work: Callable[..., Any], memory: MemorySpace) -> None:
    try:
        await work(memory, OURSELVES)
    except Exception as error:
        asyncio.get_running_loop().call_exception_handler({"message": "a sweep failed", "exception": error})
