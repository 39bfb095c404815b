"""Two who change the same thing again and again: each gets its turn, although they go in step."""

from __future__ import annotations

import asyncio
from typing import Any, Final

import pytest

from session_worlds import App, Stage, staged_in
from stemmadb.client.transactions import Transaction

TURNS: Final = 20


async def count(tx: Transaction) -> None:
    found: Any = await tx.get("urn:count", "/n")
    tx.update("urn:count", {"n": found + 1})


async def count_on(app: App) -> None:
    for _ in range(TURNS):
        await app.space.transact(count)


@pytest.mark.rule("COMMIT-2")
@pytest.mark.parametrize("seed", range(5))
def test_two_who_count_in_step_both_come_to_their_turn(seed: int) -> None:
    @staged_in(seed=seed)
    async def scenario(stage: Stage) -> None:
        one, other = await stage.app("alice"), await stage.app("bob")
        await (await one.set("urn:count", {"n": 0})).confirmed()
        async with asyncio.timeout(600):
            await asyncio.gather(count_on(one), count_on(other))
        assert await one.space.at().get("urn:count") == {"n": 2 * TURNS}

    scenario()
