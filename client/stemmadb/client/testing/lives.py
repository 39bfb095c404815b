"""The lives of the server: it starts, stops, dies, is restored; what is durable goes from one life to the next."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from stemmadb.client.testing.crash_points import CrashPoints
from stemmadb.client.testing.line import Acceptor
from stemmadb.client.testing.process import ServerProcess
from stemmadb.client.testing.storage import Backup, KitStorage
from stemmadb.client.testing.trace import EventTrace
from stemmadb.protocol.model.values.limits import Limits


class Lives:
    """A `Doorkeeper`: whoever dials comes to the life of now."""

    def __init__(self, make: Callable[[KitStorage, int], ServerProcess], limits: Limits, trace: EventTrace) -> None:
        self.limits = limits
        self.storage = KitStorage()
        self.process: ServerProcess | None = None
        self.count = 0
        """Of lives so far."""
        self.crashes = 0
        self.points = CrashPoints(lambda: self.crash(down=self._down))
        self._make = make
        self._trace = trace
        self._down: float | None = None
        self._dead: list[Awaitable[None]] = []
        self._waking: asyncio.TimerHandle | None = None
        self._awaiting_crash: list[asyncio.Future[None]] = []

    def acceptor(self) -> Acceptor | None:
        return None if self.process is None else self.process.welcome

    # ------------------------------------------------------------ starting and stopping

    def start(self) -> None:
        """A new life on what is durable; nothing happens if there is one."""
        self._forget_waking()
        if self.process is not None:
            return
        self.count += 1
        self._trace.note("server", "starts", self.count)
        self.storage.watching = self.points
        self.process = self._make(self.storage, self.count)

    async def stop(self) -> None:
        """As on SIGTERM: nobody is let in, what was taken is decided, everybody is asked to come again."""
        self._forget_waking()
        process, self.process = self.process, None
        if process is not None:
            self._trace.note("server", "stops")
            await process.stop()

    async def put_away(self) -> None:
        """Waits until nothing is left of those who died."""
        while self._dead:
            await self._dead.pop()

    # ------------------------------------------------------------ dying

    def crash(self, *, silent: bool = False, down: float | None = None) -> None:
        """Kill -9, now: what was appended stays, and the dead one goes on with a storage that nobody sees."""
        process, self.process = self.process, None
        if process is None:
            return
        self.crashes += 1
        self._trace.note("server", "crashes", self.crashes)
        self.storage = KitStorage(self.storage.after_crash())
        self._dead.append(process.die(silent=silent))
        self._notify_crash()
        if down is not None:
            self._waking = asyncio.get_running_loop().call_later(down, self.start)

    def at_points(self, *, down: float | None) -> CrashPoints:
        """What happens around the next appends, and how long the server is down after a crash there."""
        self._down = down
        return self.points

    async def crashed(self) -> None:
        """Waits for the next crash."""
        crashed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._awaiting_crash.append(crashed)
        await crashed

    def _notify_crash(self) -> None:
        waiting, self._awaiting_crash = self._awaiting_crash, []
        for crashed in waiting:
            if not crashed.done():
                crashed.set_result(None)

    def _forget_waking(self) -> None:
        if self._waking is not None:
            self._waking.cancel()
            self._waking = None

    # ------------------------------------------------------------ backups

    def backup(self) -> Backup:
        return self.storage.backup()

    async def restore(self, backup: Backup) -> None:
        """Stops a server that runs, and starts it again on what the backup held (RESUME-4)."""
        was_running = self.process is not None
        await self.stop()
        self._trace.note("server", "is restored")
        self.storage = KitStorage(backup)
        if was_running:
            self.start()
