"""Faults of a real server process and of the line to it, one after the other, as work goes on."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final, Literal, TypeAlias

from client_processes import PATIENCE_SECONDS, Server
from client_proxy import Proxy
from faults_report import Report
from stemmadb.protocol.model.values.ids import Did
from stemmadb.server.serving.ownership.worker_ownership import worker_of

Kind: TypeAlias = Literal["kill", "worker", "change", "cut", "sever", "pause", "tear", "delay", "hold", "silence"]
KINDS: Final[tuple[Kind, ...]] = ("kill", "cut", "sever", "pause", "tear", "delay", "hold", "silence")
PAUSE_SECONDS: Final = (0.02, 0.4)
PIECE_BYTES: Final = 7
"""Torn bytes go on in pieces of at most so many, so that every boundary is met."""


class Storm:
    """Strikes whenever so much more work is done. Every fault but a kill passes by itself."""

    def __init__(self, server: Server, line: Proxy, *, seed: int) -> None:
        self._server, self._line = server, line
        self._chance = random.Random(seed)
        self.report = Report()
        self.space = Did("")
        """Where everybody works."""
        self._moved = asyncio.Event()
        self._strikes: Mapping[Kind, Callable[[], Awaitable[None]]] = {
            "kill": self._kill,
            "worker": self._worker,
            "change": self._change,
            "cut": self._cut,
            "sever": self._sever,
            "pause": self._pause,
            "tear": self._tear,
            "delay": self._delay,
            "hold": self._hold,
            "silence": self._silence,
        }

    def worked(self) -> None:
        """One more operation is done."""
        self.report.operations += 1
        self._moved.set()

    async def rage(self, strikes: Sequence[Kind], *, operations: int) -> None:
        """All of these faults, one after the other, spread by chance over so many operations."""
        moments = sorted(self._chance.randint(1, operations) for _ in strikes)
        for kind, moment in zip(strikes, moments, strict=True):
            await self._until(moment)
            self.report.kinds[kind] += 1
            await self._strikes[kind]()

    def choose(self, count: int, kinds: Sequence[Kind] = KINDS) -> list[Kind]:
        """So many faults of these kinds, each kind about as often, in any order."""
        chosen = [kinds[number % len(kinds)] for number in range(count)]
        self._chance.shuffle(chosen)
        return chosen

    async def _until(self, operations: int) -> None:
        while self.report.operations < operations:
            self._moved.clear()
            async with asyncio.timeout(PATIENCE_SECONDS):
                await self._moved.wait()

    async def _wait(self) -> None:
        await asyncio.sleep(self._chance.uniform(*PAUSE_SECONDS))

    # ------------------------------------------------------------ the faults

    async def _kill(self) -> None:
        """Kill -9 of the server, and its next life."""
        await self._server.kill()
        await self._server.start()

    async def _worker(self) -> None:
        """Kill -9 of one worker, mostly of the one that serves the space; the others go on."""
        workers = self._server.workers
        number = self.owner if self._chance.random() < 0.7 else self._chance.randrange(workers)
        self._server.kill_worker(number)

    async def _change(self) -> None:
        """Kill -9 of everything, and a next life with another number of workers."""
        await self._server.kill()
        self._server.workers = self._chance.choice([number for number in (1, 2, 4) if number != self._server.workers])
        self._server.accept_only = None
        await self._server.start()

    @property
    def owner(self) -> int:
        """The worker that serves the space."""
        return worker_of(self.space, self._server.workers)

    async def _cut(self) -> None:
        """Every connection ends at once."""
        self._line.cut()

    async def _sever(self) -> None:
        """A connection ends after some more bytes, in the middle of whatever that is."""
        way = self._chance.choice((self._line.up, self._line.down))
        way.cut_after = self._chance.randint(1, 2_000)

    async def _pause(self) -> None:
        """The server is there and does nothing, as a machine that is moved or out of memory.

        If the line is cut meanwhile, those who come back meet a server that has not noticed yet.
        """
        self._server.freeze()
        await self._wait()
        if self._chance.random() < 0.5:
            self._line.cut()
        self._server.thaw()

    async def _tear(self) -> None:
        """Bytes arrive in tiny pieces, so that every frame is torn at any place."""
        way = self._chance.choice((self._line.up, self._line.down))
        before, way.piece_bytes = way.piece_bytes, self._chance.randint(1, PIECE_BYTES)
        await self._wait()
        way.piece_bytes = before

    async def _delay(self) -> None:
        """Everything takes longer."""
        way = self._chance.choice((self._line.up, self._line.down))
        way.delay_seconds = self._chance.uniform(0.001, 0.02)
        await self._wait()
        way.delay_seconds = 0.0

    async def _hold(self) -> None:
        """Nothing comes through in one direction, and then all of it; or a cut in the middle of that."""
        way = self._chance.choice((self._line.up, self._line.down))
        way.hold()
        await self._wait()
        if self._chance.random() < 0.5:
            self._line.cut()
        way.release()

    async def _silence(self) -> None:
        """Connections look alive and are dead, until the clients notice."""
        self._line.silence()
