"""Merges on the store: planned on one read view, written as one ordinary commit on the target (MERGE-1, MERGE-4)."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from stemmadb.protocol.errors import Conflict, FutureVersion, LimitExceeded, Malformed
from stemmadb.protocol.model import merge as merges
from stemmadb.protocol.model.commit.proposal import Proposal, Step, set_step, step_of
from stemmadb.protocol.model.commit.request import Read
from stemmadb.protocol.model.history.difference import Content
from stemmadb.protocol.model.log.ancestry import BranchPoint
from stemmadb.protocol.model.log.commit_record import Commit, Contested, Merge, Strategy
from stemmadb.protocol.model.log.state import Missing
from stemmadb.protocol.model.merge import MergePlan
from stemmadb.protocol.model.merge.plan import NO_RESOLUTIONS
from stemmadb.protocol.model.values.body import encode
from stemmadb.protocol.model.values.ids import MAIN, BranchName, Did, EntityId, Version
from stemmadb.protocol.model.values.limits import Limits
from stemmadb.server.engine.base.space_port import Asked, SpaceApi
from stemmadb.server.engine.plan.known_merges import KnownMerges
from stemmadb.server.engine.plan.merge_sides import Sides
from stemmadb.server.engine.plan.planned_write import (
    Planned,
    PlannedCommit,
    bounded,
    carried_out,
    check_bulk,
    predicted,
    write_of,
)
from stemmadb.server.storage.port import LogReader


class PlannedMerge(Planned, frozen=True, kw_only=True):
    """What was merged, or would be.

    `conflicts` are all there were, whatever the strategy (MERGE-3). An answer from the record has them by entity: the
    record keeps no paths (ERASE-1).
    """

    source_version: Version
    target_version: Version
    conflicts: tuple[Contested, ...] = ()
    writes: tuple[PlannedCommit, ...] = ()


class MergeWanted(msgspec.Struct, frozen=True, kw_only=True):
    """Merge `source`, at a version or its head, into `target`; a resolution is a value, or `ABSENT` to delete."""

    source: BranchName
    target: BranchName = MAIN
    source_version: Version | None = None
    strategy: Strategy = "lww"
    resolutions: Mapping[EntityId, Content] = NO_RESOLUTIONS
    expect_target: Version | None = None
    """Merge only if nothing was written on the target after this version (MERGE-5)."""


async def merge(
    space: SpaceApi, asked: Asked, wanted: MergeWanted, *, known: KnownMerges | None = None, dry_run: bool = False
) -> PlannedMerge:
    """Merges, or returns exactly what a merge would write (MERGE-4). The access list is passed by.

    `UnknownBranch`, `BranchDeleted`, `FutureVersion` and `InvalidMerge` for what cannot be merged, `MergeConflict`
    under `fail`, `Conflict` if the target is not at `expect_target`, `Erased` or `Compacted` where a value is needed
    that is gone, `MergeBusy` if others were faster each time: nothing is written. `known` are the merges read before,
    to be kept along with the space.
    """
    planning = _Planning(space.did, space.limits, asked, wanted, known or KnownMerges(), is_preview=dry_run)
    if dry_run:
        return await predicted(space, asked, plan=planning.on)
    return await carried_out(space, asked, plan=planning.on, recall=_recall)


class _Planning(msgspec.Struct, frozen=True):
    did: Did
    limits: Limits
    asked: Asked
    wanted: MergeWanted
    known: KnownMerges
    is_preview: bool

    def on(self, reader: LogReader) -> tuple[PlannedMerge, Proposal | None]:
        """The merge as it is on this read view; no proposal if the target knows the source already."""
        source, target = self._points(reader)
        self._check_expected(reader, target)
        sides = Sides(reader, self.known.seen_by(reader), source=source, target=target)
        candidates = sides.candidates(ignore=(EntityId(self.did),))
        plan = merges.plan(
            bounded(candidates, self.limits) if self.is_preview else candidates,
            strategy=self.wanted.strategy,
            resolutions=self.wanted.resolutions,
            oldest=reader.floor(),
        )
        check_bulk(len(plan.writes), self.limits)
        steps = tuple(_step(write, target.branch, self.limits) for write in plan.writes)
        report = PlannedMerge(
            source_version=source.version,
            target_version=target.version,
            conflicts=plan.conflicts,
            writes=tuple(map(write_of, steps)),
        )
        if sides.is_known:
            assert not steps, "what the target knows brings nothing (MERGE-4)"
            return report, None
        return report, self._proposal(reader, plan, steps, source, target)

    def _points(self, reader: LogReader) -> tuple[BranchPoint, BranchPoint]:
        wanted, head = self.wanted, reader.tip().version
        version = head if wanted.source_version is None else wanted.source_version
        if version < 0:
            raise Malformed(path="source_version", why="a version is never negative")
        merges.check_merge(
            reader.branch, source=wanted.source, source_version=version, target=wanted.target, head=head
        )
        return BranchPoint(wanted.source, version), BranchPoint(wanted.target, head)

    def _check_expected(self, reader: LogReader, target: BranchPoint) -> None:
        """Known on the read view already; a write that comes between is found where the merge is decided."""
        expected = self.wanted.expect_target
        if expected is None:
            return
        if expected > target.version:
            raise FutureVersion(version=expected, head=target.version)
        last = reader.last_write(target.branch, target.version)
        if last > expected:
            raise Conflict(
                f"Branch {target.branch!r} was written at version {last}, after version {expected}. "
                "Look at it again, then merge.",
                count=1,
                stale=(),
            )

    def _expected_reads(self) -> tuple[Read, ...]:
        """The whole target, as of the expected version: admission compares it with everything written since."""
        expected = self.wanted.expect_target
        return () if expected is None else (Read(prefix="", branch=self.wanted.target, version=expected),)

    def _proposal(
        self, reader: LogReader, plan: MergePlan, steps: tuple[Step, ...], source: BranchPoint, target: BranchPoint
    ) -> Proposal:
        state = reader.branch(target.branch)
        assert state is not None, "the target was checked on this read view"
        return Proposal(
            identity=self.asked.identity,
            request=self.asked.request,
            branch=target.branch,
            steps=steps,
            reads=(*plan.reads, *self._expected_reads()),
            details=plan.details(source=source, target_version=target.version),
            note=self.asked.note,
            merged=state.merged,
            planned=target.version,
            delegated=self.asked.delegated,
        )


def _step(write: merges.EntityWrite, target: BranchName, limits: Limits) -> Step:
    """The operation, or the whole value where a patch has more operations than a fact may have."""
    try:
        return step_of(write.operation, target, limits)
    except LimitExceeded as error:
        if error.facts["bound"] != "patch_operations_max":
            raise
        assert not isinstance(write.content, Missing), "a patch leads to a value"
        return set_step(target, write.id, encode(write.content), limits=limits)


def _recall(reader: LogReader, commit: Commit) -> PlannedMerge:
    """The answer from the record. The request is the same, so that what was accepted then was this merge."""
    details = commit.details
    assert isinstance(details, Merge), "the same request makes the same kind of write"
    facts = reader.facts([commit.version]).get(commit.version, ())
    return PlannedMerge(
        version=commit.version,
        hash=commit.hash,
        time=commit.time,
        source_version=details.source_version,
        target_version=details.target_version,
        conflicts=details.conflicts,
        writes=tuple(map(write_of, facts)),
    )
