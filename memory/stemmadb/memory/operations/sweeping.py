"""Sweeping: deletes what expired more than a day ago, and records of calls that old. Nothing found it before that."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from stemmadb.memory.operations.forgetting import EVERY, delete_entities, delete_namespace
from stemmadb.memory.operations.memory_space import MemorySpace
from stemmadb.memory.rules import ids
from stemmadb.memory.rules.namespaces import Namespace, namespace_of
from stemmadb.memory.rules.roles import MemoryCaller
from stemmadb.memory.rules.sweeps import GRACE_MS

AT_ONCE: Final = 900


class SweepReport(NamedTuple):
    """How much was deleted, and the queue entries of what is to be erased."""

    memories: int
    namespaces: int
    calls: int
    queued: list[str]


async def sweep(memory: MemorySpace, caller: MemoryCaller, *, erases: bool = False) -> SweepReport:
    """Deletes in commits of at most 900 operations; with `erases` the bytes go too."""
    before = memory.clock.now() - GRACE_MS
    queued: list[str] = []
    await memory.index.reach()
    memories = 0
    while expired := await memory.index.expired(before, AT_ONCE):
        vectors = [ids.VECTORS + entity.removeprefix(ids.MEMORIES) for entity in expired]
        parts = [found for found in map(ids.parts_of, expired) if found is not None]
        observations = [ids.observations_of(*found) + EVERY for found in parts]
        entry = await delete_entities(memory, caller, [*expired, *vectors], erases=erases, also=observations)
        queued += [] if entry is None else [entry]
        memories += len(expired)
        await memory.index.reach()
    spaces = [one for one in await _all_namespaces(memory) if one.expires_at is not None and one.expires_at <= before]
    for one in spaces:
        entry = await delete_namespace(memory, caller, one.name, keeps_history=not erases, expired=True)
        queued += [] if entry is None else [entry]
    calls = [id_ for id_, value in (await memory.space.list(ids.CALLS + EVERY)).items() if _at(value) <= before]
    await delete_entities(memory, caller, calls, erases=False)
    return SweepReport(memories, len(spaces), len(calls), queued)


async def _all_namespaces(memory: MemorySpace) -> list[Namespace]:
    values = (await memory.space.list(ids.NAMESPACES + EVERY)).values()
    return [one for one in map(namespace_of, values) if one is not None]


def _at(value: Any) -> int:
    at = value.get("at", 0) if isinstance(value, dict) else 0
    return at if isinstance(at, int) else 0
