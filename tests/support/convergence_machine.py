"""The convergence machine: apps work while everything fails, then it is calm, and all must agree."""

from __future__ import annotations

import asyncio
from random import Random
from typing import Final, NamedTuple

from convergence import (
    Ledger,
    States,
    branches_of,
    check_chain,
    check_decided,
    check_sums,
    differences,
)
from convergence_apps import App, Life
from convergence_work import ACCOUNTS, COUNTERS, DOCS, LISTS, TALLIES, Worker
from stemmadb.client.journal.memory import KeptInMemory
from stemmadb.client.testing import World
from stemmadb.client.testing.seeds import stream
from stemmadb.protocol.model.ids import Did, EntityId

PEACE_SECONDS: Final = 120.0
"""How long everything may take to come together once it is calm."""
SHORT_SECONDS: Final = 5.0
NAMES: Final = ("alice", "bob", "dora", "emil", "fay")


class Plan(NamedTuple):
    """How a run goes; made from its seed."""

    apps: int
    seconds: float
    pace: float
    fault_every: float
    crash_every: float
    disk_seconds: float
    restores: int = 0
    """How often the server is restored from a backup."""


class Report(NamedTuple):
    """What a run came to."""

    commits: int
    confirmed: int
    rejected: int
    faults: int
    crashes: int
    lives: int
    changes: int
    checked: int
    trace: str


def planned(seed: int, seconds: float) -> Plan:
    """A short run has fewer apps, and everything comes faster."""
    random, is_short = stream(seed, "plan"), seconds < SHORT_SECONDS
    return Plan(
        apps=random.randint(2, 3 if is_short else 5),
        seconds=seconds,
        pace=random.choice((0.05, 0.1, 0.3)) / (3 if is_short else 1),
        fault_every=random.choice((0.2, 0.5, 1.0, 3.0)) / (3 if is_short else 1),
        crash_every=random.choice((1.5, 4.0, 20.0)) / (2 if is_short else 1),
        disk_seconds=random.choice((0.0, 0.002, 0.02)),
        restores=random.choice((0, 0, 0, 1, 2)),
    )


