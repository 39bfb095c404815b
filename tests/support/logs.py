"""Logs to fill a backend with: every entry is really decided, and the same log is kept as plain lists beside it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from space import ALICE, SPACE, MemorySpace, structural
from stemmadb.protocol.model.commit.admission import Accepted
from stemmadb.protocol.model.commit.proposal import Proposal, Step, set_step
from stemmadb.protocol.model.commit.request import Operation
from stemmadb.protocol.model.log import branch_spans, commit_record, replay
from stemmadb.protocol.model.log.branch_spans import Span
from stemmadb.protocol.model.log.commit_record import (
    Arguments,
    BranchCreate,
    BranchDelete,
    Commit,
    Compact,
    Erase,
    Merge,
    Revoke,
    TagCreate,
    TagDelete,
)
from stemmadb.protocol.model.log.facts import Fact
from stemmadb.protocol.model.log.state import BranchState, Missing
from stemmadb.protocol.model.values.body import encode
from stemmadb.protocol.model.values.ids import MAIN, BranchName, Did, EntityId, Hash, TimeMs, Version
from stemmadb.protocol.model.values.json_values import Value
from stemmadb.server.storage.port import AcceptedWrite, Destroyed, FactPosition, Snapshot, StoredTag, Tip


class LogMaker:
    """Makes entries one by one, and knows by plain loops what the log holds after each.

    `facts` and `commits` are as stored now: what was destroyed is gone from them.
    """

    def __init__(self) -> None:
        self.space = MemorySpace()
        self.commits: list[Commit] = []
        self.facts: list[Fact] = []
        self.tags: dict[str, StoredTag] = {}
        self.floor = Version(0)
        self.now = 1_000
        self.author: Did = ALICE  # of the structural entries

    # ------------------------------------------------------------ what the log holds

    @property
    def version(self) -> Version:
        return self.space.version

    @property
    def tip(self) -> Tip:
        if not self.commits:
            return Tip(Version(0), commit_record.genesis(SPACE), TimeMs(0))
        return Tip(self.version, self.commits[-1].hash, self.commits[-1].time)

    @property
    def branches(self) -> dict[BranchName, BranchState]:
        return {state.name: state for state in self.space.branches.values()}

    def spans(self, name: str = MAIN, version: int | None = None) -> tuple[Span, ...]:
        upto = self.version if version is None else Version(version)
        return branch_spans.lineage(self.branches, BranchName(name), upto)

    def seen(self, spans: Sequence[Span], id_: str) -> list[Fact]:
        return [
            fact for fact in self.facts if fact.id == id_ and branch_spans.visible(spans, fact.branch, fact.version)
        ]

    def value(self, spans: Sequence[Span], id_: str) -> Value | Missing:
        """The fold of everything that is seen, from the very first fact on (COMMIT-8)."""
        return replay.fold(Missing.ABSENT, self.seen(spans, id_))

    def snapshot(self, fact: Fact) -> Snapshot | None:
        """The snapshot right after that fact; None where there is no value."""
        before = self.seen(self.spans(fact.branch, fact.version), fact.id)
        value = replay.fold(Missing.ABSENT, [one for one in before if place_of(one) <= place_of(fact)])
        if isinstance(value, Missing):
            return None
        return Snapshot(fact.branch, fact.id, place_of(fact), encode(value))

    # ------------------------------------------------------------ entries

    def commit(self, *operations: Operation, **how: Any) -> AcceptedWrite:
        return self.take(self.space.propose(*operations, **how))

    def create_branch(self, name: str, parent: str = MAIN, fork: int | None = None) -> AcceptedWrite:
        at = self.version if fork is None else Version(fork)
        return self._structural(BranchCreate(name=BranchName(name), parent=BranchName(parent), fork=at))

    def delete_branch(self, name: str) -> AcceptedWrite:
        return self._structural(BranchDelete(name=BranchName(name)))

    def create_tag(self, name: str, on: str = MAIN, version: int | None = None) -> AcceptedWrite:
        at = self.version if version is None else Version(version)
        return self._structural(TagCreate(name=name, branch=BranchName(on), version=at))

    def delete_tag(self, name: str) -> AcceptedWrite:
        return self._structural(TagDelete(name=name))

    def revoke(self, delegation: bytes) -> AcceptedWrite:
        return self._structural(Revoke(delegation=Hash(delegation)))

    def merge(self, source: str, target: str = MAIN, ids: Sequence[str] = ()) -> AcceptedWrite:
        """Takes those entities as they are on the source, where they have a value there."""
        values = {EntityId(id_): self.value(self.spans(source), id_) for id_ in ids}
        steps = [
            set_step(BranchName(target), id_, encode(value), blind=True)
            for id_, value in values.items()
            if not isinstance(value, Missing)
        ]
        details = Merge(source=BranchName(source), source_version=self.version, target_version=self.version)
        return self._structural(details, steps, on=target)

    def erase(
        self,
        id_: str,
        versions: Sequence[int],
        *,
        survivor: Value | Missing = Missing.ABSENT,
        blobs: Sequence[Hash] = (),
    ) -> AcceptedWrite:
        """Destroys the bodies of an entity at these versions, and the notes there (ERASE-1).

        Where nothing is left of a live head, the survivor is set, or the entity deleted.
        """
        wanted = {Version(version) for version in versions}
        places = [place_of(fact) for fact in self.facts if fact.id == id_ and fact.version in wanted]
        destroyed = Destroyed(facts=places, notes=sorted(wanted), snapshots_of=[EntityId(id_)], blobs=blobs)
        self._destroy(destroyed)
        steps = [
            _surviving(state.name, EntityId(id_), survivor)
            for state in self.branches.values()
            if state.deleted is None and self.value(self.spans(state.name), id_) is Missing.ERASED
        ]
        return self._structural(Erase(id=EntityId(id_), versions=tuple(sorted(wanted))), steps, destroyed=destroyed)

    def compact(self, floor: int, *, checkpoints: Sequence[tuple[str, str]] = ()) -> AcceptedWrite:
        """Destroys the bodies from which no state at or above the floor, or under a tag, is replayed (COMPACT-1).

        `checkpoints` are pairs of a branch and an entity with a value there.
        """
        steps = [self._checkpoint(BranchName(name), EntityId(id_)) for name, id_ in checkpoints]
        needed = self._needed(Version(floor))
        places = [
            place_of(fact)
            for fact in self.facts
            if fact.version < floor and fact.body is not None and place_of(fact) not in needed
        ]
        destroyed = Destroyed(facts=places, snapshots_below=Version(floor))
        self._destroy(destroyed)
        self.floor = max(self.floor, Version(floor))
        return self._structural(Compact(floor=Version(floor)), steps, destroyed=destroyed)

    def take(self, proposal: Proposal, destroyed: Destroyed | None = None) -> AcceptedWrite:
        """Decides it, which must go well, and keeps it."""
        (outcome,) = self.space.decide([proposal], now=self.now)
        assert isinstance(outcome, Accepted), outcome
        record = outcome.commit
        self.commits.append(record)
        self.facts.extend(outcome.facts)
        match record.details:
            case TagCreate(name=name, branch=on, version=version):
                self.tags[name] = StoredTag(name, on, version)
            case TagDelete(name=name):
                del self.tags[name]
            case _:
                pass
        return AcceptedWrite(record, outcome.facts, destroyed)

    def _structural(
        self,
        details: Arguments,
        steps: Sequence[Step] = (),
        *,
        on: str | None = None,
        destroyed: Destroyed | None = None,
    ) -> AcceptedWrite:
        bare = structural(details, f"op{self.version}", author=self.author, branch=on)
        return self.take(msgspec.structs.replace(bare, steps=tuple(steps)), destroyed)

    def _checkpoint(self, name: BranchName, id_: EntityId) -> Step:
        value = self.value(self.spans(name), id_)
        assert not isinstance(value, Missing), "a checkpoint states a value"
        return Step("checkpoint", name, id_, encode(value), None, 0, (), ())

    def _needed(self, floor: Version) -> set[FactPosition]:
        """The facts from which a state is replayed that can still be read."""
        moments = [(name, version) for name in self.branches for version in range(floor, self.version + 1)]
        moments += [(tag.branch, tag.version) for tag in self.tags.values()]
        needed: set[FactPosition] = set()
        for spans in {self.spans(*moment) for moment in moments}:
            for id_ in {fact.id for fact in self.facts}:
                facts = self.seen(spans, id_)
                begins = [index for index, fact in enumerate(facts) if replay.begins_here(fact)]
                needed |= {place_of(fact) for fact in facts[max(begins, default=0) :]}
        return needed

    def _destroy(self, destroyed: Destroyed) -> None:
        places, notes = set(destroyed.facts), set(destroyed.notes)
        self.facts = [
            msgspec.structs.replace(fact, body=None, salt=None) if place_of(fact) in places else fact
            for fact in self.facts
        ]
        self.commits = [
            msgspec.structs.replace(record, note=None, note_salt=None) if record.version in notes else record
            for record in self.commits
        ]


def place_of(fact: Fact) -> FactPosition:
    return FactPosition(fact.version, fact.index)


def _surviving(name: BranchName, id_: EntityId, survivor: Value | Missing) -> Step:
    if isinstance(survivor, Missing):
        return Step("delete", name, id_, None, None, 0, None, ())
    return set_step(name, id_, encode(survivor), blind=True)
