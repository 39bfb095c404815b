"""Real spaces for tests: a store on a backend, an access list, a clock and salts that repeat, and easy commits.

async with engine() as it:                      # on memory; engine(SqliteStorage(path)) on files
    version = await it.must(set_("urn:x", {"n": 1}, blind=True))
    assert await it.value("urn:x") == {"n": 1}
"""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from space import ALICE, BOB, SPACE, counting_salts, session_of, set_, structural
from stemmadb.protocol.model.commit.admission import Accepted, Outcome
from stemmadb.protocol.model.commit.proposal import Proposal, prepare_or_refuse
from stemmadb.protocol.model.commit.request import Content, Operation, Read, digest_request
from stemmadb.protocol.model.log.commit_record import Arguments, LocalIdentity
from stemmadb.protocol.model.log.state import Missing
from stemmadb.protocol.model.values.body import encode
from stemmadb.protocol.model.values.ids import MAIN, BranchName, Did, EntityId, Local, TimeMs, Version
from stemmadb.protocol.model.values.limits import DEFAULTS, Limits
from stemmadb.server.engine.base import executors, moments, states
from stemmadb.server.engine.base.executors import Executors
from stemmadb.server.engine.base.moments import ReadMoment
from stemmadb.server.engine.base.settings import Settings
from stemmadb.server.engine.space import OpenSpace
from stemmadb.server.engine.store import Store
from stemmadb.server.storage.memory import MemoryLog, MemoryStorage
from stemmadb.server.storage.port import Destroyed, LogReader, Storage, Worker

T = TypeVar("T")
ACCESS = {SPACE: "own", ALICE: "own", BOB: "write"}


AHEAD = Settings(ahead_min=1)
"""Every batch is decided while the one before it is in flight, however small."""


class Clock:
    """Time as an input: stands still until a test moves it."""

    def __init__(self, now: int = 1_000) -> None:
        self.now = now

    def __call__(self) -> TimeMs:
        return TimeMs(self.now)

    def tick(self, ms: int = 1) -> None:
        self.now += ms


class Held:
    """Workers that run nothing until a test says so, and then on the thread of the loop, one job after the other."""

    def __init__(self) -> None:
        self.is_held = False
        self._jobs: deque[tuple[Callable[[], Any], asyncio.Future[Any]]] = deque()

    def __len__(self) -> int:
        return len(self._jobs)

    def run(self, work: Callable[[], T]) -> Awaitable[T]:
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._jobs.append((work, future))
        if not self.is_held:
            self.step()
        return future

    def step(self, *, newest: bool = False) -> None:
        """Runs the oldest job, or the newest."""
        work, future = self._jobs.pop() if newest else self._jobs.popleft()
        try:
            future.set_result(work())
        except Exception as error:
            future.set_exception(error)

    def release(self) -> None:
        self.is_held = False
        while self._jobs:
            self.step()

    def give_way(self) -> None:
        """What is held stays held."""

    def close(self) -> None:
        assert not self._jobs, "work was left behind"


class Wandering(executors.Inline):
    """Workers that run each job some turns of the loop later, by a seed: any order that threads could have."""

    def __init__(self, seed: int, turns_max: int = 6) -> None:
        self._random = random.Random(seed)
        self._turns_max = turns_max

    async def run(self, work: Callable[[], T]) -> T:
        await self._wander()
        try:
            return work()
        finally:
            await self._wander()

    async def _wander(self) -> None:
        for _ in range(self._random.randint(0, self._turns_max)):
            await asyncio.sleep(0)


class LonelyStorage(MemoryStorage):
    """In memory, and its logs say that nobody else writes them, as those of an embedded database do."""

    def open(self, space: Did, *, create: bool = False, workers: Worker | None = None) -> MemoryLog:
        log = super().open(space, create=create, workers=workers)
        log.is_alone = True
        return log


async def turns(count: int = 20) -> None:
    """Lets everything go as far as it can without the jobs that are held."""
    for _ in range(count):
        await asyncio.sleep(0)


class Engine:
    """A space with its store, and commits made as a client makes them."""

    def __init__(self, store: Store, space: OpenSpace, clock: Clock) -> None:
        self.store = store
        self.space = space
        self.clock = clock
        self._locals: dict[tuple[Did, bytes], int] = {}
        self._operations = 0

    def propose(
        self,
        *operations: Operation,
        reads: Sequence[Read] = (),
        branch: str = MAIN,
        author: Did = ALICE,
        session: str = "s",
        local: int | None = None,
        note: bytes | None = None,
        nonce: bytes = b"n" * 16,
    ) -> Proposal:
        """Counts the locals of each session up by itself."""
        key = (author, session_of(session))
        if local is None:
            local = self._locals.get(key, 0) + 1
        self._locals[key] = max(local, self._locals.get(key, 0))
        content = Content(operations=operations, reads=tuple(reads), branch=BranchName(branch), note=note)
        identity = LocalIdentity(author, key[1], Local(local))
        return prepare_or_refuse(identity, digest_request(nonce, encode(content)), content, self.space.limits)

    async def commit(self, *operations: Operation, **how: Any) -> Outcome:
        return await self.space.decide(self.propose(*operations, **how))

    async def must(self, *operations: Operation, **how: Any) -> Version:
        """The version of a commit that has to be accepted."""
        outcome = await self.commit(*operations, **how)
        assert isinstance(outcome, Accepted), outcome
        return outcome.commit.version

    async def structure(
        self,
        details: Arguments,
        *,
        operation: str | None = None,
        author: Did = ALICE,
        branch: str | None = None,
        destroyed: Destroyed | None = None,
    ) -> Outcome:
        """A branch, a tag, or another write with an operation id, which is a new one unless it is given."""
        self._operations += 1
        name = f"op{self._operations}" if operation is None else operation
        return await self.space.decide(structural(details, name, author=author, branch=branch), destroyed)

    async def value(self, id_: str, branch: str = MAIN, version: int | None = None) -> Any:
        """The value a reader sees; None where there is none."""
        moment = ReadMoment(branch=BranchName(branch), version=None if version is None else Version(version))

        def ask(reader: LogReader) -> Any:
            spans = moments.resolve(reader, moment).spans
            found = states.load(reader, spans, [EntityId(id_)]).get(EntityId(id_))
            return None if found is None or isinstance(found.value, Missing) else found.value

        return await self.space.read(ask)


def inline_executors() -> Executors:
    """Runs all work at once, on the thread of the loop."""
    return Executors(executors.Inline(), executors.Inline())


@asynccontextmanager
async def engine(
    storage: Storage | None = None,
    *,
    did: Did = SPACE,
    access: dict[Did, str] | None = ACCESS,
    sizes: Settings = AHEAD,
    limits: Limits = DEFAULTS,
    workers: Executors | None = None,
    clock: Clock | None = None,
) -> AsyncIterator[Engine]:
    """An open space that is closed at the end; work is done inline unless other executors are given.

    A new space gets its access list as version 1, committed by the space's own identity; `access=None` leaves it out.
    """
    clock = clock or Clock()
    backend = MemoryStorage() if storage is None else storage
    store = Store(
        backend,
        now=clock,
        salts=counting_salts(),
        workers=workers or inline_executors(),
        limits=limits,
        settings=sizes,
    )
    try:
        it = Engine(store, await store.space(did, create=True), clock)
        if access is not None and it.space.version == 0:
            assert await it.must(set_(did, access, blind=True), author=did, session="first") == 1
        yield it
    finally:
        for executor in workers or ():
            if isinstance(executor, Held):
                executor.release()
        await store.close()
