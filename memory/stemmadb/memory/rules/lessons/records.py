"""What a lesson's requests write: the memory, its links, and observations of its truth and utility."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from stemmadb.memory.rules import namespaces
from stemmadb.memory.rules.ids import MemoryId
from stemmadb.memory.rules.instants import Millis
from stemmadb.memory.rules.lessons.adjusting import UNKNOWN, adjusted
from stemmadb.memory.rules.lessons.requests import Adjustment, LessonScope, NewLesson
from stemmadb.memory.rules.records import Authority, Memory

LessonField = Literal["truth", "utility"]


class LessonObservation(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The value of `urn:observation:<nsh>:<memory>:<uuid>`: why a value moved, and from where to where."""

    v: Literal[1] = 1
    field: LessonField
    target: float
    confidence: float
    rationale: str
    evidence: list[str] = msgspec.field(default_factory=list)
    problem: str | None = None
    before: float
    after: float


def namespace_of_scope(repo_id: str, scope: LessonScope) -> str:
    return namespaces.GLOBAL if scope == "global" else namespaces.of_repository(repo_id)


def visible_namespaces(repo_id: str, *, with_global: bool = True) -> list[str]:
    """What a caller that works in a repository sees: never another repository."""
    mine = namespaces.of_repository(repo_id)
    return [mine, namespaces.GLOBAL] if with_global else [mine]


def link_to(entity: str) -> dict[str, Any]:
    """A link of StemmaDB, which queries can follow."""
    return {"/": {"link@1": {"id": entity}}}


def lesson_record(
    lesson: NewLesson, *, ns: str, links: Mapping[str, str], authority: Authority, now: Millis
) -> Memory:
    """A new lesson: it is as true as its writer is confident. `links` are entities by `<rel>:<uuid>`."""
    return Memory(
        ns=ns,
        kind=lesson.kind,
        text=lesson.text,
        authority=authority,
        via="json",
        confidence=lesson.confidence,
        truth=lesson.confidence,
        utility=UNKNOWN,
        rationale=lesson.rationale,
        evidence=lesson.evidence_refs,
        links={name: link_to(entity) for name, entity in links.items()},
        created_at=now,
    )


def observed(
    field: LessonField, before: float | None, wanted: Adjustment, problem: MemoryId | None
) -> LessonObservation:
    """The observation of one adjustment, with the value that it leads to."""
    start = UNKNOWN if before is None else before
    return LessonObservation(
        field=field,
        target=wanted.target,
        confidence=wanted.confidence,
        rationale=wanted.rationale,
        evidence=wanted.evidence_refs,
        problem=problem,
        before=start,
        after=adjusted(start, wanted),
    )
