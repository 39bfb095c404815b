"""The server of a world: it stops, dies, fails and is restored as told, and what is durable is what it should be."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TypeAlias

import pytest

from kit_clients import RawClient, put
from stemmadb.client.testing import Deadlock, World
from stemmadb.client.testing.crash_points import CrashPoints
from stemmadb.protocol.errors import GoingAway, Unreachable
from stemmadb.protocol.model.values.ids import Did, EntityId
from stemmadb.protocol.wire.messages.commit import AcceptedVerdict, RejectedVerdict
from stemmadb.protocol.wire.messages.session import Hello
from stemmadb.protocol.wire.messages.sync import Sync
from stemmadb.server.storage.port import DiskFull

Scenario: TypeAlias = Callable[[World, Did], Awaitable[None]]


def in_a_world(scenario: Scenario, **given: object) -> None:
    async def with_a_space(world: World) -> None:
        await scenario(world, await world.make_space())

    World(seed=5, **given).run(with_a_space)  # type: ignore[arg-type]


def test_a_space_has_the_roles_that_were_given() -> None:
    async def scenario(world: World) -> None:
        space = await world.make_space("notes", dora="own", emil="read")
        roles = {world.identity("dora").did: "own", world.identity("emil").did: "read"}
        assert world.truth.entities(space) == {EntityId(space): roles}
        assert await world.make_space("notes", dora="own", emil="read") == space
        assert world.truth.version(space) == 1
        assert world.names.find("ws://STEMMA.test/", "notes") == space

    World().run(scenario)


def test_a_stopped_server_decides_says_goodbye_and_refuses_until_it_starts_again() -> None:
    async def scenario(world: World, space: Did) -> None:
        alice = await RawClient(world, "alice", space).open()
        assert isinstance(await alice.commit(put("urn:a", 1)), AcceptedVerdict)
        await world.stop()
        assert alice.closed == 1001, "it waits until the goodbye was taken"
        assert alice.goodbye is not None
        assert isinstance(alice.goodbye.error, GoingAway)
        with pytest.raises(Unreachable, match="refused"):
            await world.dial("alice")(space)
        await world.start()
        again = await alice.again()
        assert isinstance(await again.commit(put("urn:b", 1)), AcceptedVerdict)
        assert world.truth.entities(space, "urn:") == {"urn:a": 1, "urn:b": 1}
        await again.leave()

    in_a_world(scenario)


def test_the_server_is_the_same_one_in_each_of_its_lives() -> None:
    async def scenario(world: World, space: Did) -> None:
        first = await RawClient(world, "alice", space).open()
        assert world.process is not None
        dead = world.process.service
        world.crash()
        await world.start()
        again = await first.again()
        before, after = first.told(Hello)[0], again.told(Hello)[0]
        assert before.server == after.server == world.server.did
        assert before.challenge != after.challenge
        assert not dead.sessions, "nothing is left of the one before"
        await again.leave()

    in_a_world(scenario)


@pytest.mark.rule("COMMIT-10")
def test_a_commit_is_there_after_a_crash_behind_its_append_and_nobody_was_told() -> None:
    async def scenario(world: World, space: Did) -> None:
        alice, bob = await RawClient(world, "alice", space).open(), await RawClient(world, "bob", space).open()
        await bob.watch("urn:*")
        world.crash_after_append()
        assert await alice.commit(put("urn:a", 1)) is None
        assert (await alice.over(), await bob.over()) == (1006, 1006)
        assert bob.told(Sync)[-1].to == 1, "nobody was told"
        assert world.truth.entities(space, "urn:") == {"urn:a": 1}
        assert world.process is None
        await world.start()
        again = await alice.again()
        verdict = await again.commit(put("urn:a", 1), local=1)
        assert isinstance(verdict, AcceptedVerdict)
        assert verdict.version == world.truth.version(space) == 2, "it is the same commit, once"
        await again.leave()

    in_a_world(scenario)


@pytest.mark.rule("COMMIT-10")
def test_a_commit_is_not_there_after_a_crash_before_its_append() -> None:
    async def scenario(world: World, space: Did) -> None:
        alice = await RawClient(world, "alice", space).open()
        world.crash_before_append(2, down=3.0)
        assert isinstance(await alice.commit(put("urn:a", 1)), AcceptedVerdict)
        assert await alice.commit(put("urn:b", 1)) is None
        assert world.truth.entities(space, "urn:") == {"urn:a": 1}
        assert world.crashes == 1
        await asyncio.sleep(4)
        again = await alice.again()
        assert isinstance(await again.commit(put("urn:b", 1), local=2), AcceptedVerdict)
        assert world.truth.entities(space, "urn:") == {"urn:a": 1, "urn:b": 1}
        await again.leave()

    in_a_world(scenario)


def test_what_the_dead_server_goes_on_to_do_is_seen_by_nobody() -> None:
    async def scenario(world: World, space: Did) -> None:
        alice = await RawClient(world, "alice", space).open()
        for number in range(50):
            await alice.send(put(f"urn:{number}", number))
        world.crash_after_append(1)
        await world.crashed()
        at_the_crash = world.truth.version(space)
        await alice.over()
        await asyncio.sleep(60)
        assert world.truth.version(space) == at_the_crash < 51
        assert all(one.version <= at_the_crash for frame in alice.told(Sync) for one in frame.verdicts)

    in_a_world(scenario, disk_seconds=0.02, jitter=0.5)


def test_a_crash_without_a_word_leaves_connections_that_hang() -> None:
    async def scenario(world: World, space: Did) -> None:
        alice = await RawClient(world, "alice", space).open()
        world.crash(silent=True, down=1.0)
        await asyncio.sleep(600)
        assert alice.closed is None
        await alice.leave()
        again = await alice.again()
        assert isinstance(await again.commit(put("urn:a", 1)), AcceptedVerdict)
        await again.leave()

    in_a_world(scenario)


def test_a_disk_that_takes_time_can_be_survived_at_any_moment() -> None:
    outcomes = set()
    for seed in range(30):

        async def scenario(world: World) -> tuple[bool, bool]:
            space = await world.make_space()
            alice = await RawClient(world, "alice", space).open()
            asyncio.get_running_loop().call_later(0.02 + world.seed / 1000, world.crash)
            verdict = await alice.commit(put("urn:a", 1))
            durable = bool(world.truth.entities(space, "urn:"))
            assert durable or verdict is None
            await alice.over()
            return durable, verdict is not None

        outcomes.add(World(seed, disk_seconds=0.02, jitter=0).run(scenario))
    assert outcomes == {(False, False), (True, False), (True, True)}


@pytest.mark.rule("COMMIT-10")
def test_a_storage_that_fails_defers_commits_and_works_again() -> None:
    async def scenario(world: World, space: Did) -> None:
        alice = await RawClient(world, "alice", space).open()
        world.fail_append(times=2)
        for count in (1, 2):
            await alice.send(put("urn:a", 1), local=1)
            await alice.until(lambda count=count: len(alice.deferred) == count)
        assert [one.code for one in alice.deferred] == ["unavailable", "unavailable"]
        assert world.truth.version(space) == 1
        assert isinstance(await alice.commit(put("urn:a", 1), local=1), AcceptedVerdict)
        assert world.truth.version(space) == 2
        await alice.leave()

    in_a_world(scenario)


@pytest.mark.rule("COMMIT-10")
def test_a_storage_that_fails_after_it_has_written_defers_a_commit_that_is_there() -> None:
    async def scenario(world: World, space: Did) -> None:
        alice = await RawClient(world, "alice", space).open()
        world.fail_append(written=True)
        verdict = await alice.commit(put("urn:a", 1))
        assert [one.code for one in alice.deferred] == ["unavailable"]
        assert isinstance(verdict, AcceptedVerdict)
        assert world.truth.version(space) == verdict.version == 2
        await alice.leave()

    in_a_world(scenario)


def test_a_full_disk_says_so() -> None:
    async def scenario(world: World, space: Did) -> None:
        alice = await RawClient(world, "alice", space).open()
        world.fail_append(DiskFull)
        await alice.send(put("urn:a", 1))
        await alice.until(lambda: alice.deferred)
        assert [one.code for one in alice.deferred] == ["storage_full"]
        await alice.leave()

    in_a_world(scenario)


@pytest.mark.rule("RESUME-4")
def test_a_restored_server_has_lost_what_came_after_the_backup_and_says_so() -> None:
    async def scenario(world: World, space: Did) -> None:
        alice = await RawClient(world, "alice", space).open()
        await alice.commit(put("urn:a", 1))
        backup = world.backup()
        await alice.commit(put("urn:a", 2))
        stood, name = alice.connection.to, alice.connection.hash
        assert backup.versions() == {space: 2}
        await world.restore(backup)
        assert await alice.over() == 1001
        assert world.truth.entities(space, "urn:") == {"urn:a": 1}
        again = await RawClient(world, "alice", space).open(to=stood, hash=name)
        assert again.told(Sync)[0].reset == "history"
        await again.commit(put("urn:a", 3))
        assert backup.versions() == {space: 2}, "a backup never changes"
        await again.leave()

    in_a_world(scenario)


def test_the_clock_goes_with_the_time_of_the_loop_and_jumps() -> None:
    async def scenario(world: World, space: Did) -> None:
        alice = await RawClient(world, "alice", space).open()
        before = world.clock()
        await asyncio.sleep(10)
        assert world.clock() - before == 10_000
        world.clock.jump(-3600)
        assert world.clock() - before == 10_000 - 3_600_000
        await alice.commit(put("urn:a", 1))
        world.clock.jump(7200)
        await alice.commit(put("urn:b", 1))
        first, second, third = (one.time for one in world.truth.commits(space))
        assert first <= second < third, "times of commits never go back"
        assert third - first > 3_600_000
        await alice.leave()

    in_a_world(scenario)


def test_a_second_run_goes_on_with_what_is_durable() -> None:
    world = World(seed=1)

    async def first(world: World) -> int:
        space = await world.make_space()
        alice = await RawClient(world, "alice", space).open()
        await alice.commit(put("urn:a", 1))
        await asyncio.sleep(100)
        return world.clock()

    async def second(world: World) -> int:
        space = world.names.find("ws://stemma.test", "todo")
        assert space is not None
        alice = await RawClient(world, "alice", space).open()
        assert isinstance(await alice.commit(put("urn:b", 1)), AcceptedVerdict)
        assert world.truth.entities(space, "urn:") == {"urn:a": 1, "urn:b": 1}
        return world.clock()

    assert world.run(first) <= world.run(second)


async def test_a_world_works_on_an_ordinary_loop_too() -> None:
    async with World(latency=0, jitter=0) as world:
        space = await world.make_space()
        alice = await RawClient(world, "alice", space).open()
        world.crash_after_append()
        assert await alice.commit(put("urn:a", 1)) is None
        await world.start()
        again = await alice.again()
        assert isinstance(await again.commit(put("urn:a", 1), local=1), AcceptedVerdict)
        await again.leave()


def test_an_internal_error_of_the_server_fails_the_run() -> None:
    async def scenario(world: World) -> None:
        logging.getLogger("stemmadb.session").error("internal_error", extra={"fields": {"what": "it went wrong"}})

    with pytest.raises(AssertionError, match="it went wrong"):
        World().run(scenario)


def test_a_scenario_that_waits_for_a_verdict_of_a_dead_server_is_a_deadlock_that_names_it() -> None:
    async def scenario(world: World, space: Did) -> None:
        alice = await RawClient(world, "alice", space).open()
        world.crash(silent=True)
        await alice.commit(put("urn:a", 1))

    with pytest.raises(Deadlock, match=r"(?s)in scenario|in until"):
        in_a_world(scenario)


def test_a_server_that_stops_does_not_wait_for_ever_for_one_who_does_not_read() -> None:
    async def scenario(world: World, space: Did) -> None:
        await RawClient(world, "alice", space).open()
        world.network["alice"].stop_reading()
        before = asyncio.get_running_loop().time()
        await world.stop()
        assert 2 <= asyncio.get_running_loop().time() - before < 3

    in_a_world(scenario)


def test_a_refused_commit_is_no_append() -> None:
    async def scenario(world: World, space: Did) -> None:
        carol, alice = await RawClient(world, "carol", space).open(), await RawClient(world, "alice", space).open()
        world.crash_after_append()
        assert isinstance(await carol.commit(put("urn:a", 1)), RejectedVerdict)
        assert world.crashes == 0
        assert await alice.commit(put("urn:a", 1)) is None
        assert world.crashes == 1

    in_a_world(scenario)


def test_what_the_dead_server_appends_counts_for_nothing() -> None:
    async def scenario(world: World, space: Did) -> None:
        alice = await RawClient(world, "alice", space).open()
        world.crash_before_append()
        world.crash_after_append()
        assert await alice.commit(put("urn:a", 1)) is None
        await world.start()
        again = await alice.again()
        assert await again.commit(put("urn:a", 1), local=1) is None
        assert world.crashes == 2
        assert world.truth.version(space) == 2

    in_a_world(scenario)


def test_a_start_by_hand_takes_the_place_of_the_one_that_was_planned() -> None:
    async def scenario(world: World, space: Did) -> None:
        world.crash(down=5)
        await world.start()
        await world.start()
        world.crash()
        world.crash()
        await asyncio.sleep(60)
        assert world.process is None
        assert world.crashes == 2

    in_a_world(scenario)


def test_a_crash_leaves_a_failure_that_was_asked_for_to_the_next_life() -> None:
    crashed = []
    points = CrashPoints(lambda: crashed.append(True))
    points.crash_after(1)
    points.fail(DiskFull, 1, written=True)
    points.after_append()
    assert crashed == [True]
    with pytest.raises(DiskFull):
        points.after_append()
    points.crash_before(1)
    points.clear()
    points.before_append()
    assert crashed == [True]
