"""Branches among many entities: making and deleting one, and merging 1,000 changed entities (BRANCH-1, MERGE-1)."""

from __future__ import annotations

import asyncio
import statistics
import time

from benchmarks import _engine
from stemmadb.protocol.model.body import encode
from stemmadb.protocol.model.ids import BranchName, EntityId
from stemmadb.protocol.model.request import Operation
from stemmadb.server.engine import branching
from stemmadb.server.engine.merging import MergeWanted, merge

DOCUMENT = {"title": "write the spec", "done": False, "count": 1}
CHANGED = 1_000


async def fill(load: _engine.Load, entities: int) -> None:
    for start in range(0, entities, 4_000):
        proposals = []
        for first in range(start, min(start + 4_000, entities), 1_000):
            operations = [
                Operation(op="set", id=EntityId(f"urn:todo:{n}"), body=encode(DOCUMENT), blind=True)
                for n in range(first, min(first + 1_000, entities))
            ]
            proposals.append(load.proposal(operations))
        await load.all(proposals)


async def one(entities: int) -> list[dict[str, object]]:
    made, deleted, merged = [], [], []
    async with _engine.fresh() as (load, _):
        await fill(load, entities)
        for number in range(5):
            name = BranchName(f"draft{number}")
            began = time.perf_counter()
            await branching.create_branch(load.space, load.asked(), name=name)
            made.append(time.perf_counter() - began)
            await change(load, name, entities, number)
            began = time.perf_counter()
            report = await merge(load.space, load.asked(), MergeWanted(source=name))
            merged.append(time.perf_counter() - began)
            assert len(report.writes) == CHANGED
            began = time.perf_counter()
            await branching.delete_branch(load.space, load.asked(), name=name)
            deleted.append(time.perf_counter() - began)
    figures = {"create": made, "delete": deleted, f"merge of {CHANGED:,} changed": merged}
    return [
        {
            "scenario": f"engine: branch {what}, {entities:,} entities",
            "system": "stemmadb",
            "p50_us": statistics.median(seconds) * 1e6,
        }
        for what, seconds in figures.items()
    ]


async def change(load: _engine.Load, branch: BranchName, entities: int, number: int) -> None:
    body = encode([{"op": "replace", "path": "/count", "value": number + 2}])
    step = entities // CHANGED
    operations = [
        Operation(op="patch", id=EntityId(f"urn:todo:{n * step}"), body=body, blind=True) for n in range(CHANGED)
    ]
    await load.commit(operations, branch=branch)


def run(quick: bool = False) -> list[dict[str, object]]:
    return [
        row for entities in ((2_000, 20_000) if quick else (10_000, 1_000_000)) for row in asyncio.run(one(entities))
    ]
