"""Taking commits back: revert of anything one may write, undo and redo of one's own (COMMIT-9)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TypedDict, Unpack

from stemmadb.client.reading.merge import PlannedWrite, planned_write
from stemmadb.client.reading.plain import check_options, encoded_note
from stemmadb.client.reading.times import checked_version, optional_version
from stemmadb.client.reading.undo_stack import UndoStack, UndoStep
from stemmadb.client.requester import Requester
from stemmadb.protocol.errors import Conflict
from stemmadb.protocol.model.values import reference
from stemmadb.protocol.model.values.ids import BranchName, Did, TimeMs, Version
from stemmadb.protocol.model.values.json_values import Value
from stemmadb.protocol.wire.messages import structure


@dataclass(frozen=True, slots=True, kw_only=True)
class RevertReport:
    """What was taken back. `version` is None if nothing was written: there was nothing left to undo, or it was a dry
    run, which has `writes` instead, cut at the server's page bound."""

    version: Version | None
    reverted: tuple[Version, ...] = ()
    writes: tuple[PlannedWrite, ...] = ()
    writes_count: int = 0
    hash: str | None = field(default=None, repr=False)
    time_ms: TimeMs | None = field(default=None, repr=False)


class RevertOptions(TypedDict, total=False):
    """Which commits are taken back: those of a session or of an author, all or after a version."""

    session: bytes | None
    author: Did | None
    since: int | None
    dry_run: bool
    note: Value


async def revert(
    requester: Requester, versions: int | Iterable[int] = (), *, branch: BranchName, **options: Unpack[RevertOptions]
) -> RevertReport:
    """Writes the inverse of these commits, on this branch alone:

        await space.revert(7)
        await space.revert(author="did:key:...", since=3, dry_run=True)

    `Conflict` if later commits touched the same places.
    """
    check_options("revert", options, RevertOptions)
    answer = await requester.write(
        structure.RevertRequest,
        structure.RevertAnswer,
        branch=branch,
        versions=tuple(map(checked_version, (versions,) if isinstance(versions, int) else versions)),
        session=options.get("session"),
        author=options.get("author"),
        since=optional_version(options.get("since")),
        dry_run=options.get("dry_run", False),
        note=encoded_note(options.get("note"), requester.limits),
    )
    return RevertReport(
        version=answer.version,
        reverted=answer.reverted,
        writes=tuple(map(planned_write, answer.writes)),
        writes_count=answer.writes_count,
        hash=None if answer.hash is None else reference.write(answer.hash),
        time_ms=answer.time,
    )


class UndoManager:
    """Undo and redo of own commits on one branch, one at a time. The stack is told of them as they are accepted.

    report = await undoing.undo()          # None: there is nothing to undo
    """

    def __init__(self, requester: Requester, branch: BranchName, stack: UndoStack) -> None:
        self._requester = requester
        self._branch = branch
        self._stack = stack
        self._one_at_a_time = asyncio.Lock()

    async def undo(self, *, note: Value = None) -> RevertReport | None:
        """Takes the newest own commit back that is not undone. `Conflict` if others changed what it wrote; then all
        is as it was."""
        async with self._one_at_a_time:
            return await self._take(self._stack.undo(), note)

    async def redo(self, *, note: Value = None) -> RevertReport | None:
        """Brings back what the last undo took. None after a new commit of one's own."""
        async with self._one_at_a_time:
            return await self._take(self._stack.redo(), note)

    async def _take(self, step: UndoStep | None, note: Value) -> RevertReport | None:
        if step is None:
            return None
        report = await self._revert(step, note) if step.narrow else RevertReport(version=None)
        self._stack.done(step, report.version)
        return report

    async def _revert(self, step: UndoStep, note: Value) -> RevertReport:
        history = self._stack.histories
        try:
            return await revert(self._requester, step.narrow, branch=self._branch, note=note)
        except Conflict:
            if step.wide == step.narrow or history != self._stack.histories:
                raise
        return await revert(self._requester, step.wide, branch=self._branch, note=note)
