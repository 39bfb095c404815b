"""Ours alone: a branch made, merged with 1,000 changes and deleted, among more and more entities (BRANCH-1)."""

from __future__ import annotations

import asyncio
import time
from contextlib import AsyncExitStack
from itertools import pairwise

from benchmarks.harness import rows
from benchmarks.harness.growth import SIZE, fitted
from benchmarks.harness.plan import Plan
from benchmarks.harness.rows import Key, Row
from benchmarks.harness.turns import Turns
from benchmarks.ours import engine
from stemmadb.protocol.model.commit.request import Operation
from stemmadb.protocol.model.values.body import encode
from stemmadb.protocol.model.values.ids import BranchName, EntityId
from stemmadb.server.engine.plan import branch_writes
from stemmadb.server.engine.plan.merge import MergeWanted, merge

NAME = "growth_merge"
TITLE = (
    "ours with 1,000, 10,000 and 100,000 entities: a branch merged, of which 1,000 have changed; making, deleting one"
)
SIZES = (1_000, 10_000, 100_000)
DOCUMENT = {"title": "write the spec", "done": False, "count": 1}
CHANGED = 1_000


async def fill(load: engine.Load, entities: int) -> None:
    for start in range(0, entities, 4_000):
        proposals = []
        for first in range(start, min(start + 4_000, entities), 1_000):
            operations = [
                Operation(op="set", id=EntityId(f"urn:todo:{n}"), body=encode(DOCUMENT), blind=True)
                for n in range(first, min(first + 1_000, entities))
            ]
            proposals.append(load.proposal(operations))
        await load.all(proposals)


async def one(load: engine.Load, entities: int, number: int) -> dict[str, float]:
    """One branch, from its making to its end."""
    name, times = BranchName(f"draft{number}"), [time.perf_counter()]
    await branch_writes.create_branch(load.space, load.asked(), name=name)
    times.append(time.perf_counter())
    await change(load, name, entities, number)
    times.append(time.perf_counter())
    report = await merge(load.space, load.asked(), MergeWanted(source=name))
    times.append(time.perf_counter())
    assert len(report.writes) == CHANGED
    await branch_writes.delete_branch(load.space, load.asked(), name=name)
    times.append(time.perf_counter())
    made, _, merged, deleted = ((b - a) * 1e6 for a, b in pairwise(times))
    return {"rate": 1e6 / merged, "p50_us": merged, "create_p50_us": made, "delete_p50_us": deleted}


async def change(load: engine.Load, branch: BranchName, entities: int, number: int) -> None:
    body = encode([{"op": "replace", "path": "/count", "value": number + 2}])
    step = entities // CHANGED
    operations = [
        Operation(op="patch", id=EntityId(f"urn:todo:{n * step}"), body=body, blind=True) for n in range(CHANGED)
    ]
    await load.commit(operations, branch=branch)


async def _run(turns: Turns, sizes: tuple[int, ...], reps: int) -> None:
    async with AsyncExitStack() as stack:
        loads = {entities: (await stack.enter_async_context(engine.fresh()))[0] for entities in sizes}
        for entities, load in loads.items():
            await fill(load, entities)
        for number in range(reps):
            for entities, load in loads.items():
                key = Key(f"{NAME}: {entities:,} entities", rows.OURS, 1)
                turns.add(key, await one(load, entities, number), n=1)
                turns.note(key, **{SIZE: entities})


def run(plan: Plan) -> list[Row]:
    turns = Turns()
    asyncio.run(_run(turns, plan.pick(quick=SIZES[:2], usual=SIZES), plan.reps))
    return fitted(turns.rows(), ("p50_us", "create_p50_us", "delete_p50_us"))
