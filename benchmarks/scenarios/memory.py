"""Many entities and ten times as many facts: memory of the server, disk over the bytes sent, and a cold start.

With STEMMADB_BENCH_KEEP=directory the data is kept there, and a second run only measures it.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from benchmarks.harness import rows
from benchmarks.harness.plan import Plan
from benchmarks.harness.rows import Key, Row
from benchmarks.harness.turns import Turns
from benchmarks.load import children
from benchmarks.load.processes import DIRECTORY, rss_mb
from benchmarks.ours import engine, service
from benchmarks.ours.sessions import Session, Space, query_of
from stemmadb.protocol.model.commit.request import Operation
from stemmadb.protocol.model.query.query import Query, Root
from stemmadb.protocol.model.values.body import encode
from stemmadb.protocol.model.values.ids import EntityId
from stemmadb.protocol.wire.messages.reading import QueryRequest
from stemmadb.server.engine.base.settings import DEFAULTS

NAME = "memory"
TITLE = "100,000 entities of 200 B and 1 million facts (ten times that with --full): memory, disk, cold start"
FULL, USUAL, QUICK = (1_000_000, 10_000_000), (100_000, 1_000_000), (5_000, 20_000)
TEXT = "a note that is as long as notes tend to be, so that a document has about two hundred bytes when it is encoded"
WRITE_SECONDS = 3 * 3_600.0
"""How long the writing may take; at its full size it is most of an hour."""
AT_ONCE = 100
"""Reads, and writes, at random in each of the rounds before memory is looked at."""
_OPERATIONS, _COMMITS = 10, 64


class Written(NamedTuple):
    """What was sent, and what it became on disk."""

    entities: int
    facts: int
    bytes_sent: int
    disk_bytes: int
    seconds: float


# ------------------------------------------------------------ writing, in a process of its own


def write_all(pipe: children.Pipe, directory: Path, entities: int, facts: int) -> None:
    pipe.send(asyncio.run(_write_all(directory, entities, facts)))


async def _write_all(directory: Path, entities: int, facts: int) -> Written:
    """Every entity set once, then patched again and again, ten to a commit, 64 commits at a time, in sweeps."""
    chance, began = random.Random(1), time.perf_counter()
    async with engine.opened(directory) as load:
        for start in range(0, facts, _OPERATIONS * _COMMITS):
            firsts = range(start, min(start + _OPERATIONS * _COMMITS, facts), _OPERATIONS)
            swept = [[_operation(chance, first + n, entities) for n in range(_OPERATIONS)] for first in firsts]
            await load.all([load.proposal(operations, session=place) for place, operations in enumerate(swept)])
            if start % 640_000 == 0:
                print(f"   {start:,} facts, {time.perf_counter() - began:,.0f} s", file=sys.stderr, flush=True)
        sent = load.bytes_sent
    return Written(entities, facts, sent, engine.files_bytes(directory), time.perf_counter() - began)


def _operation(chance: random.Random, number: int, entities: int) -> Operation:
    if number < entities:
        return Operation(op="set", id=_id(number), body=encode(_document(number)), blind=True)
    return _patch(chance, number % entities)


def _patch(chance: random.Random, number: int) -> Operation:
    change = [
        {"op": "replace", "path": "/done", "value": chance.random() < 0.5},
        {"op": "replace", "path": "/count", "value": chance.randrange(1_000_000)},
    ]
    return Operation(op="patch", id=_id(number), body=encode(change), blind=True)


def _document(number: int) -> dict[str, object]:
    return {"title": f"todo number {number}", "done": False, "count": 0, "text": TEXT, "by": {"name": "alice"}}


def _id(number: int) -> EntityId:
    return EntityId(f"urn:todo:{number}")


# ------------------------------------------------------------ using it, over the socket


class Cold(NamedTuple):
    """A server that was just started, and how long it took."""

    server: service.Server
    session: Session
    times: dict[str, float]


@contextmanager
def cold_start(directory: Path, rep: int) -> Iterator[Cold]:
    """From the start of the process to the first answer; the part after it listens is the opening of the space."""
    began = time.perf_counter()
    server = service.start(directory)
    try:
        listening = time.perf_counter()
        session = Space(server.port, engine.SPACE_KEY, used=rep).session()
        session.ask(QueryRequest(id=1, query=query_of(_id(1))))
        now = time.perf_counter()
        yield Cold(server, session, {"start_ms": (now - began) * 1e3, "open_ms": (now - listening) * 1e3})
        session.link.close()
    finally:
        server.stop()


def use(session: Session, entities: int, rounds: int) -> None:
    """Reads and writes all over the data, so that every cache is as full as it gets."""
    chance = random.Random(2)
    for number in range(rounds):
        ids = [_id(chance.randrange(entities)) for _ in range(AT_ONCE)]
        session.ask(QueryRequest(id=number + 2, query=Query(roots=tuple(Root(id=id_) for id_ in ids))))
        session.commit_all([[_patch(chance, chance.randrange(entities))] for _ in range(AT_ONCE)])


def measured(directory: Path, entities: int, *, rounds: int, rep: int, empty_mb: float) -> dict[str, float]:
    with cold_start(directory, rep) as cold:
        use(cold.session, entities, rounds)
        used = rss_mb(cold.server.pid)
    over_cache = (used - empty_mb) * 1e6 / DEFAULTS.cache_bytes_max
    return cold.times | {"rss_mb": used, "rss_empty_mb": empty_mb, "rss_to_cache": over_cache}


def _empty_mb() -> float:
    with service.served() as server:
        Space.made(server.port)
        return rss_mb(server.pid)


# ------------------------------------------------------------ all of it


def written(directory: Path, entities: int, facts: int) -> Written:
    notes = directory / "written.json"
    if notes.exists():
        return Written(*json.loads(notes.read_text()))
    with children.child(write_all, directory, entities, facts) as pipe:
        found: Written = children.told(pipe, patience=WRITE_SECONDS)
    notes.write_text(json.dumps(found))
    return found


def run(plan: Plan) -> list[Row]:
    turns, keep = Turns(), os.environ.get("STEMMADB_BENCH_KEEP")
    sizes = FULL if plan.is_full else plan.pick(quick=QUICK, usual=USUAL)
    rounds = plan.pick(quick=10, usual=100)
    with tempfile.TemporaryDirectory(prefix="stemmadb-bench-", dir=DIRECTORY) as scratch:
        directory = Path(keep or scratch)
        directory.mkdir(parents=True, exist_ok=True)
        found, empty_mb, key = written(directory, *sizes), _empty_mb(), Key(NAME, rows.OURS, 1)
        disk = {"disk_ratio": found.disk_bytes / found.bytes_sent, "write_facts_per_s": found.facts / found.seconds}
        for rep in range(plan.reps):
            turn = measured(directory, found.entities, rounds=rounds, rep=rep, empty_mb=empty_mb)
            turns.add(key, turn | disk, n=2 * rounds * AT_ONCE)
        turns.note(key, **{name: value for name, value in found._asdict().items() if name != "seconds"})
    return turns.rows()
