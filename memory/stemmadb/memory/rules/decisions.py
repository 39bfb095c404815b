"""Decisions: what an agent or a person settled about a target. A target has at most one active decision.

A decision is never changed. A newer one supersedes it, by naming the id of exactly the one that is active.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal, NamedTuple

import msgspec

from stemmadb.memory.rules import ids, texts
from stemmadb.memory.rules.ids import MemoryId
from stemmadb.memory.rules.instants import Millis
from stemmadb.memory.rules.records import Authority, Memory, Via
from stemmadb.memory.rules.refusals import (
    InvalidRequest,
    IsolationViolation,
    NoSuchMemory,
    NotTheActive,
    TargetTaken,
)
from stemmadb.memory.rules.roles import MemoryCaller

RECORD_RATIONALE_MIN: Final = 10
SUPERSEDE_RATIONALE_MIN: Final = 15
"""Characters: who replaces a decision explains more."""


class DecisionDraft(NamedTuple):
    """What a caller wants to settle."""

    title: str
    target: str
    rationale: str
    consequences: Sequence[str] = ()


class TargetState(msgspec.Struct, frozen=True, kw_only=True):
    """The value of `urn:target:<nsh>:<hash of the target>`: which decision counts."""

    v: Literal[1] = 1
    ns: str
    target: str
    active: str | None = None


def read_draft(given: Mapping[str, Any], *, rationale_min: int = RECORD_RATIONALE_MIN) -> DecisionDraft:
    """Title, target and rationale as text, consequences as a list of texts; `InvalidRequest` for anything else."""
    consequences = given.get("consequences") or []
    if not isinstance(consequences, list | tuple) or not all(isinstance(one, str) for one in consequences):
        raise InvalidRequest("consequences must be a list of texts.", field="consequences")
    rationale = texts.checked(given.get("rationale"), "rationale")
    if len(rationale) < rationale_min:
        raise InvalidRequest(f"rationale has {len(rationale)} characters; give {rationale_min}.", field="rationale")
    return DecisionDraft(
        title=texts.checked(given.get("title"), "title"),
        target=texts.checked(given.get("target"), "target"),
        rationale=rationale,
        consequences=[texts.encodable(one, "consequences") for one in consequences],
    )


def check_record(state: TargetState | None) -> None:
    """`TargetTaken` if the target has an active decision."""
    if state is not None and state.active is not None:
        raise TargetTaken(state.target, state.active)


def check_supersede(
    caller: MemoryCaller, draft: DecisionDraft, state: TargetState | None, olds: Mapping[MemoryId, Memory | None]
) -> None:
    """All or nothing: the ids exist, the caller may replace each, and they are exactly the active ones."""
    for old, memory in olds.items():
        if memory is None or memory.kind != "decision":
            raise NoSuchMemory(old)
    for old, memory in olds.items():
        check_authority(caller, memory, old)
    active = None if state is None else state.active
    if active is None or set(olds) != {active}:
        raise NotTheActive(draft.target, active)


def check_authority(caller: MemoryCaller, memory: Memory | None, uuid: str) -> None:
    """`IsolationViolation` if an agent would replace what a person decided."""
    if memory is not None and memory.authority == "human" and caller.authority != "human":
        raise IsolationViolation(uuid)


def read_old_ids(given: object) -> Sequence[MemoryId]:
    """At least one id, each once; `InvalidRequest` otherwise."""
    if not isinstance(given, list | tuple) or not given:
        raise InvalidRequest("old_decision_ids must name at least one decision.", field="old_decision_ids")
    read = [ids.read_memory_id(one, "old_decision_ids") for one in given]
    if len(set(read)) != len(read):
        raise InvalidRequest("old_decision_ids names the same decision twice.", field="old_decision_ids")
    return read


def made_decision(
    ns: str,
    draft: DecisionDraft,
    *,
    authority: Authority,
    via: Via,
    now: Millis,
    links: Mapping[str, Any],
    evidence: Sequence[str] = (),
) -> Memory:
    """The memory of a decision. Its authority comes from the caller's role, never from its text."""
    return Memory(
        ns=ns,
        kind="decision",
        title=draft.title,
        target=draft.target,
        text=draft.rationale,
        consequences=list(draft.consequences),
        authority=authority,
        via=via,
        evidence=list(evidence),
        links=dict(links),
        created_at=now,
    )


def target_of(value: object) -> TargetState | None:
    """The state of a target; None if it has none, or somebody else wrote there."""
    try:
        return None if value is None else msgspec.convert(value, TargetState)
    except msgspec.ValidationError:
        return None
