"""Apps in a world of the test kit: the real client in virtual time, which can be killed and started again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, Final, TypeAlias

from stemmadb.client import connect
from stemmadb.client.core import SpaceCore
from stemmadb.client.database import Database
from stemmadb.client.journal.memory import MemoryJournal, SimulatedJournal
from stemmadb.client.journal.port import Done, Journal, JournalState, JournalStep
from stemmadb.client.keys.identity import Identity
from stemmadb.client.session.settings import DEFAULT_SETTINGS, ClientSettings
from stemmadb.client.space import Space
from stemmadb.client.testing import ClientLine, World
from stemmadb.client.testing.line import URL
from stemmadb.client.transactions import Transaction
from stemmadb.protocol.errors import StemmaError
from stemmadb.protocol.model.log.commit_record import Commit, LocalIdentity
from stemmadb.protocol.model.values.ids import Did, EntityId
from stemmadb.protocol.model.values.json_values import Value
from stemmadb.protocol.wire.channel import Dial

WrapDial: TypeAlias = Callable[[Dial], Dial]
Scenario: TypeAlias = Callable[["Stage"], Coroutine[Any, Any, None]]
PATIENCE_SECONDS: Final = 2 * 3600.0
"""Virtual seconds after which a scenario is stuck."""


class NoKeys:
    """Nobody makes spaces here."""

    def space_key(self, space: Did) -> Identity | None:  # noqa: ARG002
        return None

    def keep_space_key(self, key: Identity) -> None:  # noqa: ARG002
        raise AssertionError("no space is made by its name")


class OneLife:
    """A journal as one life of an app has it: after a kill nothing more is written, and nobody is told."""

    keeps = True
    is_cache_full = False

    def __init__(self, disk: SimulatedJournal) -> None:
        self._disk = disk
        self.is_over = False

    def load(self) -> JournalState:
        return self._disk.load()

    def write(self, step: JournalStep, done: Done) -> None:
        if not self.is_over:
            self._disk.write(step, lambda error: None if self.is_over else done(error))

    async def close(self) -> None:
        await self._disk.close()


class App:
    """A client of one space. `disk` is what survives it; without one it has no journal."""

    def __init__(
        self,
        stage: Stage,
        name: str,
        *,
        disk: SimulatedJournal | None,
        line: str | None,
        settings: ClientSettings,
        wrap: WrapDial,
        cache: bool = False,
    ) -> None:
        self.stage, self.name, self.settings, self.cache = stage, name, settings, cache
        self._line = line or name
        self._kept_on = disk
        self._wrap = wrap
        self.space: Space
        self._life: OneLife | None = None
        self.database: Database
        self.delegations: tuple[str, ...] = ()

    @property
    def line(self) -> ClientLine:
        return self.stage.world.network[self._line]

    @property
    def disk(self) -> SimulatedJournal:
        assert self._kept_on is not None, "it has a journal"
        return self._kept_on

    @property
    def core(self) -> SpaceCore:
        return self.space._core

    async def start(self) -> App:
        world = self.stage.world
        self.database = connect(
            URL,
            dial=self._wrap(world.dial(self._line)),
            identity=world.identity(self.name),
            names=world.names,
            keys=NoKeys(),
            random=world.random(self._line),
            now=world.clock,
            settings=self.settings,
            journal=self._journal,
            cache=self.cache,
            delegations=self.delegations,
        )
        self.space = await self.database.space(self.stage.did)
        return self

    def _journal(self, _space: Did, _principal: Did) -> Journal:
        if self._kept_on is None:
            return MemoryJournal()
        self._life = OneLife(self._kept_on)
        return self._life

    async def kill(self) -> None:
        """Kill -9: its sockets are closed by the system, and what was not on its disk is gone."""
        if self._life is not None:
            self._life.is_over = True
            self.disk.crash()
        self.core._task.cancel()
        await asyncio.gather(self.core._task, return_exceptions=True)

    async def restart(self) -> App:
        """Killed, and started again on the same disk."""
        await self.kill()
        return await self.start()

    async def close(self) -> None:
        await self.database.close(wait_seconds=0)

    # ------------------------------------------------------------ what tests do all the time

    async def set(self, id_: str, value: object, *, blind: bool = False) -> Transaction:
        async with self.space.transaction() as tx:
            tx.set(id_, value, blind=blind)
        return tx

    async def increment(self, id_: str, path: str = "/n") -> Transaction:
        async with self.space.transaction() as tx:
            tx.increment(id_, path)
        return tx

    async def bump(self, id_: str) -> Transaction:
        """Reads a number and writes the next one: the second of two at once conflicts."""
        async with self.space.transaction() as tx:
            found: Any = await tx.get(id_)
            tx.update(id_, found | {"n": found["n"] + 1})
        return tx


class Stage:
    """A world with one space, which alice owns, bob writes and carol reads, and the apps in it."""

    def __init__(self, world: World, did: Did) -> None:
        self.world = world
        self.did = did
        self._apps: list[App] = []

    async def app(
        self,
        name: str = "alice",
        *,
        disk: SimulatedJournal | None = None,
        line: str | None = None,
        settings: ClientSettings = DEFAULT_SETTINGS,
        wrap: WrapDial = lambda dial: dial,
        cache: bool = False,
    ) -> App:
        """An app that is connected, unless its line is down and its disk knows the space."""
        app = App(self, name, disk=disk, line=line, settings=settings, wrap=wrap, cache=cache)
        await app.start()
        self._apps.append(app)
        return app

    async def close(self) -> None:
        for app in self._apps:
            with suppress(StemmaError):  # the test has seen what it wanted to see
                await app.close()

    # ------------------------------------------------------------ what is durable

    def entities(self, prefix: str = "urn:") -> dict[EntityId, Value]:
        return self.world.truth.entities(self.did, prefix)

    def value(self, id_: str) -> Any:
        return self.entities().get(EntityId(id_))

    def commits_of(self, name: str) -> list[Commit]:
        """Fast-path commits of this principal, oldest first. No two have the same name."""
        did = self.world.identity(name).did
        found = [one for one in self.world.truth.commits(self.did) if one.author == did]
        names = [one.identity for one in found if isinstance(one.identity, LocalIdentity)]
        assert len(names) == len(set(names)), "a commit was accepted twice"
        return found


def staged(scenario: Scenario) -> Callable[[], None]:
    """Makes a test of a scenario: it runs in virtual time, on a stage of its own."""
    return staged_in()(scenario)


def staged_in(*, seed: int = 5, **options: Any) -> Callable[[Scenario], Callable[[], None]]:
    """The same in a world with this seed and these options."""

    def decorate(scenario: Scenario) -> Callable[[], None]:
        def test() -> None:
            World(seed=seed, **options).run(with_a_stage, patience=PATIENCE_SECONDS)

        async def with_a_stage(world: World) -> None:
            stage = Stage(world, await world.make_space())
            await scenario(stage)
            await stage.close()

        test.__name__, test.__doc__, test.__module__ = scenario.__name__, scenario.__doc__, scenario.__module__
        return test

    return decorate


async def until(holds: Callable[[], object], *, seconds: float = 600.0, step: float = 0.01) -> float:
    """Looks again and again, in virtual time; gives how many seconds it took."""
    loop = asyncio.get_running_loop()
    began = loop.time()
    while not holds():
        assert loop.time() - began < seconds, "it never came to that"
        await asyncio.sleep(step)
    return loop.time() - began
