"""The real client in a world: offline, in conflict, after crashes of either side, in virtual time."""

from __future__ import annotations

import asyncio
import doctest
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from stemmadb.client import testing
from stemmadb.client.testing import AppDisk, World, virtual_loop
from stemmadb.protocol.errors import Conflict, GoingAway, StemmaError


def in_a_world(scenario: Callable[[World], Awaitable[None]]) -> None:
    async def with_a_space(world: World) -> None:
        await world.make_space("todo")
        await scenario(world)

    World(seed=9).run(with_a_space)


def test_a_write_made_offline_arrives() -> None:
    """The example of the module."""

    async def scenario(world: World) -> None:
        async with world.connect("alice") as alice, world.connect("bob") as bob:
            mine, theirs = await alice.space("todo"), await bob.space("todo")
            world.network["alice"].offline()
            async with mine.transaction() as tx:
                tx.set("urn:todo:1", {"title": "written on the train"}, blind=True)
            await asyncio.sleep(3600)
            assert tx.status == "pending"
            assert await theirs.get("urn:todo:1") is None
            world.network["alice"].online()
            await tx.confirmed()
            assert await theirs.get("urn:todo:1") == {"title": "written on the train"}

    in_a_world(scenario)


def test_two_apps_that_write_the_same_meet_in_a_conflict() -> None:
    async def scenario(world: World) -> None:
        async with world.connect("alice") as alice, world.connect("bob") as bob:
            mine, theirs = await alice.space("todo"), await bob.space("todo")
            async with mine.transaction() as first:
                first.set("urn:todo:1", 1)
            await first.confirmed()
            async with mine.transaction() as mine_tx, theirs.transaction() as their_tx:
                for tx in (mine_tx, their_tx):
                    tx.set("urn:todo:1", await tx.get("urn:todo:1"))
            outcomes = await asyncio.gather(mine_tx.confirmed(), their_tx.confirmed(), return_exceptions=True)
            assert sum(isinstance(one, Conflict) for one in outcomes) == 1

    in_a_world(scenario)


@pytest.mark.rule("RESUME-2")
@pytest.mark.parametrize("fault", ["verdict lost", "crash after append", "crash before append", "storage fails"])
def test_a_commit_is_confirmed_once_whatever_happens_to_it(fault: str) -> None:
    async def scenario(world: World) -> None:
        async with world.connect("alice") as alice:
            space = await alice.space("todo")
            match fault:
                case "verdict lost":
                    world.network["alice"].drop_after(0)
                case "crash after append":
                    world.crash_after_append(down=2)
                case "crash before append":
                    world.crash_before_append(down=2)
                case _:
                    world.fail_append(times=3)
            async with space.transaction() as tx:
                tx.set("urn:todo:1", 1, blind=True)
            await tx.confirmed()
            assert tx.version == world.truth.version(space.did) == 2
            assert world.truth.entities(space.did, "urn:") == {"urn:todo:1": 1}

    in_a_world(scenario)


def test_a_dead_connection_is_found_and_replaced() -> None:
    async def scenario(world: World) -> None:
        async with world.connect("alice") as alice:
            space = await alice.space("todo")
            world.network["alice"].half_open()
            async with space.transaction() as tx:
                tx.set("urn:todo:1", 1, blind=True)
            await tx.confirmed()
            assert world.network["alice"].dials == 2

    in_a_world(scenario)


