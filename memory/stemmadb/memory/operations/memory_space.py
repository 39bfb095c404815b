"""One space with memories: what all operations share, and the one way in which they write.

A write is one transaction: it reads what its rule needs, asks the rule, and writes. Two details keep answers true:

- A transaction sees own writes that are not confirmed yet. A refusal that rests on one of them could be wrong, so the
  operation waits until they are decided and runs again.
- A call with an idempotency key creates `urn:memory-call:<hash>` in its own commit, so the call and its record exist
  together or not at all.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Awaitable, Callable, Iterable
from contextlib import AbstractAsyncContextManager
from copy import copy
from typing import Final, NamedTuple, Protocol

from stemmadb.client import Space, Transaction
from stemmadb.memory.index.space_index import SpaceIndex
from stemmadb.memory.operations.key_locks import KeyLocks
from stemmadb.memory.rules import calls, ids, records
from stemmadb.memory.rules.calls import CallAnswer, CallRecord
from stemmadb.memory.rules.ids import MemoryId
from stemmadb.memory.rules.instants import Millis
from stemmadb.memory.rules.refusals import Busy, Refusal
from stemmadb.protocol.errors import AlreadyExists, Conflict, Dependency, Overtaken

OPERATIONS_MAX: Final = 900
"""Operations in one commit; the server takes 1,000 (`operations_max`)."""
TRIES_MAX: Final = 10


class MemoryClock(Protocol):
    """Time as the rules see it."""

    shift: int
    """By how many milliseconds `now` is wrong on purpose."""

    def now(self) -> Millis: ...

    def monotonic(self) -> float:
        """Seconds that never go back."""
        ...


class SystemClock:
    """The clock of the machine, shifted by so many milliseconds for tests."""

    def __init__(self, shift: int = 0) -> None:
        self.shift = shift

    def now(self) -> Millis:
        return Millis(time.time_ns() // 1_000_000 + self.shift)

    def monotonic(self) -> float:
        return time.monotonic()


def random_id() -> str:
    return str(uuid.uuid4())


class Once(NamedTuple):
    """An idempotency key of a caller, and what the call asks for."""

    key: str
    agent: str
    operation: str
    arguments: dict[str, object]


class MemorySpace:
    """Made by the process; used by operations. Everything of it runs on one event loop."""

    def __init__(
        self,
        space: Space,
        index: SpaceIndex,
        *,
        clock: MemoryClock | None = None,
        new_id: Callable[[], str] = random_id,
    ) -> None:
        self.space = space
        """What reads and erases: it owns the space."""
        self._writer = space
        self.index = index
        self.clock = clock or SystemClock()
        self._new_id = new_id
        self.proposed: dict[str, float] = {}
        """Proposals that this process saw come, by entity, and when on the monotonic clock (the review window)."""
        self.evidence_min = 0
        """How many pieces of evidence a proposal needs before it is accepted."""
        self._locks = KeyLocks()

    def written_through(self, space: Space) -> MemorySpace:
        """The same memory, whose writes go through another connection: the author of a commit is its identity."""
        other = copy(self)
        other._writer = space
        return other

    def new_id(self) -> MemoryId:
        return MemoryId(self._new_id())

    def alone(self, what: str) -> AbstractAsyncContextManager[None]:
        """One operation of this name at a time in this process; for work of more than one commit."""
        return self._locks.hold([what])

    async def write(
        self,
        work: Callable[[Transaction], Awaitable[CallAnswer]],
        *,
        locked: Iterable[str] = (),
        reads: Iterable[str] = (),
        once: Once | None = None,
        note: str | None = None,
    ) -> CallAnswer:
        """Runs `work` in one transaction and returns its answer once the commit is durable.

        `locked` are the entities that the operation decides on: no other one of this process runs on them meanwhile.
        `reads` are others whose state a refusal may rest on. A refusal of a rule is raised and nothing is written;
        `Busy` if other writers were faster ten times.
        """
        call = None if once is None else self._call_entity(once)
        keys = {*locked, *(() if call is None else (call,))}
        async with self._locks.hold(keys):
            while True:
                try:
                    return await self._attempt(work, call, once, note)
                except Refusal:
                    if not self._rests_on_pending({*keys, *reads}):
                        raise
                    await self._writer.settled()

    async def _attempt(
        self,
        work: Callable[[Transaction], Awaitable[CallAnswer]],
        call: str | None,
        once: Once | None,
        note: str | None,
    ) -> CallAnswer:
        last: list[Transaction] = []

        async def run(tx: Transaction) -> CallAnswer:
            last[:] = [tx]
            if call is None or once is None:
                return await work(tx)
            arguments = calls.hash_arguments(once.key, once.arguments)
            before = await tx.get(call)
            if before is not None:
                return calls.answered_before(before, arguments)
            answer = await work(tx)
            record = CallRecord(arguments=arguments, answer=answer, at=self.clock.now())
            tx.create(call, records.stored(record))
            return answer

        for tried in range(TRIES_MAX):
            try:
                answer = await self._writer.transact(run, note=note)
            except (Conflict, Dependency, Overtaken) as lost:
                raise Busy from lost
            except AlreadyExists as lost:  # another process made the same call: it is read on the next try
                if tried + 1 == TRIES_MAX:
                    raise Busy from lost
            else:
                self.index.heard_of(last[0].version or 0)
                return answer
        raise AssertionError("every try returns or raises")

    def _rests_on_pending(self, keys: set[str]) -> bool:
        return any(keys & set(pending.ids) for pending in self._writer.pending())

    def _call_entity(self, once: Once) -> str:
        return ids.call_entity(calls.check_key(once.key), once.agent, once.operation, self.space.did)
