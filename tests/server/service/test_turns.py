"""Turns: one after the other for each principal, and nothing is left behind."""

from __future__ import annotations

import asyncio

import pytest

from space import ALICE, BOB
from stemmadb.protocol.model.values.ids import Did
from stemmadb.server.service.base.turns import Turns


@pytest.mark.rule("ACL-1")
async def test_a_principal_has_one_turn_at_a_time_and_others_do_not_wait() -> None:
    turns, running, most = Turns(), list[Did](), dict[Did, int]()

    async def take(principal: Did) -> None:
        async with turns.turn(principal):
            running.append(principal)
            most[principal] = max(most.get(principal, 0), running.count(principal))
            most[Did("all")] = max(most.get(Did("all"), 0), len(running))
            for _ in range(3):
                await asyncio.sleep(0)
            running.remove(principal)

    tasks = [asyncio.create_task(take(who)) for who in (ALICE, ALICE, BOB, ALICE, BOB)]
    await asyncio.sleep(0)
    tasks[1].cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert most == {ALICE: 1, BOB: 1, Did("all"): 2}
    assert len(turns) == 0
