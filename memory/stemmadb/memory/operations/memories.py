"""Writing a memory, and reading memories by their ids."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from stemmadb.client import Transaction
from stemmadb.memory.operations.memory_space import MemorySpace, Once
from stemmadb.memory.operations.namespaces import check_is_there
from stemmadb.memory.rules import ids, records, roles
from stemmadb.memory.rules.calls import CallAnswer
from stemmadb.memory.rules.ids import MemoryId
from stemmadb.memory.rules.records import Memory, Vector
from stemmadb.memory.rules.refusals import NoSuchMemory, NotAllowed
from stemmadb.memory.rules.roles import MemoryCaller


class StoredMemory(NamedTuple):
    """A memory and where it is kept."""

    entity: str
    id: MemoryId
    memory: Memory


async def write_memory(
    memory: MemorySpace,
    caller: MemoryCaller,
    record: Memory,
    *,
    vector: Vector | None = None,
    once: Once | None = None,
) -> MemoryId:
    """Writes a new memory and its vector with one commit; `NoSuchNamespace` if it has nowhere to go."""
    roles.check_namespace(caller, record.ns)
    nsh, uuid = ids.namespace_hash(record.ns), memory.new_id()

    async def work(tx: Transaction) -> CallAnswer:
        await check_is_there(tx, memory, record.ns)
        tx.create(ids.memory_entity(nsh, uuid), records.stored(record))
        if vector is not None:
            tx.create(ids.vector_entity(nsh, uuid), records.stored(vector))
        return CallAnswer(ids=[uuid])

    answer = await memory.write(work, reads=[ids.namespace_entity(nsh)], once=once)
    return MemoryId(answer.ids[0])


async def find_memory(memory: MemorySpace, caller: MemoryCaller, uuid: MemoryId) -> StoredMemory:
    """The memory with this id in a namespace that the caller may use; `NoSuchMemory` otherwise.

    Only the contract of the plugin interface tells a caller that the memory is in another namespace.
    """
    await memory.index.reach()
    known = [one.entity for one in await memory.index.find(uuid) if one.is_there]
    found = await read_memories(memory, known)
    for one in found:
        if roles.may_use(caller, one.memory.ns):
            return one
    if found and caller.via == "http":
        raise NotAllowed(f"Memory {uuid} is in another namespace.")
    raise NoSuchMemory(uuid)


async def read_memories(
    memory: MemorySpace, entities: Sequence[str], *, version: int | None = None
) -> list[StoredMemory]:
    """Those of the entities that are memories at a version, in the order that was asked for."""
    if not entities:
        return []
    found = await memory.space.at(version=version).query(list(entities))
    kept = []
    for entity in entities:
        parts, record = ids.parts_of(entity), records.memory_of(found.get(entity))
        if parts is not None and record is not None:
            kept.append(StoredMemory(entity, parts[1], record))
    return kept
