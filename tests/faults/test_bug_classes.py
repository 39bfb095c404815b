"""One regression for each bug class of durability and reads that stores are known for, named after it.

Those of watches are in `test_bug_classes_watches`, those of merges, proofs and layers in `test_bug_classes_values`.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

import pytest

from check_log import fallen
from check_reads import Observed, ServerRead, Told, changed_past, stale
from faults_worlds import X, in_a_world, write
from service_peers import ALICE, BOB, patch, put, service_harness
from stemmadb.client import Space
from stemmadb.client.testing import World
from stemmadb.protocol.model.query.query import Query, Root
from stemmadb.protocol.model.values.body import read_stored
from stemmadb.protocol.model.values.ids import Local
from stemmadb.protocol.wire.messages.reading import QueryAnswer, QueryRequest
from stemmadb.protocol.wire.records import whole_body
from violations import expect_none


@dataclass(slots=True)
class Looks:
    """What one who asks the server again and again was answered."""

    versions: list[int] = field(default_factory=list)
    states: list[Observed[object]] = field(default_factory=list)

    async def look_on(self, space: Space) -> None:
        while True:
            found = await space.query("urn:*")
            self.versions.append(int(found.version))
            self.states.append(Observed(int(found.version), dict(found)))
            await asyncio.sleep(0.05)


# ---------------------------------------------------------------- durability


@pytest.mark.rule("COMMIT-1", "COMMIT-10")
@pytest.mark.parametrize("appends", range(1, 5))
def test_acknowledged_write_lost_none_is_when_the_server_dies_before_its_next_append(appends: int) -> None:
    async def scenario(world: World, alice: Space, _: Space) -> None:
        world.crash_before_append(appends, down=1.0)
        for number in range(6):
            version = await write(alice, f"urn:{number}", number)
            commits = {int(one.version) for one in world.truth.commits(alice.did)}
            assert int(version) in commits, f"{version} was acknowledged and is not durable"
        assert world.crashes == 1
        assert len(world.truth.entities(alice.did, "urn:")) == 6

    in_a_world(scenario, disk_seconds=0.5)


@pytest.mark.rule("COMMIT-1", "STORE-1")
@pytest.mark.parametrize("appends", range(1, 5))
def test_version_going_back_after_a_crash_what_was_seen_stays_and_means_the_same(appends: int) -> None:
    async def scenario(world: World, alice: Space, bob: Space) -> None:
        looks = Looks()
        looking = asyncio.create_task(looks.look_on(bob))
        world.crash_before_append(appends, down=1.0)
        for number in range(6):
            await write(alice, X, number)
        looking.cancel()
        assert world.crashes == 1
        expect_none(fallen(looks.versions, who="bob"), changed_past(looks.states))
        assert len(set(looks.versions)) > 3

    in_a_world(scenario, disk_seconds=0.5)


@pytest.mark.rule("COMMIT-5", "RESUME-2")
def test_commit_twice_after_a_retry_one_whose_verdict_was_lost_is_there_once() -> None:
    async def scenario(world: World, alice: Space, _: Space) -> None:
        await write(alice, X, {"n": 0})
        for number in range(1, 6):
            world.network["alice"].drop_after(0)
            async with alice.transaction() as tx:
                tx.increment(X, "/n", blind=True)
            await tx.confirmed()
            assert world.truth.entities(alice.did, X) == {X: {"n": number}}

    in_a_world(scenario)


@pytest.mark.rule("COMMIT-5")
async def test_commit_twice_after_a_retry_the_same_sent_again_gets_the_same_answer() -> None:
    """By a client that heard nothing of its verdict, on one connection after the other."""
    counted = patch(X, {"op": "increment", "path": "/n", "by": 1})
    async with service_harness() as home:
        alice = await home.peer(ALICE).open()
        await alice.commit(put(X, {"n": 0}))
        versions = set()
        for _ in range(3):
            bob = await home.peer(BOB, session=b"b" * 16).open(lowest=Local(2))
            versions.add((await bob.commit(counted, local=Local(1))).version)
            bob.lose()
        answer = await alice.ask(QueryRequest, query=Query(roots=(Root(X),)))
        assert isinstance(answer, QueryAnswer)
        assert (versions, [read_stored(whole_body(one)) for one in answer.entities]) == ({3}, [{"n": 1}])


# ---------------------------------------------------------------- reads


@pytest.mark.rule("NURSERY-1", "RESUME-5")
def test_stale_read_after_a_pause_the_server_answers_with_all_that_was_acknowledged_meanwhile() -> None:
    """Bob's line freezes while alice's commits are acknowledged; what he is answered afterwards has them."""
    told: list[Told] = []
    reads: list[ServerRead] = []

    async def scenario(world: World, alice: Space, bob: Space) -> None:
        loop = asyncio.get_running_loop()
        for number in range(8):
            world.network["bob"].half_open()
            version = await write(alice, X, number)
            told.append(Told(loop.time(), int(version)))
            await asyncio.sleep(number)
            world.network["bob"].melt()
            began = loop.time()
            found = await bob.query("urn:*")
            reads.append(ServerRead(began, int(found.version), "bob"))
            assert found == {X: number}

    in_a_world(scenario)
    expect_none(stale(told, reads))


@pytest.mark.rule("COMMIT-8", "SNAP-1")
def test_point_in_time_answer_changing_every_past_state_is_the_same_for_ever() -> None:
    async def scenario(world: World, alice: Space, bob: Space) -> None:
        seen: list[Observed[object]] = []

        async def look(space: Space) -> None:
            versions = range(1, int(world.truth.version(alice.did)) + 1)
            seen.extend([Observed(one, await space.at(version=one).list("urn:*")) for one in versions])

        await write(alice, X, {"n": 0, "text": ""})
        for number in range(40):
            async with alice.transaction() as tx:
                tx.patch(X, [{"op": "add", "path": f"/{number}", "value": number}], blind=True)
            await tx.confirmed()
        await look(bob)
        async with alice.transaction() as tx:
            tx.delete(X, blind=True)
        await tx.confirmed()
        await look(alice)
        await alice.revert(int(world.truth.version(alice.did)))
        world.crash(down=1.0)
        await look(bob)
        expect_none(changed_past(seen))

    in_a_world(scenario)
