"""The heads that a walk of the chain keeps: what the next fact of an entity on a branch must continue (FACT-2)."""

from __future__ import annotations

from bisect import bisect_right
from typing import NamedTuple, Protocol

from stemmadb.protocol.model.log import facts
from stemmadb.protocol.model.log.facts import Fact
from stemmadb.protocol.model.values.ids import MAIN, BranchName, EntityId, Hash, Version


class ChainHead(NamedTuple):
    """The last fact of an entity on a branch: its hash, and whether it left a value."""

    hash: Hash
    alive: bool


class ChainHeads(Protocol):
    """The last fact of each entity on each branch, seen through fork points, as the walk goes on."""

    def head(self, branch: BranchName, id_: EntityId) -> ChainHead | None:
        """What a new fact continues; None if the branch was never made or is deleted."""
        ...

    def advance(self, fact: Fact) -> None: ...

    def fork(self, name: BranchName, parent: BranchName, at: Version) -> bool:
        """Whether the branch can be made: its name is new and its parent is there."""
        ...

    def close(self, name: BranchName) -> bool:
        """Whether the branch can be deleted: it is there, and it is not `main`."""
        ...


class MemoryHeads:
    """Heads kept in memory: every fact's hash, since a branch may fork at any past version."""

    def __init__(self) -> None:
        self._facts: dict[tuple[BranchName, EntityId], list[tuple[Version, ChainHead]]] = {}
        self._forks: dict[BranchName, tuple[BranchName, Version] | None] = {MAIN: None}
        self._closed: set[BranchName] = set()

    def head(self, branch: BranchName, id_: EntityId) -> ChainHead | None:
        if branch in self._closed:
            return None
        name, upto = branch, None
        while name in self._forks:
            known = self._facts.get((name, id_), [])
            at = len(known) if upto is None else bisect_right(known, upto, key=lambda pair: pair[0])
            if at:
                return known[at - 1][1]
            fork = self._forks[name]
            if fork is None:
                return ChainHead(facts.empty(id_), alive=False)
            name, upto = fork[0], fork[1] if upto is None else min(upto, fork[1])
        return None

    def advance(self, fact: Fact) -> None:
        head = ChainHead(fact.hash, alive=fact.kind != "delete")
        self._facts.setdefault((fact.branch, fact.id), []).append((fact.version, head))

    def fork(self, name: BranchName, parent: BranchName, at: Version) -> bool:
        if name in self._forks or parent not in self._forks:
            return False
        self._forks[name] = (parent, at)
        return True

    def close(self, name: BranchName) -> bool:
        if name == MAIN or name not in self._forks or name in self._closed:
            return False
        self._closed.add(name)
        return True