@pytest.mark.rule("NURSERY-5")
def test_an_app_that_was_killed_goes_on_where_its_disk_stands() -> None:
    async def scenario(world: World) -> None:
        disk = AppDisk()
        async with world.app("alice", disk=disk) as app:
            space = await app.db.space("todo")
            world.network["alice"].offline()
            async with space.transaction() as tx:
                tx.set("urn:todo:1", "kept", blind=True)
            await tx.journaled()
            disk(space.did, world.identity("alice").did).hold()
            async with space.transaction() as tx:
                tx.set("urn:todo:2", "not kept", blind=True)
            await app.kill()
            await app.kill()
        assert world.truth.entities(space.did, "urn:") == {}
        world.network["alice"].online()
        await asyncio.sleep(60)
        assert world.truth.entities(space.did, "urn:") == {}, "the dead one does nothing any more"
        async with world.app("alice", disk=disk) as app:
            space = await app.db.space("todo")
            await space.settled()
            assert world.truth.entities(space.did, "urn:") == {"urn:todo:1": "kept"}

    in_a_world(scenario)


def test_an_app_that_was_killed_is_cut_off_at_once() -> None:
    async def scenario(world: World) -> None:
        async with world.app("alice") as app:
            space = await app.db.space("todo")
            async with space.transaction() as tx:
                tx.set("urn:todo:1", 1, blind=True)
            await app.kill()
            with pytest.raises(StemmaError):
                await tx.confirmed()
            with pytest.raises(GoingAway, match="closed"):
                await app.db.space("another")
        await asyncio.sleep(1)
        assert world.process is not None
        assert not world.process.links

    in_a_world(scenario)


def test_of_what_an_app_sent_when_it_was_killed_some_arrives() -> None:
    async def scenario(world: World) -> bool:
        await world.make_space("todo")
        async with world.app("alice") as app:
            space = await app.db.space("todo")
            async with space.transaction() as tx:
                tx.set("urn:todo:1", 1, blind=True)
            await asyncio.sleep(0.001)
            await app.kill()
        await asyncio.sleep(1)
        return bool(world.truth.entities(space.did, "urn:"))

    assert {World(seed).run(scenario) for seed in range(12)} == {False, True}


def test_a_copied_disk_is_another_one() -> None:
    async def scenario(world: World) -> None:
        disk = AppDisk()
        async with world.connect("alice", journal=disk) as alice:
            space = await alice.space("todo")
            world.network["alice"].offline()
            async with space.transaction() as tx:
                tx.set("urn:todo:1", 1, blind=True)
            await tx.journaled()
            copied = disk.copy()
            world.network["alice"].online()
            await tx.confirmed()
        me = world.identity("alice").did
        assert [len(one(space.did, me).state().pending) for one in (disk, copied)] == [0, 1]

    in_a_world(scenario)


def test_the_same_seed_gives_the_same_run_with_real_clients() -> None:
    async def scenario(world: World) -> str:
        await world.make_space("todo")
        async with world.connect("alice") as alice, world.connect("bob") as bob:
            spaces = [await alice.space("todo"), await bob.space("todo")]
            world.chaos(every=0.5, longest=2)
            for number in range(20):
                async with spaces[number % 2].transaction() as tx:
                    tx.set(f"urn:todo:{number}", number, blind=True)
                await asyncio.sleep(0.5)
            world.calm()
            for space in spaces:
                await space.settled()
        assert len(world.truth.entities(spaces[0].did, "urn:")) == 20
        return world.trace.hash()

    first = [World(seed).run(scenario) for seed in range(3)]
    assert first == [World(seed).run(scenario) for seed in range(3)]
    assert len(set(first)) == 3


def test_a_journal_on_a_real_disk_works_in_virtual_time_too(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        async with world.connect("alice", journal=tmp_path) as alice:
            space = await alice.space("todo")
            world.network["alice"].offline()
            async with space.transaction() as tx:
                tx.set("urn:todo:1", 1, blind=True)
            await tx.journaled()
        world.network["alice"].online()
        async with world.connect("alice", journal=tmp_path) as alice:
            space = await alice.space("todo")
            await space.settled()
            assert world.truth.entities(space.did, "urn:") == {"urn:todo:1": 1}

    in_a_world(scenario)


def test_the_examples_of_the_kit_run() -> None:
    for module in (testing, virtual_loop):
        results = doctest.testmod(module)
        assert results.attempted > 1
        assert not results.failed
