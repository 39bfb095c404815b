"""The SDK on a socket: until a commit is confirmed, until another client is told, and many commits under way."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from contextlib import AsyncExitStack

from websockets.asyncio.client import connect
from websockets.asyncio.server import ServerConnection, serve

from benchmarks.harness import rows
from benchmarks.harness.plan import Plan
from benchmarks.harness.rows import Key, Row
from benchmarks.harness.turns import Turns, of_times
from benchmarks.load import children
from benchmarks.load.document import DOCUMENT
from benchmarks.load.loop import STALL_SECONDS
from benchmarks.ours import service
from benchmarks.ours.client import PREFIX, Client, Meter, Place, Took, filled, opened, place, timed
from benchmarks.ours.service import Server
from benchmarks.ours.sessions import Space
from stemmadb.client import Transaction
from stemmadb.protocol.model.commit.request import Operation
from stemmadb.protocol.model.values.body import encode
from stemmadb.protocol.model.values.ids import EntityId

NAME = "client_live"
TITLE = "one SDK client: until a commit is confirmed, until another client is told, and many commits under way"
CONFIRMED, TOLD = f"{NAME}: confirmed, one at a time", f"{NAME}: told of another client's commit"
JOURNAL = ", with a journal"
ENTITIES = 2_000
ROUNDS, FEW_ROUNDS = {64: 40, 1_000: 3}, {64: 5, 1_000: 1}
"""Commits under way, and how often so many are sent in a turn."""
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


def bare(space: Space, count: int) -> list[float]:
    """The same commits on a blocking socket, without anything of the client."""
    session = space.session()
    body = encode(DOCUMENT)

    def work() -> None:
        session.commit([Operation(op="set", id=EntityId(f"{PREFIX}0"), body=body, blind=True)])

    found = timed(work, count)
    session.link.close()
    return found


def echo_server(pipe: children.Pipe) -> None:
    asyncio.run(_serve_echo(pipe))


async def _serve_echo(pipe: children.Pipe) -> None:
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


def other_client(pipe: children.Pipe, there: Place) -> None:
    """Commits as many as it is asked for, each with the time at which its block began."""
    asyncio.run(_commit_when_asked(pipe, there))


async def _commit_when_asked(pipe: children.Pipe, there: Place) -> None:
    async with opened(there) as client:
        pipe.send("ready")
        try:
            while True:
                await _commit_times(client, await asyncio.to_thread(pipe.recv))
        except EOFError:
            return


async def _commit_times(client: Client, count: int) -> None:
    for left in reversed(range(count)):
        async with client.space.transaction() as tx:
            began = time.perf_counter_ns()  # one clock for all processes
            tx.set(f"{PREFIX}0", DOCUMENT | {"count": began, "left": left}, blind=True)
        await tx.confirmed()
        await asyncio.sleep(PAUSE_SECONDS)


async def told(client: Client, other: children.Pipe, count: int) -> list[float]:
    """Until the last of them is told; two that come while the app is away are one change."""
    found: list[float] = []
    left: object = count
    async with client.space.watch(f"{PREFIX}0") as watch:
        await watch.next()
        other.send(count)
        while left != 0:
            async with asyncio.timeout(STALL_SECONDS):
                change = await watch.next()
            value = change.updated[EntityId(f"{PREFIX}0")]
            assert isinstance(value, dict)
            found.append((time.perf_counter_ns() - int(str(value["count"]))) / 1e9)
            left = value["left"]
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


def bare_stream(space: Space, pid: int, *, window: int, count: int) -> Took:
    """As many sent at once, then the answer to the last awaited, over and over; `count` is a multiple of them."""
    assert count % window == 0
    session, body = space.session(), encode(DOCUMENT)
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

    def __init__(self, server: Server, *, alone: int, rounds: dict[int, int]) -> None:
        self.server, self.space = server, filled(server.port, ENTITIES)
        self.alone, self.rounds = alone, rounds
        self.turns = Turns()

    async def one_at_a_time(self, client: Client, keeper: Client, echo_port: int) -> None:
        """The columns beside: a session without the SDK, and an echo of as many bytes over the same library."""
        beside = {
            "bare_p50_us": of_times(bare(self.space, self.alone))["p50_us"],
            "echo_p50_us": of_times(await echo(echo_port, self.alone))["p50_us"],
        }
        for scenario, each in ((CONFIRMED, client), (CONFIRMED + JOURNAL, keeper)):
            self._add(scenario, of_times(await confirmed(each, self.alone)) | beside, self.alone)

    async def told(self, client: Client, other: children.Pipe) -> None:
        self._add(TOLD, of_times(await told(client, other, self.alone)), self.alone)

    async def many(self, client: Client, keeper: Client) -> None:
        pid = self.server.pid
        for window, rounds in self.rounds.items():
            count, scenario = window * rounds, f"{NAME}: {window:,} under way"
            beside = bare_stream(self.space, pid, window=window, count=count)
            for name, each in ((scenario, client), (scenario + JOURNAL, keeper)):
                took = await stream(each, pid, window=window, count=count)
                self._add(name, by_commit(took, count) | {"bare_rate": count / beside.seconds}, count)

    def _add(self, scenario: str, turn: dict[str, float], n: int) -> None:
        self.turns.add(Key(scenario, rows.OURS, 1), turn, n=n)


def by_commit(took: Took, count: int) -> dict[str, float]:
    return {
        "rate": count / took.seconds,
        "cpu_us_per_op": took.server_cpu / count * 1e6,
        "client_cpu_us_per_op": took.client_cpu / count * 1e6,
    }


async def _run(bench: Bench, reps: int) -> None:
    there, elsewhere = (place(filled(bench.server.port, ENTITIES)) for _ in range(2))
    async with AsyncExitStack() as stack:
        client = await stack.enter_async_context(opened(there))
        keeper = await stack.enter_async_context(opened(elsewhere, journal=True))
        watches = [await client.watch(), await keeper.watch()]
        other = stack.enter_context(children.child(other_client, there))
        echo_port = children.told(stack.enter_context(children.child(echo_server)))
        children.told(other)
        for _ in range(reps):
            await bench.one_at_a_time(client, keeper, echo_port)
            await bench.told(client, other)
            await bench.many(client, keeper)
        del watches


def run(plan: Plan) -> list[Row]:
    with service.served() as server:
        alone, rounds = plan.pick(quick=(50, FEW_ROUNDS), usual=(400, ROUNDS))
        bench = Bench(server, alone=alone, rounds=rounds)
        asyncio.run(_run(bench, plan.reps))
    return bench.turns.rows()
