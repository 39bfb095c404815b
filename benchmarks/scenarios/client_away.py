"""An SDK client that was away: commits made offline and then sent, and 1,000 commits of others that it missed."""

from __future__ import annotations

import asyncio
import time

from benchmarks.harness import rows
from benchmarks.harness.plan import Plan
from benchmarks.harness.rows import Key, Row
from benchmarks.harness.turns import Turns
from benchmarks.load.document import DOCUMENT
from benchmarks.load.loop import STALL_SECONDS
from benchmarks.ours import service
from benchmarks.ours.client import PREFIX, Client, Meter, Place, Took, filled, opened, place
from benchmarks.ours.service import Server
from benchmarks.ours.sessions import Space
from stemmadb.client import Change, Watch
from stemmadb.protocol.model.commit.request import Operation
from stemmadb.protocol.model.values.body import encode
from stemmadb.protocol.model.values.ids import EntityId

NAME = "client_away"
TITLE = "an SDK client that was away: 5,000 commits made offline, then sent; 1,000 commits of others that it missed"
JOURNAL = ", with a journal"
PENDING = 5_000
MISSED = 1_000
WATCHED = 10_000
STACKED = 1_000
"""Commits on one entity: each names all those beneath it."""


# ------------------------------------------------------------ commits made offline


async def made_offline(client: Client, pid: int, count: int, *, entities: int) -> tuple[Took, Took]:
    """Until the last is kept, and from the mended line until the last is confirmed."""
    await client.line.cut(client.space)
    meter = Meter(pid)
    for number in range(count):
        last = await client.write(number % entities, time.perf_counter_ns())
    await last.journaled()
    submitted, meter = meter.read(), Meter(pid)
    client.line.mend(client.space)
    await client.decided()
    return submitted, meter.read()


# ------------------------------------------------------------ commits of others


def miss(there: Space, changed: int, stamp: int) -> None:
    """`MISSED` commits of somebody else: every so many on a watched entity, each on another one."""
    session, every = there.session(), MISSED // changed
    body = encode(DOCUMENT | {"count": stamp})
    for start in range(0, MISSED, 100):
        numbers = range(start, start + 100)
        ids = [f"{PREFIX}{n // every * 7}" if n % every == 0 else f"urn:other:{n}" for n in numbers]
        session.commit_all([[Operation(op="set", id=EntityId(id_), body=body, blind=True)] for id_ in ids])
    session.link.close()


async def resume(client: Client, watch: Watch, there: Space, pid: int, *, changed: int) -> Took:
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
    async with asyncio.timeout(STALL_SECONDS):
        return await watch.next()


# ------------------------------------------------------------ all of it


class Bench:
    """All runs of a repetition, in turn."""

    def __init__(self, server: Server, *, pending: int, watched: int) -> None:
        self.server, self.pending, self.watched = server, pending, watched
        self.turns = Turns()

    async def offline(self, client: Client, how: str) -> None:
        for count, entities in ((self.pending, self.pending), (STACKED, 1)):
            made, drained = await made_offline(client, self.server.pid, count, entities=entities)
            where = f"{count:,} on one entity" if entities == 1 else f"{count:,} on as many"
            self._add(f"{NAME}: made offline, {where}{how}", made, count)
            self._add(f"{NAME}: sent and confirmed, {where}{how}", drained, count)

    async def missing(self, client: Client, there: Space) -> None:
        watch, _ = await client.watch()
        for changed in (10, MISSED):
            took = await resume(client, watch, there, self.server.pid, changed=changed)
            self._add(f"{NAME}: back, {self.watched:,} watched, {changed:,} changed", took, 1)
        watch.close()

    async def filling(self, there: Place) -> None:
        async with opened(there) as fresh:
            self._add(f"{NAME}: first watch of {self.watched:,}", await fill(fresh, self.server.pid), 1)

    def _add(self, scenario: str, took: Took, count: int) -> None:
        turn = {
            "rate": count / took.seconds,
            "seconds": took.seconds,
            "client_cpu_us_per_op": took.client_cpu / count * 1e6,
            "cpu_us_per_op": took.server_cpu / count * 1e6,
        }
        self.turns.add(Key(scenario, rows.OURS, 1), turn, n=count)


async def _run(bench: Bench, reps: int) -> None:
    spaces = [filled(bench.server.port, bench.watched) for _ in range(2)]
    there, elsewhere = map(place, spaces)
    async with opened(there) as client, opened(elsewhere, journal=True) as keeper:
        for _ in range(reps):
            await bench.filling(there)
            await bench.missing(client, spaces[0])
            for each, how in ((client, ""), (keeper, JOURNAL)):
                watch, _change = await each.watch()
                await bench.offline(each, how)
                watch.close()


def run(plan: Plan) -> list[Row]:
    pending, watched, reps = plan.pick(quick=(500, 7_000, 1), usual=(PENDING, WATCHED, plan.reps))
    with service.served() as server:
        bench = Bench(server, pending=pending, watched=watched)
        asyncio.run(_run(bench, reps))
    return bench.turns.rows()
