"""Compacting: drops what no state at or above a floor needs, and blobs that nobody refers to (COMPACT-1, BLOB-2).

Planned on one cut, entity by entity, with a few bytes in memory for each body that goes. That can take minutes, so
the plan is confirmed on a later cut before it is decided. What was written meanwhile is above the cut and stays; only
a new branch, tag or merge that looks below the floor makes it plan again.
"""

from __future__ import annotations

from functools import partial
from itertools import islice
from typing import Final

import msgspec

from stemmadb.protocol.errors import BranchDeleted, Conflict, FutureVersion, Malformed, MergeBusy, StemmaError
from stemmadb.protocol.model import branch
from stemmadb.protocol.model.admission import Accepted, Refused
from stemmadb.protocol.model.body import encode
from stemmadb.protocol.model.commit import Commit, Compact
from stemmadb.protocol.model.ids import BranchName, Did, EntityId, TimeMs, Version
from stemmadb.protocol.model.limits import Limits
from stemmadb.protocol.model.proposal import Proposal
from stemmadb.protocol.model.request import Read
from stemmadb.protocol.model.state import Missing
from stemmadb.server.engine import compacting_blobs, compacting_plan, settling, states
from stemmadb.server.engine.api import Asked, SpaceApi
from stemmadb.server.engine.carrying_out import ATTEMPTS_MAX, Done, accepted_before
from stemmadb.server.engine.compacting_plan import Plan
from stemmadb.server.engine.erasing import check_owns
from stemmadb.server.engine.moments import Branches
from stemmadb.server.storage.port import Destroyed, LogReader, Snapshot, SpaceLog

RENEWED_AT_ONCE: Final = 64
"""How many snapshots are taken in one turn of the writer, so that nobody waits long for it."""


class CompactionDone(Done, frozen=True, kw_only=True):
    """The oldest version that can be read everywhere, and what was removed.

    What was removed is told once: when it is asked again, the record does not say.
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
    plan: Plan | None = None
    for _ in range(ATTEMPTS_MAX):
        found, cut = await _confirmed(space, wanted, plan)
        if isinstance(found, Commit):
            # Blobs that it dropped may be what the last scrub failed for, and nothing is marked for those.
            await space.in_turn(settling.scrub)
            return await space.read(partial(_told, record=found))
        outcome = await space.decide(wanted.proposal(found, cut), _destroyed(found))
        if isinstance(outcome, Accepted):
            return await _finish(space, outcome.commit, found, now)
        # If it is no refusal, the same compaction was accepted meanwhile, which the next look finds.
        plan = _without(found, outcome.error) if isinstance(outcome, Refused) else found
    raise MergeBusy(attempts=ATTEMPTS_MAX)


async def _confirmed(space: SpaceApi, wanted: _Wanted, plan: Plan | None) -> tuple[Plan | Commit, Version]:
    """A plan that holds on a cut of just now, and that cut; or the record if it was accepted before."""
    for _ in range(ATTEMPTS_MAX):
        found, cut = await space.read(partial(wanted.look, earlier=plan))
        if found is plan or isinstance(found, Commit):
            return found, cut
        plan = found
    raise MergeBusy(attempts=ATTEMPTS_MAX)


class _Wanted(msgspec.Struct, frozen=True):
    space: Did
    asked: Asked
    floor: Version
    now: TimeMs
    checkpoints: bool
    limits: Limits

    def look(self, reader: LogReader, *, earlier: Plan | None) -> tuple[Plan | Commit, Version]:
        """The earlier plan if it still keeps all it must, or else a new one; the record if there is one already."""
        before, cut = accepted_before(reader, self.asked), reader.tip().version
        if before is not None:
            return before, cut
        check_owns(reader, self.space, self.asked)
        self._check_floor(cut)
        if earlier is not None and earlier.pins.covers(compacting_plan.pins_of(reader, self.floor)):
            return earlier, cut
        plan = compacting_plan.gather(
            reader,
            space=self.space,
            floor=self.floor,
            checkpoints=self.checkpoints,
            now=self.now,
            limits=self.limits,
        )
        return plan, cut

    def proposal(self, plan: Plan, cut: Version) -> Proposal:
        """A checkpoint states what the head was at the cut, so it is written only where that has not changed."""
        return Proposal(
            identity=self.asked.identity,
            request=self.asked.request,
            branch=None,
            steps=plan.checkpoints,
            reads=tuple(Read(branch=step.branch, id=step.id, version=plan.cut) for step in plan.checkpoints),
            details=Compact(floor=self.floor),
            note=self.asked.note,
            planned=cut,
        )

    def _check_floor(self, head: Version) -> None:
        if self.floor < 0:
            raise Malformed(path="floor", why="a version is never negative")
        if self.floor > head:
            raise FutureVersion(version=self.floor, head=head)


def _destroyed(plan: Plan) -> Destroyed:
    return Destroyed(facts=plan.places, snapshots_below=plan.pins.floor)


def _without(plan: Plan, error: StemmaError) -> Plan:
    """The plan without the checkpoints that were overtaken; raises what it was refused with for any other reason."""
    if isinstance(error, Conflict):
        stale = {(read.branch, read.id) for read in error.facts["stale"]}
    elif isinstance(error, BranchDeleted):
        stale = {(step.branch, step.id) for step in plan.checkpoints if step.branch == error.facts["branch"]}
    else:
        raise error
    left = tuple(step for step in plan.checkpoints if (step.branch, step.id) not in stale)
    return msgspec.structs.replace(plan, checkpoints=left)


async def _finish(space: SpaceApi, record: Commit, plan: Plan, now: TimeMs) -> CompactionDone:
    """What is not part of the write: it can be left out by a crash, and the next compaction does it."""
    floor = plan.pins.floor
    waiting = iter(plan.renewed)
    while chunk := list(islice(waiting, RENEWED_AT_ONCE)):
        await space.in_turn(partial(_renew, floor=floor, wanted=chunk))
    blobs, blob_bytes = await compacting_blobs.drop(space, plan.unreferenced, after=plan.cut, now=now)
    told = await space.read(partial(_told, record=record))
    return msgspec.structs.replace(
        told, bodies=len(plan.places), blobs=blobs, bytes=plan.size + blob_bytes, snapshots=plan.snapshots
    )


def _renew(log: SpaceLog, *, floor: Version, wanted: list[tuple[BranchName, EntityId]]) -> None:
    """Snapshots at the floor, so that what is read from there on is as cheap as it was (HISTORY-3).

    In the writer's turn: nothing can be erased between reading a value and keeping it.
    """
    snapshots: list[Snapshot] = []
    with log.reader() as reader:
        branches = Branches(reader)
        for name, id_ in wanted:
            state = states.load(reader, branch.lineage(branches, name, floor), [id_])[id_]
            if not isinstance(state.value, Missing):
                snapshots.append(Snapshot(name, id_, state.place, encode(state.value)))
    log.keep(snapshots)


def _told(reader: LogReader, *, record: Commit) -> CompactionDone:
    return CompactionDone(version=record.version, hash=record.hash, time=record.time, floor=reader.floor())
