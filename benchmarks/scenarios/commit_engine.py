"""Durable commits in process, batches of 64, all features on, beside raw SQLite inserting the same rows."""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections import deque
from collections.abc import Iterable, Sequence
from pathlib import Path

from benchmarks.harness import rows
from benchmarks.harness.plan import Plan
from benchmarks.harness.rows import Key, Row
from benchmarks.harness.turns import Turns
from benchmarks.limits import sqlite
from benchmarks.load.figures import Figures, Stopwatch
from benchmarks.load.processes import DIRECTORY
from benchmarks.ours import engine
from stemmadb.protocol.model.commit.proposal import Proposal
from stemmadb.protocol.model.commit.request import Operation, Read
from stemmadb.protocol.model.values.body import encode
from stemmadb.protocol.model.values.ids import EntityId, Version
from stemmadb.server.engine.base.settings import Settings
from stemmadb.server.tuning import tune_interpreter

NAME = "commit_engine"
TITLE = "durable commits in process, batches of 64, a set and a patch each, beside raw SQLite inserting the same rows"
ENCODED = f"{NAME}: encoding and prepare too"
BATCH = 64
DOCUMENT = {"title": "write the spec", "done": False, "count": 1, "tags": ["a", "b"], "by": {"name": "alice"}}
CHANGE = [
    {"op": "replace", "path": "/done", "value": True},
    {"op": "replace", "path": "/by/name", "value": "bob"},
]


def batch(load: engine.Load, entities: int, round_: int, version: Version) -> list[Proposal]:
    """A set of one entity and a patch of another, both declared, from 64 sessions."""
    made = []
    for number in range(BATCH):
        at = (round_ * BATCH + number) * 7 % entities
        one, other = EntityId(f"urn:todo:{at}"), EntityId(f"urn:note:{at}")
        operations = (
            Operation(op="set", id=one, body=encode(DOCUMENT)),
            Operation(op="patch", id=other, body=encode(CHANGE)),
        )
        reads = (
            Read(id=one, version=version),
            Read(id=other, version=version, path="/done"),
            Read(id=other, version=version, path="/by/name"),
        )
        made.append(load.proposal(operations, reads, session=number))
    return made


async def fill(load: engine.Load, entities: int) -> None:
    for start in range(0, entities, 500):
        operations = [
            Operation(op="set", id=EntityId(f"urn:{name}:{n}"), body=encode(DOCUMENT), blind=True)
            for n in range(start, min(start + 500, entities))
            for name in ("todo", "note")
        ]
        await load.commit(operations, session=1_000)


async def ours(entities: int, rounds: int, keep: Path) -> tuple[Figures, Figures]:
    """The rounds once with proposals at hand, as a service has them, and once more made along the way."""
    async with engine.opened(keep, Settings(batch_commits_max=BATCH)) as load:
        await fill(load, entities)
        start = load.space.version
        ready = [batch(load, entities, at, Version(start + at * BATCH)) for at in range(rounds)]
        tune_interpreter()  # as a server is; and what the load has at hand is not the engine's to look through
        decided = await _decide(load, ready)
        start = load.space.version
        made = (batch(load, entities, at, Version(start + at * BATCH)) for at in range(rounds))
        return decided, await _decide(load, made)


async def _decide(load: engine.Load, rounds: Iterable[list[Proposal]]) -> Figures:
    """Three batches are brought at a time, so that the next can be decided while one is in flight."""
    waiting: deque[asyncio.Task[None]] = deque()
    latencies: list[float] = []
    watch = Stopwatch(None)
    for proposals in rounds:
        if len(waiting) == 3:
            await waiting.popleft()
        waiting.append(asyncio.create_task(_all(load, proposals, latencies)))
        await asyncio.sleep(0)
    for task in waiting:
        await task
    return watch.figures(latencies)


async def _all(load: engine.Load, proposals: Sequence[Proposal], latencies: list[float]) -> None:
    began = time.perf_counter()
    await load.all(proposals)
    latencies += [time.perf_counter() - began] * len(proposals)


def run(plan: Plan) -> list[Row]:
    turns = Turns()
    entities, rounds = plan.pick(quick=(2_000, 100), usual=(10_000, 200))
    for _ in range(plan.reps):
        with tempfile.TemporaryDirectory(prefix="stemmadb-bench-", dir=DIRECTORY) as name:
            decided, made = asyncio.run(ours(entities, rounds, Path(name)))
            (source,) = Path(name).rglob("space.db")
            raw = sqlite.again(source, transactions=rounds, commits_each=BATCH)
        turns.add_figures(Key(NAME, rows.OURS, 1), decided)
        turns.add_figures(Key(ENCODED, rows.OURS, 1), made)
        turns.add_figures(Key(NAME, rows.SQLITE, 1), raw)
    return turns.rows()
