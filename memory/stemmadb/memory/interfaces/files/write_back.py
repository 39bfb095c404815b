"""The end of a sync: the directory becomes what the store is, but for files with a conflict or a refusal."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from stemmadb.memory.interfaces.files.local_state import LocalState
from stemmadb.memory.interfaces.files.working_copy import CONFLICTS, WorkingCopy
from stemmadb.memory.rules.tasks import file_text, index, paths
from stemmadb.memory.rules.tasks.decide import SyncDecision, records_of
from stemmadb.memory.rules.tasks.merge import is_same
from stemmadb.memory.rules.tasks.paths import PlanFile
from stemmadb.memory.rules.tasks.plan import TaskPlan


def write_back(copy: WorkingCopy, local: LocalState, made: SyncDecision, stored: Mapping[PlanFile, Any]) -> list[str]:
    """Makes the directory what the store is, but for files with a conflict or a refusal."""
    left_alone = {file.path for file in (*made.clashes, *made.refusals)} | local.refused.keys()
    plan = _local_plan(local, left_alone, stored)
    wanted = {
        file.path: (index.task_text(file.name, plan) if file.kind == "task" else value).encode()
        for file, value in stored.items()
        if file.path not in left_alone
    }
    gone = [path for path in local.files if path not in wanted and path not in left_alone]
    writes = {path: data for path, data in wanted.items() if local.files.get(path) != data}
    moved = {path for path in (*writes, *gone) if copy.read(path) != local.files.get(path)}
    writes = {path: data for path, data in writes.items() if path not in moved}
    listing = index.index_text(plan, index.version_of(_read(local.listed))).encode()
    _keep_edits_of_index(copy, local, made, plan)
    copy.replace(writes if listing == local.listed else writes | {paths.INDEX: listing})
    for path in set(gone) - moved:
        copy.remove(path)
    _record(
        copy, local, {path: data for path, data in wanted.items() if path not in moved}, listing, left_alone | moved
    )
    for file in made.clashes:
        copy.set_aside(file.path, _theirs(file, stored))
    copy.settle(file.path for file in made.clashes)
    formatted = {path for path, data in writes.items() if _is_only_formatted(path, local.files.get(path), data)}
    return sorted({*writes, *gone} - moved - formatted)


def _is_only_formatted(path: str, before: bytes | None, after: bytes) -> bool:
    """Whether a task file says what it said, in our order and with what is derived."""
    if before is None or paths.file_at(path).kind == "note":
        return False
    old, new = (file_text.read_json(data).value for data in (before, after))
    is_kept = isinstance(old, dict) and all(key in new and is_same(old[key], new[key]) for key in old)
    return is_kept and new.keys() - old.keys() <= {"parent", "children", "dependencies"}


def _local_plan(local: LocalState, left_alone: Collection[str], stored: Mapping[PlanFile, Any]) -> TaskPlan:
    """The plan as the directory will show it: the store's, with the files that stay as they are."""
    records = records_of(stored)
    for path in left_alone:
        file = paths.file_at(path)
        value = file_text.read_json(local.files.get(path, b"")).value
        if file.kind != "task":
            continue
        if isinstance(value, dict) and value.get("id") == file.name:
            records[file.name] = index.stored_of(file.name, value, has_children=False)
        else:
            records.pop(file.name, None)
    return TaskPlan(records)


def _keep_edits_of_index(copy: WorkingCopy, local: LocalState, made: SyncDecision, plan: TaskPlan) -> None:
    """The index is derived. Edits of it that no task file has are set aside and reported, never lost in silence."""
    edited = _read(local.listed)
    if edited is None or local.listed == local.base.get(paths.INDEX) or not local.base:
        return
    entries = edited.value.get("tasks") if isinstance(edited.value, dict) else None
    now = {id_: index.entry_of(id_, plan) for id_ in plan.records}
    here = {id_: index.entry_of(id_, before) for before in [_plan_of(local.files)] for id_ in before.records}
    for entry in entries if isinstance(entries, list) else [None]:
        id_ = entry.get("id") if isinstance(entry, dict) else None
        known = [side[id_] for side in (now, here) if id_ in side]
        if not any(is_same(_without_progress(entry), _without_progress(one)) for one in known):
            copy.replace({f"{CONFLICTS}/{paths.INDEX}.mine": local.listed or b""})
            made.notes.append(
                f"task-index.json had edits that no task file has. They are in {CONFLICTS}/{paths.INDEX}.mine."
            )
            return


def _without_progress(entry: Any) -> Any:
    return {key: value for key, value in entry.items() if key != "progress"} if isinstance(entry, dict) else entry


def _plan_of(files: Mapping[str, bytes]) -> TaskPlan:
    tasks = {paths.file_at(path): data for path, data in files.items() if paths.file_at(path).kind == "task"}
    read = {file.name: file_text.read_json(data).value for file, data in tasks.items()}
    return TaskPlan({id_: value for id_, value in read.items() if isinstance(value, dict)})


def _record(
    copy: WorkingCopy, local: LocalState, wanted: Mapping[str, bytes], listing: bytes, kept: Collection[str]
) -> None:
    base = {**wanted, paths.INDEX: listing}
    changed = {path: data for path, data in base.items() if local.base.get(path) != data}
    copy.record_base(changed, [path for path in local.base if path not in base and path not in kept])


def _theirs(file: PlanFile, stored: Mapping[PlanFile, Any]) -> str | None:
    if file not in stored:
        return None
    return index.task_text(file.name, TaskPlan(records_of(stored))) if file.kind == "task" else str(stored[file])


def _read(data: bytes | None) -> file_text.FileText | None:
    return None if data is None else file_text.read_json(data)
