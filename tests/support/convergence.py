"""Checkers of convergence: what every client and the server must have come to once all faults are over.

They know commits by their names and by a mark in their notes, so that they work with any workload: a `Ledger` is told
of each commit that is made and of what became of it, and is compared with what is durable on the server.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypeAlias

import graphs
from stemmadb.client.nursery.held import CommitName
from stemmadb.client.testing import Backup, Truth, World
from stemmadb.client.testing.storage import KitStorage
from stemmadb.protocol.errors import FutureVersion, UnknownBranch
from stemmadb.protocol.model import body
from stemmadb.protocol.model.commit import Commit, LocalIdentity
from stemmadb.protocol.model.ids import MAIN, BranchName, Did, EntityId, Version
from stemmadb.protocol.model.query import Root
from stemmadb.protocol.model.values import Value, equal
from stemmadb.server.engine import listing
from stemmadb.server.engine.moments import Moment
from stemmadb.server.keeping.verifying import verify

State: TypeAlias = dict[EntityId, Value]
Fate: TypeAlias = Literal["pending", "confirmed", "rejected", "unknown", "unsent"]
"""`unknown`: the app died without a journal. `unsent`: it died before its journal had the commit."""


class Effect(NamedTuple):
    """What a commit does to an entity of `main` that adds up: a number to a counter, or an element to a list."""

    kind: Literal["add", "append"]
    id: str
    what: int


@dataclass(slots=True)
class Record:
    """A commit that an app made."""

    principal: Did
    name: CommitName
    mark: int
    effects: tuple[Effect, ...] = ()
    can_repeat: bool = False
    """Whether its operations mean the same on any value, so that a retry from the tray is right."""
    fate: Fate = "pending"
    version: Version | None = None
    was_kept: bool = False
    is_lost: bool = False
    """Whether its app was told that a restored server no longer has it."""
    is_forgotten: bool = False
    """Whether its app ended without a journal, so that nobody can be told."""

    def decide(self, fate: Fate, version: Version | None = None) -> None:
        """What became of it; a second, different word is a violation (NURSERY-7)."""
        assert self.fate in ("pending", fate), f"{self}: now {fate}"
        assert self.version in (None, version), f"{self}: now at {version}"
        self.fate, self.version = fate, version


class Logged(NamedTuple):
    """A plain commit in the server's log."""

    principal: Did
    name: CommitName
    mark: int
    version: Version


class States:
    """The server's state at any branch and version, read once each; of every history that there was."""

    def __init__(self, world: World, space: Did) -> None:
        self._world = world
        self._space = space
        self._known: dict[tuple[int, str, Version], State] = {}
        self._past: list[KitStorage] = []

    @property
    def epoch(self) -> int:
        """How often the server was restored: each time another history begins."""
        return len(self._past)

    def restored(self, before: Backup) -> None:
        """To be called right after a restore, with what was durable right before."""
        self._past.append(KitStorage(before))

    def at(self, branch: str, version: Version, epoch: int | None = None) -> State | None:
        """None if that history never came so far."""
        epoch = self.epoch if epoch is None else epoch
        key = (epoch, branch, version)
        if key not in self._known:
            state = self._read(branch, version, epoch)
            if state is None:
                return None
            self._known[key] = state
        return self._known[key]

    def _read(self, branch: str, version: Version, epoch: int) -> State | None:
        moment = Moment(branch=BranchName(branch), version=version)
        with self._storage(epoch).open(self._space).reader() as reader:
            try:
                page = listing.page(reader, "urn:", moment)
            except (FutureVersion, UnknownBranch):
                return None
            assert page.next is None, "a small space is one page"
            return {one.id: body.read_stored(one.body) for one in page.entities}

    def _storage(self, epoch: int) -> KitStorage:
        return self._past[epoch] if epoch < self.epoch else self._world.truth._storage

    def head(self, branch: str) -> State:
        state = self.at(branch, self._world.truth.version(self._space))
        assert state is not None, "the head is there"
        return state

    def log(self, epoch: int | None = None) -> list[Logged]:
        """The plain commits of a history that carry a mark, oldest first."""
        storage = self._storage(self.epoch if epoch is None else epoch)
        return list(map(_logged, filter(_is_marked, Truth(storage).commits(self._space))))

    def logs(self) -> list[Logged]:
        """Those of all histories."""
        return [one for epoch in range(self.epoch + 1) for one in self.log(epoch)]


def _note(commit: Commit) -> Any:
    return None if commit.note is None else body.read_stored(commit.note)


def _is_marked(commit: Commit) -> bool:
    note = _note(commit)
    return isinstance(commit.identity, LocalIdentity) and isinstance(note, dict) and "mark" in note


