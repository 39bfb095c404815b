"""The ledger: every commit that an app made, what became of it, and whether the log agrees."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypeAlias

from simulation.states import Logged, States
from stemmadb.client.nursery.entities import CommitName
from stemmadb.protocol.model.values.ids import MAIN, Did, EntityId, Version

Fate: TypeAlias = Literal["pending", "confirmed", "rejected", "unknown", "unsent"]
"""`unknown`: the app died without a journal. `unsent`: it died before its journal had the commit."""


class Effect(NamedTuple):
    """What a commit does to an entity of `main` that adds up: a number to a counter, or an element to a list."""

    kind: Literal["add", "append"]
    id: str
    what: int


@dataclass(slots=True, eq=False)
class Record:
    """A commit that an app made."""

    principal: Did
    name: CommitName
    mark: int
    effects: tuple[Effect, ...] = ()
    can_repeat: bool = False
    """Whether its operations mean the same on any value, so that retrying it after a rejection is right."""
    fate: Fate = "pending"
    version: Version | None = None
    was_kept: bool = False
    is_lost: bool = False
    """Whether its app was told that a restored server no longer has it."""
    is_forgotten: bool = False
    """Whether its app ended without a journal, so that nobody can be told."""
    is_shared: bool = False
    """Whether a copy of the journal has it as well: two apps send it, and each is told once."""

    def decide(self, fate: Fate, version: Version | None = None) -> None:
        """What became of it; a second, different word is a violation (NURSERY-7)."""
        assert self.fate in ("pending", fate), f"{self}: now {fate}"
        assert self.version in (None, version), f"{self}: now at {version}"
        self.fate, self.version = fate, version

    def copied(self) -> Record:
        """The same commit in a copy of its journal."""
        self.is_shared = True
        return Record(
            self.principal, self.name, self.mark, self.effects, self.can_repeat, was_kept=True, is_shared=True
        )


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


def check_decided(ledger: Ledger, states: States) -> int:
    """Each commit was decided once; what was confirmed is in the log once, what was refused never is (COMMIT-5).

    After a restore what was confirmed may be in the log of the lost history only, and its app was told (RESUME-4).
    Gives how many were looked at.
    """
    log = states.log()
    there = {(one.principal, one.name): one for one in log}
    assert len(there) == len(log), "a commit is in the log twice"
    ever = states.logs()
    for record in ledger.records:
        _check_record(record, there.get((record.principal, record.name)), ever)
    made = {(one.principal, one.name, one.mark) for one in ledger.records}
    strangers = [one for one in ever if one[:3] not in made]
    assert not strangers, f"nobody made {strangers}"
    return len(ledger.records)


def _check_record(record: Record, entry: Logged | None, ever: set[Logged]) -> None:
    version = entry.version if entry is not None and entry.mark == record.mark else None
    assert record.fate != "pending", f"{record} was never decided"
    if record.fate == "confirmed":
        assert record.version is not None
        logged = Logged(record.principal, record.name, record.mark, record.version)
        assert logged in ever, f"{record} is in no log"
        may_be_gone = record.is_lost or record.is_forgotten
        assert version == record.version or may_be_gone, f"{record} is in the log at {version}, and not lost"
        assert version is None or not record.is_lost or record.is_shared, (
            f"{record} is in the log at {version}, and told as lost"
        )
    elif record.fate != "unknown" and not record.is_shared:
        assert version is None, f"{record} is in the log at {version}"


def check_sums(ledger: Ledger, states: States) -> int:
    """Counters are the sums, and lists the elements in the order, of what is in the log; gives how many there are.

    After a restore a revert may name a version that is another commit by then, one of a counter too: what it changes
    is taken as it is, and what ordinary commits do before and after it is not.
    """
    effects = {(one.principal, one.name, one.mark): one.effects for one in ledger.records}
    logged = {entry.version: entry for entry in states.log()}
    sums: dict[str, int] = {}
    lists: dict[str, list[int]] = {}
    for commit in states.now.commits:
        entry = logged.get(commit.version)
        if entry is not None:
            _add_up(effects[entry.principal, entry.name, entry.mark], sums, lists)
        elif commit.kind == "revert":
            _take_revert(states, commit.version, sums, lists)
    state: Mapping[EntityId, Any] = states.head(MAIN)
    for id_, total in sums.items():
        assert state[EntityId(id_)]["n"] == total, f"{id_}: {state[EntityId(id_)]}, but {total} was confirmed"
    for id_, items in lists.items():
        assert state[EntityId(id_)]["items"] == items, f"{id_}: {state[EntityId(id_)]}, confirmed in order {items}"
    return len(sums) + len(lists)


def _add_up(effects: Iterable[Effect], sums: dict[str, int], lists: dict[str, list[int]]) -> None:
    for kind, id_, what in effects:
        if kind == "add":
            sums[id_] = sums.get(id_, 0) + what
        else:
            lists.setdefault(id_, []).append(what)


def _take_revert(states: States, version: Version, sums: dict[str, int], lists: dict[str, list[int]]) -> None:
    before: Mapping[EntityId, Any] | None = states.at(MAIN, Version(version - 1))
    after: Mapping[EntityId, Any] | None = states.at(MAIN, version)
    assert before is not None
    assert after is not None
    for id_ in sums:
        sums[id_] += after[EntityId(id_)]["n"] - before[EntityId(id_)]["n"]
    for id_ in lists:
        if after[EntityId(id_)] != before[EntityId(id_)]:
            lists[id_] = list(after[EntityId(id_)]["items"])
