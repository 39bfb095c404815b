"""Ours alone as branches grow: making one, committing on one, and merging it, in process (BRANCH-1, MERGE-1)."""

from __future__ import annotations

import asyncio
import random
import time
from contextlib import AsyncExitStack

from benchmarks.harness import rows
from benchmarks.harness.growth import SIZE, fitted
from benchmarks.harness.plan import Plan
from benchmarks.harness.rows import Key, Row
from benchmarks.harness.turns import Turns, of_times
from benchmarks.load.document import VALUE
from benchmarks.ours import engine
from stemmadb.protocol.model.commit.request import Operation
from stemmadb.protocol.model.values.body import encode
from stemmadb.protocol.model.values.ids import BranchName, EntityId
from stemmadb.server.engine.plan import branch_writes
from stemmadb.server.engine.plan.merge import MergeWanted, merge

NAME = "growth_branches"
TITLE = "ours with 10, 100 and 1,000 branches: a commit on one of them, and how long making and merging one takes"
SIZES = (10, 100, 1_000)
ENTITIES = 1_000
COMMITS, MERGED = 100, 20


def _name(number: int) -> BranchName:
    return BranchName(f"draft{number}")


class Tree:
    """A space with so many branches, each from the main one."""

    def __init__(self, load: engine.Load, branches: int) -> None:
        self.load, self.branches, self.chance = load, branches, random.Random(branches)
        self._count = 0

    async def grow(self) -> None:
        ids = [EntityId(f"urn:todo:{number}") for number in range(ENTITIES)]
        await self.load.commit([Operation(op="set", id=id_, body=VALUE, blind=True) for id_ in ids])
        for number in range(self.branches):
            await branch_writes.create_branch(self.load.space, self.load.asked(), name=_name(number))

    async def commit(self, branch: BranchName) -> float:
        self._count += 1
        change = encode([{"op": "replace", "path": "/count", "value": self._count}])
        id_ = EntityId(f"urn:todo:{self.chance.randrange(ENTITIES)}")
        began = time.perf_counter()
        await self.load.commit([Operation(op="patch", id=id_, body=change, blind=True)], branch=branch)
        return time.perf_counter() - began

    async def made_and_merged(self) -> tuple[float, float]:
        """Seconds that making a branch takes, and merging one changed entity of it; it is gone afterwards."""
        space, name, began = self.load.space, BranchName(f"short{self._count}"), time.perf_counter()
        await branch_writes.create_branch(space, self.load.asked(), name=name)
        made = time.perf_counter() - began
        await self.commit(name)
        began = time.perf_counter()
        await merge(space, self.load.asked(), MergeWanted(source=name))
        merged = time.perf_counter() - began
        await branch_writes.delete_branch(space, self.load.asked(), name=name)
        return made, merged

    async def measure(self) -> dict[str, float]:
        commits = [await self.commit(_name(self.chance.randrange(self.branches))) for _ in range(COMMITS)]
        made, merged = zip(*[await self.made_and_merged() for _ in range(MERGED)], strict=True)
        return of_times(commits) | {
            "create_p50_us": of_times(made)["p50_us"],
            "merge_p50_us": of_times(merged)["p50_us"],
        }


async def _run(turns: Turns, sizes: tuple[int, ...], reps: int) -> None:
    async with AsyncExitStack() as stack:
        trees = [Tree((await stack.enter_async_context(engine.fresh()))[0], branches) for branches in sizes]
        for tree in trees:
            await tree.grow()
        for _ in range(reps):
            for tree in trees:
                key = Key(f"{NAME}: {tree.branches:,} branches", rows.OURS, 1)
                turns.add(key, await tree.measure(), n=COMMITS)
                turns.note(key, **{SIZE: tree.branches})


def run(plan: Plan) -> list[Row]:
    turns = Turns()
    asyncio.run(_run(turns, plan.pick(quick=SIZES[:2], usual=SIZES), plan.reps))
    return fitted(turns.rows(), ("p50_us", "create_p50_us", "merge_p50_us"))
