"""Requests of the JSON interface that have the right shape, with defaults filled in."""

from __future__ import annotations

from typing import Final, Literal, get_args

import msgspec

LessonKind = Literal["problem", "solution", "failed_tactic", "fact", "preference", "change"]
LESSON_KINDS: Final[tuple[LessonKind, ...]] = get_args(LessonKind)
ATTEMPTS: Final[tuple[LessonKind, ...]] = ("solution", "failed_tactic")
"""Kinds that belong to a problem."""
ReadMode = Literal["ambient", "targeted"]
UpdateMode = Literal["dry_run", "commit"]
LessonScope = Literal["repo", "global"]


class NeighbourOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Which neighbours of what was found are shown too."""

    semantic_hops: int = 2
    include_problem_links: bool = True
    include_update_links: bool = True


class ReadLessons(msgspec.Struct, frozen=True, kw_only=True):
    """A read."""

    repo_id: str
    mode: ReadMode
    query: str
    include_global: bool = True
    kinds: list[LessonKind] = msgspec.field(default_factory=list)
    """None of them means all."""
    limit: int = 20
    expand: NeighbourOptions = NeighbourOptions()


class LessonLinks(msgspec.Struct, frozen=True, kw_only=True):
    """The links that a new lesson stores."""

    problem_id: str | None = None
    related_memory_ids: list[str] = msgspec.field(default_factory=list)
    change_targets: list[str] = msgspec.field(default_factory=list)


class NewLesson(msgspec.Struct, frozen=True, kw_only=True):
    """What a write makes."""

    text: str
    scope: LessonScope
    kind: LessonKind
    confidence: float
    rationale: str | None = None
    links: LessonLinks = LessonLinks()
    evidence_refs: list[str] = msgspec.field(default_factory=list)


class WriteLesson(msgspec.Struct, frozen=True, kw_only=True):
    """A write."""

    repo_id: str
    memory: NewLesson


class Adjustment(msgspec.Struct, frozen=True, kw_only=True):
    """Where truth or utility should go, how sure the caller is, and why."""

    target: float
    confidence: float
    rationale: str
    context_problem_id: str | None = None
    evidence_refs: list[str] = msgspec.field(default_factory=list)


class LessonUpdates(msgspec.Struct, frozen=True, kw_only=True):
    """At least one of the two."""

    truth: Adjustment | None = None
    utility: Adjustment | None = None


class UpdateLesson(msgspec.Struct, frozen=True, kw_only=True):
    """An update."""

    repo_id: str
    memory_id: str
    mode: UpdateMode
    updates: LessonUpdates


LessonRequest = ReadLessons | WriteLesson | UpdateLesson
TYPES: Final[dict[str, type[LessonRequest]]] = {"read": ReadLessons, "write": WriteLesson, "update": UpdateLesson}
"""By the value of `op`."""
