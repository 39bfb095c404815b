"""One JSON request to one JSON answer: `{"status": "ok", ...}` or `{"status": "error", "errors": [...]}`."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import Any, Final

from stemmadb.memory.operations.lesson_reading import LessonsRead, ReadLesson, read_lessons
from stemmadb.memory.operations.lessons import UpdatedLesson, update_lesson, write_lesson
from stemmadb.memory.operations.memory_space import MemorySpace
from stemmadb.memory.rules import instants, namespaces
from stemmadb.memory.rules.ids import MemoryId
from stemmadb.memory.rules.lessons import gates
from stemmadb.memory.rules.lessons.adjusting import UNKNOWN
from stemmadb.memory.rules.lessons.faults import LessonRefused
from stemmadb.memory.rules.lessons.reading import LessonEdge
from stemmadb.memory.rules.lessons.requests import LessonRequest, ReadLessons, UpdateLesson, WriteLesson
from stemmadb.memory.rules.refusals import Busy, NoSuchMemory, NoSuchNamespace, NotAllowed, PermissionDenied, Refusal
from stemmadb.memory.rules.roles import MemoryCaller
from stemmadb.protocol.errors import BadInput, StemmaError

_log: Final = logging.getLogger("stemmadb.memory.json")
CODES: Final[Mapping[type[Exception], tuple[str, str]]] = {
    NoSuchMemory: ("not_found", "memory_id"),
    NoSuchNamespace: ("not_found", "repo_id"),
    Busy: ("conflict", ""),
    PermissionDenied: ("forbidden", ""),
    NotAllowed: ("forbidden", "repo_id"),
    BadInput: ("schema_error", ""),
}
"""Code and field of what is refused after the gates."""


async def answer(memory: MemorySpace, caller: MemoryCaller, value: object) -> dict[str, Any]:
    """The answer to a request that was decoded from JSON; whatever goes wrong is an answer too."""
    try:
        request, warnings = gates.passed(value)
        return await _answered(memory, caller._replace(via="json"), request, warnings)
    except LessonRefused as refused:
        return refusal(refused)
    except (Refusal, StemmaError) as failed:
        found = next((pair for kind, pair in CODES.items() if isinstance(failed, kind)), ("internal_error", ""))
        return _failed([{"code": found[0], "message": str(failed), "field": found[1]}])
    except Exception:
        _log.exception("a JSON request failed")
        message = "An internal error. The memory server has logged it."
        return _failed([{"code": "internal_error", "message": message, "field": ""}])


def refusal(refused: LessonRefused) -> dict[str, Any]:
    """The answer to a request that a gate stopped."""
    return _failed(fault._asdict() for fault in refused.faults)


def _failed(errors: Iterable[Mapping[str, object]]) -> dict[str, Any]:
    return {"status": "error", "errors": list(errors)}


async def _answered(
    memory: MemorySpace, caller: MemoryCaller, request: LessonRequest, warnings: list[str]
) -> dict[str, Any]:
    data: dict[str, Any]
    match request:
        case WriteLesson():
            written = await write_lesson(memory, caller, request)
            data, version = {"memory_id": written.id}, written.version
        case UpdateLesson():
            updated = await update_lesson(memory, caller, request)
            data, version = _update_data(updated), updated.version
        case ReadLessons():
            found = await read_lessons(memory, caller, request)
            data, version = _read_data(found, request), found.version
            warnings = [*warnings, *_limits(found)]
    return {"status": "ok", "data": data, "version": version, "warnings": warnings}


def _update_data(updated: UpdatedLesson) -> dict[str, Any]:
    moved: dict[str, Any] = {one.field: {"before": one.before, "after": one.after} for one in updated.observations}
    return {"memory_id": updated.id, "committed": updated.is_committed, **moved}


def _limits(found: LessonsRead) -> list[str]:
    warnings = ["partial: more memories match than were ranked; use rarer words"] if found.is_partial else []
    return warnings + (["degraded: the index is behind; the newest may be missing"] if found.is_degraded else [])


def _read_data(found: LessonsRead, request: ReadLessons) -> dict[str, Any]:
    return {"memories": [_shown(one, request) for one in found.lessons], "now": instants.write(found.now)}


def _shown(one: ReadLesson, request: ReadLessons) -> dict[str, Any]:
    ranked, memory = one.ranked, one.memory
    is_global = memory.ns == namespaces.GLOBAL
    return {
        "memory_id": ranked.id,
        "text": memory.text,
        "kind": memory.kind,
        "scope": "global" if is_global else "repo",
        "repo_id": None if is_global else request.repo_id,
        "truth": UNKNOWN if memory.truth is None else memory.truth,
        "utility": UNKNOWN if memory.utility is None else memory.utility,
        "confidence": memory.confidence,
        "score": ranked.score,
        "via": ranked.reached,
        "hop": ranked.hop,
        "links": _links(ranked.id, one.edges),
        "changed_by": sorted(edge.newer for edge in one.edges if edge.rel == "changes" and edge.older == ranked.id),
        "created_at": instants.write(memory.created_at),
    }


def _links(uuid: MemoryId, edges: Iterable[LessonEdge]) -> dict[str, object]:
    """As a write gives them, with the other end of `related` and the attempts at a problem; without empty ones."""
    edges = list(edges)
    problem = [edge.older for edge in edges if edge.rel == "problem" and edge.newer == uuid]
    related = {edge.older if edge.newer == uuid else edge.newer for edge in edges if edge.rel == "related"}
    shown: dict[str, object] = {
        "problem_id": problem[0] if problem else None,
        "related_memory_ids": sorted(related),
        "change_targets": sorted(edge.older for edge in edges if edge.rel == "changes" and edge.newer == uuid),
        "attempts": sorted(edge.newer for edge in edges if edge.rel == "problem" and edge.older == uuid),
    }
    return {name: value for name, value in shown.items() if value}
