"""Recording and superseding decisions: one transaction each, which reads and writes the target."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from stemmadb.client import Transaction
from stemmadb.memory.operations.memory_space import MemorySpace, Once
from stemmadb.memory.operations.namespaces import ensure_namespace
from stemmadb.memory.rules import decisions, ids, records, roles
from stemmadb.memory.rules.calls import CallAnswer
from stemmadb.memory.rules.decisions import DecisionDraft, TargetState, target_of
from stemmadb.memory.rules.ids import MemoryId
from stemmadb.memory.rules.records import Authority, Memory, memory_of
from stemmadb.memory.rules.roles import MemoryCaller


async def record_decision(
    memory: MemorySpace,
    caller: MemoryCaller,
    ns: str,
    draft: DecisionDraft,
    *,
    once: Once | None = None,
    note: str | None = None,
) -> MemoryId:
    """Makes the decision active; `TargetTaken` if the target has an active one."""
    check_writer(caller, ns)
    nsh, uuid = ids.namespace_hash(ns), memory.new_id()
    target = ids.target_entity(nsh, draft.target)

    async def work(tx: Transaction) -> CallAnswer:
        await ensure_namespace(tx, memory, ns)
        decisions.check_record(target_of(await tx.get(target)))
        write_decision(tx, uuid, _made(memory, caller, ns, draft, {}), ())
        return CallAnswer(ids=[uuid])

    answer = await memory.write(work, locked=[target], reads=[ids.namespace_entity(nsh)], once=once, note=note)
    return MemoryId(answer.ids[0])


async def supersede_decision(
    memory: MemorySpace,
    caller: MemoryCaller,
    ns: str,
    draft: DecisionDraft,
    old_ids: Sequence[MemoryId],
    *,
    once: Once | None = None,
    note: str | None = None,
) -> MemoryId:
    """Replaces the active decision of the target, or writes nothing and says why not."""
    check_writer(caller, ns)
    nsh, uuid = ids.namespace_hash(ns), memory.new_id()
    target = ids.target_entity(nsh, draft.target)
    entities = {old: ids.memory_entity(nsh, old) for old in old_ids}

    async def work(tx: Transaction) -> CallAnswer:
        await ensure_namespace(tx, memory, ns)
        state = target_of(await tx.get(target))
        olds = {old: memory_of(await tx.get(entity)) for old, entity in entities.items()}
        decisions.check_supersede(caller, draft, state, olds)
        links = {f"supersedes:{old}": link_to(entity) for old, entity in entities.items()}
        write_decision(tx, uuid, _made(memory, caller, ns, draft, links), list(entities.values()))
        return CallAnswer(ids=[uuid])

    locked = [target, *entities.values()]
    answer = await memory.write(work, locked=locked, reads=[ids.namespace_entity(nsh)], once=once, note=note)
    return MemoryId(answer.ids[0])


def check_writer(caller: MemoryCaller, ns: str) -> None:
    roles.check_role(caller, "agent")
    roles.check_namespace(caller, ns)


def write_decision(tx: Transaction, uuid: MemoryId, record: Memory, superseded: Sequence[str]) -> None:
    """The new memory, the status of those it replaces, and the target: together in one commit."""
    assert record.target is not None, "a decision has a target"
    nsh = ids.namespace_hash(record.ns)
    tx.create(ids.memory_entity(nsh, uuid), records.stored(record))
    for entity in superseded:
        tx.patch(entity, [{"op": "add", "path": "/status", "value": "superseded"}])
    state = TargetState(ns=record.ns, target=record.target, active=uuid)
    tx.set(ids.target_entity(nsh, record.target), records.stored(state))


def _made(
    memory: MemorySpace, caller: MemoryCaller, ns: str, draft: DecisionDraft, links: Mapping[str, Any]
) -> Memory:
    authority: Authority = caller.authority
    return decisions.made_decision(
        ns, draft, authority=authority, via=caller.via, now=memory.clock.now(), links=links
    )


def link_to(entity: str) -> dict[str, Any]:
    """A link as the store follows it."""
    return {"/": {"link@1": {"id": entity}}}
