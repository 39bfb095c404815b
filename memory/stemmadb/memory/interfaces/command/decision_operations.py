"""Decisions and proposals over the memory server's socket, for the commands."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from stemmadb.memory.interfaces.command.command_context import CommandContext, CommandOperation
from stemmadb.memory.operations import decisions, proposals, transfers
from stemmadb.memory.operations.memories import StoredMemory
from stemmadb.memory.operations.proposals import StoredProposal
from stemmadb.memory.operations.targets import decisions_about
from stemmadb.memory.rules import instants, proposal_files
from stemmadb.memory.rules.decisions import SUPERSEDE_RATIONALE_MIN, read_draft, read_old_ids
from stemmadb.memory.rules.ids import MemoryId
from stemmadb.memory.rules.namespaces import read_name
from stemmadb.memory.rules.proposals import FILE_ENDING, read_proposal_id
from stemmadb.memory.rules.records import stored
from stemmadb.memory.rules.refusals import InvalidRequest, NoSuchProposal
from stemmadb.memory.rules.transfers import exported, read_line


async def decide(context: CommandContext, arguments: Mapping[str, Any]) -> Mapping[str, object]:
    """Arguments: ns, title, target, rationale, consequences."""
    draft = read_draft(arguments)
    note = _note("decide", context)
    made = await decisions.record_decision(context.memory, context.caller, _ns(arguments), draft, note=note)
    return {"decision_id": made}


async def supersede(context: CommandContext, arguments: Mapping[str, Any]) -> Mapping[str, object]:
    """Arguments: those of `decide`, and old_decision_ids."""
    draft = read_draft(arguments, rationale_min=SUPERSEDE_RATIONALE_MIN)
    olds, note = read_old_ids(arguments.get("old_decision_ids")), _note("supersede", context)
    made = await decisions.supersede_decision(context.memory, context.caller, _ns(arguments), draft, olds, note=note)
    return {"decision_id": made}


async def propose(context: CommandContext, arguments: Mapping[str, Any]) -> Mapping[str, object]:
    """Arguments: those of `decide`, and evidence."""
    draft, evidence = read_draft(arguments), arguments.get("evidence") or []
    if not isinstance(evidence, list) or not all(isinstance(one, str) for one in evidence):
        raise InvalidRequest("evidence must be a list of texts.", field="evidence")
    made = await proposals.propose_decision(
        context.memory, context.caller, _ns(arguments), draft, evidence, note=_note("propose", context)
    )
    return {"proposal_id": made + FILE_ENDING}


async def list_proposals(context: CommandContext, arguments: Mapping[str, Any]) -> Mapping[str, object]:
    """Arguments: ns, all, diff, id. With `diff` each has `active`: the decision that it would replace."""
    memory, ns, wanted = context.memory, _ns(arguments), arguments.get("id")
    only = None if wanted is None else read_proposal_id(wanted)
    is_all = bool(arguments.get("all")) or only is not None
    found = await proposals.list_proposals(memory, context.caller, ns, everything=is_all)
    chosen = [one for one in found if only in (None, one.id)]
    if only is not None and not chosen:
        raise NoSuchProposal(only)
    shown = [_shown(one) for one in chosen]
    if arguments.get("diff"):
        for one, body in zip(chosen, shown, strict=True):
            _, about = await decisions_about(memory, context.caller, ns, one.proposal.target)
            body["active"] = next((_compared(other) for other in about if other.memory.status == "active"), None)
    return {"proposals": shown}


async def export_proposals(context: CommandContext, arguments: Mapping[str, Any]) -> Mapping[str, object]:
    """Arguments: ns. The files of the proposals that wait for a review."""
    found = await proposals.list_proposals(context.memory, context.caller, _ns(arguments))
    return {"files": {one.id + FILE_ENDING: proposal_files.written(one.proposal) for one in found}}


async def import_proposals(context: CommandContext, arguments: Mapping[str, Any]) -> Mapping[str, object]:
    """Arguments: ns, files (text by name). A file whose name is no id becomes a new proposal."""
    files = arguments.get("files")
    if not isinstance(files, Mapping):
        raise InvalidRequest("files must be an object of texts.", field="files")
    results = []
    for name, text in files.items():
        given, uuid = proposal_files.read(str(text)), _id_of_file(name) or context.memory.new_id()
        created, evidence = given.get("created_at"), given.get("evidence") or []
        if not isinstance(evidence, list) or not all(isinstance(one, str) for one in evidence):
            raise InvalidRequest(f"{name}: evidence must be a list of texts.", field="evidence")
        wrote = await transfers.import_proposal(
            context.memory,
            context.caller,
            _ns(arguments),
            uuid,
            read_draft(given),
            evidence,
            None if created is None else instants.read(created, "created_at"),
            note=_note("import of a proposal", context),
        )
        results.append({"file": name, "proposal_id": uuid + FILE_ENDING, "changed": wrote})
    return {"imported": results}


async def export_decisions(context: CommandContext, arguments: Mapping[str, Any]) -> Mapping[str, object]:
    """Arguments: ns."""
    found = await transfers.export_decisions(context.memory, context.caller, _ns(arguments))
    return {"decisions": [exported(one.id, one.memory) for one in found]}


async def import_decisions(context: CommandContext, arguments: Mapping[str, Any]) -> Mapping[str, object]:
    """Arguments: ns, decisions (a list of lines). All or nothing."""
    given = arguments.get("decisions")
    if not isinstance(given, list):
        raise InvalidRequest("decisions must be a list.", field="decisions")
    lines = [read_line(one, context.caller.authority, number) for number, one in enumerate(given, 1)]
    report = await transfers.import_decisions(
        context.memory, context.caller, _ns(arguments), lines, note=_note("import", context)
    )
    return {"imported": list(report.made), "known": list(report.known)}


def _id_of_file(name: str) -> MemoryId | None:
    try:
        return read_proposal_id(name)
    except InvalidRequest:
        return None


def _compared(one: StoredMemory) -> dict[str, object]:
    memory = one.memory
    said = {"title": memory.title, "rationale": memory.text, "consequences": memory.consequences}
    return {"decision_id": one.id, "authority": memory.authority, **said}


async def accept(context: CommandContext, arguments: Mapping[str, Any]) -> Mapping[str, object]:
    """Arguments: ns, proposal_id."""
    uuid = read_proposal_id(arguments.get("proposal_id"))
    made = await proposals.accept_proposal(
        context.memory, context.caller, _ns(arguments), uuid, note=_note("accept", context)
    )
    return {"decision_id": made}


async def reject(context: CommandContext, arguments: Mapping[str, Any]) -> Mapping[str, object]:
    """Arguments: ns, proposal_id."""
    uuid = read_proposal_id(arguments.get("proposal_id"))
    await proposals.reject_proposal(
        context.memory, context.caller, _ns(arguments), uuid, note=_note("reject", context)
    )
    return {"rejected": uuid}


def _ns(arguments: Mapping[str, Any]) -> str:
    return read_name(arguments.get("ns"), "ns")


def _note(operation: str, context: CommandContext) -> str:
    return f"{operation} by {context.caller.name} ({context.caller.role})"


def _shown(one: StoredProposal) -> dict[str, object]:
    value = {name: item for name, item in stored(one.proposal).items() if name != "v"}
    shown = {"status": one.proposal.status, "author_kind": one.proposal.author_kind}
    times = {"created_at": instants.write(one.proposal.created_at)}
    return {"proposal_id": one.id + FILE_ENDING} | value | shown | times


DECISION_OPERATIONS: Final[dict[str, CommandOperation]] = {
    "accept": accept,
    "decide": decide,
    "export": export_decisions,
    "import": import_decisions,
    "proposals": list_proposals,
    "proposals_export": export_proposals,
    "proposals_import": import_proposals,
    "propose": propose,
    "reject": reject,
    "supersede": supersede,
}
