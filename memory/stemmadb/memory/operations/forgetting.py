"""Forgetting, first step: one commit hides a memory, or a namespace, and queues it for erasing (`erasing`).

From that commit on nothing finds it. What it leaves is the queue entry `urn:forget:<uuid>`, which holds ids only.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from stemmadb.client import Transaction
from stemmadb.memory.operations.memories import find_memory
from stemmadb.memory.operations.memory_space import OPERATIONS_MAX, MemorySpace, Once
from stemmadb.memory.operations.namespaces import NamespaceGone, check_may_end, put_namespace
from stemmadb.memory.rules import ids, namespaces, records, roles
from stemmadb.memory.rules.calls import CallAnswer, ForgetRecord
from stemmadb.memory.rules.ids import MemoryId, NamespaceHash
from stemmadb.memory.rules.instants import Millis
from stemmadb.memory.rules.namespaces import Namespace, NamespaceKind, namespace_of
from stemmadb.memory.rules.records import Memory, memory_of
from stemmadb.memory.rules.refusals import NoSuchMemory, NoSuchNamespace
from stemmadb.memory.rules.roles import MemoryCaller

EVERY = "*"


async def forget_memory(
    memory: MemorySpace,
    caller: MemoryCaller,
    uuid: MemoryId,
    *,
    keeps_history: bool = False,
    once: Once | None = None,
) -> str | None:
    """Hides a memory with everything that belongs to it; the queue entry that says what is left to erase.

    `NoSuchMemory`, or `NotAllowed` if the caller may not. With `keeps_history` nothing is queued.
    """
    found = await find_memory(memory, caller, uuid)
    nsh, queued = ids.namespace_hash(found.memory.ns), None if keeps_history else ids.forget_entity(memory.new_id())

    async def work(tx: Transaction) -> CallAnswer:
        record = memory_of(await tx.get(found.entity))
        if record is None:
            raise NoSuchMemory(uuid)
        roles.check_may_forget(caller, record, uuid)
        gone = [found.entity, *await _belongings(tx, memory, nsh, uuid, record)]
        for entity in gone:
            tx.delete(entity)
        if queued is not None:
            _queue(tx, memory, caller, queued, [*gone, ids.observations_of(nsh, uuid) + EVERY])
        return CallAnswer(ids=[] if queued is None else [queued])

    target = [] if found.memory.target is None else [ids.target_entity(nsh, found.memory.target)]
    answer = await memory.write(work, locked=[found.entity, *target], once=once)
    return answer.ids[0] if answer.ids else None


async def _belongings(
    tx: Transaction, memory: MemorySpace, nsh: NamespaceHash, uuid: MemoryId, record: Memory
) -> list[str]:
    """The vector, the proposal it came from, and its target if no other memory has that; else the target stays."""
    vector = ids.vector_entity(nsh, uuid)
    found = [vector] if await tx.get(vector, "/dims") is not None else []
    for link in record.links:
        rel, _, other = link.partition(":")
        proposal = ids.proposal_entity(nsh, MemoryId(other))
        if rel == "proposal" and await tx.get(proposal, "/ns") is not None:
            found.append(proposal)
    if record.target is not None:
        found += await _freed_target(tx, memory, nsh, uuid, record.target)
    return found


async def _freed_target(
    tx: Transaction, memory: MemorySpace, nsh: NamespaceHash, uuid: MemoryId, target: str
) -> Sequence[str]:
    entity = ids.target_entity(nsh, target)
    state: Any = await tx.get(entity)
    if state is None:
        return ()
    await memory.index.reach()
    others = set(await memory.index.with_target(nsh, target)) - {ids.memory_entity(nsh, uuid)}
    if not others:
        return (entity,)
    if state.get("active") == uuid:
        tx.patch(entity, [{"op": "replace", "path": "/active", "value": None}])
    return ()


def _queue(tx: Transaction, memory: MemorySpace, caller: MemoryCaller, entity: str, gone: Sequence[str]) -> None:
    asked_by = f"{caller.name} ({caller.role}, {caller.via})"
    record = ForgetRecord(ids=list(gone), asked_by=asked_by, at=memory.clock.now())
    tx.create(entity, records.stored(record))


# ---------------------------------------------------------------- a namespace


async def delete_namespace(
    memory: MemorySpace, caller: MemoryCaller, name: str, *, keeps_history: bool = False, expired: bool = False
) -> str | None:
    """Makes a namespace absent at once, then deletes what is in it; the queue entry. Joins a deletion under way.

    `NotAllowed` for the plugin interface if another one wrote into it.
    An expired one is absent to a caller; `expired` deletes it all the same.
    """
    roles.check_namespace(caller, name)
    entity = ids.namespace_entity(ids.namespace_hash(name))

    async def work(tx: Transaction) -> CallAnswer:
        before = namespace_of(await tx.get(entity))
        is_there = expired or namespaces.is_present(before, memory.clock.now())
        if before is None or not (before.deleting or is_there):
            raise NoSuchNamespace(name)
        if not before.deleting:
            await check_may_end(tx, memory, caller, name)
            tx.patch(entity, [{"op": "add", "path": "/deleting", "value": True}])
        return CallAnswer()

    await memory.write(work, locked=[entity])
    return await finish_deletion(memory, caller, ids.namespace_hash(name), keeps_history=keeps_history)


async def finish_deletion(
    memory: MemorySpace, caller: MemoryCaller, nsh: NamespaceHash, *, keeps_history: bool = False
) -> str | None:
    """Deletes everything in a namespace that is marked, and last the namespace; None if another call did it all."""
    entity, queued = ids.namespace_entity(nsh), ids.forget_entity(memory.new_id())
    prefixes = [f"{kind}{nsh}:" for kind in ids.OF_A_NAMESPACE]
    async with memory.alone(f"deletion of {entity}"):
        for prefix in prefixes:
            await _delete_all(memory, sorted(await memory.space.list(prefix + EVERY)))

        async def work(tx: Transaction) -> CallAnswer:
            if await tx.get(entity, "/kind") is None:
                return CallAnswer()
            tx.delete(entity)
            if not keeps_history:
                _queue(tx, memory, caller, queued, [entity, *(prefix + EVERY for prefix in prefixes)])
            return CallAnswer(ids=[queued])

        answer = await memory.write(work, locked=[entity])
    return queued if answer.ids and not keeps_history else None


async def _delete_all(memory: MemorySpace, entities: Sequence[str]) -> None:
    """In commits of a bounded size. What somebody else deleted meanwhile is left out."""
    for start in range(0, len(entities), OPERATIONS_MAX):
        some = entities[start : start + OPERATIONS_MAX]

        async def work(tx: Transaction, some: Sequence[str] = some) -> CallAnswer:
            for entity in some:
                if await tx.get(entity) is not None:
                    tx.delete(entity)
            return CallAnswer()

        await memory.write(work, locked=some)


async def delete_entities(
    memory: MemorySpace, caller: MemoryCaller, entities: Sequence[str], *, erases: bool, also: Sequence[str] = ()
) -> str | None:
    """Deletes entities that nobody decides on any more, such as expired ones; the queue entry if they are erased.

    `also` are ids, or prefixes that end with `*`, whose bytes go with theirs.
    """
    await _delete_all(memory, entities)
    if not erases or not entities:
        return None
    queued = ids.forget_entity(memory.new_id())

    async def work(tx: Transaction) -> CallAnswer:
        _queue(tx, memory, caller, queued, [*entities, *also])
        return CallAnswer(ids=[queued])

    await memory.write(work)
    return queued


async def unfinished_deletions(memory: MemorySpace) -> Sequence[NamespaceHash]:
    """Namespaces whose deletion was begun and not finished."""
    found = map(namespace_of, (await memory.space.list(ids.NAMESPACES + EVERY)).values())
    return [one.nsh for one in found if one is not None and one.deleting]


async def make_namespace(
    memory: MemorySpace,
    caller: MemoryCaller,
    name: str,
    *,
    kind: NamespaceKind,
    expires_at: Millis | None = None,
    metadata: dict[str, Any] | None = None,
    once: Once | None = None,
) -> Namespace:
    """`put_namespace` for a name that may have expired, or is being deleted: that deletion is finished first."""
    while True:
        try:
            return await put_namespace(
                memory, caller, name, kind=kind, expires_at=expires_at, metadata=metadata, once=once
            )
        except NamespaceGone:
            with suppress(NoSuchNamespace):  # another call has finished it
                await delete_namespace(memory, caller, name, expired=True)
