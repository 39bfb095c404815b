"""Undo: the inverse of facts, entity by entity, where nothing later stands on what they wrote (COMMIT-9).

The facts to undo are taken back newest first. A whole write (`set`, `delete`, the first fact of an entity) is undone
by the state before it, a patch by its inverse on its own paths, so that later work elsewhere in the entity stays. For
example: 3 sets `/a`, 4 sets `/b`; undoing 3 gives `/a` back and leaves `/b`. If 4 had set `/a` too, 3 alone could not
be undone, and 3 and 4 together could.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Any, TypeAlias

import msgspec

from stemmadb.protocol.errors import Compacted, Conflict, Erased
from stemmadb.protocol.model import patch
from stemmadb.protocol.model.commit.request import Operation, Read
from stemmadb.protocol.model.commit.stale_reads import StaleRead
from stemmadb.protocol.model.history.difference import Content, is_gone, same
from stemmadb.protocol.model.log import replay
from stemmadb.protocol.model.log.changes import PATHS_MAX
from stemmadb.protocol.model.log.facts import Fact
from stemmadb.protocol.model.log.state import Missing
from stemmadb.protocol.model.merge.plan import PATCH_BYTES, PATCH_TO_SET
from stemmadb.protocol.model.patch import Footprint
from stemmadb.protocol.model.values import body, pointer
from stemmadb.protocol.model.values.ids import BranchName, Did, EntityId, Version
from stemmadb.protocol.model.values.json_values import Value
from stemmadb.protocol.model.values.limits import DEFAULTS, Limits

Author: TypeAlias = Callable[[Version], Did]
Step: TypeAlias = dict[str, Value]


class Past(msgspec.Struct, frozen=True):
    """An entity on a branch: its state before the first commit to undo, and all facts from there on, oldest first."""

    id: EntityId
    before: Content
    facts: Iterable[Fact]


class UndoPlan(msgspec.Struct, frozen=True):
    """What an undo writes, and the places it relies on being as they are, written or not."""

    writes: tuple[Operation, ...]
    reads: tuple[Read, ...]


class UndoSelection(msgspec.Struct, frozen=True, kw_only=True):
    """The versions to undo on a branch as it is at `at`; `floor` is the oldest version that is kept (COMPACT-1)."""

    versions: Collection[Version]
    branch: BranchName
    at: Version
    floor: Version = Version(0)
    limits: Limits = DEFAULTS


def plan(pasts: Iterable[Past], wanted: UndoSelection, author: Author) -> UndoPlan:
    """The inverse of what these versions did to the entities.

    `Conflict` with a stale read for every entity where a later fact that is not undone touched the same paths: `set`,
    `delete` and a fact whose body is gone touch every path, a patch those it writes; only increments of one number
    pass each other by. `Erased` or `Compacted` where a fact to undo, or the state before it, is gone.
    """
    writes: list[Operation] = []
    reads: list[Read] = []
    stale: list[StaleRead] = []
    for past in pasts:
        line = _Line(past, wanted)
        if line.winner is not None:
            stale.append(line.stale(author))
            continue
        reads.extend(line.reads())
        operation = line.operation()
        if operation is not None:
            writes.append(operation)
    if stale:
        raise Conflict(count=len(stale), stale=tuple(stale))
    return UndoPlan(tuple(writes), tuple(reads))


class _Line:
    """One entity, followed from before the first fact to undo to the head.

    `_restored` is the state before the first whole write to undo: whatever follows that is undone with it.
    """

    def __init__(self, past: Past, wanted: UndoSelection) -> None:
        self._id = past.id
        self._wanted = wanted
        self._state = past.before
        self._head = self._undone = Version(0)
        self._restored: list[Content] = []
        self._inverses: list[list[Step]] = []
        self._touched = _Touched()
        self.winner: Version | None = None
        for fact in past.facts:
            self._take(fact)

    def _take(self, fact: Fact) -> None:
        if fact.kind != "checkpoint":  # which changes nothing and overlaps nothing (FACT-1)
            self._head = fact.version
            if self.winner is None:
                self._meet(fact)
        self._state = replay.fold(self._state, [fact])

    def _meet(self, fact: Fact) -> None:
        if fact.version in self._wanted.versions:
            self._undo(fact)
        elif self._touched.by(_footprint(fact)):
            self.winner = fact.version

    def _undo(self, fact: Fact) -> None:
        if fact.is_gone:
            raise self._erased_error(fact.version)
        if is_gone(self._state):
            raise self._erased_error(Version(fact.version - 1))
        self._undone = self._undone or fact.version
        if self._restored:
            return
        footprint = _footprint(fact)
        if footprint is None:
            self._restored.append(self._state)
            self._touched = _Touched(is_whole=True)
            return
        assert not isinstance(self._state, Missing), "admission lets no patch of nothing into the log"
        inverse = patch.invert(self._state, _operations(fact))
        self._inverses.append(inverse)
        self._touched.add(footprint.writes, free=patch.footprint(inverse).increments)

    def _erased_error(self, version: Version) -> Erased | Compacted:
        """Below the floor nobody can tell any more what was erased and what was compacted away."""
        floor = self._wanted.floor
        return Compacted(version=version, oldest=floor) if version < floor else Erased(id=self._id)

    def stale(self, author: Author) -> StaleRead:
        assert self.winner is not None, "asked only where something later is in the way"
        return StaleRead(
            branch=self._wanted.branch,
            id=self._id,
            path=self._touched.met,
            read=self._undone,
            head=self._head,
            winner=self.winner,
            author=author(self.winner),
        )

    def reads(self) -> list[Read]:
        return [Read(version=self._wanted.at, id=self._id, path=path) for path in self._touched.paths()]

    def operation(self) -> Operation | None:
        """What leads from the head to the state without those facts; None if that is what there is."""
        steps = [step for inverse in reversed(self._inverses) for step in inverse]
        content = self._restored[0] if self._restored else self._state
        if steps:
            assert not isinstance(content, Missing), "a patch that is undone is followed by nothing that deletes"
            content = patch.apply(content, steps)
        if same(content, self._state):
            return None
        if isinstance(content, Missing):
            return Operation(op="delete", id=self._id)
        whole = Operation(op="set", id=self._id, body=body.encode(content))
        return whole if self._restored else self._narrow(steps, whole)

    def _narrow(self, steps: list[Step], whole: Operation) -> Operation:
        """The inverse as a patch, so that it collides with few, unless it is much longer than the value."""
        if len(steps) > self._wanted.limits.patch_operations_max:
            return whole
        encoded = body.encode(steps)
        is_long = len(encoded) > PATCH_BYTES + PATCH_TO_SET * len(whole.body or b"")
        return whole if is_long else Operation(op="patch", id=self._id, body=encoded)


class _Touched:
    """The paths that the facts to undo have written, and what met them."""

    def __init__(self, *, is_whole: bool = False) -> None:
        self._free: dict[str, bool] = {pointer.ROOT: False} if is_whole else {}
        self._above: set[str] = set()
        self.met = pointer.ROOT

    def add(self, writes: Iterable[str], free: Collection[str]) -> None:
        """`free` are those of the paths that are undone by increments alone."""
        for path in writes:
            self._free[path] = self._free.get(path, True) and path in free
            self._above.update(pointer.ancestors(pointer.parent(path)) if path else ())

    def by(self, later: Footprint | None) -> bool:
        """Whether a later fact touches one of them; None touches every path (COMMIT-2)."""
        if later is None:
            self.met = next(iter(self._free), pointer.ROOT)
            return bool(self._free)
        return any(self._is_met(path, path in later.increments) for path in later.writes)

    def _is_met(self, path: str, is_increment: bool) -> bool:
        for above in pointer.ancestors(path):
            is_free = self._free.get(above)
            if is_free is not None and not (is_free and is_increment):
                self.met = above
                return True
        if path in self._above:
            self.met = path
        return path in self._above

    def paths(self) -> Collection[str]:
        """What to declare: the paths, or the whole of the entity where they are many."""
        return self._free if len(self._free) <= PATHS_MAX else (pointer.ROOT,)


def _footprint(fact: Fact) -> Footprint | None:
    """What a fact writes; None is every path (COMMIT-2)."""
    return None if fact.kind != "patch" or fact.body is None else patch.footprint(_operations(fact))


def _operations(fact: Fact) -> Any:
    assert fact.body is not None, "asked only of a patch whose body is there"
    return body.read_stored(fact.body)
