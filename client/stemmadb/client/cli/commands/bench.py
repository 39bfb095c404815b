"""`stemmadb bench`: how fast a server is for a user, measured over the SDK in a space made for it."""

from __future__ import annotations

import asyncio
import random
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Final, NamedTuple

import click

from stemmadb.client import Space, Transaction, connect
from stemmadb.client.cli.connection import Target, finished, identity_of, server_options
from stemmadb.client.cli.context import CliContext, Show
from stemmadb.client.cli.shapes import Column, TextTable

DOCUMENT: Final = {
    "title": "write the spec",
    "done": False,
    "tags": ["a", "b"],
    "text": "Cost follows the change. " * 4,
}
"""About 180 bytes."""
SCRATCH: Final = "bench"
WATCHED: Final = "urn:bench:watched"
EVENT_SECONDS_MAX: Final = 10.0
"""How long one event may take before the server is given up."""
SEED: Final = 1
_STAGES: Final = 3

Step = Callable[[], Awaitable[None]]


class Measured(NamedTuple):
    """What one measurement came to."""

    what: str
    rate: float
    p50_us: float
    p99_us: float
    n: int

    def row(self) -> tuple[str, str, str, str, str]:
        return self.what, f"{self.rate:,.0f}", f"{self.p50_us / 1e3:,.2f}", f"{self.p99_us / 1e3:,.2f}", f"{self.n:,}"


@click.command()
@click.option(
    "--clients", type=click.IntRange(1, 1_000), default=32, show_default=True, help="The number of connections."
)
@click.option(
    "--seconds",
    type=click.FloatRange(0.1, 600),
    default=5.0,
    show_default=True,
    help="How long each of the three measurements takes.",
)
@server_options
@click.pass_obj
def bench(shell: CliContext, target: Target, clients: int, seconds: float) -> dict[str, object]:
    """Measure a server as your app would see it: durable commits, live events, and reads of the past.

    It makes a scratch space of its own, which stays on the server, and touches no other. Every client has a
    connection and one request in flight.

    Example: stemmadb bench --url ws://127.0.0.1:8420 --clients 32 --seconds 5
    """

    async def work() -> tuple[str, list[Measured]]:
        with shell.progress() as show:
            async with _spaces(target, clients) as spaces:
                return spaces[0].did, await _all(spaces, seconds, show)

    began, cpu = time.perf_counter(), time.process_time()
    space, found = finished(work)
    share = (time.process_time() - cpu) / (time.perf_counter() - began)
    _report(shell, found, space=space, clients=clients, share=share)
    results = [one._asdict() for one in found]
    return {
        "url": target.url,
        "space": space,
        "clients": clients,
        "seconds": seconds,
        "client_cpu_share": share,
        "results": results,
    }


def _report(shell: CliContext, found: Sequence[Measured], *, space: str, clients: int, share: float) -> None:
    names = ("MEASURED", "PER SECOND", "P50 MS", "P99 MS", "N")
    columns = tuple(Column(name, whole=True, right=name != names[0]) for name in names)
    shell.show(TextTable(columns, [one.row() for one in found]))
    shell.say("")
    shell.say(
        f"commit     {clients} clients, a document of 180 B each; confirmed means that it is on the server's disk"
    )
    shell.say("event      from a client's write to the change event at another client's watch")
    shell.say(
        f"past read  {clients} clients, one entity at random older versions; the server's bound on requests holds"
    )
    shell.say(
        f"This process used {share:.0%} of a core" + ("; it, not the server, was the limit." if share > 0.9 else ".")
    )
    shell.say(f"The scratch space remains on the server: {space}")


# ---------------------------------------------------------------- clients


@asynccontextmanager
async def _spaces(target: Target, clients: int) -> AsyncIterator[list[Space]]:
    """A new space as so many clients see it, and one that watches. Its name and its key are forgotten afterwards."""
    identity = identity_of(target)
    async with AsyncExitStack() as stack:
        config = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="stemmadb-bench-")))
        spaces: list[Space] = []
        for _ in range(clients + 1):
            db = await stack.enter_async_context(connect(target.url, identity=identity, config=config))
            spaces.append(await db.space(spaces[0].did if spaces else SCRATCH))
        yield spaces


async def _all(spaces: Sequence[Space], seconds: float, show: Show) -> list[Measured]:
    """The first of them watches, and the others work."""
    show("durable commits", 0, _STAGES)
    commits = await _closed("commit", [_committing(space, n) for n, space in enumerate(spaces[1:])], seconds)
    show("live events", 1, _STAGES)
    events = await _events(spaces[1], spaces[0], seconds)
    show("reads of the past", 2, _STAGES)
    chance, (first, last) = random.Random(SEED), await _history(spaces[1])  # noqa: S311  # no secret hangs on it
    reads = [_past(space, range(first, last + 1), chance) for space in spaces[1:]]
    return [commits, events, await _closed("past read", reads, seconds)]


# ---------------------------------------------------------------- the measurements


def _committing(space: Space, number: int) -> Step:
    """Writes its own entity on what it wrote before, and waits until the server has it on disk."""
    count = 0

    async def step() -> None:
        nonlocal count
        count += 1
        await (await _write(space, f"urn:bench:{number}", count)).confirmed()

    return step


async def _write(space: Space, id_: str, count: int) -> Transaction:
    async with space.transaction() as tx:
        tx.set(id_, {**DOCUMENT, "count": count})
    return tx


async def _events(writer: Space, reader: Space, seconds: float) -> Measured:
    """One write at a time; the next goes out when the watch was told of the last."""
    latencies: list[float] = []
    async with reader.watch(WATCHED) as watch:
        await watch.next()
        end = time.perf_counter() + seconds
        while (began := time.perf_counter()) < end:
            async with asyncio.timeout(EVENT_SECONDS_MAX):
                await _write(writer, WATCHED, len(latencies))
                await watch.next()
            latencies.append(time.perf_counter() - began)
    return _measured("event", latencies, seconds)


async def _history(space: Space) -> tuple[int, int]:
    """The versions between which the watched entity was written."""
    versions = [entry.version async for entry in space.history(WATCHED)]
    return min(versions), max(versions)


def _past(space: Space, versions: range, chance: random.Random) -> Step:
    async def step() -> None:
        assert await space.at(version=chance.choice(versions)).get(WATCHED) is not None, "it was written by then"

    return step


async def _closed(what: str, steps: Sequence[Step], seconds: float) -> Measured:
    """Each does its next step when the last is done, for so long."""
    latencies: list[float] = []
    end = time.perf_counter() + seconds

    async def work(step: Step) -> None:
        while (began := time.perf_counter()) < end:
            await step()
            latencies.append(time.perf_counter() - began)

    began = time.perf_counter()
    async with asyncio.TaskGroup() as group:
        for step in steps:
            group.create_task(work(step))
    return _measured(what, latencies, time.perf_counter() - began)


def _measured(what: str, latencies: Sequence[float], seconds: float) -> Measured:
    ordered = sorted(latencies)
    p50, p99 = (ordered[len(ordered) * part // 100] * 1e6 for part in (50, 99))
    return Measured(what, len(ordered) / seconds, p50, p99, len(ordered))
