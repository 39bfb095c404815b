"""Apps of a world: clients with a disk that outlives them, which can be killed like a process."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from types import TracebackType

from stemmadb.client.database import Database
from stemmadb.client.journal.memory import SimulatedJournal
from stemmadb.client.testing.line import URL, ClientLine
from stemmadb.protocol.errors import StemmaError, Unreachable
from stemmadb.protocol.model.values.ids import Did
from stemmadb.protocol.wire.channel import Channel, Dial


class AppDisk:
    """Where an app keeps its journals: `world.connect("alice", journal=disk)`, and again after a restart.

    `disk(space, principal)` is a journal with switches of its own: `hold`, `release`, `fail`.
    """

    def __init__(self) -> None:
        self._journals: dict[tuple[Did, Did], SimulatedJournal] = {}

    def __call__(self, space: Did, principal: Did) -> SimulatedJournal:
        return self._journals.setdefault((space, principal), SimulatedJournal())

    def crash(self) -> None:
        """What is not durable is gone, and what the dead app still writes reaches nobody."""
        self._journals = {key: journal.copy() for key, journal in self._journals.items()}

    def copy(self) -> AppDisk:
        """Another disk with what is durable on this one: somebody copied the directory."""
        other = AppDisk()
        other._journals = {key: journal.copy() for key, journal in self._journals.items()}
        return other


class App:
    """One life of an app. `db` is its client; at the end of the block it is closed, unless it was killed."""

    def __init__(self, line: ClientLine, disk: AppDisk | None, connect: Callable[[Dial], Database]) -> None:
        self._line = line
        self._disk = disk
        self._channels: list[Channel] = []
        self._is_alive = True
        self.db = connect(self._dial)

    async def _dial(self, space: Did) -> Channel:
        if not self._is_alive:
            raise Unreachable(url=URL, why="the app is dead")
        channel = await self._line.dial()(space)
        self._channels.append(channel)
        return channel

    async def kill(self) -> None:
        """Kill -9: from this moment on nothing that it does is seen by anybody. What is on its disk stays."""
        if not self._is_alive:
            return
        self._is_alive = False
        if self._disk is not None:
            self._disk.crash()
        for channel in self._channels:
            self._line.cut_channel(channel)
        with suppress(StemmaError):  # it has nobody to complain to
            await self.db.close(wait_seconds=0)

    async def __aenter__(self) -> App:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._is_alive:
            await self.db.__aexit__(kind, error, traceback)
