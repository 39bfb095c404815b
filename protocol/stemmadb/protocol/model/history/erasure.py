"""What an erasure takes: the bodies named, and every copy the server itself made of what they held (ERASE-1).

A state is tainted if replaying it needs a body that goes. Taint goes on through patches, over forks and into copies,
and ends at a `delete` and at a `set` that a client made. Bodies that go are

- those of the entity at the versions named, whatever their kind;
- checkpoints of a tainted state;
- what a merge wrote from a tainted source or onto a tainted target, unless the caller resolved the entity there and
  it was written whole;
- what a revert wrote onto a tainted state, or to undo a fact that left a tainted state or was made on one.

A `set` of a merge or a revert stays, and ends the taint, if a state it was made from has the same value and is not
tainted: then it holds nothing that only erased bodies held. In every other doubt the body goes. What a client wrote
by itself goes only if its version is named, even if it is a patch of a tainted state: it is no copy.

For example: `main` sets a secret at 3, sets something harmless at 5 and reverts 5 at 6. Erasing 3 takes 6 as well.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Iterable
from enum import Enum
from typing import TypeAlias

import msgspec

from stemmadb.protocol.errors import FutureVersion, Malformed, NotFound
from stemmadb.protocol.model.history.difference import Content, same
from stemmadb.protocol.model.history.origins import WrittenLeaves
from stemmadb.protocol.model.log import branch_spans
from stemmadb.protocol.model.log.ancestry import BranchPoint
from stemmadb.protocol.model.log.branch_spans import Branches
from stemmadb.protocol.model.log.commit_record import Merge, Revert
from stemmadb.protocol.model.log.facts import Fact
from stemmadb.protocol.model.values import body
from stemmadb.protocol.model.values.ids import BranchName, EntityId, Version

ValueAt: TypeAlias = Callable[[BranchPoint], Content]
"""The entity's value at a point, as it is before the erasure."""


class ErasurePlan(msgspec.Struct, frozen=True):
    """What goes, and what it leaves to be mended.

    `versions` are those that the record lists: the ones named and those of the copies. `facts` are the places, as
    (version, index), of the bodies there still are. `heads` are the branches, by name, that are not deleted and where
    the entity is tainted now: each needs a new value or a delete.
    """

    versions: tuple[Version, ...]
    facts: tuple[tuple[Version, int], ...]
    heads: tuple[BranchName, ...]


class _State(Enum):
    CLEAN = "clean"
    GONE = "gone"  # a body it needs was destroyed before; copies of that were looked for then
    TAINTED = "tainted"


def plan(
    id_: EntityId,
    facts: Iterable[WrittenLeaves],
    versions: Collection[Version],
    *,
    branches: Branches,
    head: Version,
    value_at: ValueAt,
) -> ErasurePlan:
    """What erasing an entity at these versions takes, given its facts on all branches, oldest first.

    `FutureVersion` for a version that is not written yet, `NotFound` for one without a fact of the entity. Erasing
    again what is erased, or a `delete`, takes nothing and is fine.
    """
    _check(versions, head)
    walk = _Walk(frozenset(versions), branches, value_at)
    for written in facts:
        walk.take(written)
    if missing := walk.named - walk.seen:
        version = min(missing)
        raise NotFound(f"{id_!r} has no fact at version {version}. Look at its history.", id=id_, version=version)
    return walk.erasure(head)


def _check(versions: Collection[Version], head: Version) -> None:
    if not versions:
        raise Malformed(path="versions", why="an erasure names at least one version")
    latest = max(versions)
    if latest > head:
        raise FutureVersion(version=latest, head=head)


