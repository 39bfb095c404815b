"""Opening spaces: by name, at once, twice, and by those who may not."""

from __future__ import annotations

import asyncio

import pytest

from stemmadb.client.testing import World
from stemmadb.protocol.errors import GoingAway


def test_two_who_open_the_same_name_at_once_get_the_same_space() -> None:
    async def scenario(world: World) -> None:
        async with world.connect("alice") as db:
            one, other = await asyncio.gather(db.space("new"), db.space("new"))
            assert one.did == other.did
            async with one.transaction() as tx:
                tx.set("urn:a:1", 1)
            await tx.confirmed()
            assert await other.get("urn:a:1") == 1

    World(seed=1).run(scenario)


def test_connect_may_be_awaited_and_closed_by_hand() -> None:
    async def scenario(world: World) -> None:
        db = await world.connect("alice")
        space = await db.space("new")
        async with space.transaction() as tx:
            tx.set("urn:a:1", 1)
        await db.close()
        assert tx.status == "confirmed", "closing waits for it"
        with pytest.raises(GoingAway):
            await db.space("new")
        async with await world.connect("alice") as again:
            assert await (await again.space("new")).get("urn:a:1") == 1

    World(seed=4).run(scenario)


def test_a_name_whose_space_the_server_lacks_is_made_again() -> None:
    async def scenario(world: World) -> None:
        empty = world.backup()
        async with world.connect("alice") as db:
            did = (await db.space("new")).did
        await world.restore(empty)
        async with world.connect("alice") as db:
            space = await db.space("new")
            assert space.did == did
            assert (await space.acl.get()).mine.role == "own"

    World(seed=2).run(scenario)


@pytest.mark.rule("NURSERY-2")
def test_a_transaction_stands_on_own_writes_beside_commits() -> None:
    """An undo is no commit of the session, and nothing is watched: no frame has told of it yet."""

    async def scenario(world: World) -> None:
        async with world.connect("alice") as db:
            space = await db.space("new")
            for value in (1, 2):
                async with space.transaction() as tx:
                    tx.set("urn:a:1", value)
                await tx.confirmed()
            await space.undo()
            async with space.transaction() as tx:
                tx.set("urn:a:1", 3)
            await tx.confirmed()
            assert await space.get("urn:a:1") == 3

    World(seed=3).run(scenario)
