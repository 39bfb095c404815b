"""Targets: which have an active decision, and every decision that was ever made about one."""

from __future__ import annotations

from collections.abc import Sequence

from stemmadb.memory.operations.memories import StoredMemory, read_memories
from stemmadb.memory.operations.memory_space import MemorySpace
from stemmadb.memory.rules import ids, instants, roles
from stemmadb.memory.rules.decisions import TargetState, target_of
from stemmadb.memory.rules.roles import MemoryCaller


async def active_targets(memory: MemorySpace, caller: MemoryCaller, ns: str) -> Sequence[TargetState]:
    """Targets of a namespace that have an active decision, by name."""
    roles.check_namespace(caller, ns)
    found = (await memory.space.list(f"{ids.TARGETS}{ids.namespace_hash(ns)}:*")).values()
    states = [one for one in map(target_of, found) if one is not None and one.active is not None]
    return sorted(states, key=lambda one: one.target)


async def decisions_about(
    memory: MemorySpace, caller: MemoryCaller, ns: str, target: str
) -> tuple[int, Sequence[StoredMemory]]:
    """The version that was read, and the decisions about a target: the active one first, then the newest."""
    roles.check_namespace(caller, ns)
    await memory.index.reach()
    version, now = memory.index.position, memory.clock.now()
    known = await memory.index.with_target(ids.namespace_hash(ns), target)
    found = [
        one
        for one in await read_memories(memory, known, version=version)
        if one.memory.kind == "decision" and not instants.is_past(one.memory.expires_at, now)
    ]
    order = sorted(found, key=lambda one: (one.memory.status != "active", -one.memory.created_at, one.id))
    return version, order
