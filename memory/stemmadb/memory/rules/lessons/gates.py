"""The first two gates of a request: its shape (the schema), then its sense. The third, links, needs the store."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

import jsonschema_rs
import msgspec

from stemmadb.memory.rules.lessons.faults import LessonFault, LessonRefused
from stemmadb.memory.rules.lessons.requests import (
    ATTEMPTS,
    TYPES,
    Adjustment,
    LessonRequest,
    NewLesson,
    ReadLessons,
    UpdateLesson,
    WriteLesson,
)
from stemmadb.memory.rules.lessons.schemas import SCHEMAS

_VALIDATORS: Final = {op: jsonschema_rs.Draft202012Validator(schema) for op, schema in SCHEMAS.items()}


class PassedRequest(NamedTuple):
    """A request that has shape and sense, and what the caller should know about it."""

    request: LessonRequest
    warnings: list[str]


def read_request(body: bytes) -> object:
    """The JSON value of a body; `LessonRefused` if it is none."""
    try:
        return msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as broken:
        raise LessonRefused([LessonFault("schema_error", f"The request is not JSON: {broken}.")]) from None


def passed(value: object) -> PassedRequest:
    """The request that a JSON value is; `LessonRefused` with everything that the first failing gate found."""
    op = _checked_shape(value)
    assert isinstance(value, Mapping), "its shape was checked"
    request = msgspec.convert(value, TYPES[op], strict=False)
    if faults := list(_senseless(request)):
        raise LessonRefused(faults)
    return PassedRequest(request, [f"unknown field: {name}" for name in _unknown(value, SCHEMAS[op])])


# ---------------------------------------------------------------- shape


def _checked_shape(value: object) -> str:
    if not isinstance(value, Mapping):
        raise LessonRefused([LessonFault("schema_error", "The request must be a JSON object.")])
    op = value.get("op")
    if not isinstance(op, str) or op not in SCHEMAS:
        raise LessonRefused([LessonFault("schema_error", "op must be read, write or update.", "op")])
    try:
        msgspec.json.encode(value)
        faults = [_fault(error) for error in _VALIDATORS[op].iter_errors(value)]
    except (UnicodeEncodeError, ValueError, RecursionError) as broken:
        faults = [LessonFault("schema_error", f"The request holds what JSON cannot: {broken}.")]
    if faults:
        raise LessonRefused(sorted(faults, key=lambda fault: (fault.field, fault.message)))
    return op


def _fault(error: jsonschema_rs.ValidationError) -> LessonFault:
    at = [str(part) for part in error.instance_path]
    missing = getattr(error.kind, "property", None)
    if error.kind.name == "required" and isinstance(missing, str):
        field = ".".join([*at, missing])
        return LessonFault("schema_error", f"{field} is required.", field)
    field = ".".join(at)
    if error.kind.name == "anyOf":
        return LessonFault("schema_error", f"{field} needs truth or utility.", field)
    return LessonFault("schema_error", f"{field}: {error.message}.", field)


def _unknown(value: object, schema: Mapping[str, Any], at: str = "") -> Iterator[str]:
    """Members that the schema does not name, in the order they came."""
    known = schema.get("properties")
    if known is None or not isinstance(value, Mapping):
        return
    for name, item in value.items():
        if name in known:
            yield from _unknown(item, known[name], f"{at}{name}.")
        else:
            yield f"{at}{name}"


# ---------------------------------------------------------------- sense


def _senseless(request: LessonRequest) -> Iterator[LessonFault]:
    if not request.repo_id.strip():
        yield LessonFault("semantic_error", "repo_id is blank. Name the repository.", "repo_id")
    match request:
        case ReadLessons():
            if not request.query.strip():
                yield LessonFault("semantic_error", "query is blank. Say what to look for.", "query")
        case WriteLesson():
            yield from _senseless_lesson(request.memory)
        case UpdateLesson():
            for name, wanted in (("truth", request.updates.truth), ("utility", request.updates.utility)):
                if wanted is not None:
                    yield from _senseless_adjustment(name, wanted)


def _senseless_lesson(lesson: NewLesson) -> Iterator[LessonFault]:
    if not lesson.text.strip():
        yield LessonFault("semantic_error", "text is blank. Write what was learned.", "memory.text")
    is_attempt, problem = lesson.kind in ATTEMPTS, "memory.links.problem_id"
    if is_attempt and lesson.links.problem_id is None:
        message = f"A {lesson.kind} needs links.problem_id: write the problem first and give its memory_id."
        yield LessonFault("semantic_error", message, problem)
    if not is_attempt and lesson.links.problem_id is not None:
        message = f"Only a solution or a failed_tactic has a problem_id. Link a {lesson.kind} by related_memory_ids."
        yield LessonFault("semantic_error", message, problem)
    if lesson.kind != "change" and lesson.links.change_targets:
        message = "Only a change has change_targets. Write it with kind change, or use related_memory_ids."
        yield LessonFault("semantic_error", message, "memory.links.change_targets")


def _senseless_adjustment(name: str, wanted: Adjustment) -> Iterator[LessonFault]:
    if not wanted.rationale.strip():
        yield LessonFault("semantic_error", "rationale is blank. Say why.", f"updates.{name}.rationale")
    if name == "truth" and not any(ref.strip() for ref in wanted.evidence_refs):
        message = "Truth moves only with evidence. Give a reference that is not blank."
        yield LessonFault("semantic_error", message, "updates.truth.evidence_refs")
