"""Decisions as JSON lines, for export and import: one decision a line, those that are superseded included.

An exported rationale of an agent begins with `[via MCP] `. On import such a rationale is an agent's, whoever the
caller is.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from graphlib import CycleError, TopologicalSorter
from typing import Any, Final, Literal, NamedTuple, cast, get_args

from stemmadb.memory.rules import ids, instants
from stemmadb.memory.rules.decisions import DecisionDraft, read_draft
from stemmadb.memory.rules.ids import MemoryId
from stemmadb.memory.rules.instants import Millis
from stemmadb.memory.rules.records import Authority, Memory
from stemmadb.memory.rules.refusals import InvalidRequest

ImportedStatus = Literal["active", "superseded", "deprecated"]
STATUSES: Final[tuple[str, ...]] = get_args(ImportedStatus)
MARK: Final = "[via MCP] "
SUPERSEDES: Final = "supersedes"
_MARKED: Final = re.compile(r"\[via MCP[^\]\n]*\]\s*")


class ImportedDecision(NamedTuple):
    """A line, checked. Its authority is at most that of the caller."""

    id: MemoryId | None
    draft: DecisionDraft
    status: ImportedStatus
    authority: Authority
    supersedes: Sequence[MemoryId]
    evidence: Sequence[str]
    created_at: Millis | None


def exported(uuid: str, memory: Memory) -> dict[str, Any]:
    """The line of a decision."""
    rationale = memory.text if memory.authority == "human" else MARK + memory.text
    olds = sorted(name.partition(":")[2] for name in memory.links if name.startswith(SUPERSEDES + ":"))
    return {
        "id": uuid,
        "title": memory.title,
        "target": memory.target,
        "rationale": rationale,
        "consequences": memory.consequences,
        "status": memory.status,
        SUPERSEDES: olds,
        "evidence": memory.evidence,
        "created_at": instants.write(memory.created_at),
    }


def read_line(given: object, authority: Authority, number: int) -> ImportedDecision:
    """`InvalidRequest` names the line. A marked rationale is an agent's and loses the mark."""
    try:
        if not isinstance(given, Mapping):
            raise InvalidRequest("it is no JSON object.")
        return _read(given, authority)
    except InvalidRequest as wrong:
        raise InvalidRequest(f"line {number}: {wrong}", field=wrong.field) from None


def _read(given: Mapping[str, Any], authority: Authority) -> ImportedDecision:
    rationale = given.get("rationale")
    mark = _MARKED.match(rationale) if isinstance(rationale, str) else None
    plain = rationale[mark.end() :] if mark is not None and isinstance(rationale, str) else rationale
    status = given.get("status", "active")
    if status not in STATUSES:
        raise InvalidRequest(f"status must be one of {', '.join(STATUSES)}.", field="status")
    olds, evidence = given.get(SUPERSEDES) or [], given.get("evidence") or []
    if not isinstance(olds, list) or not isinstance(evidence, list) or not all(isinstance(e, str) for e in evidence):
        raise InvalidRequest(f"{SUPERSEDES} and evidence must be lists of texts.", field=SUPERSEDES)
    uuid, created = given.get("id"), given.get("created_at")
    return ImportedDecision(
        id=None if uuid is None else ids.read_memory_id(uuid),
        draft=read_draft({**given, "rationale": plain}, rationale_min=1),
        status=cast("ImportedStatus", status),
        authority="agent" if mark is not None else authority,
        supersedes=list(dict.fromkeys(ids.read_memory_id(one, SUPERSEDES) for one in olds)),
        evidence=evidence,
        created_at=None if created is None else instants.read(created, "created_at"),
    )


def older_first(lines: Sequence[ImportedDecision]) -> list[ImportedDecision]:
    """So that each comes after what it supersedes; `InvalidRequest` for a cycle, or an id that comes twice."""
    named = {one.id: one for one in lines if one.id is not None}
    if len(named) != sum(one.id is not None for one in lines):
        raise InvalidRequest("Two lines have the same id.", field="id")
    order = TopologicalSorter({uuid: [old for old in one.supersedes if old in named] for uuid, one in named.items()})
    try:
        sorted_ids = list(order.static_order())
    except CycleError as found:
        cycle = ", ".join(str(one) for one in found.args[1])
        raise InvalidRequest(
            f"These decisions supersede each other in a circle: {cycle}.", field=SUPERSEDES
        ) from None
    return [named[uuid] for uuid in sorted_ids] + [one for one in lines if one.id is None]


def check_active(lines: Sequence[ImportedDecision]) -> None:
    """At most one active decision for a target, and nothing active that another line supersedes."""
    olds = {old for one in lines for old in one.supersedes}
    targets: set[str] = set()
    for one in lines:
        if one.status != "active":
            continue
        if one.id in olds:
            raise InvalidRequest(f"{one.id} is active, and another line supersedes it.", field="status")
        if one.draft.target in targets:
            raise InvalidRequest(f"The target {one.draft.target!r} has two active decisions.", field="status")
        targets.add(one.draft.target)
