"""Which files of `.claude/memory/` belong to the plan, and by which ids the store keeps them.

Paths are relative to `.claude/memory/`. A path that comes from the store is checked like one from the disk: a writer
of the store cannot write outside the directory.
"""

from __future__ import annotations

import re
from typing import Final, Literal, NamedTuple
from urllib.parse import quote, unquote

from stemmadb.memory.rules.ids import FILES, TASKS, NamespaceHash
from stemmadb.memory.rules.tasks import ids

FileKind = Literal["task", "note"]

INDEX: Final = "task-index.json"
STATE: Final = ".stemma"
OURS: Final = ("lib", STATE)
"""Directories that are never part of a plan."""
_EXTENSION: Final = re.compile(r".+\.(json|md|txt|yaml|yml)", re.ASCII | re.DOTALL)
_FORBIDDEN: Final = re.compile(r"[\x00-\x1f\x7f\\]|\.\.|%(2[eEfF]|5[cC]|00)", re.ASCII)


class PlanFile(NamedTuple):
    """A file that is synced: a task by its id, or anything else by its path."""

    kind: FileKind
    name: str

    @property
    def path(self) -> str:
        return f"tasks/{self.name}.json" if self.kind == "task" else self.name

    def entity(self, nsh: NamespaceHash) -> str:
        return f"{TASKS}{nsh}:{self.name}" if self.kind == "task" else f"{FILES}{nsh}:{quote(self.name, safe='/')}"


def refusal_of(path: str) -> str | None:
    """Why no plan can have a file of this path; None if one can."""
    parts = path.split("/")
    if _FORBIDDEN.search(path) or "" in parts or "." in parts:
        return "the path must not have '..', control characters, backslashes or encoded dots and slashes in it."
    if not _EXTENSION.fullmatch(parts[-1]):
        return "the name must end with .json, .md, .txt, .yaml or .yml."
    if parts[0] in OURS:
        return "lib/ and .stemma/ are not synced."
    if (
        parts[0] == "tasks"
        and len(parts) == 2
        and path.endswith(".json")
        and not ids.is_id(parts[1][: -len(".json")])
    ):
        return "the name must be a task id such as 1.json, 1.2.json or 1.2.3.json."
    return None


def file_at(path: str) -> PlanFile:
    """What a path without a refusal stands for."""
    name = path.removeprefix("tasks/").removesuffix(".json")
    return PlanFile("task", name) if path == f"tasks/{name}.json" and ids.is_id(name) else PlanFile("note", path)


def file_of(entity: str, nsh: NamespaceHash) -> PlanFile | None:
    """What an entity of the store stands for; None for one that no file may have."""
    task = entity.removeprefix(f"{TASKS}{nsh}:")
    if task != entity:
        return PlanFile("task", task) if ids.is_id(task) else None
    path = unquote(entity.removeprefix(f"{FILES}{nsh}:"))
    is_note = refusal_of(path) is None and path != INDEX and file_at(path).kind == "note"
    return PlanFile("note", path) if is_note else None
