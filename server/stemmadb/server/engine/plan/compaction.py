"""Compacting: drops what no state at or above a floor needs, and blobs that nobody refers to (COMPACT-1, BLOB-2).

Planned on one read view, entity by entity, with a few bytes in memory for each body that goes. That can take minutes,
so the plan is confirmed on a later read view before it is decided. What was written meanwhile is after that tip and
stays; only a new branch, tag or merge that looks below the floor makes it plan again.
"""

from __future__ import annotations

from functools import partial
from itertools import islice
from typing import Final

import msgspec

from stemmadb.protocol.errors import BranchDeleted, Conflict, FutureVersion, Malformed, MergeBusy, StemmaError
from stemmadb.protocol.model.commit.admission import Accepted, RefusedCommit
from stemmadb.protocol.model.commit.proposal import Proposal
from stemmadb.protocol.model.commit.request import Read
from stemmadb.protocol.model.log import branch_spans
from stemmadb.protocol.model.log.commit_record import Commit, Compact
from stemmadb.protocol.model.log.state import Missing
from stemmadb.protocol.model.values.body import encode
from stemmadb.protocol.model.values.ids import EMPTY_SPACE, BranchName, Did, EntityId, TimeMs, Version
from stemmadb.protocol.model.values.limits import Limits
from stemmadb.server.engine.base import states
from stemmadb.server.engine.base.moments import BranchLookup
from stemmadb.server.engine.base.space_port import Asked, SpaceApi
from stemmadb.server.engine.plan import compaction_blobs, compaction_plan
from stemmadb.server.engine.plan.compaction_plan import CompactionPlan
from stemmadb.server.engine.plan.erasure import check_owns
from stemmadb.server.engine.plan.planned_write import ATTEMPTS_MAX, CompletedWrite, accepted_before
from stemmadb.server.engine.write import scrub
from stemmadb.server.storage.port import Destroyed, LogReader, Snapshot, SpaceLog

RENEWED_AT_ONCE: Final = 64
"""How many snapshots are taken in one turn of the writer, so that nobody waits long for it."""


class CompactionDone(CompletedWrite, frozen=True, kw_only=True):
    """The oldest version that can be read everywhere, and what was removed, as the record has it (COMMIT-11).

    Blobs are those that nothing named when it was planned; one that is named since stays.
    """

    floor: Version
    bodies: int = 0
    blobs: int = 0
    bytes: int = 0
    snapshots: int = 0


async def compact(
    space: SpaceApi, asked: Asked, floor: Version, *, now: TimeMs, checkpoints: bool = True
) -> CompactionDone:
    """Drops the bodies from which nothing is replayed that must stay (`model.retention`), and snapshots below.

    With `checkpoints`, heads that are replayed from long before the floor are written anew, so that the next
    compaction can drop what is before. Blobs go that are older than 24 hours and that no body or note left names. A
    floor at or below the present one is fine, and takes nothing that can still be read.
    """
    wanted = _Wanted(space.did, asked, floor, now, checkpoints, space.limits)
    plan: CompactionPlan | None = None
    for _ in range(ATTEMPTS_MAX):
        found, tip = await _confirmed(space, wanted, plan)
        if isinstance(found, Commit):
            # Blobs that it dropped may be what the last scrub failed for, and nothing is marked for those.
            await space.in_turn(scrub.scrub)
            return _report(found)
        outcome = await space.decide(wanted.proposal(found, tip), _destroyed(found))
        if isinstance(outcome, Accepted):
            return await _finish(space, outcome.commit, found, now)
        # If it is no refusal, the same compaction was accepted meanwhile, which the next look finds.
        plan = _without(found, outcome.error) if isinstance(outcome, RefusedCommit) else found
    raise MergeBusy(attempts=ATTEMPTS_MAX)


async def preview(space: SpaceApi, asked: Asked, floor: Version, *, now: TimeMs) -> CompactionPlan:
    """What a compaction would remove now; nothing is written."""
    wanted = _Wanted(space.did, asked, floor, now, True, space.limits)
    plan, _ = await space.read(partial(wanted.look, earlier=None))
    assert isinstance(plan, CompactionPlan), "the operation is new"
    return plan


async def _confirmed(
    space: SpaceApi, wanted: _Wanted, plan: CompactionPlan | None
) -> tuple[CompactionPlan | Commit, Version]:
    """A plan that holds on a new read view, and the tip of that view; or the record if it was accepted before."""
    for _ in range(ATTEMPTS_MAX):
        found, tip = await space.read(partial(wanted.look, earlier=plan))
        if found is plan or isinstance(found, Commit):
            return found, tip
        plan = found
    raise MergeBusy(attempts=ATTEMPTS_MAX)


