"""What is wrong with a plan: every rule, all findings at once, in the words of `memory-validate.sh`."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from stemmadb.memory.rules.tasks import ids
from stemmadb.memory.rules.tasks.file_text import BOM_MARK, FileText, quoted
from stemmadb.memory.rules.tasks.plan import TaskPlan, TaskRecord, dependencies_of, in_circles, is_texts, rolled_up

INDEX: Final = "task-index.json"
_TIME: Final = re.compile(
    r"[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])T([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\.[0-9]+)?Z"
)
_VERSION: Final = re.compile(r"[0-9]+\.[0-9]+\.[0-9]+([-+][0-9A-Za-z.+-]+)?")
_NAME: Final = "the name must be a task id such as 1.json, 1.2.json or 1.2.3.json."
_COMPARED: Final = ("type", "status", "dependencies", "deliverables")


class Finding(NamedTuple):
    """One thing that is wrong. With one that `blocks`, no index can be made of the task files."""

    text: str
    blocks: bool


def of_plan(files: Mapping[str, FileText], index: FileText | None) -> list[str]:
    """Everything that is wrong with the files of `tasks/`, by name, and with the index."""
    found = [*of_entities(files), *_of_index(index, entities(files))]
    return sorted({finding.text for finding in found})


def entities(files: Mapping[str, FileText]) -> dict[str, TaskRecord]:
    """The task files that can be used, by id."""
    found: dict[str, TaskRecord] = {}
    for name, file in files.items():
        id_ = name.removesuffix(".json")
        if ids.is_id(id_) and isinstance(file.value, dict) and file.value.get("id") == id_:
            found[id_] = file.value
    return found


def of_entities(files: Mapping[str, FileText]) -> Iterator[Finding]:
    """What is wrong with the task files themselves."""
    for name, file in files.items():
        at = f"tasks/{name}: "
        yield from _of_text(file, at)
        id_ = name.removesuffix(".json")
        if file.refusal is not None:
            yield Finding(at + file.refusal, True)
        elif not ids.is_id(id_):
            yield Finding(at + _NAME, True)
        elif not isinstance(file.value, dict):
            yield Finding(f"{at}must be an object.", True)
        elif file.value.get("id") != id_:
            yield Finding(f"{at}id must be {quoted(id_)}, as the name says.", True)
    yield from of_records(entities(files), lambda id_: f"tasks/{id_}.json: ")


def _of_text(file: FileText, at: str) -> Iterator[Finding]:
    if file.text is not None and file.text.startswith(BOM_MARK):
        yield Finding(f"{at}begins with a byte order mark.", False)
    if file.text is not None and "\r" in file.text:
        yield Finding(f"{at}has CRLF line endings. Use LF.", False)


def of_records(records: Mapping[str, TaskRecord], at: Callable[[str], str]) -> Iterator[Finding]:
    """What is wrong with tasks that have different, valid ids; `at(id)` is what a finding begins with."""
    plan = TaskPlan(records)
    for id_, record in records.items():
        for text, blocks in (*_of_shape(id_, record), *_of_links(id_, record, plan), *_of_derived(id_, record, plan)):
            yield Finding(at(id_) + text, blocks)
    for id_ in in_circles({id_: dependencies_of(record) for id_, record in records.items()}):
        yield Finding(f"{at(id_)}is in a circle of dependencies.", True)


def of_task(id_: str, record: TaskRecord, plan: TaskPlan) -> Iterator[str]:
    """What is wrong with one stored task of a plan. What is derived is not stored, and cannot be wrong."""
    return (text for text, _ in (*_of_shape(id_, record), *_of_links(id_, record, plan)))


def of_file(id_: str, fields: TaskRecord) -> Iterator[str]:
    """What is wrong with the fields of a task's file by themselves."""
    if fields.get("id") != id_:
        yield f"id must be {quoted(id_)}, as the name says."
    yield from (text for text, _ in _of_shape(id_, fields))


def _of_shape(id_: str, record: TaskRecord) -> Iterator[tuple[str, bool]]:
    if record.get("type") != ids.type_of(id_):
        yield f"type must be {ids.type_of(id_)} at depth {ids.depth(id_)}.", True
    if record.get("status") not in ids.STATUSES:
        yield "status must be pending, in-progress or done.", True
    parent = ids.parent_of(id_)
    if record.get("parent", parent) != parent:
        yield f"parent must be {'null' if parent is None else quoted(parent)}.", True
    for field in ("children", "dependencies"):
        if field in record and not is_texts(record[field]):
            yield f"{field} must be a list of task ids.", True
    for field in ("deliverables", "tests", "acceptanceCriteria"):
        if field in record and not is_texts(record[field]):
            yield f"{field} must be a list of texts.", field == "deliverables"
    for field in ("startedAt", "completedAt"):
        if record.get(field) is not None and not _is_time(record[field]):
            yield f"{field} must be null or a UTC time such as 2025-10-01T10:30:00Z.", False
    began, ended = record.get("startedAt"), record.get("completedAt")
    if _is_time(began) and _is_time(ended) and str(ended)[:19] < str(began)[:19]:
        yield "completedAt is before startedAt.", False


