"""A million entities of 200 bytes and ten million facts: disk, memory, time to open, rate of `verify`.

Takes most of an hour at full size, so that it runs only when it is asked for: `make bench SCENARIO=engine_scale`.
With STEMMADB_BENCH_KEEP=directory the data is kept there, and a second run only measures it.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks import _engine
from stemmadb.protocol.model.body import encode
from stemmadb.protocol.model.ids import EntityId
from stemmadb.protocol.model.request import Operation
from stemmadb.server.engine.reader import Reader

ALONE = True
TEXT = "a note that is as long as notes tend to be, so that a document has about two hundred bytes when it is encoded"


def document(number: int) -> dict[str, Any]:
    return {"title": f"todo number {number}", "done": False, "count": 0, "text": TEXT, "by": {"name": "alice"}}


async def write(directory: Path, entities: int, facts: int) -> dict[str, Any]:
    """Every entity set once, then patched again and again, ten to a commit, 64 commits at a time, in sweeps."""
    chance = random.Random(1)
    async with _engine.opened(directory) as load:
        started, body_bytes, written = time.perf_counter(), 0, 0
        while written < facts:
            proposals = []
            for first in range(written, min(written + 640, facts), 10):
                numbers = range(first, min(first + 10, facts))
                operations = [_write(chance, n, entities) for n in numbers]
                body_bytes += sum(len(operation.body or b"") for operation in operations)
                proposals.append(load.proposal(operations, session=first // 10 % 64))
            await load.all(proposals)
            written += 640
            if written % 640_000 == 0:
                print(f"   {written:,} facts, {time.perf_counter() - started:,.0f} s", file=sys.stderr, flush=True)
        seconds = time.perf_counter() - started
        figures = {
            "facts": written,
            "entities": entities,
            "bytes_sent": load.bytes_sent,
            "body_bytes": body_bytes,
            "write_seconds": seconds,
            "rss_bytes": _engine.rss_bytes(),
            "versions": load.space.version,
        }
    return {**figures, "disk_bytes": _engine.files_bytes(directory)}


def _write(chance: random.Random, number: int, entities: int) -> Operation:
    if number < entities:
        return Operation(op="set", id=EntityId(f"urn:todo:{number}"), body=encode(document(number)), blind=True)
    return _patch(chance, number % entities)


def _patch(chance: random.Random, number: int) -> Operation:
    change = [
        {"op": "replace", "path": "/done", "value": chance.random() < 0.5},
        {"op": "replace", "path": "/count", "value": chance.randrange(1_000_000)},
    ]
    return Operation(op="patch", id=EntityId(f"urn:todo:{number}"), body=encode(change), blind=True)


async def open_and_use(directory: Path, entities: int) -> dict[str, Any]:
    """Time to the first answer and to the first commit of a cold start, and memory after reading at random."""
    chance, started = random.Random(2), time.perf_counter()
    async with _engine.opened(directory) as load:
        ask = Reader(load.space)
        await ask.get(EntityId("urn:todo:1"))
        first_answer = time.perf_counter() - started
        await load.commit([Operation(op="set", id=EntityId("urn:more:1"), body=encode(1), blind=True)], session=2**60)
        first_commit = time.perf_counter() - started
        for _ in range(300):
            ids = [EntityId(f"urn:todo:{chance.randrange(entities)}") for _ in range(100)]
            await ask.get_many(ids)
            await load.all(
                [load.proposal([_patch(chance, chance.randrange(entities))], session=2**61) for _ in range(100)]
            )
        return {"open_seconds": first_answer, "commit_seconds": first_commit, "used_rss_bytes": _engine.rss_bytes()}


def verify(directory: Path) -> float:
    """Seconds that the command takes."""
    started = time.perf_counter()
    command = [sys.executable, "-m", "stemmadb.client.cli", "verify", "--data", str(directory), "--json"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)  # noqa: S603
    return time.perf_counter() - started


def _apart(what: str, *arguments: object) -> dict[str, Any]:
    """Runs a part in a process of its own, so that its memory is its own."""
    code = (
        f"import asyncio, json, sys; from pathlib import Path; from benchmarks import engine_scale as s; "
        f"a = json.loads(sys.argv[1]); print(json.dumps(asyncio.run(s.{what}(Path(a[0]), *a[1:]))))"
    )
    done = subprocess.run(  # noqa: S603
        [sys.executable, "-c", code, json.dumps([str(one) if isinstance(one, Path) else one for one in arguments])],
        check=True,
        stdout=subprocess.PIPE,
    )
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def run(quick: bool = False) -> list[dict[str, object]]:
    entities, facts = (5_000, 20_000) if quick else (1_000_000, 10_000_000)
    keep = os.environ.get("STEMMADB_BENCH_KEEP")
    with tempfile.TemporaryDirectory(prefix="stemmadb-scale-", dir=_engine.DIRECTORY) as scratch:
        directory = Path(keep or scratch)
        notes = directory / "written.json"
        if not notes.exists():
            directory.mkdir(parents=True, exist_ok=True)
            notes.write_text(json.dumps(_apart("write", directory, entities, facts)))
        written = json.loads(notes.read_text())
        used = _apart("open_and_use", directory, written["entities"])
        seconds = verify(directory)
    return [
        {
            "scenario": f"engine: {written['entities']:,} entities, {written['facts']:,} facts",
            "system": "stemmadb",
            "disk_ratio": written["disk_bytes"] / written["bytes_sent"],
            "disk_to_bodies": written["disk_bytes"] / written["body_bytes"],
            "verify_facts_per_s": written["facts"] / seconds,
            "write_facts_per_s": written["facts"] / written["write_seconds"],
            **written,
            **used,
            "verify_seconds": seconds,
        }
    ]
