"""Decisions by two agents while connections are cut, the server dies after commits, and is restored from a backup.

Whatever happens, every rule of memory holds afterwards, an acknowledged decision that no restore took away exists,
and a call that is sent again with its key is done once.
"""

from __future__ import annotations

import asyncio
import random
import tempfile
from collections.abc import Awaitable, Callable
from concurrent.futures import Executor, Future
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Final, NamedTuple, ParamSpec, TypeVar

from stemmadb.client.testing import World
from stemmadb.memory.index.space_index import SpaceIndex
from stemmadb.memory.operations import decisions, proposals
from stemmadb.memory.operations.checking import check
from stemmadb.memory.operations.memory_space import MemorySpace, Once
from stemmadb.memory.rules import ids
from stemmadb.memory.rules.decisions import DecisionDraft, target_of
from stemmadb.memory.rules.ids import MemoryId
from stemmadb.memory.rules.instants import Millis
from stemmadb.memory.rules.refusals import Refusal
from stemmadb.memory.rules.roles import MemoryCaller
from stemmadb.protocol.errors import StemmaError

P = ParamSpec("P")
T = TypeVar("T")
NS: Final = "custom:storm"
TARGETS: Final = ("database", "queue")
CALLERS: Final = (
    MemoryCaller(role="agent", name="alice", via="mcp"),
    MemoryCaller(role="agent", name="bob", via="mcp"),
)
TRIES_MAX: Final = 8
REFUSED: Final = "refused"


class StormReport(NamedTuple):
    """What was done."""

    operations: int
    faults: int


class AtOnce(Executor):
    """Runs work where it is submitted: threads do not keep to virtual time."""

    def __init__(self, _name: str) -> None:
        super().__init__()

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        future: Future[T] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except BaseException as error:
            future.set_exception(error)
        return future


class StormClock:
    """Virtual time."""

    shift = 0

    def __init__(self, world: World) -> None:
        self._world = world

    def now(self) -> Millis:
        return Millis(self._world.clock())

    def monotonic(self) -> float:
        return asyncio.get_running_loop().time()


class _Call(NamedTuple):
    """A call of an agent, which can be sent again."""

    key: str
    work: Callable[[Once], Awaitable[MemoryId]]
    once: Once


def storm(seed: int, *, rounds: int = 12, at_once: int = 4) -> StormReport:
    """The same seed does the same calls under the same faults."""
    with tempfile.TemporaryDirectory() as directory:
        return World(seed=seed).run(lambda world: _Storm(world, seed, Path(directory)).run(rounds, at_once))


class _Storm:
    def __init__(self, world: World, seed: int, directory: Path) -> None:
        self._world = world
        self._random = random.Random(f"storm {seed}")
        self._directory = directory
        self._number = 0
        self._faults = 0
        self._answers: dict[str, str] = {}
        """Those of every call, for as long as no restore takes them away."""
        self._lost: set[str] = set()

    async def run(self, rounds: int, at_once: int) -> StormReport:
        world = self._world
        await world.make_space("memory", alice="own", bob="write")
        async with AsyncExitStack() as stack:
            spaces = [
                await (await stack.enter_async_context(world.connect(name))).space("memory")
                for name in ("alice", "bob")
            ]
            index = await SpaceIndex.opened(self._directory / "index.db", spaces[0], thread=AtOnce)
            stack.push_async_callback(index.close)
            memory = MemorySpace(spaces[0], index, clock=StormClock(world), new_id=self._id)
            writers = (memory, memory.written_through(spaces[1]))
            for _ in range(rounds):
                calls = [self._call(memory, writers) for _ in range(at_once)]
                fault = self._fault()
                answers = await asyncio.gather(*(self._answered(one) for one in calls))
                world.calm()
                await fault()
                for one, answer in zip(calls, answers, strict=True):
                    self._answers[one.key] = answer
                await self._look(memory, calls)
        return StormReport(self._number, self._faults)

    # ------------------------------------------------------------ calls

    def _id(self) -> str:
        digits = f"{self._random.getrandbits(128):032x}"
        return f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-8{digits[17:20]}-{digits[20:]}"

    def _call(self, memory: MemorySpace, writers: tuple[MemorySpace, ...]) -> _Call:
        self._number += 1
        key, who = f"key {self._number}", self._random.randrange(len(CALLERS))
        caller, writer, target = CALLERS[who], writers[who], self._random.choice(TARGETS)
        draft = DecisionDraft(f"Choice {self._number}", target, "Because it is so, says the storm")
        kind = self._random.choice(("record", "supersede", "supersede", "propose"))

        async def work(once: Once) -> MemoryId:
            if kind == "propose":
                return await proposals.propose_decision(writer, caller, NS, draft, once=once)
            entity = ids.target_entity(ids.namespace_hash(NS), target)
            state = target_of(await memory.space.get(entity))
            if kind == "record" or state is None or state.active is None:
                return await decisions.record_decision(writer, caller, NS, draft, once=once)
            olds = [MemoryId(state.active)]
            return await decisions.supersede_decision(writer, caller, NS, draft, olds, once=once)

        # What it decides on is read when it is sent, so that the key stands for the draft alone.
        return _Call(key, work, Once(key, caller.name, kind, {"title": draft.title}))

    async def _answered(self, call: _Call) -> str:
        """Sent again until there is an answer, as a client would."""
        for _ in range(TRIES_MAX):
            try:
                return await call.work(call.once)
            except Refusal:
                return REFUSED
            except StemmaError:
                await asyncio.sleep(1.0)
        raise AssertionError(f"{call.key} got no answer")

    # ------------------------------------------------------------ faults

    def _fault(self) -> Callable[[], Awaitable[None]]:
        """Begins a fault; what it gives is done when the calls of the round are answered."""
        world, drawn = self._world, self._random.randrange(5)
        self._faults += drawn != 0
        if drawn == 1:
            world.crash_after_append(self._random.randint(1, 3), down=1.0)
        elif drawn == 2:
            line = world.network[self._random.choice(("alice", "bob"))]
            asyncio.get_running_loop().call_later(self._random.uniform(0.0, 0.02), line.cut)
        elif drawn == 3:
            world.network[self._random.choice(("alice", "bob"))].drop_after(self._random.randint(1, 6))
        elif drawn == 4:
            backup, before = world.backup(), set(self._answers)

            async def restore() -> None:
                await world.restore(backup)
                self._lost |= {f"key {number}" for number in range(1, self._number + 1)} - before

            return restore

        async def nothing() -> None: ...

        return nothing

    # ------------------------------------------------------------ afterwards

    async def _look(self, memory: MemorySpace, calls: list[_Call]) -> None:
        await memory.space.connected(timeout=60)
        await memory.space.settled()
        again = [await self._answered(one) for one in calls]
        for one, answer in zip(calls, again, strict=True):
            before = self._answers[one.key]
            if one.key not in self._lost and before != REFUSED:
                assert answer == before, f"{one.key} was done as {before}, and again as {answer}"
            self._answers[one.key] = answer
            self._lost.discard(one.key)
        version, findings = await check(memory)
        assert not findings, f"version {version}: {findings}"
        values = await memory.space.list(f"{ids.MEMORIES}*")
        kept = {entity.rpartition(":")[2] for entity in values}
        kept |= {entity.rpartition(":")[2] for entity in await memory.space.list(f"{ids.PROPOSALS}*")}
        for key, answer in self._answers.items():
            assert answer == REFUSED or answer in kept, f"{key} was answered {answer}, which does not exist"
