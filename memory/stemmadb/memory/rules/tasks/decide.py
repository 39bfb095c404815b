"""What a set of changed files does to the store: which are written, which clash, which break a rule of the plan."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from stemmadb.memory.rules.tasks import findings, ids
from stemmadb.memory.rules.tasks.index import stored_of
from stemmadb.memory.rules.tasks.merge import Clash, is_same, merge_values
from stemmadb.memory.rules.tasks.paths import PlanFile
from stemmadb.memory.rules.tasks.plan import TaskPlan, TaskRecord, dependencies_of, in_circles

StoredFiles = Mapping[PlanFile, Any]
"""What the store has: the record of a task, the text of a note."""
_DERIVED: Final = "status"


class FileChange(NamedTuple):
    """A file that differs from the last sync. For a task both are the fields of its file, else texts."""

    file: PlanFile
    base: Any
    mine: Any


class SyncDecision(NamedTuple):
    """`writes` has a value for each file to write, None to delete it; the others say why a file is not written."""

    writes: dict[PlanFile, Any]
    clashes: dict[PlanFile, Clash]
    refusals: dict[PlanFile, str]
    notes: list[str]


def decide(changes: Iterable[FileChange], stored: StoredFiles) -> SyncDecision:
    """Merges every change with what is stored, and keeps the plan's rules. A file that breaks one stops itself."""
    made = SyncDecision({}, {}, {}, [])
    listed = list(changes)
    before, now = _parents(listed, stored)
    for change in listed:
        why = _misshapen(change, has_children=change.file.name in now)
        merged = None if why else _merged(change, stored.get(change.file), before, now)
        if why is not None:
            made.refusals[change.file] = why
        elif isinstance(merged, Clash):
            made.clashes[change.file] = merged
        elif not is_same(merged, stored.get(change.file)):
            made.writes[change.file] = merged
    _keep_rules(made, stored)
    _drop_statuses(made, stored)
    made.notes.extend(_dropped(listed, made, stored))
    return made


def _parents(changes: Sequence[FileChange], stored: StoredFiles) -> tuple[set[str | None], set[str | None]]:
    """Tasks that have children in the store, and those that will have some."""
    present = {file.name for file in stored if file.kind == "task"}
    before = {ids.parent_of(id_) for id_ in present}
    tasks = [change for change in changes if change.file.kind == "task"]
    present |= {change.file.name for change in tasks if change.mine is not None}
    present -= {change.file.name for change in tasks if change.mine is None}
    return before, {ids.parent_of(id_) for id_ in present}


def _misshapen(change: FileChange, *, has_children: bool) -> str | None:
    """What is wrong with a task's file by itself; a parent needs no status of its own."""
    if change.file.kind == "note" or change.mine is None:
        return None
    if not isinstance(change.mine, Mapping):
        return "must be an object."
    fields = {**change.mine, "status": "pending"} if has_children else change.mine
    return next(findings.of_file(change.file.name, fields), None)


def _merged(change: FileChange, theirs: Any, before: set[str | None], now: set[str | None]) -> Any | Clash:
    """The status of a task that has or had children is derived, unless its last child goes and somebody sets it."""
    file, base, mine = change
    if file.kind == "note":
        return merge_values(base, mine, theirs)
    is_derived = file.name in before | now
    is_own = file.name not in now and isinstance(mine, Mapping) and mine.get(_DERIVED) != (base or {}).get(_DERIVED)
    return merge_values(
        _normal(file.name, base, has_children=is_derived),
        _normal(file.name, mine, has_children=is_derived and not is_own),
        _normal(file.name, theirs, has_children=is_derived),
    )


def _normal(id_: str, fields: Any, *, has_children: bool) -> Any:
    return stored_of(id_, fields, has_children=has_children) if isinstance(fields, Mapping) else None


# ---------------------------------------------------------------- the rules of the plan


def records_of(stored: StoredFiles) -> dict[str, TaskRecord]:
    """The tasks among stored files, by id."""
    return {file.name: value for file, value in stored.items() if file.kind == "task" and value is not None}


def _keep_rules(made: SyncDecision, stored: StoredFiles) -> None:
    """Takes away writes that break a rule, until none does: without one, another may break one."""
    while True:
        plan = TaskPlan(records_of({**stored, **made.writes}))
        broken: dict[PlanFile, str] = {}
        for file, value in made.writes.items():
            why = None if file.kind == "note" else _broken(file.name, value, plan)
            if why is not None:
                broken[file] = why
        broken = broken or _circles(made.writes, stored, plan)
        if not broken:
            return
        for file, why in broken.items():
            del made.writes[file]
            made.refusals[file] = why


def _broken(id_: str, value: Any, plan: TaskPlan) -> str | None:
    if value is None:
        waiting = [one for one, record in plan.records.items() if id_ in dependencies_of(record)]
        if plan.children(id_):
            return f"it cannot be deleted: {', '.join(plan.children(id_))} would have no parent."
        return f"it cannot be deleted: {', '.join(waiting)} depends on it." if waiting else None
    return next(findings.of_task(id_, {**value, "status": plan.status(id_)}, plan), None)


def _circles(writes: Mapping[PlanFile, Any], stored: StoredFiles, plan: TaskPlan) -> dict[PlanFile, str]:
    """New dependencies that close a circle."""
    tasks = [(file, value) for file, value in writes.items() if file.kind == "task" and value is not None]
    changed = [file for file, value in tasks if set(dependencies_of(value)) - set(_stored_dependencies(stored, file))]
    if not changed:
        return {}
    circular = in_circles({id_: dependencies_of(record) for id_, record in plan.records.items()})
    return {file: "it is in a circle of dependencies." for file in changed if file.name in circular}


def _stored_dependencies(stored: StoredFiles, file: PlanFile) -> list[str]:
    record = stored.get(file)
    return [] if record is None else dependencies_of(record)


# ---------------------------------------------------------------- what is derived


def _drop_statuses(made: SyncDecision, stored: StoredFiles) -> None:
    """A task that gets its first child has no status of its own any more."""
    for file in [file for file, value in made.writes.items() if file.kind == "task" and value is not None]:
        above = ids.parent_of(file.name)
        parent = PlanFile("task", above or "")
        record = made.writes.get(parent, stored.get(parent))
        if above is not None and record is not None and _DERIVED in record:
            made.writes[parent] = stored_of(above, record, has_children=True)


def _dropped(changes: Sequence[FileChange], made: SyncDecision, stored: StoredFiles) -> list[str]:
    """Derived fields that were edited by hand and are not what they are derived to."""
    plan = TaskPlan(records_of({**stored, **made.writes}))
    notes = []
    for file, base, mine in changes:
        if file.kind == "note" or not isinstance(mine, Mapping) or file.name not in plan.records:
            continue
        before = base if isinstance(base, Mapping) else {}
        status, below = plan.status(file.name), list(plan.children(file.name))
        if below and mine.get(_DERIVED, status) not in (before.get(_DERIVED), status):
            notes.append(f"{file.path}: the status {mine[_DERIVED]} was dropped. Its children make it {status}.")
        if mine.get("children", below) not in (before.get("children"), below):
            notes.append(f"{file.path}: children was dropped. It has {', '.join(below) or 'none'}.")
    return notes
