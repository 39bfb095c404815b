"""Nodes that claim and serve spaces of a model of PostgreSQL, on virtual time, while everything fails.

The rules of the server run in it: `Lease`, `judged` and `why_not_moved`. What stands around them here (who waits for
what, and which message is lost) is as in the server, without threads and sockets. The same seed does the same again.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine
from contextlib import suppress
from functools import partial
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar

from nodes_database import LogEntry, Lost, ModelDatabase, NotDone, hash_after, in_order
from stemmadb.client.testing.virtual_loop import run
from stemmadb.protocol.model.values.ids import Hash, TimeMs, Version
from stemmadb.server.storage.postgres.append_statement import Move
from stemmadb.server.storage.postgres.appender import BUSY_SECONDS, BUSY_SECONDS_MAX
from stemmadb.server.storage.postgres.claim_rules import RowHeld, judged, why_not_moved
from stemmadb.server.storage.postgres.claims import LOOKS_MAX
from stemmadb.server.storage.postgres.lease import Lease

T = TypeVar("T")

Statement: TypeAlias = Coroutine[Any, Any, object]
LEASE_MS: Final = 3_000
SPACES: Final = 3
KEYS: Final = 3
CLIENTS: Final = 6
COMMITS: Final = 30
FAULTS: Final = ("pause", "cut", "kill", "restart", "promotion", "slow standby", "cancelled wait", "lock")
READ_SECONDS: Final = 0.15
FAULT_SECONDS: Final = 60.0
PATIENCE_SECONDS: Final = 300.0


class Commit(NamedTuple):
    session: int
    local: int
    space: int
    key: str
    expected: int | None
    """The version at which the key must have been written last; None: any."""


class Verdict(NamedTuple):
    local: int
    version: int | None
    """None if it was rejected."""


class Report(NamedTuple):
    operations: int
    faults: dict[str, int]


class Violation(AssertionError):
    """A promise was broken."""


class Killed(Exception):
    """The process of this node is gone."""


class Hub:
    """A space that is served."""

    def __init__(self, node: SimulatedNode, number: int, space: int, term: int, log: tuple[LogEntry, ...]) -> None:
        self.node, self.number, self.space, self.term = node, number, space, term
        self.log = list(log)
        self.turn = asyncio.Lock()
        self.has_ended = False
        self.connections: dict[int, Connection] = {}
        """The newest of each session: the one before it was taken over."""

    def known(self, session: int, local: int) -> int | None:
        """The version of a commit that was accepted."""
        found = [n for n, one in enumerate(self.log, 1) if (one.session, one.local) == (session, local)]
        return found[0] if found else None

    def written(self, key: str) -> int:
        return max((n for n, one in enumerate(self.log, 1) if one.key == key), default=0)

    @property
    def hash(self) -> Hash:
        return self.log[-1].hash if self.log else Hash(bytes(32))


class Connection:
    """Of a client, to the hub at which it was opened."""

    def __init__(self, hub: Hub, session: int) -> None:
        self.hub, self.session = hub, session
        self.answers: asyncio.Queue[Verdict | int] = asyncio.Queue()
        hub.connections[session] = self

    @property
    def is_served(self) -> bool:
        return not self.hub.has_ended and self.hub.connections.get(self.session) is self


class World:
    def __init__(self, seed: int, nodes: int) -> None:
        self.chance = random.Random(seed)
        self.database = ModelDatabase(self.chance, SPACES)
        self.faults: dict[str, int] = {}
        self.is_faulty = True
        self.nodes = {f"node-{n}": SimulatedNode(self, f"node-{n}") for n in range(nodes)}
        self.acknowledged: dict[tuple[int, int], tuple[int, int]] = {}
        """The space and version of each accepted commit, by session and local."""
        self.rejected: set[tuple[int, int]] = set()
        self.heads = [0] * SPACES
        """The highest version of each space that somebody was told of."""
        self.tasks: set[asyncio.Task[Any]] = set()

    def begin(self, work: Coroutine[Any, Any, object]) -> None:
        """What it fails with fails the run."""
        self._kept(asyncio.get_running_loop().create_task(_until_killed(work)))

    async def apart(self, work: Coroutine[Any, Any, T]) -> T:
        """Waits for work that goes on even if its caller stops waiting."""
        task = self._kept(asyncio.get_running_loop().create_task(work))
        task.add_done_callback(lambda done: done.cancelled() or done.exception())
        return await asyncio.shield(task)

    def _kept(self, task: asyncio.Task[T]) -> asyncio.Task[T]:
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)
        return task

    def count(self, fault: str) -> None:
        self.faults[fault] = self.faults.get(fault, 0) + 1

    def happens(self, probability: float) -> bool:
        return self.is_faulty and self.chance.random() < probability

    def told(self, connection: Connection, answer: Verdict | int) -> None:
        """Somebody is told of a state: nobody else may have shown a newer one."""
        hub = connection.hub
        newest = self.heads[hub.space]
        if isinstance(answer, int) and answer < newest:
            raise Violation(f"{hub.node.address} tells of version {answer}, and {newest} was told before")
        tip = self.database.tips[hub.space]
        if tip.owner != hub.number and len(tip.log) > len(hub.log):
            raise Violation(f"{hub.node.address} tells of a space that {tip.owner} has written meanwhile")
        self.heads[hub.space] = max(newest, answer if isinstance(answer, int) else answer.version or 0)
        connection.answers.put_nowait(answer)


class SimulatedNode:
    """One process. While it is paused nothing in it goes on, and its clock does."""

    def __init__(self, world: World, address: str) -> None:
        self.world, self.address = world, address
        self.chance = world.chance
        self.clock_offset = world.chance.uniform(0, 1e6)
        self.lease = Lease(LEASE_MS)
        self.hubs: dict[int, Hub] = {}
        self.losses = 0
        self.paused_until = 0.0
        self.cut_until = 0.0
        self.is_killed = False
        self._opening = {space: asyncio.Lock() for space in range(SPACES)}
        self._wanted = asyncio.Event()

    def now(self) -> float:
        return asyncio.get_running_loop().time() + self.clock_offset

    async def awake(self) -> None:
        loop = asyncio.get_running_loop()
        while (left := self.paused_until - loop.time()) > 0:
            await asyncio.sleep(left)
        if self.is_killed:
            raise Killed

    # ------------------------------------------------------------ the database

    async def ask(self, work: Callable[[], Coroutine[Any, Any, T]], *, is_heartbeat: bool = False) -> T:
        """One statement. The answer, or the statement itself, may be late, or never come."""
        world, database = self.world, self.world.database
        loop, epoch = asyncio.get_running_loop(), database.epoch
        late = self.chance.uniform(0.5, LEASE_MS / 500) if world.happens(0.05 if is_heartbeat else 0.01) else 0.0
        await asyncio.sleep(self.chance.uniform(0.0001, 0.003))
        if not database.is_up or database.epoch != epoch or loop.time() < self.cut_until or world.happens(0.005):
            await self.awake()
            raise Lost
        if not is_heartbeat and database.mark != self.lease.mark:
            self._wanted.set()
            await self.awake()
            raise Lost  # it leads to another server than the heartbeat
        if late and not is_heartbeat and self.chance.random() < 0.5:
            world.count("late statement")
            self.world.begin(_later(late, database, epoch, work))
            await self.awake()
            raise Lost  # the connection is cut, and the statement arrives all the same
        result = await world.apart(work())
        if late:
            world.count("late answer")
            await asyncio.sleep(late)
        await self.awake()
        if database.epoch != epoch or loop.time() < self.cut_until or world.happens(0.005):
            raise Lost
        return result

    # ------------------------------------------------------------ the life of the node

    async def live(self) -> None:
        while not await self._begun():
            await asyncio.sleep(0.1)
        self.world.begin(self._expire())
        while True:
            try:
                async with asyncio.timeout(LEASE_MS / 6_000):
                    await self._wanted.wait()
            except TimeoutError:
                pass
            self._wanted.clear()
            await self.awake()
            await self._renew()

    async def _begun(self) -> bool:
        number, sent = self.chance.getrandbits(63), self.now()
        try:
            mark = await self.ask(
                lambda: self.world.database.insert(number, self.address, LEASE_MS / 1_000), is_heartbeat=True
            )
        except (Lost, NotDone):
            return False
        self.lease.began(number, mark, sent, self.now())
        return True

    async def _renew(self) -> None:
        sent, number = self.now(), self.lease.number
        try:
            mark = await self.ask(lambda: self.world.database.renew(number, LEASE_MS / 1_000), is_heartbeat=True)
        except (Lost, NotDone):
            return
        if mark is None:
            self.lease.ended()
            if await self._begun():
                self._begins_anew()
        elif self.lease.renewed(mark, sent, self.now()):
            self._begins_anew()

    def _begins_anew(self) -> None:
        self.losses += 1
        for hub in tuple(self.hubs.values()):
            self.end(hub)
        self.lease.begins_anew()

    async def _expire(self) -> None:
        while True:
            await asyncio.sleep(LEASE_MS / 15_000)
            await self.awake()
            if self.lease.may_expire_others(self.now()):
                try:
                    await self.ask(self.world.database.expire)
                except (Lost, NotDone):
                    continue

    def end(self, hub: Hub) -> None:
        hub.has_ended = True
        if self.hubs.get(hub.space) is hub:
            del self.hubs[hub.space]

    # ------------------------------------------------------------ serving

    async def open(self, session: int, space: int, *, is_passed: bool = False) -> Connection | None:
        """A connection of a client, here or at the owner; None is a 503."""
        await self.awake()
        hub = self.hubs.get(space) if self.lease.is_alive(self.now()) else None
        if hub is None or hub.number != self.lease.number:
            async with self._opening[space]:
                found = await self._claimed(space)
            if found is None or (isinstance(found, str) and is_passed):
                return None
            if isinstance(found, str):
                owner = self.world.nodes[found]
                return await owner.open(session, space, is_passed=True)
            hub = found
        return Connection(hub, session)

    async def _claimed(self, space: int) -> Hub | str | None:
        """Looks and claims, as two statements: the address of another owner, or the space with its log."""
        database, losses = self.world.database, self.losses
        if (hub := self.hubs.get(space)) is not None:
            return hub
        if not self.lease.is_alive(self.now()):
            return None
        number = self.lease.number
        try:
            for _ in range(LOOKS_MAX):
                found = judged(await self.ask(lambda: database.look([space])), number)
                if space in found.elsewhere:
                    return found.elsewhere[space]
                free = found.free
                claimed = await self.ask(lambda: database.claim(number, free))  # noqa: B023
                if space in claimed:
                    tip = await self.ask(lambda: database.tip(space))
                    if losses != self.losses or (tip.owner, tip.term) != (number, claimed[space].term):
                        return None
                    hub = self.hubs[space] = Hub(self, number, space, tip.term, tip.log)
                    return hub
        except (Lost, NotDone):
            return None
        return None

    async def received(self, connection: Connection, message: Commit | None) -> None:
        """A commit, or a question for the version."""
        await self.awake()
        hub = connection.hub
        async with hub.turn:
            if not connection.is_served:
                return
            answer = len(hub.log) if message is None else await self._decided(hub, message)
            if answer is not None:
                await self._say(connection, answer)

    async def _decided(self, hub: Hub, commit: Commit) -> Verdict | None:
        """None: undecided; the hub ends and says nothing."""
        version = hub.known(commit.session, commit.local)
        if version is not None:
            return Verdict(commit.local, version)
        if commit.expected is not None and hub.written(commit.key) != commit.expected:
            return Verdict(commit.local, None)
        entry = LogEntry(commit.session, commit.local, commit.key, hash_after(hub.hash, commit.session, commit.local))
        if not await self._appended(hub, entry):
            self.end(hub)
            return None
        hub.log.append(entry)
        return Verdict(commit.local, len(hub.log))

    async def _appended(self, hub: Hub, entry: LogEntry) -> bool:
        database, since = self.world.database, self.now()
        expected = Version(len(hub.log))
        move = Move(hub.space, hub.number, hub.term, hub.hash, expected, entry.hash, Version(expected + 1), TimeMs(0))
        while True:
            try:
                if await self.ask(lambda: database.append(move, entry)):
                    return True
                tip = await self.ask(lambda: database.tip(hub.space))
            except (Lost, NotDone):
                return False
            why = why_not_moved(move, tip.owner, tip.term, Version(len(tip.log)), tip.hash)
            if not isinstance(why, RowHeld) or self.now() - since > BUSY_SECONDS_MAX:
                return False
            await asyncio.sleep(self.chance.uniform(*BUSY_SECONDS))
            await self.awake()

    async def _say(self, connection: Connection, answer: Verdict | int) -> None:
        """Held back while the node does not know whether it is alive; dropped if the hub has ended."""
        while connection.is_served:
            if self.lease.is_alive(self.now()):
                self.world.told(connection, answer)
                return
            await asyncio.sleep(LEASE_MS / 30_000)
            await self.awake()


async def _until_killed(work: Coroutine[Any, Any, object]) -> None:
    with suppress(Killed):
        await work


async def _later(
    seconds: float, database: ModelDatabase, epoch: int, work: Callable[[], Coroutine[Any, Any, object]]
) -> None:
    await asyncio.sleep(seconds)
    if database.is_up and database.epoch == epoch:
        try:
            await work()
        except (Lost, NotDone):
            return


# ------------------------------------------------------------ clients


class SimulatedClient:
    """One session that commits one after the other, sends again what has no verdict, and reads."""

    def __init__(self, world: World, session: int) -> None:
        self.world, self.session = world, session
        self.chance = world.chance
        self._seen = dict.fromkeys([f"key-{n}" for n in range(KEYS)], 0)
        self.done = 0

    async def run(self) -> None:
        for local in range(1, COMMITS + 1):
            space, key = self.session % SPACES, f"key-{self.chance.randrange(KEYS)}"
            expected = self._seen[key] if self.chance.random() < 0.5 else None
            commit = Commit(self.session, local, space, key, expected)
            while not await self._tried(commit):
                await asyncio.sleep(self.chance.uniform(0.01, 0.2))
            self.done += 1
            await asyncio.sleep(self.chance.uniform(0, 4.0))

    async def _tried(self, commit: Commit) -> bool:
        """Over one connection: whether it was decided."""
        world = self.world
        node = self.chance.choice(sorted(world.nodes))
        try:
            async with asyncio.timeout(1.0):
                connection = await world.apart(world.nodes[node].open(self.session, commit.space))
        except (TimeoutError, Killed):
            return False
        if connection is None:
            return False
        known = world.heads[commit.space]
        if self.chance.random() < 0.3:
            version = await self._answer(connection, None)
            if version is not None:
                assert isinstance(version, int)
                if version < known:
                    raise Violation(f"a read shows version {version}, and {known} was told before it began")
        verdict = await self._answer(connection, commit)
        if verdict is None:
            return False
        assert isinstance(verdict, Verdict)
        self._learn(commit, verdict)
        return True

    async def _answer(self, connection: Connection, message: Commit | None) -> Verdict | int | None:
        """Sends it once or twice, at once or late; None if no answer comes in time: the connection is given up."""
        for _ in range(2 if self.world.happens(0.1) else 1):
            self.world.begin(self._sent(connection, message))
        try:
            async with asyncio.timeout(self.chance.choice([0.2, 1.0, 4.0])):
                while True:
                    answer = await connection.answers.get()
                    if isinstance(answer, int) == (message is None) and (
                        isinstance(answer, int) or (message is not None and answer.local == message.local)
                    ):
                        return answer
        except TimeoutError:
            return None

    async def _sent(self, connection: Connection, message: Commit | None) -> None:
        await asyncio.sleep(self.chance.uniform(0, 3.0 if self.world.happens(0.05) else 0.002))
        await connection.hub.node.received(connection, message)

    def _learn(self, commit: Commit, verdict: Verdict) -> None:
        identity = (commit.session, commit.local)
        if verdict.version is None:
            self.world.rejected.add(identity)
            log = self.world.database.tips[commit.space].log
            self._seen[commit.key] = max((n for n, one in enumerate(log, 1) if one.key == commit.key), default=0)
        else:
            self.world.acknowledged[identity] = (commit.space, verdict.version)
            self._seen[commit.key] = verdict.version


class SimulatedWatcher:
    """Reads for ever, over one connection for as long as there are answers."""

    def __init__(self, world: World, session: int) -> None:
        self.world, self.session = world, session

    async def run(self) -> None:
        world, space = self.world, self.session % SPACES
        while True:
            node = world.chance.choice(sorted(world.nodes))
            connection = None
            with suppress(Killed):
                connection = await world.apart(world.nodes[node].open(self.session, space))
            while connection is not None and connection.is_served:
                await asyncio.sleep(READ_SECONDS)
                known = world.heads[space]
                world.begin(connection.hub.node.received(connection, None))
                try:
                    async with asyncio.timeout(LEASE_MS / 1_000):
                        version = await connection.answers.get()
                except TimeoutError:
                    break  # what comes now would answer an earlier question
                if isinstance(version, int) and version < known:
                    raise Violation(f"a watcher is told of {version}, and {known} was told before it asked")
            await asyncio.sleep(READ_SECONDS)


# ------------------------------------------------------------ faults and checks


async def _fail(world: World) -> None:
    """Until the time of faults is over; then everything works again."""
    chance, database, loop = world.chance, world.database, asyncio.get_running_loop()
    while loop.time() < FAULT_SECONDS:
        await asyncio.sleep(chance.uniform(0.2, 4.0))
        node = world.nodes[chance.choice(sorted(world.nodes))]
        fault = chance.choice(FAULTS)
        world.count(fault)
        if fault == "pause":
            node.paused_until = loop.time() + chance.uniform(0.1, 3 * LEASE_MS / 1_000)
        elif fault == "cut":
            node.cut_until = loop.time() + chance.uniform(0.1, 3 * LEASE_MS / 1_000)
        elif fault == "kill":
            _replace(world, node)
        elif fault in ("restart", "promotion"):
            if chance.random() < 0.5:  # one of the nodes sees nothing of it at first
                node.cut_until = loop.time() + chance.uniform(0.5, LEASE_MS / 1_000)
            database.kill(is_promoted=fault == "promotion")
            await asyncio.sleep(chance.choice([0.01, 0.2, chance.uniform(0.2, 5.0)]))
            database.start()
        elif fault == "slow standby":
            database.standby_seconds = chance.uniform(0.1, 2.0)
            await asyncio.sleep(chance.uniform(0.1, 4.0))
            database.standby_seconds = 0.002
        elif fault == "cancelled wait":
            database.standby_seconds = 1.0
            await asyncio.sleep(0.5)
            database.cancel_waits()
            database.standby_seconds = 0.002
        else:
            space = chance.randrange(SPACES)
            database.hold(space, is_held=True)
            await asyncio.sleep(chance.uniform(0.05, 4.0))
            database.hold(space, is_held=False)
    world.is_faulty = False


def _replace(world: World, node: SimulatedNode) -> None:
    """It is killed and started again, at the same address."""
    node.is_killed = True
    for hub in tuple(node.hubs.values()):
        node.end(hub)
    again = world.nodes[node.address] = SimulatedNode(world, node.address)
    world.begin(again.live())


def _check(world: World) -> None:
    logs = {space: tip.log for space, tip in world.database.tips.items()}
    identities = [(one.session, one.local) for log in logs.values() for one in log]
    if len(identities) != len(set(identities)):
        raise Violation("a commit is in the log twice")
    for (session, local), (space, version) in world.acknowledged.items():
        entry = logs[space][version - 1] if version <= len(logs[space]) else None
        if entry is None or (entry.session, entry.local) != (session, local):
            raise Violation(
                f"commit {local} of {session} was acknowledged at {version} of {space}, which has {entry}"
            )
    if both := world.rejected & set(identities):
        raise Violation(f"answered `rejected`, and in the log: {both}")
    if not all(in_order(log) for log in logs.values()):
        raise Violation("a hash does not follow from the one before it")


async def _run(seed: int) -> Report:
    world = World(seed, nodes=2 + seed % 2)
    for node in tuple(world.nodes.values()):
        world.begin(node.live())
    failing = asyncio.create_task(_fail(world))
    clients = [SimulatedClient(world, session) for session in range(CLIENTS)]
    running = [asyncio.create_task(client.run()) for client in clients]
    for session in range(CLIENTS, CLIENTS + SPACES):
        world.begin(SimulatedWatcher(world, session).run())
    try:
        done, _ = await asyncio.wait([*running, failing], timeout=PATIENCE_SECONDS)
        for task in done:
            task.result()
        if not all(task.done() for task in running):
            raise Violation(f"after {PATIENCE_SECONDS:g} seconds commits are undecided")
    finally:
        left = (*running, failing, *world.tasks)
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)
    _check(world)
    return Report(len(world.acknowledged) + len(world.rejected), world.faults)


def simulate_nodes(seed: int) -> Report:
    """Raises if a promise is broken."""
    return run(partial(_run, seed), seed=seed)
