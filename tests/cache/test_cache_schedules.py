"""Random lives of clients that die and start on their cache: it is the server's state at its version (CACHE-6)."""

from __future__ import annotations

import asyncio
import os

import pytest

from cached_nursery import CachedMachine
from nursery_machine import TURNS
from service_peers import service_harness

BLOCKS = 2
SEEDS = int(os.environ.get("STEMMADB_CACHE_SCHEDULES", "60")) // BLOCKS


def live(seed: int, *, steps: int = 40) -> tuple[int, int, int]:
    async def run() -> tuple[int, int, int]:
        async with service_harness() as home:
            home.turns = TURNS
            machine = CachedMachine(home, seed)
            try:
                await machine.run(steps)
            except AssertionError as error:
                error.add_note("\n".join([f"seed {seed}, {len(machine.trace)} steps:", *machine.trace]))
                raise
            return machine.lives

    return asyncio.run(run())


@pytest.mark.rule("CACHE-2", "CACHE-3", "CACHE-6")
@pytest.mark.parametrize("block", range(BLOCKS))
def test_a_client_that_starts_on_its_cache_holds_what_the_server_had(block: int) -> None:
    lives = [live(seed) for seed in range(block * SEEDS, (block + 1) * SEEDS)]
    deaths, restored, resets = map(sum, zip(*lives, strict=True))
    if SEEDS >= 25:
        assert deaths > SEEDS // 2
        assert restored > SEEDS // 2
        assert resets
