"""Compaction after random work with branches, tags, merges and reverts: what can be read is what it was."""

from __future__ import annotations

import itertools
import random
from pathlib import Path
from typing import Any

import pytest

from asking import asked
from destroying import IDS, Work, snapshot_everything, verified
from engines import Engine, engine
from stemmadb.protocol.errors import StemmaError
from stemmadb.protocol.model.log.commit_record import Strategy
from stemmadb.protocol.model.values.ids import BranchName, EntityId, TimeMs, Version
from stemmadb.server.engine.base import moments, states
from stemmadb.server.engine.base.moments import ReadMoment
from stemmadb.server.engine.plan import compaction, merge
from stemmadb.server.engine.plan.merge import MergeWanted
from stemmadb.server.storage.port import LogReader
from stemmadb.server.storage.sqlite import SqliteStorage

STEPS = 25
NOW = TimeMs(1_000)
STRATEGIES: tuple[Strategy, ...] = ("lww", "fields", "source", "fail")


async def readable(it: Engine, floor: int, upto: int) -> dict[tuple[str, int, str], Any]:
    """What stays readable for a floor: all from there on where a branch was not deleted before, and tags."""

    def ask(reader: LogReader) -> dict[tuple[str, int, str], Any]:
        kept = [state.name for state in reader.branches() if state.deleted is None or state.deleted >= floor]
        points = {(name, Version(version)) for name in kept for version in range(floor, upto + 1)}
        points |= {(tag.branch, tag.version) for tag in reader.tags()}
        found: dict[tuple[str, int, str], Any] = {}
        for name, version in points:
            spans = moments.resolve(reader, ReadMoment(name, version)).spans
            for id_, state in states.load(reader, spans, map(EntityId, IDS)).items():
                found[name, version, id_] = state.value
        return found

    return await it.space.read(ask)


async def merges(it: Engine, pairs: list[tuple[str, str]]) -> dict[tuple[str, str, str], Any]:
    """What merges of live branches would do."""
    found: dict[tuple[str, str, str], Any] = {}
    for (source, target), strategy in itertools.product(pairs, STRATEGIES):
        wanted = MergeWanted(source=BranchName(source), target=BranchName(target), strategy=strategy)
        try:
            report = await merge.merge(it.space, asked("dry"), wanted, dry_run=True)
            found[source, target, strategy] = (report.writes, report.conflicts)
        except StemmaError as error:
            found[source, target, strategy] = (error.code, error.facts.get("conflicts"))
    return found


async def work_and_compact(it: Engine, seed: int) -> int:
    """How many bodies went; every answer is compared with what it was."""
    chance = random.Random(seed)
    work = Work(it, seed)
    await work.begin()
    bodies = 0
    for round_ in range(3):
        await work.run(STEPS)
        for act in (work.end, work.end, work.tag):
            try:
                await act()
            except StemmaError:
                continue
        await snapshot_everything(it)
        head = it.space.version
        floor = Version(chance.randint(head // 2, head))  # at times below the one before
        oldest = max(floor, await it.space.read(lambda reader: reader.floor()))
        pairs = chance.sample([*itertools.permutations(work.live, 2)], min(6, len(work.live) * (len(work.live) - 1)))
        before, merged = await readable(it, oldest, head), await merges(it, pairs)
        facts = await verified(it)
        done = await compaction.compact(it.space, asked(f"c{round_}"), floor, now=NOW)
        bodies += done.bodies
        assert done.floor == oldest
        assert await readable(it, oldest, head) == before
        assert await merges(it, pairs) == merged
        assert await verified(it) >= facts
    return bodies


@pytest.mark.rule("COMPACT-1")
@pytest.mark.parametrize("seed", range(25))
async def test_states_and_merges_of_live_branches_are_what_they_were(seed: int) -> None:
    async with engine() as it:
        assert await work_and_compact(it, seed) > 0


@pytest.mark.rule("COMPACT-1")
@pytest.mark.parametrize("seed", range(100, 103))
async def test_on_files_too(seed: int, tmp_path: Path) -> None:
    async with engine(SqliteStorage(tmp_path)) as it:
        await work_and_compact(it, seed)
