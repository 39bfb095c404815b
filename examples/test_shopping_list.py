"""The shopping list, tested with the kit: a server in this process, virtual time, a network that can fail.

cd examples && python -m pytest test_shopping_list.py
"""

from __future__ import annotations

import asyncio

import pytest
import shopping_list as app

from stemmadb.client import Conflict, Database, Space, StemmaError
from stemmadb.client.testing import AppDisk, World


def test_what_one_adds_the_other_sees() -> None:
    async def scenario(world: World) -> None:
        await world.make_space("list")
        async with world.connect("alice") as alice, world.connect("bob") as bob:
            mine, theirs = await alice.space("list"), await bob.space("list")
            await (await app.add(mine, "milk", 2)).confirmed()
            assert await app.wanted(theirs) == {"milk": 2}

    World(seed=1).run(scenario)


def test_two_who_add_offline_both_count() -> None:
    async def scenario(world: World) -> None:
        await world.make_space("list")
        async with world.connect("alice") as alice, world.connect("bob") as bob:
            mine, theirs = await alice.space("list"), await bob.space("list")
            await (await app.add(mine, "milk")).confirmed()
            async with mine.watch("urn:shopping:*") as held, theirs.watch("urn:shopping:*") as held_too:
                await anext(held)
                await anext(held_too)  # what is watched can be read and changed offline
                world.network.offline()
                await app.add(mine, "milk", 2)
                await app.add(theirs, "milk", 3)
                await asyncio.sleep(12 * 3600)  # a night passes at once
                world.network.online()
                await mine.settled()
                await theirs.settled()
            assert await app.wanted(mine) == {"milk": 6}

    World(seed=2).run(scenario)


def test_who_bought_what_another_wants_more_of_is_told() -> None:
    async def scenario(world: World) -> None:
        await world.make_space("list")
        async with world.connect("alice") as alice, world.connect("bob") as bob:
            mine, theirs = await alice.space("list"), await bob.space("list")
            await (await app.add(mine, "milk")).confirmed()
            async with mine.watch("urn:shopping:*") as held:
                await anext(held)
                world.network["alice"].offline()
                bought = await app.bought(mine, "milk")
                await (await app.add(theirs, "milk", 5)).confirmed()
                world.network["alice"].online()
                with pytest.raises(Conflict):
                    await bought.confirmed()
            assert bought.rejection is not None
            assert "changed milk" in app.explained(bought.rejection)
            assert await app.wanted(mine) == {"milk": 6}

    World(seed=3).run(scenario)


@pytest.mark.parametrize("seed", range(5))
def test_nothing_is_lost_or_done_twice_whatever_fails(seed: int) -> None:
    """The app is killed and started again while lines are cut and the server crashes."""

    async def scenario(world: World) -> None:
        await world.make_space("list")
        disk = AppDisk()
        world.chaos(every=0.5)
        for number in range(4):
            async with world.app("alice", disk=disk) as one_life:
                space = await opened(one_life.db)
                async with space.transaction() as tx:
                    tx.set(f"urn:shopping:{number}", {"name": f"item {number}", "count": 1}, blind=True)
                await tx.journaled()
                await one_life.kill()
        world.calm()
        async with world.app("alice", disk=disk) as last_life:
            space = await opened(last_life.db)
            await space.settled()
            assert await app.wanted(space) == {f"item {number}": 1 for number in range(4)}

    World(seed=seed).run(scenario)


async def opened(db: Database) -> Space:
    """The list, as soon as it can be opened."""
    while True:
        try:
            return await db.space("list")
        except StemmaError:
            await asyncio.sleep(1)