def _logged(commit: Commit) -> Logged:
    identity = commit.identity
    assert isinstance(identity, LocalIdentity)
    name = CommitName(identity.session, identity.local)
    return Logged(identity.principal, name, _note(commit)["mark"], commit.version)


def answer(state: Mapping[EntityId, Value], roots: Sequence[Root]) -> State:
    """The query over a state, afresh."""
    values: Mapping[Any, Value] = state
    return {id_: one.value for id_, one in graphs.ask(values, *roots).entities.items()}


def same(left: Mapping[Any, Value], right: Mapping[Any, Value]) -> bool:
    return left.keys() == right.keys() and all(equal(left[id_], right[id_]) for id_ in left)


def differences(left: Mapping[Any, Value], right: Mapping[Any, Value]) -> str:
    """What a person needs to see of two states that should be the same."""
    ids = sorted(left.keys() | right.keys())
    lines = [f"{id_}: {left.get(id_)} <> {right.get(id_)}" for id_ in ids if left.get(id_) != right.get(id_)]
    return "; ".join(lines)


# ---------------------------------------------------------------- commits


class Ledger:
    """Every commit that was made, in all lives of all apps."""

    def __init__(self) -> None:
        self.records: list[Record] = []
        self._marks = 0

    def next_mark(self) -> int:
        self._marks += 1
        return self._marks

    def add(self, record: Record) -> Record:
        self.records.append(record)
        return record

    def find(self, principal: Did, name: CommitName, mark: int) -> Record:
        """The newest one of this name: a copied journal may have used it for another commit."""
        for record in reversed(self.records):
            if (record.principal, record.name, record.mark) == (principal, name, mark):
                return record
        raise AssertionError(f"{name} with mark {mark} was never made")


def check_decided(ledger: Ledger, states: States) -> None:
    """Each commit was decided once; what was confirmed is in the log once, what was refused never is (COMMIT-5).

    After a restore what was confirmed may be in the log of the lost history only, and its app was told (RESUME-4).
    """
    log = states.log()
    there = {(one.principal, one.name): one for one in log}
    assert len(there) == len(log), "a commit is in the log twice"
    ever = set(states.logs())
    for record in ledger.records:
        _check_record(record, there.get((record.principal, record.name)), ever)
    made = {(one.principal, one.name, one.mark) for one in ledger.records}
    strangers = [one for one in ever if one[:3] not in made]
    assert not strangers, f"nobody made {strangers}"


def _check_record(record: Record, entry: Logged | None, ever: set[Logged]) -> None:
    version = entry.version if entry is not None and entry.mark == record.mark else None
    assert record.fate != "pending", f"{record} was never decided"
    if record.fate == "confirmed":
        assert record.version is not None
        logged = Logged(record.principal, record.name, record.mark, record.version)
        assert logged in ever, f"{record} is in no log"
        may_be_gone = record.is_lost or record.is_forgotten
        assert version == record.version or may_be_gone, f"{record} is in the log at {version}, and not lost"
        assert version is None or not record.is_lost, f"{record} is in the log at {version}, and told as lost"
    elif record.fate != "unknown":
        assert version is None, f"{record} is in the log at {version}"


def check_sums(ledger: Ledger, states: States) -> int:
    """Counters are the sums, and lists the elements in the order, of what is in the log; gives how many there are."""
    effects = {(one.principal, one.name, one.mark): one.effects for one in ledger.records}
    state: Mapping[EntityId, Any] = states.head(MAIN)
    sums: dict[str, int] = {}
    lists: dict[str, list[int]] = {}
    for entry in states.log():
        for kind, id_, what in effects[entry.principal, entry.name, entry.mark]:
            if kind == "add":
                sums[id_] = sums.get(id_, 0) + what
            else:
                lists.setdefault(id_, []).append(what)
    for id_, total in sums.items():
        assert state[EntityId(id_)]["n"] == total, f"{id_}: {state[EntityId(id_)]}, but {total} was confirmed"
    for id_, items in lists.items():
        assert state[EntityId(id_)]["items"] == items, f"{id_}: {state[EntityId(id_)]}, confirmed in order {items}"
    return len(sums) + len(lists)


def check_chain(world: World, space: Did) -> None:
    """The hash chain, the snapshots and every patch of the space hold (FACT-3)."""
    verify(world.truth._storage.open(space))


def branches_of(world: World, space: Did) -> Iterable[str]:
    """Every branch there is."""
    with world.truth._storage.open(space).reader() as reader:
        names = {str(one.name) for one in reader.branches()}
    return sorted(names | {str(MAIN)})
