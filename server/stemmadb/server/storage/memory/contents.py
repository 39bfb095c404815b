"""What a log holds: its commits and facts, and the folds of them that answers are looked up in."""

from __future__ import annotations

import copy
from collections.abc import Collection

import msgspec

from stemmadb.protocol.model.log import commit_record as commits
from stemmadb.protocol.model.log.commit_record import (
    BranchCreate,
    BranchDelete,
    Commit,
    Compact,
    Identity,
    LocalIdentity,
    Merge,
    Revoke,
    TagCreate,
    TagDelete,
)
from stemmadb.protocol.model.log.facts import Fact
from stemmadb.protocol.model.log.state import BranchState, KnownCommit
from stemmadb.protocol.model.values.ids import (
    EMPTY_SPACE,
    MAIN,
    BranchName,
    Did,
    EntityId,
    Hash,
    Local,
    TimeMs,
    Version,
)
from stemmadb.server.storage.port import (
    AcceptedWrite,
    Destroyed,
    FactPosition,
    HttpKey,
    Snapshot,
    StoredBlob,
    StoredTag,
    Tip,
)


class MemoryContents:
    """Once it is shown to anybody it never changes: a writer changes a copy and puts that in its place."""

    def __init__(self, space: Did) -> None:
        self.space = space
        self.commits: list[Commit] = []
        self.facts: dict[FactPosition, Fact] = {}
        self.places: dict[EntityId, tuple[FactPosition, ...]] = {}
        self.branches: dict[str, BranchState] = {MAIN: BranchState(name=MAIN)}
        self.tags: dict[str, StoredTag] = {}
        self.floor = EMPTY_SPACE
        self.revoked: dict[Hash, Version] = {}
        self.known: dict[Identity, KnownCommit] = {}
        self.highest: dict[tuple[Did, bytes], Local] = {}
        self.snapshots: dict[FactPosition, Snapshot] = {}
        self.blobs: dict[Hash, tuple[StoredBlob, bytes | None]] = {}
        self.http_key: HttpKey | None = None
        self.owes_scrub = False

    def copy(self) -> MemoryContents:
        """Another that can be changed: the containers are copied, what is in them is immutable."""
        other = MemoryContents(self.space)
        for name, value in vars(self).items():
            setattr(other, name, copy.copy(value))
        return other

    @property
    def tip(self) -> Tip:
        if not self.commits:
            return Tip(EMPTY_SPACE, commits.genesis(self.space), TimeMs(0))
        last = self.commits[-1]
        return Tip(last.version, last.hash, last.time)

    def commit(self, version: Version) -> Commit | None:
        return self.commits[version - 1] if 0 < version <= len(self.commits) else None

    def facts_at(self, version: Version) -> tuple[Fact, ...]:
        """The facts of a commit, in order."""
        record = self.commits[version - 1]
        return tuple(self.facts[FactPosition(version, index)] for index in range(len(record.facts)))

    # ------------------------------------------------------------ changes, made to a copy

    def append(self, entry: AcceptedWrite) -> None:
        record, tip = entry.commit, self.tip
        assert record.version == tip.version + 1, "a batch continues the log without a gap"
        assert record.previous == tip.hash, "a record names the one before it"
        assert record.facts == tuple(fact.hash for fact in entry.facts), "an entry brings the facts of its record"
        self.commits.append(record)
        for fact in entry.facts:
            place = FactPosition(fact.version, fact.index)
            self.facts[place] = fact
            self.places[fact.id] = (*self.places.get(fact.id, ()), place)
        self._remember(record)
        self._restructure(record)
        if entry.destroyed is not None:
            self._destroy(entry.destroyed)

    def store_snapshot(self, snapshot: Snapshot) -> None:
        fact = self.facts.get(snapshot.place)
        assert fact is not None, f"a snapshot of a fact that is not there: {snapshot.place}"
        assert (fact.branch, fact.id) == (snapshot.branch, snapshot.id), "a snapshot of another entity's fact"
        self.snapshots[snapshot.place] = snapshot

    def _remember(self, record: Commit) -> None:
        identity = record.identity
        self.known[identity] = KnownCommit(record.version, record.request)
        if isinstance(identity, LocalIdentity):
            session = (identity.principal, identity.session)
            self.highest[session] = max(identity.local, self.highest.get(session, Local(0)))

    def _restructure(self, record: Commit) -> None:
        match record.details:
            case BranchCreate(name=name, parent=parent, fork=fork):
                depth = self.branches[parent].depth + 1
                self.branches[name] = BranchState(name=name, parent=parent, fork=fork, depth=depth)
            case BranchDelete(name=name):
                self._mark(name, deleted=record.version)
            case Merge():
                assert record.branch is not None, "a merge has a target"
                self._mark(record.branch, merged=record.version)
            case TagCreate(name=label, branch=branch, version=version):
                self.tags[label] = StoredTag(label, branch, version)
            case TagDelete(name=label):
                del self.tags[label]
            case Compact(floor=floor):
                self.floor = max(self.floor, floor)
            case Revoke(delegation=delegation):
                self.revoked.setdefault(delegation, record.version)
            case _:
                pass

    def _mark(self, name: BranchName, **marks: Version) -> None:
        self.branches[name] = msgspec.structs.replace(self.branches[name], **marks)

    def _destroy(self, destroyed: Destroyed) -> None:
        """Bodies and notes go with their salts; digests and hashes stay (ERASE-1, COMPACT-1)."""
        for place in destroyed.facts:
            self.facts[place] = msgspec.structs.replace(self.facts[place], body=None, salt=None)
        for version in destroyed.notes:
            record = self.commits[version - 1]
            self.commits[version - 1] = msgspec.structs.replace(record, note=None, note_salt=None)
        self.snapshots = {
            place: snapshot
            for place, snapshot in self.snapshots.items()
            if snapshot.id not in destroyed.snapshots_of and place.version >= destroyed.snapshots_below
        }
        self.drop_blobs(destroyed.blobs)
        if destroyed.http_key:
            self.http_key = None
        self.owes_scrub = True

    def drop_blobs(self, hashes: Collection[Hash]) -> None:
        for hash_ in hashes:
            self.blobs.pop(hash_, None)
