"""A client that was away: 10,000 commits made offline and then sent, and 1,000 commits of others that it missed."""

from __future__ import annotations

import asyncio
import statistics
import time
from collections import defaultdict
from collections.abc import Sequence

from benchmarks import _client, _load, _service
from benchmarks._client import PREFIX, Client, Meter, Took
from stemmadb.client import Change, Watch
from stemmadb.protocol.model.body import encode
from stemmadb.protocol.model.ids import EntityId
from stemmadb.protocol.model.request import Operation

PENDING = 10_000
MISSED = 1_000
WATCHED = 10_000
STACKED = 1_000
"""Commits on one entity: each names all those beneath it."""
SUBMIT = "client: {:,} commits made offline on {}"
DRAIN = "client: {:,} commits made offline on {}, sent and confirmed"
RESUME = "client: {:,} watched, back after 1,000 missed commits, {:,} changed"
FILL = "client: {:,} watched, the first time"
OURS, JOURNAL = "stemmadb", "stemmadb, with a journal"


# ------------------------------------------------------------ commits made offline


async def made_offline(client: Client, pid: int, count: int, *, entities: int) -> tuple[Took, Took]:
    """Until the last is kept, and from the mended line until the last is confirmed."""
    await client.line.cut(client.space)
    meter = Meter(pid)
    for number in range(count):
        last = await client.write(number % entities, time.perf_counter_ns())
    await last.kept()
    submitted, meter = meter.read(), Meter(pid)
    client.line.mend(client.space)
    await client.decided()
    return submitted, meter.read()


# ------------------------------------------------------------ commits of others


def miss(there: _service.Space, changed: int, stamp: int) -> None:
    """`MISSED` commits of somebody else: every so many on a watched entity, each on another one."""
    session, every = there.session(), MISSED // changed
    body = encode(_service.DOCUMENT | {"count": stamp})
    for start in range(0, MISSED, 100):
        numbers = range(start, start + 100)
        ids = [f"{PREFIX}{n // every * 7}" if n % every == 0 else f"urn:other:{n}" for n in numbers]
        session.commit_all([[Operation(op="set", id=EntityId(id_), body=body, blind=True)] for id_ in ids])
    session.link.close()


async def resume(client: Client, watch: Watch, there: _service.Space, pid: int, *, changed: int) -> Took:
    """From the mended line until the app was told of all that has changed; dialing and greeting included."""
    await client.line.cut(client.space)
    miss(there, changed, time.perf_counter_ns())
    meter = Meter(pid)
    client.line.mend(client.space)
    change = await _next(watch)
    took = meter.read()
    assert len(change.updated) == changed, "all at once"
    return took


async def fill(client: Client, pid: int) -> Took:
    meter = Meter(pid)
    watch = client.space.watch(f"{PREFIX}*")
    await _next(watch)
    took = meter.read()
    watch.close()
    return took


async def _next(watch: Watch) -> Change:
    async with asyncio.timeout(_load.STALL_SECONDS):
        return await watch.next()


# ------------------------------------------------------------ all of it


class Bench:
    """All runs of a repetition, in turn."""

    def __init__(self, server: _service.Server, *, quick: bool) -> None:
        self.server = server
        self.pending, self.watched = (2_000, 7_000) if quick else (PENDING, WATCHED)
        self.found: dict[tuple[str, str, int], list[Took]] = defaultdict(list)

    async def offline(self, client: Client, system: str) -> None:
        for count, entities in ((self.pending, self.pending), (STACKED, 1)):
            submitted, drained = await made_offline(client, self.server.pid, count, entities=entities)
            where = "one entity" if entities == 1 else "as many entities"
            self.found[SUBMIT.format(count, where), system, count].append(submitted)
            self.found[DRAIN.format(count, where), system, count].append(drained)

    async def missing(self, client: Client, there: _service.Space) -> None:
        watch, _ = await client.watch()
        for changed in (10, MISSED):
            took = await resume(client, watch, there, self.server.pid, changed=changed)
            self.found[RESUME.format(self.watched, changed), OURS, 1].append(took)
        watch.close()

    async def filling(self, there: _client.Place) -> None:
        async with _client.opened(there) as fresh:
            self.found[FILL.format(self.watched), OURS, 1].append(await fill(fresh, self.server.pid))

    def rows(self) -> list[_client.Row]:
        return [_row(scenario, system, count, runs) for (scenario, system, count), runs in self.found.items()]


def _row(scenario: str, system: str, count: int, runs: Sequence[Took]) -> _client.Row:
    row: _client.Row = {"scenario": scenario, "system": system}
    row |= _client.spread("seconds", [run.seconds for run in runs])
    if count > 1:
        row |= _client.spread("rate", [count / run.seconds for run in runs])
    row["client_cpu_us_per_op"] = statistics.median(run.client_cpu for run in runs) / count * 1e6
    if count > 1:  # the server's is counted in steps that are too long for one
        row["cpu_us_per_op"] = statistics.median(run.server_cpu for run in runs) / count * 1e6
    return row | {"n": count * len(runs), "reps": len(runs)}


async def _run(bench: Bench, reps: int) -> None:
    spaces = [_client.filled(bench.server.port, bench.watched) for _ in range(2)]
    there, elsewhere = map(_client.place, spaces)
    async with _client.opened(there) as client, _client.opened(elsewhere, journal=True) as keeper:
        for _ in range(reps):
            await bench.filling(there)
            await bench.missing(client, spaces[0])
            for each, system in ((client, OURS), (keeper, JOURNAL)):
                watch, _change = await each.watch()
                await bench.offline(each, system)
                watch.close()


def run(quick: bool = False) -> list[_client.Row]:
    _load.prepare_process()
    with _service.served() as server:
        bench = Bench(server, quick=quick)
        asyncio.run(_run(bench, 1 if quick else 4))
    return bench.rows()
