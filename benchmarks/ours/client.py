"""The client as an app has it, on a real server in a process of its own, and a line that can be cut."""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple

from benchmarks.load.document import DOCUMENT
from benchmarks.load.loop import STALL_SECONDS
from benchmarks.load.processes import DIRECTORY, cpu_seconds
from benchmarks.ours import sessions
from stemmadb.client import Change, Identity, Space, Transaction, Watch, connect
from stemmadb.client.dialing.websocket import WebSocketChannel, WebSocketDial
from stemmadb.protocol.errors import Unreachable
from stemmadb.protocol.model.values.ids import Did

PREFIX = "urn:todo:"
LOOK_SECONDS = 0.001
"""How often it is looked whether something has happened that nobody tells of."""


class Place(NamedTuple):
    """A space and its owner's key; it can be told to another process."""

    port: int
    space: Did
    secret: bytes


def place(there: sessions.Space) -> Place:
    return Place(there.port, there.did, there.key.secret)


class Line:
    """A `Dial` over the socket that can be cut and mended, as a train does with a phone."""

    def __init__(self, port: int) -> None:
        self.url = f"ws://127.0.0.1:{port}"
        self._dial = WebSocketDial(self.url)
        self._channel: WebSocketChannel | None = None
        self._is_cut = False

    async def __call__(self, space: Did) -> WebSocketChannel:
        if self._is_cut:
            raise Unreachable(url=self.url, why="the line is cut")
        self._channel = await self._dial(space)
        return self._channel

    async def cut(self, space: Space) -> None:
        """Returns once the client has noticed."""
        self._is_cut = True
        assert self._channel is not None, "it was connected"
        await self._channel.close()
        async with asyncio.timeout(STALL_SECONDS):
            while space.status().connection == "open":
                await asyncio.sleep(LOOK_SECONDS)

    def mend(self, space: Space) -> None:
        """The client tries at once."""
        self._is_cut = False
        space.nudge()


class Client:
    """A space as its owner sees it, with its line."""

    def __init__(self, space: Space, line: Line, *, journal: Path | None) -> None:
        self.space, self.line, self.journal = space, line, journal

    async def watch(self, selector: str = f"{PREFIX}*") -> tuple[Watch, Change]:
        """A watch that is filled, and its first change."""
        watch = self.space.watch(selector)
        return watch, await watch.next()

    async def write(self, number: int, count: int) -> Transaction:
        """One write of the usual document, as an app writes it; it is applied."""
        async with self.space.transaction() as tx:
            tx.set(f"{PREFIX}{number}", DOCUMENT | {"count": count})
        return tx

    async def decided(self) -> None:
        """Returns once every commit is confirmed."""
        async with asyncio.timeout(STALL_SECONDS):
            await self.space.settled()
        assert not self.space.rejected(), "nobody else writes"

    def journal_bytes(self) -> int:
        """The length of the journal's write-ahead log."""
        assert self.journal is not None, "it has a journal"
        return sum(file.stat().st_size for file in self.journal.glob("*-wal"))


@asynccontextmanager
async def opened(there: Place, *, journal: bool = False) -> AsyncIterator[Client]:
    """A client of the owner; one that is given a journal has it on the disk of the benchmarks."""
    line = Line(there.port)
    identity = Identity.from_seed(there.secret)
    with tempfile.TemporaryDirectory(prefix="stemmadb-bench-", dir=DIRECTORY) as name:
        here = Path(name)
        kept = here / "journal" if journal else None
        async with connect(line.url, identity=identity, config=here, dial=line, journal=kept) as db:
            yield Client(await db.space(there.space), line, journal=kept)


def filled(port: int, entities: int) -> sessions.Space:
    """A space with so many documents of about 200 bytes under `PREFIX`."""
    space = sessions.Space.made(port)
    space.fill({f"{PREFIX}{number}": DOCUMENT for number in range(entities)})
    return space


# ------------------------------------------------------------ figures


class Took(NamedTuple):
    """What a run took, all of it."""

    seconds: float
    client_cpu: float
    """Of this process."""
    server_cpu: float


class Meter:
    """Wall time and CPU of both sides, from its making on."""

    def __init__(self, server_pid: int) -> None:
        self._pid, self._server = server_pid, cpu_seconds(server_pid)
        self._cpu, self._began = time.process_time(), time.perf_counter()

    def read(self) -> Took:
        seconds, cpu = time.perf_counter() - self._began, time.process_time() - self._cpu
        return Took(seconds, cpu, cpu_seconds(self._pid) - self._server)


def timed(work: Callable[[], object], count: int) -> list[float]:
    """How long each call took."""
    found = []
    for _ in range(count):
        began = time.perf_counter()
        work()
        found.append(time.perf_counter() - began)
    return found
