"""A server process without a process: a store and a service over it, which can stop, or die."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from random import Random
from typing import Final, TypeVar

from stemmadb.client.testing.link import SimulatedConnection
from stemmadb.client.testing.storage import KitStorage, Nobody
from stemmadb.protocol.model.log.facts import SALT_BYTES
from stemmadb.protocol.model.values.ids import Did, TimeMs
from stemmadb.protocol.model.values.limits import Limits
from stemmadb.server.counters import Counts
from stemmadb.server.engine.base.executors import Executors, Inline
from stemmadb.server.engine.base.settings import Settings
from stemmadb.server.engine.store import Store
from stemmadb.server.service.base.settings import ServiceSettings
from stemmadb.server.service.base.transport import Arrival, ConnectionHandler
from stemmadb.server.service.service import Service

T = TypeVar("T")

GONE_SECONDS: Final = 0.01
"""How often a server that stops looks whether its connections are gone."""


class Disk(Inline):
    """Work that takes virtual time, some of it before it is done and some after, so that a crash can come between."""

    def __init__(self, seconds: float, random: Random) -> None:
        self._seconds = seconds
        self._random = random

    async def run(self, work: Callable[[], T]) -> T:
        before = self._random.random() * self._seconds
        await asyncio.sleep(before)
        result = work()
        await asyncio.sleep(self._seconds - before)
        return result


class ServerProcess:
    """One life of the server. What it knows only in memory ends with it."""

    def __init__(
        self,
        storage: KitStorage,
        *,
        server: Did,
        now: Callable[[], TimeMs],
        random: Random,
        limits: Limits,
        settings: ServiceSettings,
        engine: Settings,
        disk_seconds: float,
    ) -> None:
        self.storage = storage
        self.counts = Counts()
        self.limits = limits
        self._links: list[SimulatedConnection] = []
        writing = Disk(disk_seconds, random) if disk_seconds else Inline()
        self.store = Store(
            storage,
            now=now,
            salts=iter(lambda: random.randbytes(SALT_BYTES), b""),
            workers=Executors(writing, Inline()),
            limits=limits,
            settings=engine,
            counts=self.counts,
        )
        self.service = Service(
            self.store,
            server=server,
            now=now,
            random=random.randbytes,
            limits=limits,
            settings=settings,
            workers=Inline(),
            counts=self.counts,
        )

    def welcome(self, link: SimulatedConnection, arrival: Arrival) -> ConnectionHandler:
        self._links = [*self.links, link]
        return self.service.welcome(link.server, arrival)

    @property
    def links(self) -> list[SimulatedConnection]:
        """The connections that are not over for the server."""
        return [link for link in self._links if not link.server.is_over]

    async def stop(self) -> None:
        """As the real one on SIGTERM: tells what is durable, says goodbye, and waits until that was taken."""
        await self.service.stop()
        while self.links:
            await asyncio.sleep(GONE_SECONDS)
        await self.store.close()

    def die(self, *, silent: bool) -> Awaitable[None]:
        """Kill -9. From this moment on nothing that it does is seen by anybody; its storage is its own.

        What is left of it in memory is put away by the awaitable, which somebody has to await.
        """
        self.storage.watching = Nobody()
        handlers = [link.abandon(silent=silent) for link in self.links]
        return asyncio.ensure_future(self._bury([one for one in handlers if one is not None]))

    async def _bury(self, handlers: list[ConnectionHandler]) -> None:
        for handler in handlers:
            handler.lost()
        await self.service.stop()
        await self.store.close()
