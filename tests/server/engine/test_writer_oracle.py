"""The writer against the oracle: schedules through a real space give the verdicts of a decision one by one."""

from __future__ import annotations

import asyncio
import random

import pytest

from engine_scripts import Script, same, verify
from engines import LonelyStorage, Wandering, engine
from stemmadb.protocol.model.log.state import EntityState, Missing
from stemmadb.protocol.model.values.ids import BranchName, EntityId, Version
from stemmadb.protocol.model.values.limits import DEFAULTS
from stemmadb.server.engine.base.executors import Executors
from stemmadb.server.engine.base.head_cache import Key
from stemmadb.server.engine.base.settings import Settings
from stemmadb.server.engine.write.gather import ReadsNeeded, gather
from stemmadb.server.storage.memory import MemoryStorage
from stemmadb.server.storage.port import SpaceLog


async def play(script: Script, storage: MemoryStorage, sizes: Settings, seed: int) -> None:
    """Sends a script in order, in pieces; the space is closed and opened between two pieces."""
    lines = script.lines
    chance = random.Random(seed)
    begin = 0
    while begin < len(lines):
        end = begin + chance.randint(1, len(lines))
        workers = Executors(Wandering(seed + begin), Wandering(seed - begin))
        async with engine(storage, access=None, sizes=sizes, workers=workers) as it:
            piece = lines[begin:end]
            outcomes = await asyncio.gather(*[it.space.decide(proposal) for proposal, _ in piece])
            for (proposal, expected), actual in zip(piece, outcomes, strict=True):
                assert same(actual, expected), (proposal, actual, expected)
            assert await it.space.read(verify) == it.space.version
        begin = end


SIZES = {
    "as it comes": Settings(),
    "one by one": Settings(ahead_min=1, batch_commits_max=1),
    "no memory": Settings(ahead_min=1, cache_bytes_max=0, sessions_max=1, names_max=1, batch_commits_max=3),
    "small batches, short queue": Settings(ahead_min=1, batch_commits_max=2, queue_max=3, cache_bytes_max=3_000),
}


@pytest.mark.rule("COMMIT-2", "COMMIT-4", "COMMIT-5", "COMMIT-6", "COMMIT-8", "COMMIT-10", "COMMIT-11")
@pytest.mark.parametrize("sizes", SIZES.values(), ids=SIZES.keys())
@pytest.mark.parametrize("storage", [MemoryStorage, LonelyStorage])
async def test_a_schedule_through_the_writer_gives_the_verdicts_of_the_oracle(
    sizes: Settings, storage: type[MemoryStorage]
) -> None:
    for seed in range(20):
        await play(Script(seed), storage(), sizes, seed)


def loaded(log: SpaceLog, states: dict[Key, EntityState]) -> dict[Key, EntityState]:
    wanted = ReadsNeeded(heads={})
    for branch, id_ in states:
        wanted.heads.setdefault(branch, {})[id_] = Version(0)
    gathered = gather(log, wanted, DEFAULTS.scan_facts_max)
    return dict(gathered.heads)


@pytest.mark.rule("COMMIT-8")
async def test_a_head_loaded_from_the_log_is_what_the_decisions_left() -> None:
    for seed in range(25):
        script = Script(seed)
        storage = LonelyStorage()
        async with engine(storage, access=None) as it:
            for proposal, _ in script.lines:
                await it.space.decide(proposal)
            ids = {id_ for _, id_ in script.space.states}
            branches = [BranchName(name) for name in script.space.branches]
            expected = {(name, id_): script.space.entity(name, id_) for name in branches for id_ in ids}
            assert await it.space.in_turn(lambda log: shown(loaded(log, expected))) == shown(expected)  # noqa: B023


def shown(states: dict[Key, EntityState]) -> dict[Key, object]:
    """All there is to a state but its hash, which has salts in it, and which list its changes share."""
    return {
        key: (one.id, one.version, one.hashed, one.value, one.size, one.seen_after, list(one.changes or ()))
        for key, one in states.items()
    }


async def test_the_values_readers_see_are_those_of_the_oracle() -> None:
    script = Script(7, steps=40)
    async with engine(access=None) as it:
        await asyncio.gather(*[it.space.decide(proposal) for proposal, _ in script.lines])
        for branch in script.space.branches:
            for id_ in ("urn:a:1", "urn:a:2", "urn:b:1"):
                state = script.space.entity(BranchName(branch), EntityId(id_))
                expected = None if isinstance(state.value, Missing) else state.value
                assert await it.value(id_, branch) == expected
