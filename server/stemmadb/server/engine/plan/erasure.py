"""Erasing: destroys what entities held at some versions, with every copy, and mends the heads (ERASE-1, ERASE-2).

Planning looks at each entity by itself. The write and the scrub are one, however many entities there are: the scrub
rewrites the whole database and does not ask what was destroyed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from functools import partial
from typing import Final

import msgspec

from stemmadb.protocol.errors import (
    BranchDeleted,
    Conflict,
    Forbidden,
    Malformed,
    MergeBusy,
    UnknownBlob,
    UnknownBranch,
)
from stemmadb.protocol.model.access import access_roles
from stemmadb.protocol.model.commit.admission import Accepted, RefusedCommit
from stemmadb.protocol.model.commit.proposal import Proposal, Step, set_step, step_of
from stemmadb.protocol.model.commit.request import Operation, Read
from stemmadb.protocol.model.history import erasure
from stemmadb.protocol.model.history.difference import Content
from stemmadb.protocol.model.history.erasure import ErasurePlan
from stemmadb.protocol.model.history.origins import WrittenLeaves
from stemmadb.protocol.model.log import branch_spans
from stemmadb.protocol.model.log.ancestry import BranchPoint
from stemmadb.protocol.model.log.branch_spans import Branches
from stemmadb.protocol.model.log.commit_record import Commit, Erase, ErasedEntity
from stemmadb.protocol.model.log.state import Missing
from stemmadb.protocol.model.values import reference
from stemmadb.protocol.model.values.body import encode
from stemmadb.protocol.model.values.ids import BranchName, Did, EntityId, Hash, Version
from stemmadb.protocol.model.values.limits import Limits
from stemmadb.server.engine.base import states
from stemmadb.server.engine.base.space_port import Asked, SpaceApi
from stemmadb.server.engine.plan.planned_write import (
    ATTEMPTS_MAX,
    CompletedWrite,
    accepted_before,
    access_list,
    check_bulk,
)
from stemmadb.server.engine.write import scrub
from stemmadb.server.storage.port import Destroyed, FactPosition, LogReader, SpaceLog

FACTS_PAGE: Final = 64
"""How many facts of an entity are read at once: each may hold the largest value there is."""
_NULL: Final = encode(None)


class ErasureDone(CompletedWrite, frozen=True, kw_only=True):
    """`erased` is how many bodies of the entities are gone at the versions that the record lists."""

    erased: int


class _Ready(msgspec.Struct, frozen=True):
    """A plan made on a read view: what to decide, and what goes with it."""

    proposal: Proposal
    destroyed: Destroyed


async def erase(
    space: SpaceApi,
    asked: Asked,
    targets: Mapping[EntityId, Collection[Version]],
    survivors: Mapping[BranchName, bytes | None],
    blobs: Collection[Hash] = (),
) -> ErasureDone:
    """Destroys the bodies of entities at these versions and all copies the server made of them (`model.erasure`).

    The notes of all versions that the record lists go too, and the named blobs. Where the head of a branch is left
    without a value, the first entity is set to its survivor; without one, and all others, are deleted there. A
    survivor for another branch is `Malformed`. A branch that was deleted cannot be written, and may stay erased.
    Returns once no file holds any of it; until that is done it is `Unavailable` or `StorageFull`, and asking again
    goes on. A blob that only a file is left of can be named too.
    """
    named = frozenset(blobs)
    in_files = await space.in_turn(partial(scrub.stored_in_files, hashes=named)) if named else named
    wanted = _Wanted(space.did, asked, targets, survivors, named, in_files, space.limits)
    for _ in range(ATTEMPTS_MAX):
        ready = await space.read(wanted.look)
        if isinstance(ready, Commit):
            return await _finish(space, ready, wanted.blobs)
        outcome = await space.decide(ready.proposal, ready.destroyed)
        if isinstance(outcome, Accepted):
            return await _finish(space, outcome.commit, wanted.blobs)
        if isinstance(outcome, RefusedCommit) and not isinstance(outcome.error, Conflict | BranchDeleted):
            raise outcome.error
        # What remains: a write came between, or the same erasure was accepted meanwhile, which the next look finds.
    raise MergeBusy(attempts=ATTEMPTS_MAX)


async def preview(
    space: SpaceApi,
    asked: Asked,
    targets: Mapping[EntityId, Collection[Version]],
    survivors: Mapping[BranchName, bytes | None],
) -> int:
    """How many bodies an erasure would destroy now, copies included; nothing is written."""
    nothing: frozenset[Hash] = frozenset()
    wanted = _Wanted(space.did, asked, targets, survivors, nothing, nothing, space.limits)
    ready = await space.read(wanted.look)
    assert isinstance(ready, _Ready), "the operation is new"
    return len(ready.destroyed.facts)


class _Wanted(msgspec.Struct, frozen=True):
    """What was asked for, to be planned on a read view, and on a later one if that was overtaken."""

    space: Did
    asked: Asked
    targets: Mapping[EntityId, Collection[Version]]
    survivors: Mapping[BranchName, bytes | None]
    blobs: frozenset[Hash]
    in_files: frozenset[Hash]
    limits: Limits

    def look(self, reader: LogReader) -> _Ready | Commit:
        """What to decide, or the record if it was accepted before."""
        before = accepted_before(reader, self.asked)
        if before is not None:
            return before
        check_owns(reader, self.space, self.asked)
        if EntityId(self.space) in self.targets:
            raise Forbidden(action="erase the access list", needs="nobody")
        for hash_ in self.blobs - self.in_files:
            if reader.blob(hash_) is None:
                raise UnknownBlob(blob=reference.write(hash_))
        return self._plan(reader)

    def _plan(self, reader: LogReader) -> _Ready:
        branches = {state.name: state for state in reader.branches()}
        tip = reader.tip().version
        plans = {id_: self._plan_entity(reader, branches, id_, tip) for id_ in self.targets}
        first = next(iter(plans))
        self._check_survivors(plans[first], branches)
        steps = [
            step
            for id_, plan in plans.items()
            for name in plan.heads
            for step in self._mend(reader, branches, BranchPoint(name, tip), id_, is_first=id_ == first)
        ]
        check_bulk(len(steps), self.limits)
        live = [name for name, state in branches.items() if state.deleted is None]
        others = tuple(ErasedEntity(id=id_, versions=plan.versions) for id_, plan in plans.items() if id_ != first)
        proposal = Proposal(
            identity=self.asked.identity,
            request=self.asked.request,
            branch=None,
            steps=tuple(steps),
            reads=tuple(Read(branch=name, id=id_, version=tip) for id_ in plans for name in live),
            details=Erase(id=first, versions=plans[first].versions, entities=others),
            note=self.asked.note,
            planned=tip,
        )
        return _Ready(proposal, self._destroyed(plans))

    def _plan_entity(self, reader: LogReader, branches: Branches, id_: EntityId, tip: Version) -> ErasurePlan:
        return erasure.plan(
            id_,
            _facts(reader, id_),
            frozenset(self.targets[id_]),
            branches=branches,
            head=tip,
            value_at=lambda point: _value(reader, branches, point, id_),
        )

    def _destroyed(self, plans: Mapping[EntityId, ErasurePlan]) -> Destroyed:
        return Destroyed(
            facts=[FactPosition(version, index) for plan in plans.values() for version, index in plan.facts],
            notes=frozenset(version for plan in plans.values() for version in plan.versions),
            snapshots_of=list(plans),
            blobs=self.blobs,
            http_key=True,
        )

    def _check_survivors(self, plan: ErasurePlan, branches: Branches) -> None:
        for name in sorted(self.survivors.keys() - set(plan.heads)):
            if name not in branches:
                raise UnknownBranch(branch=name)
            raise Malformed(path="survivors", why=f"the entity is not erased at the head of {name!r}")

    def _mend(
        self, reader: LogReader, branches: Branches, head: BranchPoint, id_: EntityId, *, is_first: bool
    ) -> Iterator[Step]:
        body = self.survivors.get(head.branch) if is_first else None
        if body is not None:
            yield set_step(head.branch, id_, body, blind=True, limits=self.limits)
            return
        if isinstance(_value(reader, branches, head, id_), Missing):
            # It was erased before, and the branch forked from there since: only what has a value can be deleted.
            yield set_step(head.branch, id_, _NULL, blind=True)
        yield step_of(Operation(op="delete", id=id_, blind=True), head.branch, self.limits)


async def _finish(space: SpaceApi, record: Commit, blobs: Collection[Hash]) -> ErasureDone:
    """Also when it is asked again: the first time may have ended before the files were removed or scrubbed."""
    await space.in_turn(partial(_scrub_files, blobs=blobs))
    return await space.read(lambda reader: _report(reader, record))


def _scrub_files(log: SpaceLog, *, blobs: Collection[Hash]) -> None:
    scrub.remove_files(log, blobs)
    scrub.clean_up(log)


def check_owns(reader: LogReader, space: Did, asked: Asked) -> None:
    """Raises `Forbidden` unless the access list makes the principal an owner; decided again with the write (ACL-1).

    Planning reads a lot and its errors show what is there, so a caller without the right is refused before anything
    else. Owning is never delegated (ACL-4).
    """
    if asked.delegated or not access_roles.is_owner(access_list(reader, space), asked.identity.principal):
        raise Forbidden(action="write", needs="own")


def _facts(reader: LogReader, id_: EntityId) -> Iterator[WrittenLeaves]:
    """The facts of an entity on all branches with what their commits did, oldest first, a few in memory at a time."""
    after: FactPosition | None = None
    while page := reader.facts_of(id_, after=after, limit=FACTS_PAGE):
        records = reader.commits({fact.version for fact in page})
        for fact in page:
            yield WrittenLeaves(fact, records[fact.version].details)
        after = FactPosition(page[-1].version, page[-1].index)


def _value(reader: LogReader, branches: Branches, point: BranchPoint, id_: EntityId) -> Content:
    found = states.load(reader, branch_spans.lineage(branches, point.branch, point.version), [id_]).get(id_)
    return Missing.ABSENT if found is None else found.value


def _report(reader: LogReader, record: Commit) -> ErasureDone:
    """The answer, from the record alone, so that it is the same whenever it is given (COMMIT-11)."""
    details = record.details
    assert isinstance(details, Erase), "the same request is the same kind of write"
    erased = sum(_erased_bodies(reader, entity) for entity in details.every_entity())
    return ErasureDone(version=record.version, hash=record.hash, time=record.time, erased=erased)


def _erased_bodies(reader: LogReader, entity: ErasedEntity) -> int:
    listed = frozenset(entity.versions)
    return sum(1 for one in _facts(reader, entity.id) if one.fact.version in listed and one.fact.kind != "delete")
