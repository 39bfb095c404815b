"""Export and import of decisions, and import of proposals. An import is checked as a whole before it writes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from stemmadb.client import Transaction
from stemmadb.memory.operations.decisions import check_writer, link_to
from stemmadb.memory.operations.memories import StoredMemory, read_memories
from stemmadb.memory.operations.memory_space import OPERATIONS_MAX, MemorySpace
from stemmadb.memory.operations.namespaces import ensure_namespace
from stemmadb.memory.rules import decisions, ids, instants, records, roles, transfers
from stemmadb.memory.rules.calls import CallAnswer
from stemmadb.memory.rules.decisions import DecisionDraft, TargetState, target_of
from stemmadb.memory.rules.ids import MemoryId
from stemmadb.memory.rules.instants import Millis
from stemmadb.memory.rules.proposals import DecisionProposal, check_open, proposal_of
from stemmadb.memory.rules.records import memory_of
from stemmadb.memory.rules.refusals import InvalidRequest, IsolationViolation, NoSuchMemory
from stemmadb.memory.rules.roles import MemoryCaller
from stemmadb.memory.rules.transfers import ImportedDecision

LINES_MAX = OPERATIONS_MAX // 2 - 1
"""Decisions in one import: each writes itself and its target."""


class ImportReport(NamedTuple):
    """What an import wrote, and the ids that were there before."""

    made: Sequence[MemoryId]
    known: Sequence[MemoryId]


async def export_decisions(memory: MemorySpace, caller: MemoryCaller, ns: str) -> Sequence[StoredMemory]:
    """Every decision of a namespace that is not expired, the oldest first."""
    roles.check_namespace(caller, ns)
    now, prefix = memory.clock.now(), f"{ids.MEMORIES}{ids.namespace_hash(ns)}:"
    found = await read_memories(memory, sorted(await memory.space.list(prefix + "*")))
    shown = [
        one for one in found if one.memory.kind == "decision" and not instants.is_past(one.memory.expires_at, now)
    ]
    return sorted(shown, key=lambda one: (one.memory.created_at, one.id))


async def import_decisions(
    memory: MemorySpace, caller: MemoryCaller, ns: str, lines: Sequence[ImportedDecision], *, note: str | None = None
) -> ImportReport:
    """Writes all of them with one commit, or nothing. A decision whose id is there already is left as it is."""
    check_writer(caller, ns)
    if len(lines) > LINES_MAX:
        raise InvalidRequest(f"An import has at most {LINES_MAX} decisions; this one has {len(lines)}.")
    transfers.check_active(lines)
    ordered = transfers.older_first(lines)
    nsh = ids.namespace_hash(ns)
    named = [(one.id or memory.new_id(), one) for one in ordered]
    report: list[ImportReport] = []

    async def work(tx: Transaction) -> CallAnswer:
        await ensure_namespace(tx, memory, ns)
        made: list[MemoryId] = []
        known: list[MemoryId] = []
        for uuid, one in named:
            entity = ids.memory_entity(nsh, uuid)
            if await tx.get(entity, "/kind") is not None:
                known.append(uuid)
                continue
            await _check_olds(tx, nsh, one)
            await _take_target(tx, ns, uuid, one)
            tx.create(entity, records.stored(_memory(memory, caller, ns, one)))
            made.append(uuid)
        report[:] = [ImportReport(made, known)]
        return CallAnswer(ids=list(made))

    targets = {ids.target_entity(nsh, one.draft.target) for one in ordered}
    entities = {ids.memory_entity(nsh, uuid) for uuid, _ in named}
    await memory.write(work, locked=[*targets, *entities], reads=[ids.namespace_entity(nsh)], note=note)
    return report[0]


async def _check_olds(tx: Transaction, nsh: ids.NamespaceHash, one: ImportedDecision) -> None:
    """What it supersedes is there, as a decision that is not active."""
    for old in one.supersedes:
        found = memory_of(await tx.get(ids.memory_entity(nsh, old)))
        if found is None or found.kind != "decision":
            raise NoSuchMemory(old)
        if found.status == "active":
            raise InvalidRequest(f"{old} is active here. Supersede it with supersede_decision.", field="supersedes")


async def _take_target(tx: Transaction, ns: str, uuid: MemoryId, one: ImportedDecision) -> None:
    entity = ids.target_entity(ids.namespace_hash(ns), one.draft.target)
    state = target_of(await tx.get(entity))
    if one.status == "active":
        decisions.check_record(state)
    elif state is not None:
        return
    made = TargetState(ns=ns, target=one.draft.target, active=uuid if one.status == "active" else None)
    tx.set(entity, records.stored(made))


def _memory(memory: MemorySpace, caller: MemoryCaller, ns: str, one: ImportedDecision) -> records.Memory:
    nsh = ids.namespace_hash(ns)
    made = decisions.made_decision(
        ns,
        one.draft,
        authority=one.authority,
        via=caller.via,
        now=memory.clock.now() if one.created_at is None else one.created_at,
        links={f"{transfers.SUPERSEDES}:{old}": link_to(ids.memory_entity(nsh, old)) for old in one.supersedes},
        evidence=one.evidence,
    )
    return records.with_status(made, one.status)


async def import_proposal(
    memory: MemorySpace,
    caller: MemoryCaller,
    ns: str,
    uuid: MemoryId,
    draft: DecisionDraft,
    evidence: Sequence[str],
    created_at: Millis | None,
    *,
    note: str | None = None,
) -> bool:
    """Makes the proposal, or changes the draft of this id; whether anything was written.

    Its review window begins with this commit if it is new or says something else, whatever date the file has.
    """
    check_writer(caller, ns)
    nsh = ids.namespace_hash(ns)
    entity = ids.proposal_entity(nsh, uuid)
    wrote: list[bool] = []

    async def work(tx: Transaction) -> CallAnswer:
        await ensure_namespace(tx, memory, ns)
        before = proposal_of(await tx.get(entity))
        given = {**draft._asdict(), "consequences": list(draft.consequences), "evidence": list(evidence)}
        if before is None:
            made = DecisionProposal(
                ns=ns, **given, author_kind=caller.authority, created_at=created_at or memory.clock.now()
            )
            tx.create(entity, records.stored(made))
            wrote[:] = [True]
            return CallAnswer(ids=[uuid])
        check_open(before, uuid)
        patch = [
            {"op": "add", "path": f"/{name}", "value": value}
            for name, value in given.items()
            if value != getattr(before, name)
        ]
        if patch and before.author_kind == "human" and caller.authority != "human":
            raise IsolationViolation(uuid)
        if patch:
            tx.patch(entity, patch)
        wrote[:] = [bool(patch)]
        return CallAnswer(ids=[uuid])

    await memory.write(work, locked=[entity], reads=[ids.namespace_entity(nsh)], note=note)
    if wrote[0]:
        memory.proposed[entity] = memory.clock.monotonic()
    return wrote[0]
