"""Random lives of clients: after each step each nursery shows what its oracle shows, and in the end all agree."""

from __future__ import annotations

import os

import pytest

from nursery_machine import Counts, live

BLOCKS = 4
SEEDS = int(os.environ.get("STEMMADB_SCHEDULES", "200")) // BLOCKS
"""Of each block; `STEMMADB_SCHEDULES` says how many in all."""

ENOUGH = 50
"""So many lives in which nothing of a kind happens would show that the schedules have become too tame."""


@pytest.mark.rule("NURSERY-1", "NURSERY-2", "NURSERY-3", "NURSERY-4", "NURSERY-6", "SYNC-2", "SYNC-4", "RESUME-2")
@pytest.mark.parametrize("block", range(BLOCKS))
def test_a_nursery_shows_what_the_oracle_shows_and_every_commit_is_decided_once(block: int) -> None:
    lives = [live(seed) for seed in range(block * SEEDS, (block + 1) * SEEDS)]
    if SEEDS < ENOUGH:
        return
    for name, counts in zip(Counts._fields, zip(*lives, strict=True), strict=True):
        assert sum(counts), f"nothing was {name}: the schedules show too little"
