"""What chaos has found, one test each: apps work while everything fails; tests/simulation looks for more of it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from stemmadb.client import connect
from stemmadb.client.session.request_queue import OutgoingRequests
from stemmadb.client.session.requester import SessionRequester
from stemmadb.client.space import Space
from stemmadb.client.testing import AppDisk, World
from stemmadb.protocol.errors import Conflict, Dependency, GoingAway, NotFound
from stemmadb.protocol.model.values.ids import Did, EntityId
from stemmadb.protocol.model.values.json_values import Value
from stemmadb.protocol.wire.channel import Channel
from stemmadb.protocol.wire.messages.session import Ping, Pong
from stemmadb.protocol.wire.version import Subprotocol
from two_clients import in_a_world, put

X, Y, Z = "urn:doc:x", "urn:doc:y", "urn:doc:z"


@pytest.mark.rule("NURSERY-1", "RESUME-1")
def test_an_own_write_that_others_took_away_meanwhile_is_not_shown_again() -> None:
    async def scenario(world: World, alice: Space, bob: Space) -> None:
        line = world.network["alice"]
        watch = alice.watch("urn:*")
        await watch.next()
        line.stop_reading()
        async with alice.transaction() as tx:
            tx.set(X, {"n": 1})
        assert EntityId(X) in (await watch.next()).entered
        while await bob.get(X) is None:
            await asyncio.sleep(0.1)
        line.offline()
        async with alice.transaction() as above:
            above.increment(X, "/n", blind=True)
        async with bob.transaction() as gone:
            gone.delete(X, blind=True)
            gone.set(Z, 1)
        taken = await gone.confirmed()
        line.read_on()
        line.online()
        change = await watch.next()
        while EntityId(Z) not in change.entered:
            change = await watch.next()
        assert change.version >= taken
        assert EntityId(X) in change.left, "it is gone at the version at which the rest is there"
        assert await alice.get(X) is None
        await tx.confirmed()
        with pytest.raises(NotFound):
            await above.confirmed()

    in_a_world(scenario)


async def lose(world: World, space: Space, id_: str) -> None:
    """A commit of this client is confirmed, and then the server goes back to before it."""
    backup = world.backup()
    await put(space, id_, "lost")
    await world.restore(backup)


async def back(space: Space) -> None:
    """Returns once the client has seen the other history."""
    while space.status().lost == 0:
        await asyncio.sleep(0.1)


@pytest.mark.rule("RESUME-4")
def test_after_a_restore_undo_leaves_the_commits_of_others_alone() -> None:
    async def scenario(world: World, alice: Space, bob: Space) -> None:
        await lose(world, alice, X)
        await put(bob, Y, "bob's")
        await back(alice)
        assert await alice.undo() is None
        assert await bob.get(Y) == "bob's"

    in_a_world(scenario)


@pytest.mark.rule("RESUME-4", "NURSERY-1")
def test_after_a_restore_what_was_written_before_can_be_read() -> None:
    async def scenario(world: World, alice: Space, bob: Space) -> None:
        await lose(world, alice, X)
        await back(alice)
        assert await alice.get(X) is None

    in_a_world(scenario)


@pytest.mark.rule("RESUME-4")
def test_a_transaction_that_read_a_lost_history_is_refused() -> None:
    """Its versions would be taken for those of the history that there is now."""

    async def scenario(world: World, alice: Space, bob: Space) -> None:
        await put(bob, Y, 0)
        backup = world.backup()
        await put(alice, Y, 1)
        async with alice.transaction() as tx:
            value: Any = await tx.get(Y)
            await world.restore(backup)
            await back(alice)
            for number in range(5):
                await put(bob, X, number)
            await put(alice, X, "the client is where the server is")
            tx.update(Y, value + 1)
        with pytest.raises(Conflict, match="another history"):
            await tx.confirmed()
        assert await bob.get(Y) == 0
        assert tx.rejection is not None

    in_a_world(scenario)


@pytest.mark.rule("NURSERY-5", "COMMIT-5")
def test_the_name_of_a_rejected_commit_is_not_used_again() -> None:
    """It was rejected before it was journaled: only the rejected commits hold its name."""

    async def scenario(world: World) -> None:
        did, disk = await world.make_space("shared"), AppDisk()
        async with world.connect("bob") as db, world.app("alice", disk=disk) as app:
            bob, alice = await db.space(did), await app.db.space(did)
            world.network["alice"].offline()
            async with alice.transaction() as below:
                below.set(X, 1)
            await put(bob, X, 2)
            async with alice.transaction() as above:
                above.set(Y, await above.get(X))
                world.network["alice"].online()
                with pytest.raises(Conflict):
                    await below.confirmed()
            with pytest.raises(Dependency):
                await above.confirmed()
            await app.kill()
        async with world.app("alice", disk=disk) as app:
            alice = await app.db.space(did)
            names = {one.name for one in alice.rejected()}
            assert len(names) == 2
            name, _ = await put(alice, Z, 1)
            assert name not in names

    World(seed=1).run(scenario)


@pytest.mark.rule("RESUME-4")
def test_who_asks_late_is_told_what_was_lost_before() -> None:
    async def scenario(world: World, alice: Space, bob: Space) -> None:
        await lose(world, alice, X)
        await back(alice)
        told: list[object] = []
        alice.on_lost(told.append)
        assert len(told) == 1

    in_a_world(scenario)


def test_a_challenge_that_expired_on_its_way_is_no_refusal() -> None:
    """Whoever asks meanwhile gets the answer a little later."""

    async def scenario(world: World, alice: Space, bob: Space) -> None:
        line = world.network["alice"]
        line.delay(1.0)
        line.cut()
        asking = asyncio.get_running_loop().create_task(alice.get(X))
        await asyncio.sleep(4)  # the server has said hello, and has not heard who comes
        world.clock.jump(3600)
        assert await asking is None

    in_a_world(scenario)


class AskedWhileClosing:
    """A channel; while it is closed, an app asks something."""

    def __init__(self, channel: Channel, ask: Callable[[], object]) -> None:
        self.subprotocol: Subprotocol = channel.subprotocol
        self.receive, self.send, self.send_at_once = channel.receive, channel.send, channel.send_at_once
        self._channel = channel
        self._ask = ask

    async def close(self) -> None:
        self._ask()
        await asyncio.sleep(0)
        await self._channel.close()


def test_a_question_in_the_moment_a_connection_is_closed_waits_for_the_next_one() -> None:
    async def scenario(world: World) -> None:
        did = await world.make_space("shared")
        asked: list[asyncio.Task[Value]] = []

        async def dial(space: Did) -> Channel:
            return AskedWhileClosing(await world.dial("alice")(space), ask)

        def ask() -> None:
            if not asked:
                asked.append(asyncio.get_running_loop().create_task(alice.get(X)))

        async with connect(
            "ws://stemma.test",
            dial=dial,
            identity=world.identity("alice"),
            random=world.random("alice"),
            now=world.clock,
        ) as db:
            alice = await db.space(did)
            await put(alice, X, 1)
            await world.stop()
            await world.start()
            while not asked:
                await asyncio.sleep(0.1)
            assert await asked[0] == 1

    World(seed=1).run(scenario)


def test_closing_while_a_question_is_given_up_is_quiet() -> None:
    async def scenario(world: World) -> None:
        requests = OutgoingRequests()
        requester = SessionRequester(requests, random=bytes, ask_seconds=5, why_silent=lambda: None)
        task = asyncio.get_running_loop().create_task(requester.ask(Ping, Pong))
        await asyncio.sleep(0)
        task.cancel()
        requests.fail(GoingAway("The client was closed."))
        with pytest.raises(asyncio.CancelledError):
            await task

    World(seed=1).run(scenario)
