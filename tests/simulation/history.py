"""A history of a space, folded by obvious code while it is made: its state at every branch and version."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from typing import Any, TypeAlias

import plain_patch
from stemmadb.protocol.model.log.commit_record import BranchCreate, Commit, Compact, Revoke
from stemmadb.protocol.model.log.facts import Fact
from stemmadb.protocol.model.values import body
from stemmadb.protocol.model.values.ids import MAIN, Did, EntityId, Hash, Version
from stemmadb.protocol.model.values.json_values import Value

State: TypeAlias = Mapping[EntityId, Value]
NOTHING: State = {}


class _Head:
    """The states of a branch, oldest first; below its fork they are those of its parent."""

    def __init__(self, parent: str | None, fork: Version, state: State) -> None:
        self.parent = parent
        self.fork = fork
        self.versions = [fork]
        self.states = [state]


class History:
    """Takes each commit once, before anything can be erased from it."""

    def __init__(self, space: Did) -> None:
        self.space = space
        self.commits: list[Commit] = []
        self.facts: list[tuple[Fact, ...]] = []
        self.roles: list[Mapping[str, str]] = []
        """The access list after each commit."""
        self.revoked: dict[Hash, Version] = {}
        self.floor = Version(0)
        self._heads = {str(MAIN): _Head(None, Version(0), NOTHING)}

    @property
    def tip(self) -> Version:
        return Version(len(self.commits))

    @property
    def branches(self) -> list[str]:
        return sorted(self._heads)

    def until(self, version: Version) -> History:
        """Another that begins like this one."""
        other = History(self.space)
        for commit, facts in zip(self.commits[:version], self.facts, strict=False):
            other.take(commit, facts)
        return other

    def take(self, commit: Commit, facts: tuple[Fact, ...]) -> None:
        """The next commit, with all its facts."""
        assert commit.version == self.tip + 1, f"{commit.version} follows {self.tip}"
        self.commits.append(commit)
        self.facts.append(facts)
        match commit.details:
            case BranchCreate(name=name, parent=parent, fork=fork):
                self._heads[name] = _Head(parent, fork, self.at(parent, fork) or NOTHING)
            case Revoke(delegation=delegation):
                self.revoked.setdefault(delegation, commit.version)
            case Compact(floor=floor):
                self.floor = max(self.floor, floor)
            case _:
                pass
        self._fold(commit.version, facts)

    def _fold(self, version: Version, facts: tuple[Fact, ...]) -> None:
        roles = self.roles[-1] if self.roles else {}
        for branch in dict.fromkeys(fact.branch for fact in facts):
            head = self._heads[branch]
            state: dict[EntityId, Any] = dict(head.states[-1])
            for fact in facts:
                if fact.branch == branch:
                    _apply(state, fact)
            head.versions.append(version)
            head.states.append(state)
            if branch == MAIN and any(fact.id == EntityId(self.space) for fact in facts):
                roles = state[EntityId(self.space)]
        self.roles.append(roles)

    def at(self, branch: str, version: Version) -> State | None:
        """Everything on a branch at a version, the access list as well; None where there is no such state."""
        head = self._heads.get(branch)
        if head is None or version > self.tip:
            return None
        if version < head.fork and head.parent is not None:
            return self.at(head.parent, version)
        return head.states[max(0, bisect_right(head.versions, version) - 1)]

    def fork(self, branch: str) -> Version:
        """Where it parted from its parent."""
        return self._heads[branch].fork

    def written(self, branch: str, after: Version, before: Version) -> set[EntityId]:
        """The entities that were written on a branch between two commits."""
        facts = (fact for of_commit in self.facts[after : before - 1] for fact in of_commit)
        return {fact.id for fact in facts if fact.branch == branch}

    def role(self, who: Did, version: Version) -> str | None:
        """By the access list after this version."""
        return self.roles[version - 1].get(who) if version else None


def _apply(state: dict[EntityId, Any], fact: Fact) -> None:
    if fact.kind == "delete":
        del state[fact.id]
        return
    assert fact.body is not None, f"{fact.id} at {fact.version} is gone before anybody could read it"
    given: Any = body.read_stored(fact.body)
    if fact.kind == "patch":
        state[fact.id] = plain_patch.apply(state[fact.id], given)
        return
    assert fact.kind == "set" or plain_patch.equal(state[fact.id], given), f"a checkpoint changes {fact.id}"
    state[fact.id] = given
