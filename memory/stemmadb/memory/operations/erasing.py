"""Forgetting, second step: one background job erases everything that is queued, with one bulk erase.

The job looks the queue up in the store, so that a memory server that was killed between the two steps goes on when it
starts again. A queue entry is deleted last, after the bytes are gone from the store and from the index.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import msgspec

from stemmadb.client import Transaction
from stemmadb.memory.operations.forgetting import EVERY, finish_deletion, unfinished_deletions
from stemmadb.memory.operations.memory_space import MemorySpace
from stemmadb.memory.rules import ids
from stemmadb.memory.rules.calls import CallAnswer, ForgetRecord
from stemmadb.memory.rules.instants import Millis
from stemmadb.memory.rules.roles import MemoryCaller

ENTITIES_AT_ONCE: Final = 20_000
"""Entities in one bulk erase: its request and its record stay within a few megabytes."""
ONE_BY_ONE_MAX: Final = 40
"""Up to so many ids of one kind and namespace are looked up one by one; above, all of that namespace are read."""
RETRY_SECONDS: Final = 5.0
OURSELVES: Final = MemoryCaller(role="admin", name="memory server", via="command")


class QueuedForget(NamedTuple):
    """A queue entry, and the version that made it: nothing that was written later may go."""

    entity: str
    record: ForgetRecord
    version: int


class EraseJob:
    """Runs for as long as the memory server does: `start`, `ask` after each first step, `close`."""

    def __init__(self, memory: MemorySpace) -> None:
        self._memory = memory
        self._woken = asyncio.Event()
        self._turned = asyncio.Condition()
        self._task: asyncio.Task[None] | None = None
        self._waiting: dict[str, Millis] = {}
        """Entries that were queued when the queue was last looked at, or since, and are not erased yet."""

    async def start(self) -> None:
        """Finishes what an earlier memory server began, in the background."""
        for queued in await self._queue():
            self._waiting[queued.entity] = queued.record.at
        self._woken.set()
        self._task = asyncio.create_task(self._run())

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    @property
    def oldest(self) -> Millis | None:
        """When the oldest entry that is not erased was queued."""
        return min(self._waiting.values(), default=None)

    def ask(self, entity: str | None) -> None:
        """An entry was queued."""
        if entity is not None:
            self._waiting.setdefault(entity, self._memory.clock.now())
        self._woken.set()

    async def erased(self, entity: str | None, *, within: float | None = None) -> bool:
        """Waits until the bytes of an entry are gone; False if that takes longer than `within` seconds."""
        self.ask(entity)
        try:
            async with asyncio.timeout(within), self._turned:
                await self._turned.wait_for(lambda: entity not in self._waiting)
        except TimeoutError:
            return False
        return True

    async def _run(self) -> None:
        while True:
            await self._woken.wait()
            self._woken.clear()
            try:
                await self._finish_deletions()
                await self.work_off()
            except Exception as error:  # busy, or the store cannot be reached now: the queue keeps everything
                asyncio.get_running_loop().call_exception_handler({"message": "erasing failed", "exception": error})
                await asyncio.sleep(RETRY_SECONDS)
                self._woken.set()

    async def _finish_deletions(self) -> None:
        for nsh in await unfinished_deletions(self._memory):
            self.ask(await finish_deletion(self._memory, OURSELVES, nsh))

    async def work_off(self) -> int:
        """Erases all that is queued now; how many entries that were."""
        queue = await self._queue()
        targets = await self._targets(queue)
        entities = sorted(targets)
        for start in range(0, len(entities), ENTITIES_AT_ONCE):
            some = entities[start : start + ENTITIES_AT_ONCE]
            await self._erase({entity: targets[entity] for entity in some}, queue)
        await self._memory.index.reach()
        await self._memory.index.scrub()
        await self._delete_entries([queued.entity for queued in queue])
        async with self._turned:
            for queued in queue:
                self._waiting.pop(queued.entity, None)
            self._turned.notify_all()
        return len(queue)

    async def _queue(self) -> list[QueuedForget]:
        found = []
        for entity, value in (await self._memory.space.list(ids.FORGETS + EVERY)).items():
            first = await self._memory.space.history(entity, order="oldest").first()
            assert first is not None, "what is listed was written"
            found.append(QueuedForget(entity, msgspec.convert(value, ForgetRecord), first.version))
        return found

    async def _targets(self, queue: Sequence[QueuedForget]) -> dict[str, set[int]]:
        """Every version of every queued entity that still has a body, on whatever branch."""
        targets: dict[str, set[int]] = defaultdict(set)
        for queued in queue:
            wanted = set(queued.record.ids)
            for prefix in _prefixes(queued.record.ids):
                log = self._memory.space.log(branch=None, prefix=prefix, with_facts=True, version=queued.version)
                async for entry in log:
                    for change in entry.changes:
                        is_body = change.kind != "delete" and not change.gone
                        if is_body and (change.id in wanted or change.id.startswith(_starred(wanted))):
                            targets[change.id].add(entry.version)
        return targets

    async def _erase(self, targets: Mapping[str, set[int]], queue: Sequence[QueuedForget]) -> None:
        first, *others = targets
        asked_by = sorted({queued.record.asked_by for queued in queue})
        done = await self._memory.space.erase(
            first,
            sorted(targets[first]),
            entities={entity: sorted(targets[entity]) for entity in others},
            note={"message": f"forget, asked by {', '.join(asked_by)}"},
        )
        self._memory.index.heard_of(done.version)

    async def _delete_entries(self, entities: Sequence[str]) -> None:
        async def work(tx: Transaction) -> CallAnswer:
            for entity in entities[:900]:
                if await tx.get(entity, "/v") is not None:
                    tx.delete(entity)
            return CallAnswer()

        while entities:
            await self._memory.write(work)
            entities = entities[900:]


def _starred(wanted: set[str]) -> tuple[str, ...]:
    return tuple(entity.removesuffix(EVERY) for entity in wanted if entity.endswith(EVERY))


def _prefixes(entities: Sequence[str]) -> Sequence[str]:
    """What to read the log by: each id by itself, or the namespace of many ids at once."""
    groups: dict[str, list[str]] = defaultdict(list)
    for entity in entities:
        groups[":".join(entity.split(":", 3)[:3])].append(entity.removesuffix(EVERY))
    found: list[str] = []
    for group, members in groups.items():
        found += [group] if len(members) > ONE_BY_ONE_MAX else members
    return found
