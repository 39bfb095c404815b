"""Decisions and proposals over the memory server's socket, for the commands."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from stemmadb.memory.interfaces.command.command_context import CommandContext, CommandOperation
from stemmadb.memory.operations import decisions, proposals
from stemmadb.memory.operations.proposals import StoredProposal
from stemmadb.memory.rules import instants
from stemmadb.memory.rules.decisions import SUPERSEDE_RATIONALE_MIN, read_draft, read_old_ids
from stemmadb.memory.rules.namespaces import read_name
from stemmadb.memory.rules.proposals import FILE_ENDING, read_proposal_id
from stemmadb.memory.rules.records import stored
from stemmadb.memory.rules.refusals import InvalidRequest


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
    """Arguments: ns, all."""
    found = await proposals.list_proposals(
        context.memory, context.caller, _ns(arguments), everything=bool(arguments.get("all"))
    )
    return {"proposals": [_shown(one) for one in found]}


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
    "proposals": list_proposals,
    "propose": propose,
    "reject": reject,
    "supersede": supersede,
}
