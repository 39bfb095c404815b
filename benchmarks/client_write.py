"""A write of the client: until it is applied, on few and on 1,000 pending ones, and until the journal has it."""

from __future__ import annotations

import asyncio
import json
import os
import statistics
import tempfile
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path

import msgspec

from benchmarks import _client, _engine, _load, _service
from benchmarks._client import PREFIX, Client, Times
from stemmadb.client import Transaction

FEW = 50
"""So many are written offline, then all of them are decided: what is beneath is small."""
MANY = 1_000
APPLIED = "client: applied, a set of 180 B, offline, under {} pending"
APPLIED_ON_MANY = f"client: applied, a set of 180 B, offline, on {MANY:,} pending"
APPLIED_ONLINE = "client: applied, a set of 180 B, online, nothing pending"
KEPT = "client: kept, a set of 180 B, offline"
OURS, UPDATE = "stemmadb", "stemmadb, get and update of a field"
ELSEWHERE, SAME = "stemmadb, pending on other entities", "stemmadb, all pending on the same entity"
MSGPACK, JSON = "assignment in a dict and msgpack encode", "assignment in a dict and json encode"
RAW, RAW_LOG = "append of the commit's bytes + fdatasync", "append of as many bytes as the journal wrote + fdatasync"

Key = tuple[str, str]
Write = Callable[[Transaction, int], Awaitable[None]]


async def _set(tx: Transaction, number: int) -> None:
    tx.set(f"{PREFIX}{number}", _service.DOCUMENT | {"count": number})


async def _set_one(tx: Transaction, number: int) -> None:
    tx.set(f"{PREFIX}0", _service.DOCUMENT | {"count": number})


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
        value = _service.DOCUMENT | {"count": len(sent)}
        values[f"{PREFIX}{len(sent)}"] = value
        sent.append(encode(value))

    return _client.timed(work, count)


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
        await tx.kept()
        found.seconds.append(time.perf_counter() - began)
        found.commit_bytes.append(space.status().pending_bytes - pending)
        found.log_bytes.append(client.journal_bytes() - log)
    await _decided(client)
    return found


def raw(size: int, count: int) -> list[float]:
    with tempfile.TemporaryDirectory(prefix="raw-bench-", dir=_engine.DIRECTORY) as name:
        block = os.urandom(size)
        file = os.open(Path(name) / "raw.bin", os.O_WRONLY | os.O_CREAT | os.O_APPEND)

        def work() -> None:
            os.write(file, block)
            os.fdatasync(file)

        found = _client.timed(work, count)
        os.close(file)
        return found


# ------------------------------------------------------------ all of it


class Bench:
    """The runs of one repetition, in turn."""

    def __init__(self, *, quick: bool) -> None:
        self.batches, self.on_top, self.alone = (2, 100, 100) if quick else (20, 500, 500)
        self.times: dict[Key, Times] = defaultdict(Times)
        self.commit_bytes = self.log_bytes = 0

    async def applied(self, client: Client) -> None:
        few, add = APPLIED.format(FEW), self._add
        add(few, OURS, await on_few(client, self.batches, _set))
        add(few, UPDATE, await on_few(client, self.batches, _update))
        add(few, MSGPACK, plain(msgspec.msgpack.Encoder().encode, self.batches * FEW))
        add(few, JSON, plain(json.dumps, self.batches * FEW))
        add(APPLIED_ONLINE, OURS, await online(client, self.alone))
        add(APPLIED_ON_MANY, ELSEWHERE, await on_many(client, self.on_top, _set))
        add(APPLIED_ON_MANY, SAME, await on_many(client, self.on_top // 5, _set_one))

    async def kept(self, client: Client) -> None:
        found = await kept(client, self.alone)
        self.commit_bytes = round(statistics.median(found.commit_bytes))
        self.log_bytes = round(statistics.median(found.log_bytes))
        self._add(KEPT, OURS, found.seconds)
        self._add(KEPT, RAW, raw(self.commit_bytes, self.alone))
        self._add(KEPT, RAW_LOG, raw(self.log_bytes, self.alone))

    def _add(self, scenario: str, system: str, seconds: list[float]) -> None:
        self.times[scenario, system].add(seconds)

    def rows(self) -> list[_client.Row]:
        return [times.row(*key) | self._more(*key) for key, times in list(self.times.items())]

    def _more(self, scenario: str, system: str) -> dict[str, object]:
        times, ours = self.times, self.times[scenario, system]
        if scenario == KEPT and system == OURS:
            return {
                "p50_to_raw": ours.over(times[KEPT, RAW]),
                "p50_to_raw_log": ours.over(times[KEPT, RAW_LOG]),
                "commit_bytes": self.commit_bytes,
                "log_bytes": self.log_bytes,
            }
        few = APPLIED.format(FEW)
        if scenario == few and system in (OURS, UPDATE):
            return {"p50_to_dict": ours.over(times[few, MSGPACK])}
        return {"p50_to_few": ours.over(times[few, OURS])} if scenario == APPLIED_ON_MANY else {}


async def _run(server: _service.Server, bench: Bench, reps: int) -> None:
    there = _client.place(_client.filled(server.port, MANY + bench.on_top))
    async with _client.opened(there) as client, _client.opened(there, journal=True) as keeper:
        watches = [await client.watch(), await keeper.watch()]
        for _ in range(reps):
            await bench.applied(client)
            await bench.kept(keeper)
        del watches


def run(quick: bool = False) -> list[_client.Row]:
    bench = Bench(quick=quick)
    _load.prepare_process()
    with _service.served() as server:
        asyncio.run(_run(server, bench, 1 if quick else 5))
    return bench.rows()
