"""A world: a server in this process, a network to it, clients, and one seed that drives all of it."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Coroutine, Iterable
from types import TracebackType
from typing import Any, TypeAlias, TypeVar

from stemmadb.client.database import Database, MakeJournal, connect
from stemmadb.client.keys.identity import Identity
from stemmadb.client.session.settings import DEFAULT_SETTINGS, ClientSettings
from stemmadb.client.testing import founding, outages, seeds, virtual_loop
from stemmadb.client.testing.app import App, AppDisk
from stemmadb.client.testing.chaos import Chaos
from stemmadb.client.testing.clock import Clock
from stemmadb.client.testing.internal_errors import InternalErrors
from stemmadb.client.testing.line import URL
from stemmadb.client.testing.lives import Lives
from stemmadb.client.testing.names import SharedKeys, SharedNames
from stemmadb.client.testing.network import FAULTS, JITTER_SECONDS, LATENCY_SECONDS, FaultName, Network
from stemmadb.client.testing.process import ServerProcess
from stemmadb.client.testing.storage import Backup, KitStorage, SyncFailed
from stemmadb.client.testing.trace import EventTrace
from stemmadb.client.testing.truth import Truth
from stemmadb.protocol.model.access.access_roles import Role
from stemmadb.protocol.model.values.ids import Did
from stemmadb.protocol.model.values.limits import DEFAULTS, Limits
from stemmadb.protocol.wire.channel import Dial
from stemmadb.protocol.wire.version import MSGPACK, Subprotocol
from stemmadb.server.engine.base.settings import Settings
from stemmadb.server.service.base.settings import ServiceSettings
from stemmadb.server.storage.port import StorageFailed

T = TypeVar("T")
JournalOf: TypeAlias = str | os.PathLike[str] | MakeJournal


class World:
    """Use it as `World(seed=7).run(scenario)` in virtual time, or with `async with World() as world` on any loop.

    What is durable stays in the world; a second run goes on with it. A run fails if the server had an internal error.
    """

    def __init__(
        self,
        seed: int = 0,
        *,
        limits: Limits = DEFAULTS,
        settings: ServiceSettings | None = None,
        engine: Settings | None = None,
        latency: float = LATENCY_SECONDS,
        jitter: float = JITTER_SECONDS,
        disk_seconds: float = 0.0,
    ) -> None:
        self.seed = seed
        self.clock = Clock()
        self.trace = EventTrace()
        self.names = SharedNames()
        self.keys = SharedKeys()
        self.server = Identity.from_seed(seeds.secret(seed, "server"))
        self.limits = limits
        self._settings = settings or ServiceSettings()
        self._engine = engine or Settings()
        self._disk_seconds = disk_seconds
        self._lives = Lives(self._make, limits, self.trace)
        self.network = Network(self._lives, seed=seed, trace=self.trace, latency=latency, jitter=jitter)
        self._internal_errors = InternalErrors()
        self._randoms: dict[str, Callable[[int], bytes]] = {}

    def _make(self, storage: KitStorage, life: int) -> ServerProcess:
        return ServerProcess(
            storage,
            server=self.server.did,
            now=self.clock,
            random=seeds.stream(self.seed, "life", life),
            limits=self.limits,
            settings=self._settings,
            engine=self._engine,
            disk_seconds=self._disk_seconds,
        )

    # ------------------------------------------------------------ running

    def run(
        self, scenario: Callable[[World], Coroutine[Any, Any, T]], *, patience: float = virtual_loop.PATIENCE_SECONDS
    ) -> T:
        """Runs the scenario in virtual time, on a server that is started for it and stopped after it.

        `Deadlock` if it does not come to an end within `patience` virtual seconds, or can never.
        """

        async def main() -> T:
            async with self:
                return await scenario(self)

        return virtual_loop.run(main, seed=self.seed, patience=patience)

    async def __aenter__(self) -> World:
        loop = asyncio.get_running_loop()
        self.clock.attach(loop)
        started = loop.time()
        self.trace.attach(lambda: loop.time() - started)
        self._internal_errors.attach()
        self._lives.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.network.calm()
        self._lives.points.clear()
        await self._lives.stop()
        await self._lives.put_away()
        self.network.forget()
        self.clock.detach()
        self._internal_errors.detach()
        if error is None:
            self._internal_errors.check()

    # ------------------------------------------------------------ who is there

    def identity(self, name: str) -> Identity:
        """Of the client of this name, the same in every run with the same seed."""
        return Identity.from_seed(seeds.secret(self.seed, "client", name))

    def random(self, name: str) -> Callable[[int], bytes]:
        """The chance of the client of this name."""
        if name not in self._randoms:
            self._randoms[name] = seeds.randoms(self.seed, "client", name)
        return self._randoms[name]

    def dial(self, name: str = "alice", subprotocol: Subprotocol = MSGPACK) -> Dial:
        """Makes connections for the client of this name: `world.network[name]` is its line."""
        return self.network.dial(name, subprotocol)

    def connect(
        self,
        name: str = "alice",
        *,
        journal: JournalOf | None = None,
        cache: bool = False,
        delegations: Iterable[str | bytes] = (),
        settings: ClientSettings = DEFAULT_SETTINGS,
        dial: Dial | None = None,
    ) -> Database:
        """The real client, as this name, on this world's network, with its time and its chance.

        `journal` is an `AppDisk` for an app that goes on where it stopped. A directory works too, but the real disk
        does not keep to virtual time, and such a run is not repeatable.
        """
        return connect(
            URL,
            journal=journal,
            cache=cache,
            identity=self.identity(name),
            delegations=delegations,
            settings=settings,
            dial=dial or self.dial(name),
            names=self.names,
            keys=self.keys,
            random=self.random(name),
            now=self.clock,
        )

    def app(
        self,
        name: str = "alice",
        *,
        disk: AppDisk | None = None,
        cache: bool = False,
        delegations: Iterable[str | bytes] = (),
        settings: ClientSettings = DEFAULT_SETTINGS,
    ) -> App:
        """The same as an app that can be killed: `async with world.app("alice", disk=disk) as app: app.db...`."""

        def made(dial: Dial) -> Database:
            return self.connect(
                name, journal=disk, cache=cache, delegations=delegations, settings=settings, dial=dial
            )

        return App(self.network[name], disk, made)

    async def make_space(self, name: str = "todo", **roles: Role) -> Did:
        """A space that all clients know by this name; without roles alice owns it, bob writes and carol reads."""
        assert self._lives.process is not None, "a space is made on a server that runs"
        given = roles or founding.USUAL
        listed = {self.identity(who).did: role for who, role in given.items()}
        did = await founding.found(self._lives.process.store, seeds.secret(self.seed, "space", name), listed)
        return self.names.remember(URL, self.server.did, name, did)

    # ------------------------------------------------------------ the server

    @property
    def process(self) -> ServerProcess | None:
        """The server's life of now; None while it is down."""
        return self._lives.process

    @property
    def lives(self) -> int:
        """How often it was started so far."""
        return self._lives.count

    @property
    def crashes(self) -> int:
        """So far."""
        return self._lives.crashes

    @property
    def truth(self) -> Truth:
        """What is durable now."""
        return Truth(self._lives.storage)

    async def start(self) -> None:
        """Starts the server on what is durable."""
        self._lives.start()

    async def stop(self) -> None:
        """Stops it as SIGTERM does: what was taken is decided and told, and everybody is asked to come again."""
        await self._lives.stop()

    def crash(self, *, silent: bool = False, down: float | None = None) -> None:
        """Kill -9, now: what was appended stays, all else is gone. Clients see their connections end, unless silent:
        then the machine died with it, and nothing says so. With `down` it starts again after so many seconds."""
        self._lives.crash(silent=silent, down=down)

    def crash_before_append(self, number: int = 1, *, down: float | None = None) -> None:
        """It dies right before the append of that number from now on: what it decided never happened."""
        self._lives.at_points(down=down).crash_before(number)

    def crash_after_append(self, number: int = 1, *, down: float | None = None) -> None:
        """It dies right after the append of that number from now on: durable, and nobody was told (COMMIT-10)."""
        self._lives.at_points(down=down).crash_after(number)

    async def crashed(self) -> None:
        """Waits for the next crash."""
        await self._lives.crashed()

    def fail_append(
        self, error: type[StorageFailed] = StorageFailed, times: int = 1, *, written: bool = False
    ) -> None:
        """The next appends fail, before anything is written, or after it is all `written`: commits are deferred."""
        self._lives.points.fail(error, times, written=written)

    def lose_sync(self) -> None:
        """The next append fails, and is there after a crash all the same, unless another append came before it."""
        self._lives.points.fail(SyncFailed, 1, written=True)

    def on_append(self, callback: Callable[[], object]) -> None:
        """Calls it after each append: what is in `truth` then is durable, and nobody was told of it yet."""
        self._lives.points.callbacks.append(callback)

    def backup(self) -> Backup:
        """What is durable now."""
        return self._lives.backup()

    async def restore(self, backup: Backup) -> None:
        """The server goes on with what the backup held: what came after it is lost (RESUME-4)."""
        await self._lives.restore(backup)

    # ------------------------------------------------------------ chaos

    def chaos(
        self,
        *,
        every: float = 1.0,
        longest: float = 5.0,
        faults: tuple[FaultName, ...] = FAULTS,
        server: bool = True,
        clock: bool = True,
    ) -> Chaos:
        """Faults of the network, and of the server and its clock, at random moments until it is calm."""
        chosen = self.network.faults(longest, faults)
        chosen |= outages.of_server(self, longest) if server else {}
        chosen |= outages.of_clock(self) if clock else {}
        return self.network.chaos_of(chosen, every=every)

    def calm(self) -> None:
        """Ends the chaos, takes every fault back, and starts the server if it is down."""
        self.network.calm()
        self._lives.points.clear()
        self._lives.start()
