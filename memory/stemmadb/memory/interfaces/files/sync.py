"""Sync: a directory and the store come together, file by file, with the last sync as the base of the merge.

1. Read the directory, and what it was at the last sync.            `LocalState`
2. Merge with the store, in transactions that keep the plan's rules. `PlanStore.apply`
3. Write the files that differ from the store, then the base.        `write_back`

A file that somebody changes between 1 and 3 is left for the next sync.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, NamedTuple, Protocol

from stemmadb.memory.interfaces.files.local_state import LocalState, look
from stemmadb.memory.interfaces.files.working_copy import WorkingCopy
from stemmadb.memory.interfaces.files.write_back import write_back
from stemmadb.memory.rules.tasks import paths
from stemmadb.memory.rules.tasks.decide import FileChange, SyncDecision, decide
from stemmadb.memory.rules.tasks.merge import with_side_taken
from stemmadb.memory.rules.tasks.paths import PlanFile


class PlanPort(Protocol):
    """Where the plan is kept."""

    async def read(self) -> dict[PlanFile, Any]: ...

    async def apply(self, changes: list[FileChange]) -> tuple[SyncDecision, dict[PlanFile, Any]]: ...


class SyncReport(NamedTuple):
    """What a sync did, or would do. Paths are relative to `.claude/memory/`."""

    sent: list[str]
    """Files whose changes the store has now."""
    received: list[str]
    """Files that were written or removed here."""
    conflicts: dict[str, str]
    refused: dict[str, str]
    notes: list[str]

    @property
    def is_clean(self) -> bool:
        return not self.conflicts and not self.refused


async def sync(
    copy: WorkingCopy,
    store: PlanPort,
    *,
    is_dry: bool = False,
    take_mine: Collection[str] = (),
    take_store: Collection[str] = (),
) -> SyncReport:
    """Brings both together. `is_dry` only says what would be done. `take_...` settle conflicts of these paths."""
    copy.check()
    with copy.locked(paths.STATE):
        with copy.locked():
            copy.remove(f"{paths.STATE}/dirty")
        local = look(copy)
        stored = await store.read() if is_dry or take_mine or take_store else {}
        changes = [_settled(change, stored, take_mine, take_store) for change in local.changes]
        if is_dry:
            return _report(decide(changes, stored), local, [])
        made, stored = await store.apply(changes)
        with copy.locked():
            received = write_back(copy, local, made, stored)
    return _report(made, local, received)


def _settled(
    change: FileChange, stored: Mapping[PlanFile, Any], mine: Collection[str], theirs: Collection[str]
) -> FileChange:
    """A conflict that the caller has decided."""
    path, there = change.file.path, stored.get(change.file)
    if path not in mine and path not in theirs:
        return change
    base, here = with_side_taken(change.base, change.mine, there, takes_mine=path in mine)
    return FileChange(change.file, base, here)


def _report(made: SyncDecision, local: LocalState, received: list[str]) -> SyncReport:
    refused = local.refused | {file.path: why for file, why in made.refusals.items()}
    conflicts = {file.path: clash.why for file, clash in made.clashes.items()}
    changed = {change.file for change in local.changes}
    sent = [file.path for file in made.writes if file in changed]
    return SyncReport(sorted(sent), received, conflicts, refused, made.notes)
