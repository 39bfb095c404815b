"""Faults of network, server, storage and clock, at random moments; those of apps are in `machine`."""

from __future__ import annotations

import asyncio
from collections import Counter
from random import Random
from typing import Final

from simulation.options import Options
from stemmadb.client.testing import World
from stemmadb.client.testing.chaos import Chaos, Fault
from stemmadb.client.testing.line import ClientLine
from stemmadb.client.testing.network import FAULTS as NETWORK_FAULTS
from stemmadb.client.testing.outages import of_clock, of_server
from stemmadb.client.testing.seeds import stream

SLOWEST: Final = 2_000
"""Bytes per second of the slowest line."""
FASTEST: Final = 100_000


class Faults:
    """Strikes until it is ended; counts what it did, by kind."""

    def __init__(self, world: World, options: Options) -> None:
        self.counts: Counter[str] = Counter()
        self.serving = asyncio.Lock()
        """Held by whoever stops and starts the server."""
        self._world = world
        self._options = options
        self._random: Random = stream(world.seed, "more faults")
        self._restarts: set[asyncio.Task[None]] = set()
        self._chaos: Chaos | None = None
        kinds = {kind: fault for kind, fault in self._all().items() if kind in options.faults}
        if kinds:
            counted = {kind: self._counted(kind, fault) for kind, fault in kinds.items()}
            self._chaos = world.network.chaos_of(counted, every=options.fault_every)

    def _all(self) -> dict[str, Fault]:
        world, longest = self._world, self._options.longest
        return (
            world.network.faults(longest, NETWORK_FAULTS)
            | of_server(world, longest)
            | of_clock(world)
            | {
                "slow": self._slow,
                "delay": self._delay,
                "silent_crash": lambda: world.crash(silent=True, down=self._random.uniform(0, longest)),
                "lose_sync": world.lose_sync,
                "restart": self._restart,
            }
        )

    def _counted(self, kind: str, fault: Fault) -> Fault:
        def strike() -> None:
            self.counts[kind] += 1
            fault()

        return strike

    async def end(self) -> None:
        """No more of them, and the world is whole again."""
        if self._chaos is not None:
            self._chaos.stop()
        await asyncio.gather(*self._restarts)
        for line in self._world.network:
            line.delay(self._options.latency, self._options.jitter)
        self._world.calm()

    # ------------------------------------------------------------ those that the kit has no schedule for

    def _line(self) -> ClientLine:
        return self._random.choice(list(self._world.network))

    def _slow(self) -> None:
        """A reader that takes little at a time."""
        line = self._line()
        line.slow(self._random.uniform(SLOWEST, FASTEST))
        self._later(lambda: line.slow(None))

    def _delay(self) -> None:
        """What is sent later on another line arrives before."""
        line = self._line()
        line.delay(self._random.uniform(0, 0.3), self._random.uniform(0, 0.3))
        self._later(lambda: line.delay(self._options.latency, self._options.jitter))

    def _later(self, end: Fault) -> None:
        assert self._chaos is not None, "a fault strikes while there is chaos"
        self._chaos.later(self._random.uniform(0, self._options.longest), end)

    def _restart(self) -> None:
        """As an operator does it: SIGTERM, and a new start."""
        self._restarts.add(asyncio.get_running_loop().create_task(self._stop_and_start()))

    async def _stop_and_start(self) -> None:
        async with self.serving:
            await self._world.stop()
            await self._world.start()
