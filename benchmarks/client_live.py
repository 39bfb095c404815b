"""The client on a socket: until a commit is confirmed, until another client is told, and many commits under way."""

from __future__ import annotations

import asyncio
import statistics
import time
from collections import defaultdict, deque
from collections.abc import Sequence
from contextlib import AsyncExitStack

from websockets.asyncio.client import connect
from websockets.asyncio.server import ServerConnection, serve

from benchmarks import _children, _client, _load, _service
from benchmarks._client import PREFIX, Client, Meter, Place, Times, Took
from stemmadb.client import Transaction
from stemmadb.protocol.model.body import encode
from stemmadb.protocol.model.ids import EntityId
from stemmadb.protocol.model.request import Operation

ENTITIES = 2_000
CONFIRMED = "client: confirmed, a set of 180 B, one at a time"
TOLD = "client: from another client's commit to the change of a watch"
STREAM = "client: commits of one client, {:,} under way"
WINDOWS = (64, 1_000)
OURS, JOURNAL, BARE = "stemmadb", "stemmadb, with a journal", "bare session, no client"
ECHO = "echo of as many bytes over websockets"
MESSAGE_BYTES = 330
"""About what a commit has as a message."""
PAUSE_SECONDS = 0.002
"""Between two commits of the other client, so that each is told alone."""


# ------------------------------------------------------------ one at a time


async def confirmed(client: Client, count: int) -> list[float]:
    """From the beginning of the block until the server has it on disk and this client knows."""
    found = []
    for number in range(count):
        began = time.perf_counter()
        await (await client.write(number % ENTITIES, number)).confirmed()
        found.append(time.perf_counter() - began)
    return found


def bare(space: _service.Space, count: int) -> list[float]:
    """The same commits on a blocking socket, without anything of the client."""
    session = space.session()
    body = encode(_service.DOCUMENT)

    def work() -> None:
        session.commit([Operation(op="set", id=EntityId(f"{PREFIX}0"), body=body, blind=True)])

    found = _client.timed(work, count)
    session.link.close()
    return found


def echo_server(pipe: _children.Pipe) -> None:
    asyncio.run(_serve_echo(pipe))


async def _serve_echo(pipe: _children.Pipe) -> None:
    async def answer(connection: ServerConnection) -> None:
        async for message in connection:
            await connection.send(message)

    async with serve(answer, "127.0.0.1", 0, compression=None) as server:
        pipe.send(next(iter(server.sockets)).getsockname()[1])
        await asyncio.to_thread(pipe.poll, None)


async def echo(port: int, count: int) -> list[float]:
    """The way there and back through the same library, with a server that does nothing."""
    found, message = [], bytes(MESSAGE_BYTES)
    async with connect(f"ws://127.0.0.1:{port}", compression=None, proxy=None) as connection:
        for _ in range(count):
            began = time.perf_counter()
            await connection.send(message)
            await connection.recv()
            found.append(time.perf_counter() - began)
    return found


# ------------------------------------------------------------ another client


def other_client(pipe: _children.Pipe, there: Place) -> None:
    """Commits as many as it is asked for, each with the time at which its block began."""
    asyncio.run(_commit_when_asked(pipe, there))


async def _commit_when_asked(pipe: _children.Pipe, there: Place) -> None:
    async with _client.opened(there) as client:
        pipe.send("ready")
        try:
            while True:
                await _commit_times(client, await asyncio.to_thread(pipe.recv))
        except EOFError:
            return


async def _commit_times(client: Client, count: int) -> None:
    for _ in range(count):
        async with client.space.transaction() as tx:
            began = time.perf_counter_ns()  # one clock for all processes
            tx.set(f"{PREFIX}0", _service.DOCUMENT | {"count": began}, blind=True)
        await tx.confirmed()
        await asyncio.sleep(PAUSE_SECONDS)


async def told(client: Client, other: _children.Pipe, count: int) -> list[float]:
    found: list[float] = []
    async with client.space.watch(f"{PREFIX}0") as watch:
        await watch.next()
        other.send(count)
        while len(found) < count:
            async with asyncio.timeout(_load.STALL_SECONDS):
                change = await watch.next()
            value = change.updated[EntityId(f"{PREFIX}0")]
            assert isinstance(value, dict)
            found.append((time.perf_counter_ns() - int(str(value["count"]))) / 1e9)
    return found


# ------------------------------------------------------------ many under way


