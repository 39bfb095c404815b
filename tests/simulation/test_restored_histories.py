"""Clients of a server that was restored from a backup: pages, reads, access lists and undo."""

from __future__ import annotations

import asyncio
from functools import partial

import msgspec
import pytest

from stemmadb.client.space import Space
from stemmadb.client.testing import AppDisk, World
from stemmadb.client.testing.link import SimulatedConnection
from stemmadb.protocol.errors import Conflict, FutureVersion
from stemmadb.protocol.model.values.limits import DEFAULTS
from stemmadb.protocol.wire.codec.msgpack_codec import Data

SMALL_PAGES = msgspec.structs.replace(DEFAULTS, part_bytes_max=600)


async def filled(space: Space) -> None:
    """With several pages, in one commit."""
    async with space.transaction(note={"message": "all at once"}) as tx:
        for number in range(12):
            tx.set(f"urn:doc:{number}", {"text": str(number) * 200}, blind=True)
    await tx.confirmed()


async def put(space: Space, id_: str, value: int) -> int:
    async with space.transaction() as tx:
        tx.set(id_, value, blind=True)
    return await tx.confirmed()


async def first_page(world: World) -> None:
    """Returns when it is on its way."""
    sent = asyncio.Event()

    def notice(_link: SimulatedConnection, _data: Data) -> None:
        sent.set()

    world.network.on_sent(notice)
    await sent.wait()


@pytest.mark.rule("RESUME-4", "QUERY-6")
def test_an_answer_in_pages_is_begun_again_when_the_server_was_restored_in_between() -> None:
    """Seed 195: the app was told that its message could not be read."""

    async def scenario(world: World) -> None:
        did = await world.make_space("shared")
        backup = world.backup()
        async with world.connect("alice") as db:
            space = await db.space(did)
            await filled(space)
            asked = asyncio.get_running_loop().create_task(space.query("urn:*"))
            await first_page(world)
            await world.restore(backup)
            assert dict(await asked) == {}

    World(seed=1, limits=SMALL_PAGES).run(scenario)


@pytest.mark.rule("RESUME-4", "HISTORY-2")
def test_a_past_in_pages_that_the_restored_server_never_had_is_a_future_version() -> None:
    """Seed 207."""

    async def scenario(world: World) -> None:
        did = await world.make_space("shared")
        backup = world.backup()
        async with world.connect("alice") as db:
            space = await db.space(did)
            await filled(space)
            asked = asyncio.get_running_loop().create_task(space.at(version=2).query("urn:*"))
            await first_page(world)
            await world.restore(backup)
            with pytest.raises(FutureVersion):
                await asked

    World(seed=1, limits=SMALL_PAGES).run(scenario)


@pytest.mark.rule("RESUME-4", "NURSERY-2")
@pytest.mark.parametrize("listed", [False, True])
def test_a_transaction_that_has_read_a_lost_history_gets_a_conflict_at_its_next_read(listed: bool) -> None:
    """It got `future_version`, or a value of the new history beside one of the old."""

    async def scenario(world: World) -> None:
        did = await world.make_space("shared")
        async with world.connect("alice") as db:
            space = await db.space(did)
            await put(space, "urn:x", 0)
            backup = world.backup()
            await put(space, "urn:x", 1)
            await put(space, "urn:y", 1)
            for more in (0, 5):  # the version of the view does not exist any more, or is another commit
                async with space.transaction() as tx:
                    assert await tx.get("urn:x") == 1
                    await world.restore(backup)
                    await space.connected()
                    for _ in range(more):
                        await put(space, "urn:z", 1)
                    with pytest.raises(Conflict):
                        await (tx.list("urn:y*") if listed else tx.get("urn:y"))
                await put(space, "urn:x", 1)
                await put(space, "urn:y", 1)

    World(seed=1).run(scenario)


