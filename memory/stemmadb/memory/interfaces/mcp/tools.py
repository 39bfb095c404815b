"""One function for each tool: from checked arguments to an operation, and from its result to an answer."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, NamedTuple

from stemmadb.memory.operations import decisions, histories, proposals, ranking, searching
from stemmadb.memory.operations.memory_space import MemorySpace, Once
from stemmadb.memory.operations.moments import read_moment
from stemmadb.memory.operations.searching import FoundMemory, SearchQuery
from stemmadb.memory.rules import ids, instants
from stemmadb.memory.rules.decisions import SUPERSEDE_RATIONALE_MIN, read_draft, read_old_ids
from stemmadb.memory.rules.namespaces import GLOBAL
from stemmadb.memory.rules.proposals import FILE_ENDING, read_proposal_id
from stemmadb.memory.rules.roles import MemoryCaller


class ToolCall(NamedTuple):
    """One call: who calls, in which namespace, and what keeps it from being done twice."""

    memory: MemorySpace
    caller: MemoryCaller
    ns: str
    arguments: Mapping[str, Any]
    once: Once | None = None
    note: str | None = None


ToolAnswer = dict[str, Any]


async def record_decision(call: ToolCall) -> ToolAnswer:
    draft = read_draft(call.arguments)
    made = await decisions.record_decision(call.memory, call.caller, call.ns, draft, once=call.once, note=call.note)
    return {"message": f"Recorded decision {made}.", "decision_id": made}


async def supersede_decision(call: ToolCall) -> ToolAnswer:
    draft = read_draft(call.arguments, rationale_min=SUPERSEDE_RATIONALE_MIN)
    olds = read_old_ids(call.arguments["old_decision_ids"])
    made = await decisions.supersede_decision(
        call.memory, call.caller, call.ns, draft, olds, once=call.once, note=call.note
    )
    return {"message": f"Decision {made} supersedes {', '.join(olds)}.", "decision_id": made}


async def search_decisions(call: ToolCall) -> ToolAnswer:
    given = call.arguments
    answer = await ranking.search_decisions(
        call.memory,
        call.caller,
        call.ns,
        given["query"],
        mode=given.get("mode", "balanced"),
        limit=int(given.get("limit", 5)),
    )
    return {"message": None, "results": [one._asdict() for one in answer.found]}


async def accept_proposal(call: ToolCall) -> ToolAnswer:
    proposal = read_proposal_id(call.arguments["proposal_id"])
    made = await proposals.accept_proposal(
        call.memory, call.caller, call.ns, proposal, once=call.once, note=call.note
    )
    return {"message": f"Proposal {proposal} is accepted as decision {made}.", "decision_id": made}


async def propose_decision(call: ToolCall) -> ToolAnswer:
    draft, evidence = read_draft(call.arguments), call.arguments.get("evidence", ())
    made = await proposals.propose_decision(
        call.memory, call.caller, call.ns, draft, evidence, once=call.once, note=call.note
    )
    return {"message": f"Proposed {made}; a person reviews it.", "proposal_id": made + FILE_ENDING}


async def recall(call: ToolCall) -> ToolAnswer:
    given = call.arguments
    at = given.get("at")
    query = SearchQuery(
        [call.ns, GLOBAL],
        text=given["query"],
        kinds=given.get("kinds", ()),
        limit=int(given.get("limit", 10)),
        at=None if at is None else await read_moment(call.memory, at),
    )
    answer = await searching.search(call.memory, call.caller, query)
    results = [_recalled(one) for one in answer.found]
    return {"message": None, "results": results, "version": answer.version, "now": instants.write(answer.now)}


def _recalled(one: FoundMemory) -> dict[str, object]:
    memory = one.memory
    shown = {"id": one.id, "ns": memory.ns, "kind": memory.kind, "status": memory.status}
    said = {"authority": memory.authority, "title": memory.title, "target": memory.target, "text": memory.text}
    return {**shown, **said, "score": one.score, "created_at": instants.write(memory.created_at)}


async def history(call: ToolCall) -> ToolAnswer:
    uuid = read_proposal_id(call.arguments["id"])
    changes = await histories.history(call.memory, call.caller, ids.MemoryId(uuid))
    return {
        "message": None,
        "changes": [one._asdict() | {"time": instants.write(one.time)} for one in changes],
    }


TOOLS: Final[Mapping[str, Callable[[ToolCall], Awaitable[ToolAnswer]]]] = {
    "record_decision": record_decision,
    "supersede_decision": supersede_decision,
    "search_decisions": search_decisions,
    "accept_proposal": accept_proposal,
    "propose_decision": propose_decision,
    "recall": recall,
    "history": history,
}
