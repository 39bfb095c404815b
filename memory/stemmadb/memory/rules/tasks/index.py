"""`task-index.json`: made from the tasks alone, so that it can always be made again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from stemmadb.memory.rules.tasks import ids
from stemmadb.memory.rules.tasks.file_text import FileText, in_order, write_json
from stemmadb.memory.rules.tasks.plan import TaskPlan, TaskRecord, dependencies_of

VERSION: Final = "1.0.0"


def entry_of(id_: str, plan: TaskPlan) -> dict[str, Any]:
    """A task as the index shows it."""
    record = plan.records[id_]
    entry: dict[str, Any] = {
        "id": id_,
        "type": ids.type_of(id_),
        "status": plan.status(id_),
        "parent": ids.parent_of(id_),
        "children": list(plan.children(id_)),
        "dependencies": dependencies_of(record),
    }
    if plan.children(id_):
        entry["progress"] = plan.progress(id_)
    if "deliverables" in record:
        entry["deliverables"] = record["deliverables"]
    return entry


def index_text(plan: TaskPlan, version: str = VERSION) -> str:
    """The bytes of the file: the same for the same tasks."""
    return write_json({"version": version, "tasks": [entry_of(id_, plan) for id_ in plan.records]})


def version_of(index: FileText | None) -> str:
    """The version that an index has; a new one begins with 1.0.0."""
    value = index.value.get("version") if index is not None and isinstance(index.value, dict) else None
    return value if isinstance(value, str) else VERSION


def task_text(id_: str, plan: TaskPlan) -> str:
    """A task's file: what is stored, and what is derived."""
    record = plan.records[id_]
    derived = {"status": plan.status(id_), "parent": ids.parent_of(id_), "children": list(plan.children(id_))}
    return write_json(in_order(dict(record) | derived))


def stored_of(id_: str, fields: Mapping[str, Any], *, has_children: bool) -> TaskRecord:
    """A task without what is derived: its children, and with children its status and progress."""
    derived = {"children", "progress", "status"} if has_children else {"children"}
    kept = {key: value for key, value in fields.items() if key not in derived}
    return {"dependencies": []} | kept | {"id": id_, "type": ids.type_of(id_), "parent": ids.parent_of(id_)}
