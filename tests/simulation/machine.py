"""The machine: a run from its first commit, through everything that fails, to the moment when all agree."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable
from contextlib import suppress
from random import Random
from typing import Final

from simulation import checks
from simulation.apps import App
from simulation.faults import Faults
from simulation.founding import found
from simulation.ledger import check_decided, check_sums
from simulation.lives import Life
from simulation.merges import check_merges
from simulation.options import Options
from simulation.report import Report
from simulation.scene import Scene
from simulation.settling import PEACE_SECONDS, admit, settle
from simulation.wire import Tap
from simulation.worker import GuestWorker, Worker
from stemmadb.client.journal.memory import SimulatedJournal
from stemmadb.client.testing import World
from stemmadb.client.testing.seeds import stream

APP_FAULTS: Final = ("kill_app", "close_app", "fail_journal", "copy_journal")
"""What happens to a running app."""
COPIES_MAX: Final = 2
"""Apps that are started on copied journals."""


class Machine:
    """One run."""

    def __init__(self, world: World, options: Options) -> None:
        self.world = world
        self.options = options
        self.apps: list[App] = []
        self.injected: Counter[str] = Counter()
        self.scene: Scene
        self.tap: Tap
        self.guest: App | None = None
        self._until = 0.0
        self._ended: list[Life] = []
        self._copies = 0

    async def run(self) -> Report:
        """Fails at the first violation; one on the wire is named before whatever came of it."""
        self.scene, self.apps, self.guest = await found(self.world, self.options)
        self.tap = Tap(self.world, self.scene.states)
        try:
            report = await self._run()
        except BaseException as error:
            if self.tap.violation is not None:
                raise self.tap.violation from error
            raise
        if self.tap.violation is not None:
            raise self.tap.violation
        return report

    async def _run(self) -> Report:
        lives = [await app.start() for app in self.apps]
        self._until = self.scene.now() + self.options.seconds
        faults = Faults(self.world, self.options)
        async with asyncio.TaskGroup() as group:
            for app, life in zip(tuple(self.apps), lives, strict=True):
                group.create_task(self._live(app, life, group))
            group.create_task(self._heal(faults))
            if self.guest is not None:
                group.create_task(self._host(self.guest))
            if "restore" in self.options.faults:
                group.create_task(self._restore(faults))
        self.injected += faults.counts
        checked = await settle(self.scene, self.apps)
        checked += self._check()
        for app in self.apps:
            await self._end(app, app.close(wait_seconds=5))
        return self._report(checked)

    # ------------------------------------------------------------ the lives of apps

    async def _heal(self, faults: Faults) -> None:
        """When the time is over nothing fails any more, also if somebody still waits for the server."""
        await asyncio.sleep(self.options.seconds)
        self.world.trace.note("calm")
        await faults.end()
        async with asyncio.timeout(PEACE_SECONDS):
            while any(app.life is None for app in self.apps):  # who comes back may have been shut out
                if (owner := self.apps[0].life) is not None:
                    await admit(self.scene, owner)
                await asyncio.sleep(0.5)

    async def _live(self, app: App, life: Life, group: asyncio.TaskGroup) -> None:
        """One life after the other, until the time is over; the last one stays."""
        random = stream(self.world.seed, "lives", app.line)
        happens = [kind for kind in APP_FAULTS if kind in self.options.faults]
        self._put_to_work(app, life, random)
        while True:
            length = random.expovariate(1 / self.options.life_seconds) if happens else self.options.seconds
            await asyncio.sleep(max(0, min(self._until - self.scene.now(), length)))
            life.check_tasks()
            if self.scene.now() >= self._until:
                return
            kind = random.choice(happens)
            if kind == "copy_journal":
                self._copy(app, group)
                continue
            self.injected[kind] += 1
            await self._end(app, _ending(kind, app, random))
            await asyncio.sleep(random.expovariate(4))
            life = await app.start()
            self._put_to_work(app, life, random)

    def _put_to_work(self, app: App, life: Life, random: Random) -> None:
        for number in range(self.options.workers):
            chance = stream(self.world.seed, "work", app.line, app.lives, number)
            life.spawn(Worker(life, chance, self.scene).work(self._until))
        if app.disk is not None and "slow_journal" in self.options.faults:
            life.spawn(self._hamper(app.disk, random))

    def _copy(self, app: App, group: asyncio.TaskGroup) -> None:
        """A second process with the same session: each takes it over from the other (WIRE-3)."""
        if app.disk is not None and self._copies < COPIES_MAX:
            self._copies += 1
            self.injected["copy_journal"] += 1
            copy = app.copy(f"{app.name}-{self._copies}")
            self.apps.append(copy)
            group.create_task(self._begin(copy, group))

    async def _begin(self, app: App, group: asyncio.TaskGroup) -> None:
        await self._live(app, await app.start(), group)

    async def _end(self, app: App, ending: Awaitable[None]) -> None:
        """What it was told counts, however it ends."""
        assert app.life is not None
        self._ended.append(app.life)
        await ending

    async def _hamper(self, disk: SimulatedJournal, random: Random) -> None:
        """A disk that is slow from time to time."""
        try:
            while self.scene.now() < self._until:
                await asyncio.sleep(random.expovariate(2))
                self.injected["slow_journal"] += 1
                disk.hold()
                await asyncio.sleep(random.expovariate(5))
                disk.release(random.randint(0, 2))
                await asyncio.sleep(random.expovariate(5))
                disk.release()
        finally:
            disk.release()

    async def _host(self, guest: App) -> None:
        """The guest stays until the time is over, and then is gone: it may have been shut out meanwhile."""
        with suppress(TimeoutError):
            async with asyncio.timeout(self._until - self.scene.now()):
                life = await guest.start()
                await GuestWorker(life, stream(self.world.seed, "guest"), self.scene).work(self._until)
        if guest.life is not None:
            await self._end(guest, guest.crash())

    async def _restore(self, faults: Faults) -> None:
        """The server goes back to what it was a while ago."""
        world, random = self.world, stream(self.world.seed, "restores")
        for _ in range(random.choice((1, 1, 2))):
            await asyncio.sleep(random.uniform(0, self.options.seconds / 2))
            backup = world.backup()
            await asyncio.sleep(random.uniform(0, self.options.seconds / 2))
            async with faults.serving:
                await world.stop()
                self.scene.states.catch_up()
                await world.restore(backup)
                self.scene.states.restored(backup.versions()[self.scene.states.space])
                await world.start()
            self.injected["restore"] += 1

    # ------------------------------------------------------------ the end

    def _check(self) -> int:
        scene = self.scene
        guest = "" if self.guest is None else self.guest.did
        return sum(
            (
                check_decided(scene.ledger, scene.states),
                check_sums(scene.ledger, scene.states),
                checks.check_logs(scene, self.tap),
                checks.check_rights(scene, guest),
                checks.check_past(scene, stream(self.world.seed, "past")),
                checks.check_chain(scene),
                check_merges(scene.states.now),
            )
        )

    def _report(self, checked: int) -> Report:
        scene, fates = self.scene, [record.fate for record in self.scene.ledger.records]
        followers = [follower for life in self._ended for follower in life.followers]
        return Report(
            operations=scene.done.total() + sum(one.changes for one in followers),
            faults=+self.injected,
            crashes=self.world.crashes,
            commits=len(fates),
            confirmed=fates.count("confirmed"),
            rejected=fates.count("rejected"),
            versions=scene.states.now.tip,
            lives=sum(app.lives for app in self.apps),
            checks=checked + scene.checks + self.tap.frames + sum(one.checked for one in followers),
            work=scene.done,
            trace=self.world.trace.hash(),
        )


async def _ending(kind: str, app: App, random: Random) -> None:
    """How a life ends."""
    if kind == "close_app":
        await app.close(wait_seconds=random.choice((0.0, 0.5, 3.0)))
        return
    if kind == "fail_journal":
        app.break_disk()
        await asyncio.sleep(random.uniform(0, 0.1))
    await app.crash()
