"""What a test sees of a world while it runs: each append, each message of the server, and a sync that was lost."""

from __future__ import annotations

import asyncio

import pytest

from stemmadb.client.space import Space
from stemmadb.client.testing import World
from stemmadb.client.testing.link import SimulatedConnection
from stemmadb.protocol.model.values.ids import Version
from stemmadb.protocol.wire.codec.msgpack_codec import Data

X, Y = "urn:x", "urn:y"


async def put(space: Space, id_: str) -> Version:
    async with space.transaction() as tx:
        tx.set(id_, 1, blind=True)
    return await tx.confirmed()


def test_an_append_is_told_when_it_is_durable_and_before_its_author_knows() -> None:
    async def scenario(world: World) -> None:
        did = await world.make_space("todo")
        told: list[tuple[Version, str]] = []
        async with world.connect("alice") as db:
            space = await db.space(did)
            async with space.transaction() as tx:
                tx.set(X, 1, blind=True)
                world.on_append(lambda: told.append((world.truth.version(did), tx.status)))
            await tx.confirmed()
        assert told == [(2, "pending")]

    World(seed=1).run(scenario)


def test_what_the_dead_server_appends_is_not_told() -> None:
    async def scenario(world: World) -> None:
        did = await world.make_space("todo")
        told: list[Version] = []
        world.on_append(lambda: told.append(world.truth.version(did)))
        async with world.connect("alice") as db:
            space = await db.space(did)
            world.crash_before_append(down=1.0)
            assert await put(space, X) == 2
        assert told == [2]

    World(seed=1).run(scenario)


def test_what_the_server_sends_is_told_also_if_it_never_arrives() -> None:
    async def scenario(world: World) -> None:
        did = await world.make_space("todo")
        told: list[tuple[SimulatedConnection, Data]] = []
        world.network.on_sent(lambda link, data: told.append((link, data)))
        async with world.connect("alice") as db:
            space = await db.space(did)
            before, line = len(told), world.network["alice"]
            line.drop_after(0)
            await put(space, X)
            assert sum(one.lost for one in line.traffic.values())
            assert len({link for link, _ in told[before:]}) == 2, "on the lost connection and on the next one"

    World(seed=1).run(scenario)


@pytest.mark.rule("COMMIT-10")
def test_a_lost_sync_defers_a_commit_which_is_made_again() -> None:
    async def scenario(world: World) -> None:
        did = await world.make_space("todo")
        async with world.connect("alice") as db:
            space = await db.space(did)
            world.lose_sync()
            assert await put(space, X) == 2
            world.crash(down=0.1)
            assert await put(space, Y) == 3
        assert [commit.version for commit in world.truth.commits(did)] == [1, 2, 3]

    World(seed=1).run(scenario)


@pytest.mark.rule("COMMIT-5", "COMMIT-10")
def test_what_a_lost_sync_left_behind_is_there_after_a_crash_and_is_the_same_commit() -> None:
    async def scenario(world: World) -> None:
        did = await world.make_space("todo")
        async with world.connect("alice") as db:
            space = await db.space(did)
            world.lose_sync()
            async with space.transaction() as tx:
                tx.set(X, 1, blind=True)
            line = world.network["alice"]
            await asyncio.sleep(0.02)
            line.offline()
            assert world.truth.version(did) == 1
            world.crash()
            assert world.truth.version(did) == 2
            await world.start()
            line.online()
            assert await tx.confirmed() == 2
        assert len(world.truth.commits(did)) == 2

    World(seed=1).run(scenario)