async def stream(client: Client, pid: int, *, window: int, count: int) -> Took:
    """Each write as soon as fewer than `window` are undecided; no two of those are on one entity."""
    under_way: deque[Transaction] = deque()
    meter = Meter(pid)
    for number in range(count):
        under_way.append(await client.write(number % ENTITIES, number))
        if len(under_way) == window:
            await under_way.popleft().confirmed()
    await client.decided()
    return meter.read()


def bare_stream(space: _service.Space, pid: int, *, window: int, count: int) -> Took:
    """As many sent at once, then the answer to the last awaited, over and over; `count` is a multiple of them."""
    assert count % window == 0
    session, body = space.session(), encode(_service.DOCUMENT)
    ids = [EntityId(f"{PREFIX}{number}") for number in range(window)]
    meter = Meter(pid)
    for _ in range(count // window):
        session.commit_all([[Operation(op="set", id=id_, body=body, blind=True)] for id_ in ids])
    found = meter.read()
    session.link.close()
    return found


# ------------------------------------------------------------ all of it


class Bench:
    """All runs of a repetition, in turn."""

    def __init__(self, server: _service.Server, *, quick: bool) -> None:
        self.server, self.space = server, _client.filled(server.port, ENTITIES)
        self.alone, self.rounds = (100, {64: 15, 1_000: 1}) if quick else (1_000, {64: 150, 1_000: 10})
        self.times: dict[tuple[str, str], Times] = defaultdict(Times)
        self.streams: dict[tuple[int, str], list[Took]] = defaultdict(list)

    async def one_at_a_time(self, client: Client, keeper: Client, echo_port: int) -> None:
        times = self.times
        times[CONFIRMED, OURS].add(await confirmed(client, self.alone))
        times[CONFIRMED, JOURNAL].add(await confirmed(keeper, self.alone))
        times[CONFIRMED, BARE].add(bare(self.space, self.alone))
        times[CONFIRMED, ECHO].add(await echo(echo_port, self.alone))

    async def many(self, client: Client, keeper: Client) -> None:
        pid = self.server.pid
        for window in WINDOWS:
            how = {"window": window, "count": window * self.rounds[window]}
            streams = self.streams
            streams[window, OURS].append(await stream(client, pid, **how))
            streams[window, JOURNAL].append(await stream(keeper, pid, **how))
            streams[window, BARE].append(bare_stream(self.space, pid, **how))

    def rows(self) -> list[_client.Row]:
        rows = [times.row(*key) for key, times in self.times.items()]
        for row in rows:
            if row["system"] in (OURS, JOURNAL) and row["scenario"] == CONFIRMED:
                ours = self.times[CONFIRMED, str(row["system"])]
                row["p50_to_echo"] = ours.over(self.times[CONFIRMED, ECHO])
                row["p50_to_bare"] = ours.over(self.times[CONFIRMED, BARE])
        return rows + [self._row(*key, runs) for key, runs in self.streams.items()]

    def _row(self, window: int, system: str, runs: Sequence[Took]) -> _client.Row:
        row: _client.Row = {"scenario": STREAM.format(window), "system": system}
        count = window * self.rounds[window]
        row |= _client.spread("rate", [count / run.seconds for run in runs])
        row["client_cpu_us_per_op"] = statistics.median(run.client_cpu for run in runs) / count * 1e6
        row["cpu_us_per_op"] = statistics.median(run.server_cpu for run in runs) / count * 1e6
        if system != BARE:
            pairs = zip(runs, self.streams[window, BARE], strict=True)
            row["rate_to_bare"] = statistics.median(b.seconds / a.seconds for a, b in pairs)
        return row | {"durable": True, "n": count * len(runs), "reps": len(runs)}


async def _run(bench: Bench, reps: int) -> None:
    there, elsewhere = (_client.place(_client.filled(bench.server.port, ENTITIES)) for _ in range(2))
    async with AsyncExitStack() as stack:
        client = await stack.enter_async_context(_client.opened(there))
        keeper = await stack.enter_async_context(_client.opened(elsewhere, journal=True))
        watches = [await client.watch(), await keeper.watch()]
        other = stack.enter_context(_children.child(other_client, there))
        echo_port = _children.told(stack.enter_context(_children.child(echo_server)))
        _children.told(other)
        for _ in range(reps):
            await bench.one_at_a_time(client, keeper, echo_port)
            bench.times[TOLD, OURS].add(await told(client, other, bench.alone))
            await bench.many(client, keeper)
        del watches


def run(quick: bool = False) -> list[_client.Row]:
    _load.prepare_process()
    with _service.served() as server:
        bench = Bench(server, quick=quick)
        asyncio.run(_run(bench, 1 if quick else 5))
    return bench.rows()
