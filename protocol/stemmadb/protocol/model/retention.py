"""Which bodies a compaction may drop: those from which nothing is replayed that must stay readable (COMPACT-1).

What must stay, for a floor:

- every state at or above it, on branches that are live or were deleted at or above it;
- the points that tags name, the fork points of those branches, and with each point the fork points it looks through;
- what merges of live branches need (MERGE-2, MERGE-3). Where a merge is known to some of them and not to all, its
  source and the state of its target before it: these decide by origin, and every merge base is such a source or a
  fork point, since what both sides know of it is no base. And the facts before a checkpoint, unless all know those.

A point is a branch and a version, so all of this comes to a few versions for each branch (`Pins`), looked up for each
fact: it costs what the facts of an entity are, however many points there are.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet

import msgspec

from stemmadb.protocol.model import ancestry, branch
from stemmadb.protocol.model.ancestry import Graph, Knowledge, Point
from stemmadb.protocol.model.branch import Branches
from stemmadb.protocol.model.facts import FactKind
from stemmadb.protocol.model.ids import EMPTY_SPACE, BranchName, Version


class Outline(msgspec.Struct, frozen=True, gc=False):
    """A fact without its body; `size` is how many bytes that has, None if there is none."""

    version: Version
    index: int
    branch: BranchName
    kind: FactKind
    size: int | None


class Pins(msgspec.Struct, frozen=True):
    """What stays readable: for each branch the versions, rising, at or below the floor, at which its state is kept.

    `settled` is for each branch the version up to which all live branches know it.
    """

    floor: Version
    kept: Mapping[BranchName, Sequence[Version]]
    settled: Mapping[BranchName, Version]

    def covers(self, other: Pins) -> bool:
        """Whether whatever the other keeps, of what is below the floor, is kept here too."""
        return all(set(versions) <= set(self.kept.get(name, ())) for name, versions in other.kept.items()) and all(
            other.settled.get(name, EMPTY_SPACE) >= min(version, self.floor) for name, version in self.settled.items()
        )


class Chain(msgspec.Struct, frozen=True):
    """What a state is replayed from: the version of the first fact, and the patches that follow it."""

    begins: Version
    patches: int
    patch_bytes: int


def pins(graph: Graph, *, tags: Iterable[Point], floor: Version, head: Version) -> Pins:
    """What a compaction at this head must keep, given all branches and merges."""
    branches = graph.branches
    live = [name for name, state in branches.items() if state.deleted is None]
    known = [ancestry.knowledge(graph, Point(name, head)) for name in live]
    settled = _settled(known)
    points = {*tags, *_deciding(graph, known, settled)}
    for state in branches.values():
        if state.deleted is None or state.deleted >= floor:
            points.add(Point(state.name, floor))
            if state.parent is not None:
                points.add(Point(state.parent, state.fork))
    return Pins(floor, _versions(branches, points, floor), settled)


def _settled(known: Sequence[Knowledge]) -> dict[BranchName, Version]:
    names = set().union(*known)
    return {name: min(one.get(name, EMPTY_SPACE) for one in known) for name in names}


def _deciding(graph: Graph, known: Sequence[Knowledge], settled: Mapping[BranchName, Version]) -> Iterator[Point]:
    """What the origins of merged values are traced from: one side of a later merge knows it, the other does not."""
    for name, edges in graph.merges.items():
        reached = max(one.get(name, EMPTY_SPACE) for one in known)
        for edge in edges:
            if settled.get(name, EMPTY_SPACE) < edge.version <= reached:
                yield Point(edge.source, edge.source_version)
                yield Point(edge.target, Version(edge.version - 1))


def _versions(branches: Branches, points: Iterable[Point], floor: Version) -> dict[BranchName, Sequence[Version]]:
    kept: dict[BranchName, set[Version]] = {}
    for point in points:
        for span in branch.lineage(branches, point.branch, min(point.version, floor)):
            kept.setdefault(span.branch, set()).add(span.upto)
    return {name: sorted(versions) for name, versions in kept.items()}


class Entity:
    """The facts of one entity on all branches, oldest first, and which one each of them continues."""

    def __init__(self, facts: Sequence[Outline], branches: Branches) -> None:
        self._facts = facts
        self._branches = branches
        self._own: dict[BranchName, list[int]] = {}
        self._parents: list[int | None] = []
        for index, fact in enumerate(facts):
            self._parents.append(self._last(fact.branch, fact.version))
            self._own.setdefault(fact.branch, []).append(index)

    @property
    def branches(self) -> AbstractSet[BranchName]:
        """Those it was written on."""
        return self._own.keys()

    def droppable(self, pins: Pins) -> list[Outline]:
        """The facts below the floor that have a body nobody needs any more."""
        needed = bytearray(len(self._facts))
        for top in self._tops(pins):
            for at in self._back_from(top, pins.settled):
                if needed[at]:
                    break
                needed[at] = True
        return [
            fact
            for fact, is_needed in zip(self._facts, needed, strict=True)
            if not is_needed and fact.version < pins.floor and fact.size is not None
        ]

    def chain(self, name: BranchName, upto: Version) -> Chain | None:
        """How the state is replayed that the branch has at a version by a fact of its own; None without one."""
        own = self._own.get(name, [])
        count = bisect_right(own, upto, key=self._version)
        if not count:
            return None
        steps = list(self._back_from(own[count - 1], None))
        sizes = [self._facts[at].size or 0 for at in steps if self._facts[at].kind == "patch"]
        return Chain(self._version(steps[-1]), len(sizes), sum(sizes))

    def _back_from(self, at: int, settled: Mapping[BranchName, Version] | None) -> Iterator[int]:
        """The facts that the state after one needs, newest first; with `settled`, those its origins need too."""
        yield at
        while not self._begins(at, settled):
            parent = self._parents[at]
            assert parent is not None, "a patch or a checkpoint continues something"
            at = parent
            yield at

    def _tops(self, pins: Pins) -> Iterator[int]:
        """The facts that are the last of a state that is kept, at the floor or below; later ones go on from there."""
        for name, own in self._own.items():
            kept = pins.kept.get(name, ())
            for at, later in zip(own, [*own[1:], None], strict=True):
                version = self._version(at)
                first = bisect_left(kept, version)
                if first < len(kept) and (later is None or kept[first] < self._version(later)):
                    yield at

    def _begins(self, at: int, settled: Mapping[BranchName, Version] | None) -> bool:
        fact = self._facts[at]
        if fact.kind != "checkpoint" or fact.size is None:
            return fact.kind in ("set", "delete")
        if settled is None:
            return True
        parent = self._parents[at]
        assert parent is not None, "a checkpoint continues something"
        before = self._facts[parent]
        return before.version <= settled.get(before.branch, EMPTY_SPACE)

    def _last(self, name: BranchName, version: Version) -> int | None:
        while True:
            own = self._own.get(name, [])
            count = bisect_right(own, version, key=self._version)
            if count:
                return own[count - 1]
            state = branch.found(self._branches, name)
            if state.parent is None:
                return None
            name, version = state.parent, min(version, state.fork)

    def _version(self, at: int) -> Version:
        return self._facts[at].version
