"""Undo on the store: commits are chosen and inverted on one read view, and written as one new commit (COMMIT-9)."""

from __future__ import annotations

import msgspec

from stemmadb.protocol.errors import BranchDeleted, Malformed, UnknownBranch
from stemmadb.protocol.model.commit.proposal import Proposal, Step, step_of
from stemmadb.protocol.model.log import branch_spans as branches
from stemmadb.protocol.model.log.branch_spans import Span
from stemmadb.protocol.model.log.commit_record import Commit, Revert
from stemmadb.protocol.model.merge import undo
from stemmadb.protocol.model.values.ids import MAIN, BranchName, Did, Version
from stemmadb.protocol.model.values.limits import Limits
from stemmadb.server.engine.base.moments import BranchLookup
from stemmadb.server.engine.base.space_port import Asked, SpaceApi
from stemmadb.server.engine.plan import undo_inputs
from stemmadb.server.engine.plan.planned_write import (
    Planned,
    PlannedCommit,
    carried_out,
    check_bulk,
    predicted,
    write_of,
)
from stemmadb.server.engine.plan.undo_inputs import Undone
from stemmadb.server.storage.port import LogReader


class PlannedRevert(Planned, frozen=True, kw_only=True):
    """The commits that were undone, or would be, oldest first; none if there was nothing to undo."""

    reverted: tuple[Version, ...] = ()
    writes: tuple[PlannedCommit, ...] = ()


class RevertWanted(msgspec.Struct, frozen=True, kw_only=True):
    """Undo on `branch` the commits of these versions, or those of a session, of an author, or of both after `since`.

    A branch sees the commits of the one it was forked from up to its fork: those can be undone on it as well.
    """

    branch: BranchName = MAIN
    versions: tuple[Version, ...] = ()
    session: bytes | None = None
    author: Did | None = None
    since: Version | None = None


async def revert(space: SpaceApi, asked: Asked, wanted: RevertWanted, *, dry_run: bool = False) -> PlannedRevert:
    """Writes the inverse, or returns exactly what it would write. Merges and reverts are undone like commits.

    The access list is passed by. `Conflict` where later facts touched the same paths, `Erased` or `Compacted` where
    what is needed is gone. `Malformed` for a version that wrote nothing the branch sees, for an erasure or a
    compaction, and for a choice that is none; `MergeBusy` if others were faster each time. Nothing is written then.
    """
    planning = _Planning(space.did, space.limits, asked, _checked(wanted))
    if dry_run:
        return await predicted(space, asked, plan=planning.on)
    return await carried_out(space, asked, plan=planning.on, recall=_recall)


def _checked(wanted: RevertWanted) -> RevertWanted:
    by_maker = wanted.session is not None or wanted.author is not None
    if bool(wanted.versions) is by_maker:
        raise Malformed(path="versions", why="name the versions to undo, or a session or an author, and not both")
    if wanted.since is not None and not by_maker:
        raise Malformed(path="since", why="versions that are named need no beginning")
    return wanted


class _Planning(msgspec.Struct, frozen=True):
    did: Did
    limits: Limits
    asked: Asked
    wanted: RevertWanted

    def on(self, reader: LogReader) -> tuple[PlannedRevert, Proposal | None]:
        """The undo as it is on this read view; no proposal if it has nothing to write."""
        head = reader.tip().version
        spans = self._spans(reader, head)
        undone = self._undone(reader, spans, head)
        check_bulk(len(undone.first), self.limits)
        name = self.wanted.branch
        plan = undo.plan(
            undo_inputs.pasts(reader, name, spans, undone.first),
            undo.UndoSelection(
                versions=undone.versions, branch=name, at=head, floor=reader.floor(), limits=self.limits
            ),
            lambda version: reader.authors([version])[version],
        )
        if not plan.writes:
            return PlannedRevert(), None
        steps = tuple(step_of(write, name, self.limits) for write in plan.writes)
        report = PlannedRevert(reverted=tuple(sorted(undone.versions)), writes=tuple(map(write_of, steps)))
        return report, self._proposal(plan, steps, report.reverted, head)

    def _spans(self, reader: LogReader, head: Version) -> tuple[Span, ...]:
        state = reader.branch(self.wanted.branch)
        if state is None:
            raise UnknownBranch(branch=self.wanted.branch)
        if state.deleted is not None:
            raise BranchDeleted(branch=self.wanted.branch)
        return branches.lineage(BranchLookup(reader), state.name, head)

    def _undone(self, reader: LogReader, spans: tuple[Span, ...], head: Version) -> Undone:
        wanted = self.wanted
        gathering = undo_inputs.Gathering(reader, spans, self.did, self.limits)
        if wanted.versions:
            return gathering.named(wanted.versions, head)
        since = Version(0) if wanted.since is None else wanted.since
        return gathering.created_by(author=wanted.author, session=wanted.session, since=since)

    def _proposal(
        self, plan: undo.UndoPlan, steps: tuple[Step, ...], versions: tuple[Version, ...], tip: Version
    ) -> Proposal:
        return Proposal(
            identity=self.asked.identity,
            request=self.asked.request,
            branch=self.wanted.branch,
            steps=steps,
            reads=plan.reads,
            details=Revert(versions=versions),
            note=self.asked.note,
            planned=tip,
            delegated=self.asked.delegated,
        )


def _recall(reader: LogReader, commit: Commit) -> PlannedRevert:
    """The answer from the record."""
    details = commit.details
    assert isinstance(details, Revert), "the same request makes the same kind of write"
    facts = reader.facts([commit.version]).get(commit.version, ())
    return PlannedRevert(
        version=commit.version,
        hash=commit.hash,
        time=commit.time,
        reverted=details.versions,
        writes=tuple(map(write_of, facts)),
    )