@pytest.mark.rule("RESUME-4", "NURSERY-2")
@pytest.mark.parametrize("listed", [False, True])
def test_a_transaction_that_has_read_nothing_begins_anew_on_the_restored_history(listed: bool) -> None:
    """However many messages of its read were on their way."""
    seen = set()

    async def scenario(world: World, messages: int) -> None:
        did = await world.make_space("shared")
        async with world.connect("alice") as db:
            space = await db.space(did)
            await put(space, "urn:x", 0)
            backup = world.backup()
            await put(space, "urn:x", 1)
            async with space.transaction() as tx:
                asked = asyncio.get_running_loop().create_task(tx.list("urn:x*") if listed else tx.get("urn:x"))
                for _ in range(messages):
                    await first_page(world)
                await world.restore(backup)
                found = await asked
                value = next(iter(found.values())) if isinstance(found, dict) else found
                seen.add(value)
                tx.set("urn:x", 2)
            if value == 1:
                with pytest.raises(Conflict):
                    await tx.confirmed()
            else:
                await tx.confirmed()

    for messages in range(5):
        World(seed=1).run(partial(scenario, messages=messages))
    assert seen == {0, 1}


@pytest.mark.rule("RESUME-4", "COMMIT-2")
def test_a_commit_that_read_a_lost_history_is_refused_also_after_its_app_was_killed() -> None:
    """Seed 1000312 of the client: the journal said where the app stood when it began, and the restored server had
    that; what the commit had read was later, and its version was taken for one of the history that there is now."""

    async def scenario(world: World) -> None:
        did, disk = await world.make_space("shared"), AppDisk()
        async with world.connect("bob") as db:
            bob = await db.space(did)
            await put(bob, "urn:x", 0)
            backup = world.backup()
            async with world.app("alice", disk=disk) as app:
                alice = await app.db.space(did)
                await put(bob, "urn:x", 1)
                async with alice.transaction() as tx:
                    assert await tx.get("urn:x") == 1
                    world.network["alice"].offline()
                    tx.set("urn:x", 2)
                await tx.journaled()
                await app.kill()
            await world.restore(backup)
            world.network["alice"].online()
            await bob.connected()
            assert await put(bob, "urn:y", 1) == 3
            async with world.app("alice", disk=disk) as app:
                alice = await app.db.space(did)
                await alice.settled()
                (refused,) = alice.rejected()
                assert refused.code == "conflict"
            assert await bob.get("urn:x") == 0

    World(seed=1).run(scenario)


@pytest.mark.rule("RESUME-4", "ACL-1")
def test_an_access_list_that_was_read_in_a_lost_history_is_not_written() -> None:
    """Whoever watches nothing may be far behind what the list was read at: the restored server had where it stood."""

    async def scenario(world: World) -> None:
        did, disk = await world.make_space("shared", alice="own", bob="own", carol="write"), AppDisk()
        async with world.connect("bob") as db, world.connect("alice", journal=disk) as mine:
            bob, alice = await db.space(did), await mine.space(did)
            backup = world.backup()
            await bob.acl.remove(world.identity("carol").did)
            journal = disk(did, world.identity("alice").did)
            journal.hold()
            adding = asyncio.get_running_loop().create_task(alice.acl.set(world.identity("dora").did, "read"))
            while not journal.waiting:
                await asyncio.sleep(0.01)
            world.network["alice"].offline()
            journal.release()
            await world.restore(backup)
            await bob.connected()
            await put(bob, "urn:x", 1)
            world.network["alice"].online()
            await adding
            roles = (await bob.acl.get()).roles
            assert {roles[world.identity(name).did] for name in ("carol", "dora")} == {"write", "read"}

    World(seed=1).run(scenario)


@pytest.mark.rule("RESUME-4", "COMMIT-9")
def test_an_undo_of_a_commit_that_is_lost_takes_nothing_of_others_back() -> None:
    """It waited for a connection, and the version that it named was a commit of somebody else by then."""

    async def scenario(world: World) -> None:
        did = await world.make_space("shared")
        async with world.connect("bob") as db, world.connect("alice") as mine:
            bob, alice = await db.space(did), await mine.space(did)
            backup = world.backup()
            assert await put(alice, "urn:x", 1) == 2
            assert await put(alice, "urn:x", 2) == 3
            await alice.undo()
            world.network["alice"].offline()
            undoing = asyncio.get_running_loop().create_task(alice.undo())
            await world.restore(backup)
            await bob.connected()
            for version in (2, 3, 4):
                assert await put(bob, "urn:y", version) == version
            world.network["alice"].online()
            with pytest.raises(Conflict, match="another history"):
                await undoing
            assert await alice.undo() is None
            assert await bob.get("urn:y") == 4

    World(seed=1).run(scenario)
