"""Merges on a real space against merge by definition, on random histories, criss-cross included (MERGE-2..4)."""

from __future__ import annotations

import pytest

from engines import engine
from merge_schedules import Schedule


@pytest.mark.rule("MERGE-2", "MERGE-3", "MERGE-4")
@pytest.mark.parametrize("seed", range(60))
async def test_merges_on_the_store_are_merges_by_definition(seed: int) -> None:
    async with engine() as it:
        await Schedule(seed, it).run()