class _Wanted(msgspec.Struct, frozen=True):
    space: Did
    asked: Asked
    floor: Version
    now: TimeMs
    checkpoints: bool
    limits: Limits

    def look(self, reader: LogReader, *, earlier: CompactionPlan | None) -> tuple[CompactionPlan | Commit, Version]:
        """The earlier plan if it still keeps all it must, or else a new one; the record if there is one already."""
        before, tip = accepted_before(reader, self.asked), reader.tip().version
        if before is not None:
            return before, tip
        check_owns(reader, self.space, self.asked)
        self._check_floor(tip)
        if earlier is not None and earlier.pins.covers(compaction_plan.pins_of(reader, self.floor)):
            return earlier, tip
        plan = compaction_plan.gather(
            reader,
            space=self.space,
            floor=self.floor,
            checkpoints=self.checkpoints,
            now=self.now,
            limits=self.limits,
        )
        return plan, tip

    def proposal(self, plan: CompactionPlan, tip: Version) -> Proposal:
        """A checkpoint states what the head was at the tip, so it is written only where that has not changed."""
        return Proposal(
            identity=self.asked.identity,
            request=self.asked.request,
            branch=None,
            steps=plan.checkpoints,
            reads=tuple(Read(branch=step.branch, id=step.id, version=plan.tip) for step in plan.checkpoints),
            details=Compact(
                floor=self.floor,
                oldest=plan.oldest if plan.oldest > self.floor else EMPTY_SPACE,
                bodies=len(plan.places),
                blobs=len(plan.unreferenced),
                bytes=plan.size,
                snapshots=plan.snapshots,
            ),
            note=self.asked.note,
            planned=tip,
        )

    def _check_floor(self, head: Version) -> None:
        if self.floor < 0:
            raise Malformed(path="floor", why="a version is never negative")
        if self.floor > head:
            raise FutureVersion(version=self.floor, head=head)


def _destroyed(plan: CompactionPlan) -> Destroyed:
    return Destroyed(facts=plan.places, snapshots_below=plan.pins.floor)


def _without(plan: CompactionPlan, error: StemmaError) -> CompactionPlan:
    """The plan without the checkpoints that were overtaken; raises what it was refused with for any other reason."""
    if isinstance(error, Conflict):
        stale = {(read.branch, read.id) for read in error.facts["stale"]}
    elif isinstance(error, BranchDeleted):
        stale = {(step.branch, step.id) for step in plan.checkpoints if step.branch == error.facts["branch"]}
    else:
        raise error
    left = tuple(step for step in plan.checkpoints if (step.branch, step.id) not in stale)
    return msgspec.structs.replace(plan, checkpoints=left)


async def _finish(space: SpaceApi, record: Commit, plan: CompactionPlan, now: TimeMs) -> CompactionDone:
    """What is not part of the write: it can be left out by a crash, and the next compaction does it."""
    floor = plan.pins.floor
    waiting = iter(plan.renewed)
    while chunk := list(islice(waiting, RENEWED_AT_ONCE)):
        await space.in_turn(partial(_renew, floor=floor, wanted=chunk))
    await compaction_blobs.drop(space, plan.unreferenced, after=plan.tip, now=now)
    return _report(record)


def _renew(log: SpaceLog, *, floor: Version, wanted: list[tuple[BranchName, EntityId]]) -> None:
    """Snapshots at the floor, so that what is read from there on is as cheap as it was (HISTORY-3).

    In the writer's turn: nothing can be erased between reading a value and keeping it.
    """
    snapshots: list[Snapshot] = []
    with log.reader() as reader:
        branches = BranchLookup(reader)
        for name, id_ in wanted:
            state = states.load(reader, branch_spans.lineage(branches, name, floor), [id_])[id_]
            if not isinstance(state.value, Missing):
                snapshots.append(Snapshot(name, id_, state.place, encode(state.value)))
    log.store_snapshots(snapshots)


def _report(record: Commit) -> CompactionDone:
    details = record.details
    assert isinstance(details, Compact), "the operation id belongs to this request"
    return CompactionDone(
        version=record.version,
        hash=record.hash,
        time=record.time,
        floor=max(details.floor, details.oldest),
        bodies=details.bodies,
        blobs=details.blobs,
        bytes=details.bytes,
        snapshots=details.snapshots,
    )
