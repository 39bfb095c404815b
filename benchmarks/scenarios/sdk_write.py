"""A write of the SDK: until it is applied, on few and on 1,000 pending ones, and until the journal has it."""

from __future__ import annotations

import asyncio
import os
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path

import msgspec

from benchmarks.harness import rows
from benchmarks.harness.plan import Plan
from benchmarks.harness.rows import Key, Row
from benchmarks.harness.turns import Turns, of_times
from benchmarks.load.document import DOCUMENT
from benchmarks.load.processes import DIRECTORY
from benchmarks.ours import service
from benchmarks.ours.client import PREFIX, Client, filled, opened, place, timed
from benchmarks.ours.service import Server
from stemmadb.client import Transaction

NAME = "sdk_write"
TITLE = "a write of the SDK until it is applied: offline on up to 50 pending; also online, on 1,000 pending, and kept"
UPDATE, ONLINE, KEPT = f"{NAME}: get and update of a field", f"{NAME}: online", f"{NAME}: kept by the journal"
ON_MANY, ON_SAME = f"{NAME}: on 1,000 pending", f"{NAME}: on 1,000 pending on the same entity"
FEW = 50
"""So many are written offline, then all of them are decided: what is beneath is small."""
MANY = 1_000

Write = Callable[[Transaction, int], Awaitable[None]]


async def _set(tx: Transaction, number: int) -> None:
    tx.set(f"{PREFIX}{number}", DOCUMENT | {"count": number})


async def _set_one(tx: Transaction, number: int) -> None:
    tx.set(f"{PREFIX}0", DOCUMENT | {"count": number})


async def _update(tx: Transaction, number: int) -> None:
    value = await tx.get(f"{PREFIX}{number}")
    assert isinstance(value, dict)
    tx.update(f"{PREFIX}{number}", value | {"count": time.perf_counter_ns()})


async def applied(client: Client, numbers: Iterable[int], write: Write = _set) -> list[float]:
    """From the beginning of the block to its end, the making of the value included."""
    found = []
    for number in numbers:
        began = time.perf_counter()
        async with client.space.transaction() as tx:
            await write(tx, number)
        found.append(time.perf_counter() - began)
    return found


async def on_few(client: Client, batches: int, write: Write) -> list[float]:
    found = []
    for _ in range(batches):
        await client.line.cut(client.space)
        found += await applied(client, range(FEW), write)
        await _decided(client)
    return found


async def on_many(client: Client, count: int, write: Write) -> list[float]:
    """Those that lie beneath are on the first entities, or all on one; those that are measured follow them."""
    await client.line.cut(client.space)
    await applied(client, range(MANY), write)
    found = await applied(client, range(MANY, MANY + count), write)
    await _decided(client)
    return found


async def online(client: Client, count: int) -> list[float]:
    """Each alone: it is also put into the connection's queue."""
    found = []
    for number in range(count):
        began = time.perf_counter()
        async with client.space.transaction() as tx:
            await _set(tx, number)
        found.append(time.perf_counter() - began)
        await tx.confirmed()
    return found


async def _decided(client: Client) -> None:
    client.line.mend(client.space)
    await client.decided()


def plain(encode: Callable[[object], object], count: int) -> list[float]:
    """What an app would do that keeps nothing and checks nothing: the value in a dict, and its bytes."""
    values: dict[str, object] = {}
    sent: list[object] = []

    def work() -> None:
        value = DOCUMENT | {"count": len(sent)}
        values[f"{PREFIX}{len(sent)}"] = value
        sent.append(encode(value))

    return timed(work, count)


CATCH_UP_SECONDS = 60


# ------------------------------------------------------------ kept


class Kept:
    """Times, and how many bytes each commit has, and the journal wrote for it."""

    def __init__(self) -> None:
        self.seconds: list[float] = []
        self.commit_bytes: list[int] = []
        self.log_bytes: list[int] = []


async def kept(client: Client, count: int) -> Kept:
    """One at a time, from the beginning of the block until the journal has it."""
    found, space = Kept(), client.space
    await client.line.cut(space)
    for number in range(count):
        log, pending = client.journal_bytes(), space.status().pending_bytes
        began = time.perf_counter()
        async with space.transaction() as tx:
            await _set(tx, number)
        await tx.journaled()
        found.seconds.append(time.perf_counter() - began)
        found.commit_bytes.append(space.status().pending_bytes - pending)
        found.log_bytes.append(client.journal_bytes() - log)
    await _decided(client)
    return found


def raw(size: int, count: int) -> list[float]:
    with tempfile.TemporaryDirectory(prefix="raw-bench-", dir=DIRECTORY) as name:
        block = os.urandom(size)
        file = os.open(Path(name) / "raw.bin", os.O_WRONLY | os.O_CREAT | os.O_APPEND)

        def work() -> None:
            os.write(file, block)
            os.fdatasync(file)

        found = timed(work, count)
        os.close(file)
        return found


# ------------------------------------------------------------ all of it


class Bench:
    """The runs of one repetition, in turn."""

    def __init__(self, *, batches: int, alone: int) -> None:
        self.batches, self.alone = batches, alone
        self.turns = Turns()

    async def applied(self, client: Client) -> None:
        beside = of_times(plain(msgspec.msgpack.Encoder().encode, self.batches * FEW))
        few = await on_few(client, self.batches, _set)
        self._add(NAME, few, dict_p50_us=beside["p50_us"])
        self._add(UPDATE, await on_few(client, self.batches, _update))
        self._add(ONLINE, await online(client, self.alone))
        self._add(ON_MANY, await on_many(client, self.alone, _set))
        self._add(ON_SAME, await on_many(client, self.alone // 5, _set_one))

    async def kept(self, client: Client) -> None:
        """Beside an append and sync of as many bytes as the journal wrote."""
        found = await kept(client, self.alone)
        commit, log = round(statistics.median(found.commit_bytes)), round(statistics.median(found.log_bytes))
        self._add(KEPT, found.seconds, commit_bytes=commit, log_bytes=log)
        self._add(KEPT, raw(log, self.alone), system=rows.FDATASYNC, log_bytes=log)

    def _add(self, scenario: str, seconds: list[float], *, system: str = rows.OURS, **more: float) -> None:
        durable = scenario == KEPT
        self.turns.add(Key(scenario, system, 1), of_times(seconds) | more, n=len(seconds), durable=durable)


async def _caught_up(client: Client, other: Client) -> None:
    """Both write the same entities: what the other one wrote has arrived before this one is cut off."""
    async with asyncio.timeout(CATCH_UP_SECONDS):
        while client.space.status().local_head < other.space.status().local_head:
            await asyncio.sleep(0.01)


async def _run(server: Server, bench: Bench, reps: int) -> None:
    there = place(filled(server.port, MANY + bench.alone))
    async with opened(there) as client, opened(there, journal=True) as keeper:
        watches = [await client.watch(), await keeper.watch()]
        for _ in range(reps):
            await bench.applied(client)
            await _caught_up(keeper, client)
            await bench.kept(keeper)
            await _caught_up(client, keeper)
        del watches


def run(plan: Plan) -> list[Row]:
    bench = plan.pick(quick=Bench(batches=2, alone=100), usual=Bench(batches=10, alone=300))
    with service.served() as server:
        asyncio.run(_run(server, bench, plan.reps))
    return bench.turns.rows()
