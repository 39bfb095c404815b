"""The directory at the beginning of a sync, and what changed in it since the last one."""

from __future__ import annotations

from typing import NamedTuple

from stemmadb.memory.interfaces.files.working_copy import WorkingCopy
from stemmadb.memory.rules.tasks import file_text, ids, paths
from stemmadb.memory.rules.tasks.decide import FileChange
from stemmadb.memory.rules.tasks.paths import PlanFile


class LocalState(NamedTuple):
    """The directory at the beginning of a sync."""

    files: dict[str, bytes]
    base: dict[str, bytes]
    refused: dict[str, str]
    listed: bytes | None
    """The index."""
    changes: list[FileChange]


def look(copy: WorkingCopy) -> LocalState:
    """Reads the directory and finds what changed since the last sync."""
    files, refused = copy.scan()
    base, listed = copy.base(), copy.read(paths.INDEX)
    changes = []
    for path in sorted(files.keys() | (base.keys() - {paths.INDEX} - refused.keys())):
        if files.get(path) != base.get(path):
            change = _change(path, base.get(path), files.get(path))
            if isinstance(change, str):
                refused[path] = change
            else:
                changes.append(change)
    if not any(paths.file_at(path).kind == "task" for path in files.keys() | base.keys()):
        changes.extend(_from_index(listed))
    return LocalState(files, base, refused, listed, changes)


def _change(path: str, base: bytes | None, mine: bytes | None) -> FileChange | str:
    """The change, or what is wrong with the file."""
    file = paths.file_at(path)
    if file.kind == "note":
        try:
            texts = [None if data is None else data.decode() for data in (base, mine)]
        except UnicodeDecodeError:
            return "is not UTF-8."
        return FileChange(file, *texts)
    here = None if mine is None else file_text.read_json(mine)
    if here is not None and (here.refusal is not None or here.value is None):
        return here.refusal or "must be an object."
    before = None if base is None else file_text.read_json(base).value
    return FileChange(file, before, None if here is None else here.value)


def _from_index(listed: bytes | None) -> list[FileChange]:
    """An index that was written by hand, without files: its entries are the tasks."""
    value = None if listed is None else file_text.read_json(listed).value
    entries = value.get("tasks") if isinstance(value, dict) else None
    if not isinstance(entries, list):
        return []
    derived = ("progress", "children")
    return [
        FileChange(PlanFile("task", entry["id"]), None, {key: entry[key] for key in entry if key not in derived})
        for entry in entries
        if isinstance(entry, dict) and ids.is_id(entry.get("id"))
    ]
