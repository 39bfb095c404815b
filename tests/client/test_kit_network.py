"""Each fault of the network does what it says, seen by a raw client and by the real service."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from itertools import pairwise
from typing import TypeAlias

import pytest

from kit_clients import RawClient, put
from stemmadb.client.testing import Towards, World
from stemmadb.protocol.errors import TakenOver, Unreachable
from stemmadb.protocol.model.values.ids import Did
from stemmadb.protocol.model.values.limits import Limits
from stemmadb.protocol.wire.channel import ChannelClosed
from stemmadb.protocol.wire.messages.commit import AcceptedVerdict
from stemmadb.protocol.wire.messages.session import Ping
from stemmadb.protocol.wire.messages.sync import Sync
from stemmadb.protocol.wire.version import JSON
from stemmadb.server.service.base.settings import ServiceSettings
from stemmadb.server.service.base.transport import DRAIN_BYTES

Scenario: TypeAlias = Callable[[World, Did], Awaitable[None]]


def in_a_world(scenario: Scenario, **given: object) -> None:
    async def with_a_space(world: World) -> None:
        await scenario(world, await world.make_space())

    World(seed=3, **given).run(with_a_space)  # type: ignore[arg-type]


def test_a_message_takes_its_time() -> None:
    async def scenario(world: World, space: Did) -> None:
        alice = await RawClient(world, "alice", space).open()
        loop = asyncio.get_running_loop()
        started = loop.time()
        await alice.commit(put("urn:a", 1))
        assert 0.2 <= loop.time() - started < 0.3
        await alice.leave()

    in_a_world(scenario, latency=0.1, jitter=0.05)


def test_messages_of_a_connection_keep_their_order_however_they_are_delayed() -> None:
    async def scenario(world: World, space: Did) -> None:
        alice = await RawClient(world, "alice", space).open()
        for number in range(200):
            await alice.send(put("urn:a", number))
        await alice.until(lambda: alice.verdict(200))
        versions = [one.version for frame in alice.told(Sync) for one in frame.verdicts]
        assert len(versions) == 200
        assert all(before < after for before, after in pairwise(versions))
        assert alice.closed is None
        await alice.leave()

    in_a_world(scenario, latency=0.001, jitter=1.0)


def test_connections_overtake_each_other() -> None:
    async def scenario(world: World, space: Did) -> None:
        alice, bob = await RawClient(world, "alice", space).open(), await RawClient(world, "bob", space).open()
        firsts = set()
        for number in range(20):
            await alice.send(put("urn:a", number))
            await bob.send(put("urn:b", number))
            await asyncio.sleep(5)
            firsts.add(world.truth.commits(space)[-2].identity.principal)
        assert firsts == {world.identity("alice").did, world.identity("bob").did}
        await alice.leave()
        await bob.leave()

    in_a_world(scenario, latency=0.001, jitter=1.0)


def test_the_json_subprotocol_works_too() -> None:
    async def scenario(world: World, space: Did) -> None:
        alice = await RawClient(world, "alice", space).open(JSON)
        assert isinstance(await alice.commit(put("urn:a", 1)), AcceptedVerdict)
        await alice.leave()

    in_a_world(scenario)


def test_offline_ends_what_is_connected_and_lets_nobody_connect() -> None:
    async def scenario(world: World, space: Did) -> None:
        alice, bob = await RawClient(world, "alice", space).open(), await RawClient(world, "bob", space).open()
        world.network["alice"].offline()
        assert await alice.over() == 1006
        assert not world.network["alice"].is_online
        with pytest.raises(Unreachable, match="no network"):
            await world.dial("alice")(space)
        assert isinstance(await bob.commit(put("urn:b", 1)), AcceptedVerdict)
        world.network["alice"].online()
        again = await alice.again()
        assert isinstance(await again.commit(put("urn:a", 1)), AcceptedVerdict)
        await again.leave()
        await bob.leave()

    in_a_world(scenario)


def test_everybody_can_be_offline_at_once() -> None:
    async def scenario(world: World, space: Did) -> None:
        clients = [await RawClient(world, name, space).open() for name in ("alice", "bob")]
        world.network.offline()
        assert [await one.over() for one in clients] == [1006, 1006]
        world.network.online()
        await (await clients[0].again()).leave()

    in_a_world(scenario)


def test_silently_offline_nothing_ends_and_a_new_connection_waits_in_vain() -> None:
    async def scenario(world: World, space: Did) -> None:
        alice = await RawClient(world, "alice", space).open()
        world.network["alice"].offline(silent=True)
        before = asyncio.get_running_loop().time()
        with pytest.raises(Unreachable):
            await world.dial("alice")(space)
        assert asyncio.get_running_loop().time() - before >= 10
        sending = asyncio.create_task(alice.commit(put("urn:a", 1)))
        await asyncio.sleep(5)
        assert alice.closed is None
        assert not sending.done()
        world.network["alice"].online()
        assert isinstance(await sending, AcceptedVerdict)
        await alice.leave()

    in_a_world(scenario)


def test_a_cut_loses_what_is_in_flight_from_some_message_on() -> None:
    arrived = set()
    for seed in range(12):

        async def scenario(world: World) -> int:
            space = await world.make_space()
            alice = await RawClient(world, "alice", space).open()
            for number in range(10):
                await alice.send(put(f"urn:{number}", number))
            world.network["alice"].cut()
            assert await alice.over() == 1006
            await asyncio.sleep(1)
            there = [one for one in range(10) if f"urn:{one}" in world.truth.entities(space)]
            assert there == list(range(len(there))), "what arrives is a beginning of what was sent"
            assert world.network["alice"].traffic[Towards.SERVER].lost == 10 - len(there)
            return len(there)

        arrived.add(World(seed).run(scenario))
    assert len(arrived) > 3


@pytest.mark.rule("COMMIT-5")
def test_a_lost_verdict_leaves_a_commit_that_is_durable_and_found_again() -> None:
    async def scenario(world: World, space: Did) -> None:
        alice = await RawClient(world, "alice", space).open()
        world.network["alice"].drop_after(0)
        assert await alice.commit(put("urn:a", 1)) is None
        assert alice.closed == 1006
        assert world.truth.entities(space, "urn:") == {"urn:a": 1}
        again = await alice.again()
        verdict = await again.commit(put("urn:a", 1), local=1)
        assert isinstance(verdict, AcceptedVerdict)
        assert verdict.version == world.truth.version(space)
        await again.leave()

    in_a_world(scenario)


def test_so_many_messages_arrive_before_one_is_dropped() -> None:
    async def scenario(world: World, space: Did) -> None:
        alice = await RawClient(world, "alice", space).open()
        world.network["alice"].drop_after(3, towards=Towards.SERVER)
        for number in range(6):
            await alice.send(put(f"urn:{number}", number))
        await alice.over()
        await asyncio.sleep(1)
        assert set(world.truth.entities(space, "urn:")) == {"urn:0", "urn:1", "urn:2"}
        again = await alice.again()
        assert isinstance(await again.commit(put("urn:9", 9), local=9), AcceptedVerdict), "it happens once"
        await again.leave()

    in_a_world(scenario)


def test_half_open_says_nothing_to_either_side_until_the_server_gives_up() -> None:
    async def scenario(world: World, space: Did) -> None:
        alice = await RawClient(world, "alice", space).open()
        line = world.network["alice"]
        assert world.process is not None
        line.half_open()
        await alice.send(put("urn:a", 1))
        await asyncio.sleep(39)
        assert len(world.process.links) == 1
        assert alice.closed is None
        again = await RawClient(world, "alice", space).open()
        assert isinstance(await again.commit(put("urn:b", 1)), AcceptedVerdict), "a new connection works"
        await again.leave()
        await asyncio.sleep(2)
        assert not world.process.links, "the server's heartbeat found it"
        assert alice.closed is None, "and the client's is its own"
        assert "urn:a" not in world.truth.entities(space)
        line.melt()
        assert await alice.over() == 1006

    in_a_world(scenario)


def test_half_open_that_melts_in_time_goes_on_as_if_nothing_had_been() -> None:
    async def scenario(world: World, space: Did) -> None:
        alice = await RawClient(world, "alice", space).open()
        world.network["alice"].half_open()
        await alice.send(put("urn:a", 1))
        await asyncio.sleep(30)
        world.network["alice"].melt()
        await alice.until(lambda: alice.verdict(1))
        await asyncio.sleep(100)
        assert alice.closed is None
        await alice.leave()

    in_a_world(scenario)


@pytest.mark.rule("SYNC-6")
def test_a_slow_reader_lets_unsent_grow_to_a_bound_and_catches_up_when_it_drains() -> None:
    async def scenario(world: World, space: Did) -> None:
        alice, bob = await RawClient(world, "alice", space).open(), await RawClient(world, "bob", space).open()
        await bob.watch("urn:*")
        world.network["bob"].stop_reading()
        [link] = world.network["bob"].links
        for number in range(60):
            assert isinstance(await alice.commit(put(f"urn:{number}", "x" * 20_000)), AcceptedVerdict)
        assert DRAIN_BYTES < link.server.unsent < 400_000, "nothing more is built for it"
        frames = len(bob.told(Sync))
        world.network["bob"].read_on()
        last = world.truth.version(space)
        await bob.until(lambda: bob.told(Sync)[-1].to == last)
        assert link.server.unsent == 0
        assert len(bob.told(Sync)) - frames < 30, "one frame takes it from where it was to now"
        await alice.leave()
        await bob.leave()

    in_a_world(scenario, settings=ServiceSettings(unsent_bytes_max=200_000))


def test_a_client_that_does_not_receive_is_a_slow_reader_too() -> None:
    async def scenario(world: World, space: Did) -> None:
        alice, bob = await RawClient(world, "alice", space).open(), await RawClient(world, "bob", space).open()
        await bob.watch("urn:*")
        bob._reading.cancel()
        [link] = world.network["bob"].links
        for number in range(20):
            await alice.commit(put(f"urn:{number}", "x" * 20_000))
        assert link.server.unsent > DRAIN_BYTES
        await bob.channel.close()
        await alice.leave()
        await asyncio.sleep(1)
        assert world.process is not None
        assert not world.process.links

    in_a_world(scenario, settings=ServiceSettings(unsent_bytes_max=100_000))


def test_a_sender_waits_while_the_server_does_not_read() -> None:
    async def scenario(world: World, space: Did) -> None:
        alice = await RawClient(world, "alice", space).open()
        [link] = world.network["alice"].links
        link.server.pause()
        for number in range(4):
            await alice.send(put(f"urn:{number}", "x" * 20_000))
        waiting = asyncio.create_task(alice.send(put("urn:last", 1)))
        await asyncio.sleep(60)
        assert not waiting.done()
        assert world.truth.version(space) == 1
        link.server.resume()
        await waiting
        await alice.until(lambda: alice.verdict(5))
        await alice.leave()

    in_a_world(scenario)


def test_a_slow_line_carries_so_many_bytes_in_a_second() -> None:
    async def scenario(world: World, space: Did) -> None:
        alice = await RawClient(world, "alice", space).open()
        world.network["alice"].slow(1_000)
        started = asyncio.get_running_loop().time()
        for number in range(3):
            await alice.send(put(f"urn:{number}", "x" * 10_000))
        await alice.until(lambda: alice.verdict(3))
        assert 30 < asyncio.get_running_loop().time() - started < 40
        world.network["alice"].slow(None)
        await alice.leave()

    in_a_world(scenario)


def test_the_server_says_why_it_closes() -> None:
    async def scenario(world: World, space: Did) -> None:
        alice = await RawClient(world, "alice", space).open()
        other = await alice.again()
        assert await alice.over() == 4001
        assert alice.goodbye is not None
        assert isinstance(alice.goodbye.error, TakenOver)
        with pytest.raises(ChannelClosed, match="4001"):
            await alice.channel.send(b"too late")
        with pytest.raises(ChannelClosed, match="4001"):
            await alice.channel.receive()
        await other.leave()

    in_a_world(scenario)


def test_a_message_that_is_too_large_closes_the_connection() -> None:
    async def scenario(world: World, space: Did) -> None:
        alice = await RawClient(world, "alice", space).open()
        await alice.channel.send(bytes(20_001))
        assert await alice.over() == 1009

    in_a_world(scenario, limits=Limits(message_bytes_max=10_000))


def test_a_stranger_may_not_send_much() -> None:
    async def scenario(world: World, space: Did) -> None:
        channel = await world.dial("alice")(space)
        await channel.send(bytes(4_000))
        await channel.receive()
        with pytest.raises(ChannelClosed, match="1006"):
            await channel.receive()

    in_a_world(scenario, limits=Limits(schema_bytes_max=1_000))


def test_closing_twice_is_safe_and_ends_both_sides() -> None:
    async def scenario(world: World, space: Did) -> None:
        alice = await RawClient(world, "alice", space).open()
        await alice.leave()
        await alice.channel.close()
        with pytest.raises(ChannelClosed, match="1000"):
            await alice.channel.send(b"")
        await asyncio.sleep(1)
        assert world.process is not None
        assert not world.process.links
        assert not world.network["alice"].links
        assert not world.process.service.sessions

    in_a_world(scenario)


def test_what_was_sent_before_a_close_arrives() -> None:
    async def scenario(world: World, space: Did) -> None:
        alice = await RawClient(world, "alice", space).open()
        await alice.send(put("urn:a", 1))
        await alice.leave()
        await asyncio.sleep(1)
        assert world.truth.entities(space, "urn:") == {"urn:a": 1}

    in_a_world(scenario)


def test_messages_are_counted() -> None:
    async def scenario(world: World, space: Did) -> None:
        alice = await RawClient(world, "alice", space).open()
        line = world.network["alice"]
        before = line.traffic[Towards.SERVER].taken, line.traffic[Towards.CLIENT].taken
        await alice.ask(Ping(id=alice.connection.next_id()))
        assert (line.traffic[Towards.SERVER].taken, line.traffic[Towards.CLIENT].taken) == (
            before[0] + 1,
            before[1] + 1,
        )
        assert line.dials == 1
        await alice.leave()

    in_a_world(scenario)


def test_a_server_that_does_not_read_learns_when_it_writes_that_nobody_is_there() -> None:
    async def scenario(world: World, space: Did) -> None:
        alice = await RawClient(world, "alice", space).open()
        assert world.process is not None
        [link] = world.process.links
        link.server.pause()
        await alice.leave()
        await asyncio.sleep(60)
        assert world.process.links == [link]
        link.server.send(b"anybody there?")
        await asyncio.sleep(0.1)
        assert not world.process.links

    in_a_world(scenario)


def test_what_hangs_can_be_cut() -> None:
    async def scenario(world: World, space: Did) -> None:
        alice = await RawClient(world, "alice", space).open()
        world.network["alice"].half_open()
        world.network["alice"].cut()
        assert await alice.over() == 1006

    in_a_world(scenario)


def test_a_client_that_does_not_read_does_not_read_on_a_new_connection_either() -> None:
    async def scenario(world: World, space: Did) -> None:
        world.network["alice"].stop_reading()
        channel = await world.dial("alice")(space)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(5):
                await channel.receive()
        world.network["alice"].read_on()
        await channel.receive()
        await channel.close()

    in_a_world(scenario)
