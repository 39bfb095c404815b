"""Proposing a decision, and reviewing what was proposed: one transaction each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from stemmadb.client import Transaction
from stemmadb.memory.operations.decisions import check_writer, link_to, write_decision
from stemmadb.memory.operations.memory_space import MemorySpace, Once
from stemmadb.memory.operations.namespaces import ensure_namespace
from stemmadb.memory.rules import decisions, ids, proposals, records, roles
from stemmadb.memory.rules.calls import CallAnswer
from stemmadb.memory.rules.decisions import DecisionDraft, target_of
from stemmadb.memory.rules.ids import MemoryId
from stemmadb.memory.rules.instants import Millis
from stemmadb.memory.rules.proposals import DecisionProposal, proposal_of
from stemmadb.memory.rules.refusals import NoSuchProposal
from stemmadb.memory.rules.roles import MemoryCaller


class StoredProposal(NamedTuple):
    """A proposal and its id."""

    id: MemoryId
    proposal: DecisionProposal


async def propose_decision(
    memory: MemorySpace,
    caller: MemoryCaller,
    ns: str,
    draft: DecisionDraft,
    evidence: Sequence[str] = (),
    *,
    once: Once | None = None,
    note: str | None = None,
) -> MemoryId:
    """Writes a draft for a person to review. The target may have an active decision."""
    check_writer(caller, ns)
    nsh, uuid = ids.namespace_hash(ns), memory.new_id()
    entity = ids.proposal_entity(nsh, uuid)

    async def work(tx: Transaction) -> CallAnswer:
        await ensure_namespace(tx, memory, ns)
        made = DecisionProposal(
            ns=ns,
            title=draft.title,
            target=draft.target,
            rationale=draft.rationale,
            consequences=list(draft.consequences),
            author_kind=caller.authority,
            evidence=list(evidence),
            created_at=memory.clock.now(),
        )
        tx.create(entity, records.stored(made))
        return CallAnswer(ids=[uuid])

    answer = await memory.write(work, reads=[ids.namespace_entity(nsh)], once=once, note=note)
    proposed = MemoryId(answer.ids[0])
    memory.proposed.setdefault(ids.proposal_entity(nsh, proposed), memory.clock.monotonic())
    return proposed


async def accept_proposal(
    memory: MemorySpace,
    caller: MemoryCaller,
    ns: str,
    uuid: MemoryId,
    *,
    once: Once | None = None,
    note: str | None = None,
) -> MemoryId:
    """Makes the proposal the active decision of its target; `ReviewWindow` before its hour is over (PI1)."""
    entity, found = await _reviewed(memory, caller, ns, uuid)
    nsh, decision = ids.namespace_hash(ns), memory.new_id()
    target = ids.target_entity(nsh, found.target)

    async def work(tx: Transaction) -> CallAnswer:
        proposal = proposal_of(await tx.get(entity))
        if proposal is None:
            raise NoSuchProposal(uuid)
        proposals.check_open(proposal, uuid)
        proposals.check_evidence(proposal, memory.evidence_min)
        await _check_window(memory, entity)
        state = target_of(await tx.get(target))
        active = None if state is None or state.active is None else MemoryId(state.active)
        olds = [] if active is None else [ids.memory_entity(nsh, active)]
        links = {f"proposal:{uuid}": link_to(entity)}
        links |= {} if active is None else {f"supersedes:{active}": link_to(olds[0])}
        made = decisions.made_decision(
            ns,
            proposal.draft,
            authority="human",  # a person accepted it
            via=caller.via,
            now=memory.clock.now(),
            links=links,
            evidence=proposal.evidence,
        )
        write_decision(tx, decision, made, olds)
        _close(tx, entity, "accepted", decision)
        return CallAnswer(ids=[decision])

    answer = await memory.write(work, locked=[entity, target], once=once, note=note)
    memory.proposed.pop(entity, None)
    return MemoryId(answer.ids[0])


async def reject_proposal(
    memory: MemorySpace, caller: MemoryCaller, ns: str, uuid: MemoryId, *, note: str | None = None
) -> None:
    """A person does not want it. It stays readable, and nobody can accept it any more."""
    entity, _ = await _reviewed(memory, caller, ns, uuid)

    async def work(tx: Transaction) -> CallAnswer:
        proposal = proposal_of(await tx.get(entity))
        if proposal is None:
            raise NoSuchProposal(uuid)
        proposals.check_open(proposal, uuid)
        _close(tx, entity, "rejected", None)
        return CallAnswer(ids=[uuid])

    await memory.write(work, locked=[entity], note=note)
    memory.proposed.pop(entity, None)


async def list_proposals(
    memory: MemorySpace, caller: MemoryCaller, ns: str, *, everything: bool = False
) -> Sequence[StoredProposal]:
    """Those that wait for a review, the oldest first; with `everything` also those that were reviewed."""
    roles.check_namespace(caller, ns)
    prefix = f"{ids.PROPOSALS}{ids.namespace_hash(ns)}:"
    found = []
    for entity, value in (await memory.space.list(prefix + "*")).items():
        parts, proposal = ids.proposal_parts_of(entity), proposal_of(value)
        if parts is not None and proposal is not None and (everything or proposal.status == "draft"):
            found.append(StoredProposal(parts[1], proposal))
    return sorted(found, key=lambda one: (one.proposal.created_at, one.id))


async def _reviewed(
    memory: MemorySpace, caller: MemoryCaller, ns: str, uuid: MemoryId
) -> tuple[str, DecisionProposal]:
    roles.check_role(caller, "admin")
    roles.check_namespace(caller, ns)
    entity = ids.proposal_entity(ids.namespace_hash(ns), uuid)
    found = proposal_of(await memory.space.get(entity))
    if found is None:
        raise NoSuchProposal(uuid)
    return entity, found


async def _check_window(memory: MemorySpace, entity: str) -> None:
    """By the time of the log; and by the monotonic clock if this process saw the proposal come."""
    entries = await memory.space.history(entity).all()
    begin = proposals.window_begin(proposals.change_of(Millis(one.time_ms), one.patch) for one in entries)
    seen = memory.proposed.get(entity)
    known = None if seen is None else memory.clock.monotonic() - seen
    proposals.check_window(memory.clock.now() if begin is None else begin, memory.clock.now(), known)


def _close(tx: Transaction, entity: str, status: str, decision: MemoryId | None) -> None:
    patch = [{"op": "add", "path": "/status", "value": status}]
    if decision is not None:
        patch.append({"op": "add", "path": "/converted_to", "value": decision})
    tx.patch(entity, patch)
