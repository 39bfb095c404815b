"""Reading an entity at a random version, with 10, 1,000 and 100,000 facts of history on it (HISTORY-3)."""

from __future__ import annotations

import asyncio
import random
import statistics
import time
from typing import Any

from benchmarks import _engine
from stemmadb.protocol.model.body import encode
from stemmadb.protocol.model.ids import EntityId, Version
from stemmadb.protocol.model.request import Operation
from stemmadb.server.engine import reading
from stemmadb.server.engine.moments import Moment
from stemmadb.server.engine.reader import Reader

DOCUMENT: dict[str, Any] = {f"field{n}": "some text" for n in range(10)}


async def write(load: _engine.Load, id_: EntityId, facts: int) -> tuple[int, int]:
    """One `set`, then patches, a few hundred in flight; the versions of the first and the last fact."""
    first = await load.commit([Operation(op="set", id=id_, body=encode(DOCUMENT), blind=True)])
    for start in range(1, facts, 200):
        proposals = []
        for number in range(start, min(start + 200, facts)):
            change = [{"op": "replace", "path": f"/field{number % 10}", "value": f"text {number}"}]
            proposals.append(load.proposal([Operation(op="patch", id=id_, body=encode(change), blind=True)]))
        await load.all(proposals)
    return first, load.space.version


async def measure(load: _engine.Load, id_: EntityId, versions: tuple[int, int], reads: int) -> tuple[float, float]:
    """The median of a read inside a worker, and of one through the reader, in microseconds."""
    chance, inside, through = random.Random(1), [], []
    ask = Reader(load.space)
    for _ in range(reads):
        moment = Moment(version=Version(chance.randint(*versions)))

        def timed(log: Any, moment: Moment = moment) -> float:
            began = time.perf_counter()
            assert reading.get(log, id_, moment).entity is not None
            return time.perf_counter() - began

        inside.append(await load.space.read(timed))
        began = time.perf_counter()
        await ask.get(id_, moment)
        through.append(time.perf_counter() - began)
    return statistics.median(inside) * 1e6, statistics.median(through) * 1e6


async def _run(quick: bool) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = []
    sizes = (10, 1_000) if quick else (10, 1_000, 100_000)
    async with _engine.fresh() as (load, _):
        written = {facts: await write(load, EntityId(f"urn:doc:{facts}"), facts) for facts in sizes}
        for facts in sizes:
            inside, through = await measure(
                load, EntityId(f"urn:doc:{facts}"), written[facts], 300 if quick else 2_000
            )
            rows.append(
                {
                    "scenario": f"engine: read at a random version, {facts:,} facts of history",
                    "system": "stemmadb",
                    "p50_us": inside,
                    "through_reader_p50_us": through,
                }
            )
    return rows


def run(quick: bool = False) -> list[dict[str, object]]:
    return asyncio.run(_run(quick))