class Machine:
    """One run."""

    def __init__(self, world: World, plan: Plan) -> None:
        self.world = world
        self.plan = plan
        self.ledger = Ledger()
        self.apps: list[App] = []
        self.changes = self.checked = 0
        self.space: Did
        self.states: States
        self._until = 0.0

    async def run(self) -> Report:
        world, plan = self.world, self.plan
        names = NAMES[: plan.apps]
        self.space = await world.make_space("shared", **dict.fromkeys(names, "own"))  # type: ignore[arg-type]
        self.states = States(world, self.space)
        for name in names:
            disk = KeptInMemory() if stream(world.seed, "disk", name).random() < 0.6 else None
            self.apps.append(App(world, name, self.space, self.ledger, disk))
        await self._begin()
        self._until = asyncio.get_running_loop().time() + plan.seconds
        chaos = world.chaos(every=plan.fault_every, longest=3.0)
        async with asyncio.TaskGroup() as group:
            for app in self.apps:
                group.create_task(self._live(app))
            group.create_task(self._restore())
        faults = chaos.count
        world.calm()
        await self._come_together()
        await self._check()
        for app in self.apps:
            self._count(app.life)
            await app.close(wait_seconds=5)
        fates = [record.fate for record in self.ledger.records]
        return Report(
            commits=len(fates),
            confirmed=fates.count("confirmed"),
            rejected=fates.count("rejected"),
            faults=faults,
            crashes=world.crashes,
            lives=sum(app.lives for app in self.apps),
            changes=self.changes,
            checked=self.checked,
            trace=world.trace.hash(),
        )

    async def _begin(self) -> None:
        """What everybody counts on being there."""
        life = await self.apps[0].start()
        mark = self.ledger.next_mark()
        async with life.space.transaction(note={"mark": mark}) as tx:
            for id_ in (*COUNTERS, *TALLIES, *ACCOUNTS):
                tx.set(id_, {"n": 0})
            for id_ in LISTS:
                tx.set(id_, {"items": []})
            life.begin(tx, mark)
        await tx.confirmed()
        await self.apps[0].close(wait_seconds=1)

    # ------------------------------------------------------------ the lives of an app

    async def _live(self, app: App) -> None:
        """One life after the other, until the time is over; the last one stays."""
        random = stream(self.world.seed, "lives", app.name)
        loop = asyncio.get_running_loop()
        while True:
            life = await app.start()
            for number in range(2):
                chance = stream(self.world.seed, "work", app.name, app.lives, number)
                life.spawn(Worker(life, chance, self.states, pace=self.plan.pace).work(self._until))
            if app.disk is not None:
                life.spawn(self._hamper(app.disk, random))
            rest = min(self._until - loop.time(), random.expovariate(1 / self.plan.crash_every))
            await asyncio.sleep(max(0, rest))
            life.check_tasks()
            if loop.time() >= self._until:
                return
            self._count(life)
            if random.random() < 0.7:
                await app.crash()
            else:
                await app.close(wait_seconds=random.choice((0.0, 0.5, 3.0)))
            await asyncio.sleep(random.expovariate(1))

    async def _hamper(self, disk: KeptInMemory, random: Random) -> None:
        """A disk that is slow from time to time."""
        try:
            while asyncio.get_running_loop().time() < self._until:
                await asyncio.sleep(random.expovariate(1))
                disk.hold()
                await asyncio.sleep(random.expovariate(5))
                disk.release(random.randint(0, 2))
                await asyncio.sleep(random.expovariate(5))
                disk.release()
        finally:
            disk.release()

    async def _restore(self) -> None:
        """The server goes back to what it was a while ago."""
        world, random = self.world, stream(self.world.seed, "restores")
        seconds = self.plan.seconds / (3 * self.plan.restores + 1)
        for _ in range(self.plan.restores):
            await asyncio.sleep(random.uniform(0, 2 * seconds))
            backup = world.backup()
            await asyncio.sleep(random.uniform(0, seconds))
            await world.stop()
            before = world.backup()
            await world.restore(backup)
            self.states.restored(before)
            await world.start()

    def _count(self, life: Life | None) -> None:
        for follower in () if life is None else life.followers:
            self.changes += follower.changes
            self.checked += follower.checked

    # ------------------------------------------------------------ the end

    async def _come_together(self) -> None:
        async with asyncio.timeout(PEACE_SECONDS):
            for app in self.apps:
                assert app.life is not None
                await app.life.space.connected()
                await self._idle(app.life)
            while not all(one.is_right() for app in self.apps if app.life for one in app.life.followers):
                await asyncio.sleep(0.5)

    async def _idle(self, life: Life) -> None:
        """The workers are done, and all is decided; the followers go on."""
        while len([task for task in life.tasks if not task.done()]) > len(life.followers):
            await asyncio.sleep(0.5)
        life.check_tasks()
        await life.space.settled()

    async def _check(self) -> None:
        for app in self.apps:
            assert app.life is not None
            app.life.look()
            wrong = {follower: follower.end() for follower in app.life.followers if not follower.is_right()}
            assert not wrong, f"{app.name} was told {wrong}"
            await self._check_reads(app.life)
        check_decided(self.ledger, self.states)
        check_sums(self.ledger, self.states)
        check_chain(self.world, self.space)

    async def _check_reads(self, life: Life) -> None:
        """Each client reads what the server has, on every branch."""
        for branch in branches_of(self.world, self.space):
            space = await life.space.branch(branch)
            found, state = (await space.query("urn:*")).entities, self.states.head(branch)
            assert found == state, f"{life.app.name} finds on {branch}: {differences(found, state)}"
        main = self.states.head("main")
        for id_ in DOCS:
            assert await life.space.get(id_) == main.get(EntityId(id_)), f"{life.app.name} reads {id_}"


def run(seed: int, seconds: float = 15.0) -> Report:
    """One seed: raises `AssertionError` at the first violation."""
    plan = planned(seed, seconds)
    world = World(seed, disk_seconds=plan.disk_seconds)
    return world.run(lambda world: Machine(world, plan).run())
