"""Durable commits in process, batches of 64, all features on, against raw SQLite inserting the same rows."""

from __future__ import annotations

import asyncio
import statistics
import tempfile
import time
from collections import deque
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import apsw

from benchmarks import _engine
from stemmadb.protocol.model.body import encode
from stemmadb.protocol.model.ids import EntityId, Version
from stemmadb.protocol.model.proposal import Proposal
from stemmadb.protocol.model.request import Operation, Read
from stemmadb.server.engine.settings import Settings
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


class Times(NamedTuple):
    """Seconds: proposals made beforehand and decided; proposals made and decided; the CPU of the first."""

    decided: float
    made_and_decided: float
    cpu: float


async def ours(entities: int, rounds: int, keep: Path) -> Times:
    """The rounds once with proposals at hand, as a service has them, and once more made along the way."""
    async with _engine.opened(keep, Settings(batch_commits_max=BATCH)) as load:
        await fill(load, entities)
        start = load.space.version
        ready = [batch(load, entities, at, Version(start + at * BATCH)) for at in range(rounds)]
        cpu, began = time.process_time(), time.perf_counter()
        await _decide(load, ready)
        decided, cpu = time.perf_counter() - began, time.process_time() - cpu
        began = time.perf_counter()
        start = load.space.version
        await _decide(load, (batch(load, entities, at, Version(start + at * BATCH)) for at in range(rounds)))
        return Times(decided, time.perf_counter() - began, cpu)


async def _decide(load: _engine.Load, rounds: Iterable[list[Proposal]]) -> None:
    """Three batches are brought at a time, so that the next can be decided while one is in flight."""
    waiting: deque[asyncio.Task[None]] = deque()
    for proposals in rounds:
        if len(waiting) == 3:
            await waiting.popleft()
        waiting.append(asyncio.create_task(load.all(proposals)))
        await asyncio.sleep(0)
    for task in waiting:
        await task


def raw(source: Path, rounds: int) -> float:
    """Seconds for the same rows in the same batches, by executemany."""
    old = apsw.Connection(str(source), flags=apsw.SQLITE_OPEN_READONLY)
    with tempfile.TemporaryDirectory(prefix="stemmadb-raw-", dir=_engine.DIRECTORY) as name:
        new = apsw.Connection(str(Path(name) / "raw.db"))
        for statement in ("PRAGMA journal_mode=WAL", "PRAGMA synchronous=FULL", "PRAGMA wal_autocheckpoint=4000"):
            new.execute(statement).fetchall()
        schema.migrate(new, 0, _engine.SPACE)
        tip = old.execute('SELECT max(version) FROM "commit"').get
        first = tip - rounds * BATCH  # the rows of the second pass, on top of all before them
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
    entities, rounds, reps = (2_000, 50, 2) if quick else (10_000, 300, 5)
    found: list[tuple[Times, float]] = []
    for _ in range(reps):
        with tempfile.TemporaryDirectory(prefix="stemmadb-bench-", dir=_engine.DIRECTORY) as name:
            times = asyncio.run(ours(entities, rounds, Path(name)))
            (source,) = Path(name).rglob("space.db")
            found.append((times, raw(source, rounds)))
    commits = rounds * BATCH
    peers = [commits / peer for _, peer in found]
    return [
        _row("stemmadb", [commits / times.decided for times, _ in found], commits)
        | {
            "ratio": statistics.median(peer / times.decided for times, peer in found),
            "cpu_us_per_op": statistics.median(times.cpu / commits * 1e6 for times, _ in found),
        },
        _row(
            "stemmadb, client's encoding and prepare too",
            [commits / times.made_and_decided for times, _ in found],
            commits,
        )
        | {"ratio": statistics.median(peer / times.made_and_decided for times, peer in found)},
        _row("sqlite", peers, commits),
    ]


def _row(system: str, rates: list[float], commits: int) -> dict[str, object]:
    return {
        "scenario": SCENARIO,
        "system": system,
        "rate": statistics.median(rates),
        "rate_min": min(rates),
        "rate_max": max(rates),
        "durable": True,
        "n": commits,
        "reps": len(rates),
    }
