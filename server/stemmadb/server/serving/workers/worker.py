"""What makes a process a worker: its number, its share of the settings, and the ways to the parent and the others."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import msgspec

from stemmadb.protocol.model.values.ids import Did
from stemmadb.server.engine.base.settings import Settings
from stemmadb.server.serving.ownership.routing import Routing
from stemmadb.server.serving.ownership.worker_ownership import WorkerOwnership, worker_of
from stemmadb.server.serving.workers import metrics_sum, places
from stemmadb.server.serving.workers.control import ControlChannel, Message, open_channel
from stemmadb.server.serving.workers.mailbox import Adopt, Mailbox
from stemmadb.server.serving.workers.members import WorkersMembership
from stemmadb.server.serving.workers.passing import WorkerPassing
from stemmadb.server.serving.workers.questions import Others
from stemmadb.server.serving.workers.shared_limits import LocalCounts

ORPHANED: Final = 75
"""The exit code of a worker whose parent is gone."""
METRICS: Final = "metrics"


class StartedShare(msgspec.Struct, frozen=True):
    """What the worker runs of a companion (`CompanionShare`)."""

    name: str
    arguments: dict[str, Any]
    sockets: list[int]
    """The descriptors of what it listens on."""


class WorkerStart(msgspec.Struct, frozen=True, kw_only=True):
    """What the parent writes to the standard input of a worker."""

    number: int
    workers: int
    secret: str
    config: dict[str, Any]
    """All settings, with the port that is listened on."""
    listening: list[int]
    """The descriptors of the listening sockets; none for a worker that does not accept."""
    control: int
    """The descriptor of its end of the control channel."""
    lifeline: int
    """The descriptor of a pipe that ends with the parent."""
    companions: list[StartedShare] = []


class WorkerProcess:
    """One worker of a server. Made before anything is opened; used from one event loop."""

    def __init__(self, start: WorkerStart, data: Path, stop: asyncio.Event) -> None:
        self.number: Final = start.number
        self.workers: Final = start.workers
        self.directory: Final = places.place(data, start.number)
        self.sockets: Final = tuple(socket.socket(fileno=descriptor) for descriptor in start.listening)
        self.counts: Final = LocalCounts(self._report_soon)
        self.trouble: str | None = None
        """Why the server as a whole is not ready."""
        addresses = [str(places.socket_of(data, number)) for number in range(start.workers)]
        self._secret = bytes.fromhex(start.secret)
        others = [address for number, address in enumerate(addresses) if number != start.number]
        self._others = Others(self._secret, others)
        self.routing: Final = Routing(WorkerOwnership(start.number, addresses), WorkerPassing(self._secret))
        self.membership: Final = WorkersMembership(self.directory, self._others)
        self._data = data
        self._stop = stop
        self._control: ControlChannel | None = None
        self._control_descriptor = start.control

    def owns(self, space: Did) -> bool:
        return worker_of(space, self.workers) == self.number

    def share_of(self, settings: Settings) -> Settings:
        """The bounds on memory hold for all workers together."""
        return msgspec.structs.replace(
            settings,
            cache_bytes_max=max(1, settings.cache_bytes_max // self.workers),
            past_bytes_max=max(1, settings.past_bytes_max // self.workers),
        )

    def why_not(self) -> str | None:
        return self.trouble

    # ------------------------------------------------------------ the parent

    async def join_parent(self) -> None:
        sock = socket.socket(fileno=self._control_descriptor)
        self._control = await open_channel(sock, self._told, _orphaned)

    def tell(self, message: Message) -> None:
        if self._control is not None:
            self._control.send(message)

    def _told(self, message: Message) -> None:
        if "full" in message:
            self.counts.take(frozenset(message["full"]))
        elif "trouble" in message:
            self.trouble = message["trouble"]
        elif "stop" in message:
            self._stop.set()

    def _report_soon(self) -> None:
        asyncio.get_running_loop().call_soon(self._report)

    def _report(self) -> None:
        self.tell({"counts": self.counts.report()})

    # ------------------------------------------------------------ the other workers

    @asynccontextmanager
    async def taking(self, adopt: Adopt, scrape: Callable[[], bytes]) -> AsyncIterator[None]:
        """Takes what other workers pass on and ask, while the block runs."""

        async def answer(question: bytes) -> bytes:
            asked: Mapping[str, str] = json.loads(question)
            if METRICS in asked:
                return scrape()
            return json.dumps(await self.membership.of_here(asked["spaces"])).encode()

        mailbox = Mailbox(places.socket_of(self._data, self.number), self._secret, adopt=adopt, answer=answer)
        mailbox.open()
        try:
            yield
        finally:
            mailbox.close()

    def add_up(self, scrape: Callable[[], bytes]) -> Callable[[], Awaitable[bytes]]:
        """A scrape of all workers."""

        async def of_all() -> bytes:
            answers = await self._others.ask(json.dumps({METRICS: ""}).encode())
            return metrics_sum.add_up([scrape(), *answers], workers=self.workers)

        return of_all


def end_with_parent(lifeline: int) -> None:
    """Ends this process at once when the parent is gone, also while its event loop is busy or not there yet."""

    def wait() -> None:
        os.read(lifeline, 1)
        _orphaned()

    threading.Thread(target=wait, name="stemmadb-lifeline", daemon=True).start()


def _orphaned() -> None:
    """What is acknowledged is durable, so nothing is lost; nobody may write beside the next server."""
    os._exit(ORPHANED)