class _Walk:
    """One entity on all branches, fact by fact, with the state after each."""

    def __init__(self, named: frozenset[Version], branches: Branches, value_at: ValueAt) -> None:
        self.named = named
        self.seen: set[Version] = set()
        self._branches = branches
        self._value_at = value_at
        self._versions: dict[BranchName, list[Version]] = {}
        self._states: dict[BranchName, list[_State]] = {}
        self._lost: list[tuple[Version, int]] = []

    def take(self, written: WrittenLeaves) -> None:
        fact = written.fact
        self.seen.add(fact.version)
        before = self._at(BranchPoint(fact.branch, fact.version))
        is_lost = fact.kind != "delete" and (fact.version in self.named or self._is_copy(written, before))
        if is_lost and not fact.is_gone:
            self._lost.append((fact.version, fact.index))
        self._versions.setdefault(fact.branch, []).append(fact.version)
        self._states.setdefault(fact.branch, []).append(_after(before, fact, is_lost=is_lost))

    def erasure(self, head: Version) -> ErasurePlan:
        live = [name for name, state in self._branches.items() if state.deleted is None]
        return ErasurePlan(
            versions=tuple(sorted(self.named.union(version for version, _ in self._lost))),
            facts=tuple(self._lost),
            heads=tuple(sorted(name for name in live if self._is_tainted(BranchPoint(name, head)))),
        )

    def _is_copy(self, written: WrittenLeaves, before: _State) -> bool:
        """Whether the server made this body from a tainted state, so that it may hold what is erased."""
        fact, details = written.fact, written.details
        if fact.kind == "checkpoint":
            return before is _State.TAINTED
        if isinstance(details, Revert):
            undone = [BranchPoint(fact.branch, version) for version in details.versions]
            is_suspect = before is _State.TAINTED or any(map(self._is_tainted_around, undone))
            return is_suspect and not any(self._is_same(fact, _just_before(point)) for point in undone)
        if isinstance(details, Merge):
            return self._is_merged_copy(fact, details, before)
        return False

    def _is_merged_copy(self, fact: Fact, details: Merge, before: _State) -> bool:
        if fact.id in details.resolved:  # the caller's own value; a patch names what it removes from the target
            return fact.kind == "patch" and before is _State.TAINTED
        source = BranchPoint(details.source, details.source_version)
        is_suspect = before is _State.TAINTED or self._is_tainted(source)
        return is_suspect and not self._is_same(fact, source)

    def _is_same(self, fact: Fact, point: BranchPoint) -> bool:
        """Whether a `set` holds just what a state holds that is not tainted."""
        if fact.kind != "set" or fact.body is None or self._at(point) is not _State.CLEAN:
            return False
        return same(body.read_stored(fact.body), self._value_at(point))

    def _is_tainted(self, point: BranchPoint) -> bool:
        return self._at(point) is _State.TAINTED

    def _is_tainted_around(self, point: BranchPoint) -> bool:
        """Whether a commit wrote onto a tainted state or left one, between its operations included (COMMIT-6)."""
        name, version = self._home(point)
        versions = self._versions.get(name, [])
        left = self._states.get(name, [])[bisect_left(versions, version) : bisect_right(versions, version)]
        return _State.TAINTED in left or (bool(left) and self._is_tainted(_just_before(point)))

    def _home(self, point: BranchPoint) -> tuple[BranchName, Version]:
        """The branch that what the point sees of that very version was written on."""
        state = branch_spans.found(self._branches, point.branch)
        while state.parent is not None and point.version <= state.fork:
            state = branch_spans.found(self._branches, state.parent)
        return state.name, point.version

    def _at(self, point: BranchPoint) -> _State:
        name, version = point.branch, point.version
        while True:
            count = bisect_right(self._versions.get(name, ()), version)
            if count:
                return self._states[name][count - 1]
            state = branch_spans.found(self._branches, name)
            if state.parent is None:
                return _State.CLEAN
            name, version = state.parent, min(version, state.fork)


def _just_before(point: BranchPoint) -> BranchPoint:
    return BranchPoint(point.branch, Version(point.version - 1))


def _after(before: _State, fact: Fact, *, is_lost: bool) -> _State:
    """As replay goes: a checkpoint that is gone takes nothing from a state that is there without it."""
    if fact.kind == "delete":
        return _State.CLEAN
    if is_lost:
        return before if fact.kind == "checkpoint" and before is _State.CLEAN else _State.TAINTED
    if fact.kind == "patch" and before is not _State.CLEAN:
        return before
    if fact.kind == "checkpoint" and fact.is_gone:
        return before
    return _State.GONE if fact.is_gone else _State.CLEAN