def _is_time(value: Any) -> bool:
    return isinstance(value, str) and _TIME.fullmatch(value) is not None


def _of_links(id_: str, record: TaskRecord, plan: TaskPlan) -> Iterator[tuple[str, bool]]:
    parent = ids.parent_of(id_)
    if parent is not None and parent not in plan.records:
        yield f"its parent {parent} does not exist.", True
    given = dependencies_of(record)
    for one in set(given):
        if one == id_:
            yield "depends on itself.", True
        elif one not in plan.records:
            yield f"depends on {quoted(one)}, which does not exist.", True
    for one in _twice(given):
        yield f"lists the dependency {quoted(one)} twice.", True


def _of_derived(id_: str, record: TaskRecord, plan: TaskPlan) -> Iterator[tuple[str, bool]]:
    below = plan.children(id_)
    if is_texts(record.get("children")):
        yield from _of_children(record["children"], below)
    if below:
        should = rolled_up([plan.records[child].get("status", "") for child in below])
        if record.get("status") != should:
            yield f"status must be {should}, as its children say.", False


def _of_children(given: Sequence[str], below: Sequence[str]) -> Iterator[tuple[str, bool]]:
    for one in set(given) - set(below):
        yield f"children lists {quoted(one)}, which is no child of it.", True
    for one in _twice(given):
        yield f"children lists {quoted(one)} twice.", True
    for one in set(below) - set(given):
        yield f"children lacks {quoted(one)}.", False


def _twice(given: Sequence[str]) -> list[str]:
    return [one for one, number in Counter(given).items() if number > 1]


# ---------------------------------------------------------------- the index


def _of_index(index: FileText | None, files: Mapping[str, TaskRecord]) -> Iterator[Finding]:
    if index is None:
        yield Finding(f"{INDEX}: does not exist. Rebuild it.", False)
        return
    yield from _of_text(index, f"{INDEX}: ")
    if index.refusal is not None:
        yield Finding(f"{INDEX}: {index.refusal}", False)
        return
    value = index.value
    tasks = value.get("tasks") if isinstance(value, dict) else None
    if not isinstance(tasks, list) or not all(isinstance(entry, dict) for entry in tasks):
        yield Finding(f"{INDEX}: must be an object with a list of tasks.", False)
        return
    for text in _of_entries(value.get("version"), tasks, files):
        yield Finding(f"{INDEX}: {text}", False)


def _of_entries(
    version: object, tasks: Sequence[Mapping[str, Any]], files: Mapping[str, TaskRecord]
) -> Iterator[str]:
    if not isinstance(version, str) or not _VERSION.fullmatch(version):
        yield "version must be a version such as 1.0.0."
    valid = [entry for entry in tasks if ids.is_id(entry.get("id"))]
    if len(valid) < len(tasks):
        yield "has an id that is no task id such as 1.2.3."
    for id_ in _twice([entry["id"] for entry in valid]):
        yield f"{id_} is listed twice."
    listed: dict[str, TaskRecord] = {}
    for entry in valid:
        listed.setdefault(entry["id"], entry)
    for id_, entry in listed.items():
        for field in ("parent", "children", "dependencies"):
            if field not in entry:
                yield f"{id_}: {field} is missing."
    yield from (finding.text for finding in of_records(listed, lambda id_: f"{id_}: "))
    if files:
        yield from _against(listed, files)


def _against(listed: Mapping[str, TaskRecord], files: Mapping[str, TaskRecord]) -> Iterator[str]:
    """Where the index is not that of the task files."""
    for id_ in listed:
        if id_ not in files:
            yield f"{id_}: has no file tasks/{id_}.json."
    for id_, record in files.items():
        if id_ not in listed:
            yield f"lacks {id_}."
            continue
        for field in _COMPARED:
            absent: Any = [] if field == "dependencies" else None
            if _or(listed[id_].get(field), absent) != _or(record.get(field), absent):
                yield f"{id_}: {field} is not that of tasks/{id_}.json."


def _or(value: Any, absent: Any) -> Any:
    return absent if value is None or value is False else value
