"""Durable commits in process, batches of 64, all features on, against raw SQLite inserting the same rows."""

from __future__ import annotations

import asyncio
import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apsw

from benchmarks import _engine
from stemmadb.protocol.model.body import encode
from stemmadb.protocol.model.ids import EntityId, Version
from stemmadb.protocol.model.proposal import Proposal
from stemmadb.protocol.model.request import Operation, Read
from stemmadb.server.storage.sqlite import schema

BATCH = 64
DOCUMENT = {"title": "write the spec", "done": False, "count": 1, "tags": ["a", "b"], "by": {"name": "alice"}}
CHANGE = [
    {"op": "replace", "path": "/done", "value": True},
    {"op": "replace", "path": "/by/name", "value": "bob"},
]
SCENARIO = "engine: durable commits in process, batches of 64, two operations each"


def batch(load: _engine.Load, entities: int, round_: int, version: Version) -> list[Proposal]:
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


async def fill(load: _engine.Load, entities: int) -> None:
    for start in range(0, entities, 500):
        operations = [
            Operation(op="set", id=EntityId(f"urn:{name}:{n}"), body=encode(DOCUMENT), blind=True)
            for n in range(start, min(start + 500, entities))
            for name in ("todo", "note")
        ]
        await load.commit(operations, session=1_000)


async def ours(entities: int, rounds: int, keep: Path) -> tuple[float, float, float]:
    """Seconds in all, in making the proposals, and the CPU seconds of the process, without the filling."""
    async with _engine.opened(keep) as load:
        await fill(load, entities)
        preparing = 0.0
        cpu, started = time.process_time(), time.perf_counter()
        waiting: asyncio.Task[None] | None = None
        for round_ in range(rounds):
            began = time.perf_counter()
            proposals = batch(load, entities, round_, load.space.version)
            preparing += time.perf_counter() - began
            if waiting is not None:
                await waiting
            waiting = asyncio.create_task(load.all(proposals))
            await asyncio.sleep(0)
        assert waiting is not None
        await waiting
        return time.perf_counter() - started, preparing, time.process_time() - cpu


def raw(source: Path, rounds: int) -> float:
    """Seconds for the same rows in the same batches, by executemany."""
    old = apsw.Connection(str(source), flags=apsw.SQLITE_OPEN_READONLY)
    with tempfile.TemporaryDirectory(prefix="stemmadb-raw-", dir=_engine.DIRECTORY) as name:
        new = apsw.Connection(str(Path(name) / "raw.db"))
        for statement in ("PRAGMA journal_mode=WAL", "PRAGMA synchronous=FULL", "PRAGMA wal_autocheckpoint=4000"):
            new.execute(statement).fetchall()
        schema.migrate(new, 0, _engine.SPACE)
        tip = old.execute('SELECT max(version) FROM "commit"').get
        first = tip - rounds * BATCH
        _copy(old, new, 0, first)
        groups = [list(_rows(old, first + at * BATCH, first + (at + 1) * BATCH)) for at in range(rounds)]
        started = time.perf_counter()
        for group in groups:
            _insert(new, group)
        seconds = time.perf_counter() - started
        new.close()
    old.close()
    return seconds


def _rows(old: apsw.Connection, after: int, upto: int) -> Iterator[tuple[str, list[Any]]]:
    yield (
        '"commit"',
        old.execute('SELECT * FROM "commit" WHERE version > ? AND version <= ?', (after, upto)).fetchall(),
    )
    places = ((after + 1) << 20, ((upto + 1) << 20) - 1)
    yield "fact", old.execute("SELECT * FROM fact WHERE place BETWEEN ? AND ?", places).fetchall()


def _insert(new: apsw.Connection, group: list[tuple[str, list[Any]]]) -> None:
    new.execute("BEGIN IMMEDIATE")
    for table, rows in group:
        if rows:
            new.executemany(f"INSERT INTO {table} VALUES ({','.join('?' * len(rows[0]))})", rows)  # noqa: S608
    new.execute("COMMIT")


def _copy(old: apsw.Connection, new: apsw.Connection, after: int, upto: int) -> None:
    for table in ("entity", "principal", "session"):
        _insert(new, [(table, old.execute(f"SELECT * FROM {table}").fetchall())])  # noqa: S608
    _insert(new, list(_rows(old, after, upto)))


def run(quick: bool = False) -> list[dict[str, object]]:
    entities, rounds, reps = (2_000, 50, 2) if quick else (50_000, 400, 4)
    found: list[tuple[float, float, float, float]] = []
    for _ in range(reps):
        with tempfile.TemporaryDirectory(prefix="stemmadb-bench-", dir=_engine.DIRECTORY) as name:
            seconds, preparing, cpu = asyncio.run(ours(entities, rounds, Path(name)))
            (source,) = Path(name).rglob("space.db")
            found.append((seconds, preparing, cpu, raw(source, rounds)))
    commits = rounds * BATCH
    rates = [commits / seconds for seconds, _, _, _ in found]
    peers = [commits / seconds for *_, seconds in found]
    return [
        {
            "scenario": SCENARIO,
            "system": "stemmadb",
            "rate": statistics.median(rates),
            "rate_min": min(rates),
            "rate_max": max(rates),
            "prepare_us": statistics.median(preparing / commits * 1e6 for _, preparing, _, _ in found),
            "cpu_us_per_op": statistics.median(cpu / commits * 1e6 for _, _, cpu, _ in found),
            "ratio": statistics.median(one / other for one, other in zip(rates, peers, strict=True)),
            "durable": True,
            "n": commits,
            "reps": reps,
        },
        {
            "scenario": SCENARIO,
            "system": "sqlite",
            "rate": statistics.median(peers),
            "rate_min": min(peers),
            "rate_max": max(peers),
            "durable": True,
            "n": commits,
            "reps": reps,
        },
    ]
