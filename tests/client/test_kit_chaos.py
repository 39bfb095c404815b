"""Chaos: one seed, one run; whatever happens, each commit is decided once, and it heals."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from typing import Any

import pytest

from kit_clients import RawClient, put
from stemmadb.client.testing import Towards, World
from stemmadb.protocol.errors import StemmaError
from stemmadb.protocol.model.values.ids import Did
from stemmadb.protocol.wire.channel import ChannelClosed
from stemmadb.protocol.wire.messages.commit import AcceptedVerdict

COMMITS = 12


async def insist(world: World, name: str, space: Did, local: int) -> AcceptedVerdict:
    """Sends a commit until it has a verdict, on as many connections as it takes."""
    session = name.encode().ljust(16, b".")
    while True:
        try:
            client = RawClient(world, name, space, session=session)
            async with asyncio.timeout(15):
                await client.open()
                verdict = await client.commit(put(f"urn:{name}:{local}", local), local=local)
        except (StemmaError, TimeoutError, ChannelClosed):
            verdict = None
        if hasattr(client, "channel"):
            await client.leave()
        if isinstance(verdict, AcceptedVerdict):
            return verdict
        await asyncio.sleep(0.1)


async def stormy(world: World) -> dict[str, Any]:
    space = await world.make_space()
    chaos = world.chaos(every=0.5, longest=3.0)
    told: dict[str, list[int]] = {"alice": [], "bob": []}

    async def work(name: str) -> None:
        for local in range(1, COMMITS + 1):
            told[name].append((await insist(world, name, space, local)).version)
            await asyncio.sleep(0.3)

    await asyncio.gather(work("alice"), work("bob"))
    world.calm()
    final = await insist(world, "alice", space, COMMITS + 1)
    assert final.version == world.truth.version(space) == 2 * COMMITS + 2, "each commit is there once"
    for name, versions in told.items():
        assert versions == sorted(set(versions)), f"the versions of {name} rise"
    return {
        "hash": world.trace.hash(),
        "events": world.trace.count,
        "faults": chaos.count,
        "crashes": world.crashes,
        "lost": sum(line.traffic[towards].lost for line in world.network for towards in Towards),
    }


def storm(seed: int) -> dict[str, Any]:
    return World(seed, disk_seconds=0.002).run(stormy)


@pytest.mark.rule("COMMIT-5", "RESUME-2")
@pytest.mark.parametrize("seed", range(4))
def test_every_commit_is_decided_once_whatever_happens(seed: int) -> None:
    seen = storm(seed)
    assert seen["faults"] > 10


def test_the_same_seed_gives_the_same_run_and_another_one_another() -> None:
    assert storm(11) == storm(11)
    assert storm(11)["hash"] != storm(12)["hash"]


def test_chaos_does_all_that_it_says() -> None:
    seen = [storm(seed) for seed in range(20, 23)]
    assert sum(one["crashes"] for one in seen) > 5
    assert sum(one["lost"] for one in seen) > 5


def test_the_seed_gives_the_same_run_in_another_process() -> None:
    """Also where Python hashes texts in another way."""
    script = (
        "import sys; sys.path.insert(0, sys.argv[1]); import test_kit_chaos; print(test_kit_chaos.storm(4)['hash'])"
    )
    here = __file__.rpartition("/")[0]
    support = here.rpartition("/")[0] + "/support"
    hashes = {
        subprocess.run(  # noqa: S603
            [sys.executable, "-c", script, here],
            capture_output=True,
            text=True,
            check=True,
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": support},
        ).stdout
        for seed in ("1", "2")
    }
    assert hashes == {storm(4)["hash"] + "\n"}


def test_after_calm_nothing_happens_any_more() -> None:
    async def scenario(world: World) -> None:
        space = await world.make_space()
        world.network["alice"].offline()
        chaos = world.chaos(every=0.1)
        await asyncio.sleep(20)
        world.calm()
        count, crashes = chaos.count, world.crashes
        assert count > 100
        alice = await RawClient(world, "alice", space).open()
        for number in range(20):
            assert isinstance(await alice.commit(put("urn:a", number)), AcceptedVerdict)
            await asyncio.sleep(10)
        assert (chaos.count, world.crashes, alice.closed) == (count, crashes, None)
        await alice.leave()

    World(seed=2).run(scenario)


def test_only_the_faults_that_were_asked_for_happen() -> None:
    async def scenario(world: World) -> None:
        space = await world.make_space()
        await RawClient(world, "alice", space).open()
        world.chaos(every=0.1, faults=("stall",), server=False, clock=False)
        await asyncio.sleep(20)
        world.calm()
        words = {word for line in world.trace.lines for word in line.split()[2:3]}
        assert "stop_reading" in words
        assert not words & {"cut", "offline", "half_open", "drop", "crashes"}

    World(seed=2).run(scenario)


def test_what_chaos_began_does_not_end_what_somebody_else_began_after_it() -> None:
    async def scenario(world: World) -> None:
        line = world.network["alice"]
        world.chaos(every=0.1, longest=30, faults=("offline",), server=False, clock=False)
        await asyncio.sleep(5)
        world.calm()
        line.offline()
        await asyncio.sleep(60)
        assert not line.is_online

    World(seed=2).run(scenario)
