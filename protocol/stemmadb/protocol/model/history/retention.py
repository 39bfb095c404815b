"""Which bodies a compaction may drop: those from which nothing is replayed that must stay readable (COMPACT-1).

What must stay, for a floor:

- every state at or above it, on branches that are live or were deleted at or above it;
- the points that tags name, the fork points of those branches, and with each point the fork points it looks through;
- the bases of later merges (MERGE-2). A base is a fork point, or the source of a merge that some mergeable branches
  know and others do not: a merge that all of them know is itself the later common ancestor;
- what later merges trace origins through (MERGE-3), which `retained_origins` finds for each entity.

A branch can be merged while it lives, and from then on as long as its last version is not below the floor.

A point is a branch and a version, so all of this comes to a few versions for each branch (`Pins`), looked up for each
fact: it costs what the facts of an entity are, however many points there are.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet

import msgspec

from stemmadb.protocol.model.history.retained_origins import Mergeable, RetainedOrigins
from stemmadb.protocol.model.log import ancestry, branch_spans
from stemmadb.protocol.model.log.ancestry import BranchGraph, BranchPoint
from stemmadb.protocol.model.log.branch_spans import Branches
from stemmadb.protocol.model.log.facts import FactKind
from stemmadb.protocol.model.values.ids import EMPTY_SPACE, BranchName, Version


class Outline(msgspec.Struct, frozen=True, gc=False):
    """A fact without its body; `size` is how many bytes that has, None if there is none."""

    version: Version
    index: int
    branch: BranchName
    kind: FactKind
    size: int | None


class Pins(msgspec.Struct, frozen=True):
    """What stays readable: for each branch the rising versions, at or below the floor, at which its state is kept."""

    floor: Version
    retained: Mapping[BranchName, Sequence[Version]]
    mergeable: Mergeable
    looked_at: AbstractSet[BranchPoint]
    """The points below the floor at which mergeable branches see their parents."""

    def covers(self, other: Pins) -> bool:
        """Whether whatever the other keeps, of what is below the floor, is kept here too."""
        known = set(self.mergeable.edges())
        return (
            all(set(versions) <= set(self.retained.get(name, ())) for name, versions in other.retained.items())
            and other.looked_at <= self.looked_at
            and all(edge in known for edge in other.mergeable.edges() if edge.source_version < self.floor)
        )


class Chain(msgspec.Struct, frozen=True):
    """What a state is replayed from: the version of the first fact, and the patches that follow it."""

    begins: Version
    patches: int
    patch_bytes: int


def pins(graph: BranchGraph, *, tags: Iterable[BranchPoint], floor: Version, head: Version) -> Pins:
    """What a compaction at this head must keep, given all branches and merges."""
    branches = graph.branches
    ends = {
        state.name: head if state.deleted is None else state.deleted
        for state in branches.values()
        if state.deleted is None or state.deleted >= floor
    }
    points = {*tags, *_bases(graph, ends, floor)}
    for name in ends:
        state = branches[name]
        points.add(BranchPoint(name, floor))
        if state.parent is not None:
            points.add(BranchPoint(state.parent, state.fork))
    mergeable = Mergeable(floor, ends, graph.merges)
    looked_at = {
        BranchPoint(span.branch, span.upto)
        for point in mergeable.points()
        for span in branch_spans.lineage(branches, point.branch, point.version)
        if span.upto < floor
    }
    return Pins(floor, _versions(branches, points, floor), mergeable, looked_at)


def _bases(graph: BranchGraph, ends: Mapping[BranchName, Version], floor: Version) -> Iterator[BranchPoint]:
    """The sources of merges that not all mergeable points know, and the states of their targets before them."""
    known = [ancestry.knowledge(graph, BranchPoint(name, end)) for name, end in ends.items()]
    at_floor = [ancestry.knowledge(graph, BranchPoint(name, floor)) for name in ends]
    for name, edges in graph.merges.items():
        reached = max(one.get(name, EMPTY_SPACE) for one in known)
        known_to_all = min(one.get(name, EMPTY_SPACE) for one in at_floor)
        for edge in edges:
            if known_to_all < edge.version <= reached:
                yield BranchPoint(edge.source, edge.source_version)
                yield BranchPoint(edge.target, Version(edge.version - 1))


def _versions(
    branches: Branches, points: Iterable[BranchPoint], floor: Version
) -> dict[BranchName, Sequence[Version]]:
    retained: dict[BranchName, set[Version]] = {}
    for point in points:
        for span in branch_spans.lineage(branches, point.branch, min(point.version, floor)):
            retained.setdefault(span.branch, set()).add(span.upto)
    return {name: sorted(versions) for name, versions in retained.items()}


class RetainedFacts:
    """The facts of one entity on all branches, oldest first, and which one each of them continues."""

    def __init__(self, facts: Sequence[Outline], branches: Branches, resolved: Collection[Version] = ()) -> None:
        """`resolved` are the versions of the merges that resolved the entity: these assign all of it."""
        self._facts = facts
        self._branches = branches
        self._resolved = resolved
        self._own: dict[BranchName, list[int]] = {}
        self._parents: list[int | None] = []
        for index, fact in enumerate(facts):
            self._parents.append(self.last(fact.branch, fact.version))
            self._own.setdefault(fact.branch, []).append(index)

    @property
    def branches(self) -> AbstractSet[BranchName]:
        """Those it was written on."""
        return self._own.keys()

    def droppable(self, pins: Pins) -> list[Outline]:
        """The facts below the floor that have a body nobody needs any more."""
        needed = bytearray(len(self._facts))
        for top in self._tops(pins):
            self._need(top, needed)
        if len(self._facts) > 1:
            origins = RetainedOrigins(self, self._branches, pins.mergeable, self._resolved)
            for at, with_value in origins.facts():
                if with_value:
                    self._need(at, needed)
                needed[at] = True
        return [
            fact
            for fact, is_needed in zip(self._facts, needed, strict=True)
            if not is_needed and fact.version < pins.floor and fact.size is not None
        ]

    def chain(self, name: BranchName, upto: Version) -> Chain | None:
        """How the state is replayed that the branch has at a version by a fact of its own; None without one."""
        own = self._own.get(name, [])
        count = bisect_right(own, upto, key=self.version)
        if not count:
            return None
        steps = list(self._back_from(own[count - 1]))
        sizes = [self._facts[at].size or 0 for at in steps if self._facts[at].kind == "patch"]
        return Chain(self.version(steps[-1]), len(sizes), sum(sizes))

    def _need(self, top: int, needed: bytearray) -> None:
        """Marks what the state after a fact is replayed from.

        Goes on where another state has marked a fact: that one may have been marked for its origins alone.
        """
        for at in self._back_from(top):
            needed[at] = True

    def _back_from(self, at: int) -> Iterator[int]:
        """The facts that the state after one is replayed from, newest first."""
        yield at
        while not self._begins(at):
            parent = self._parents[at]
            assert parent is not None, "a patch or a checkpoint continues something"
            at = parent
            yield at

    def _tops(self, pins: Pins) -> Iterator[int]:
        """The facts that are the last of a state that is retained, at the floor or below; later ones go on from
        there.
        """
        for name, own in self._own.items():
            retained = pins.retained.get(name, ())
            for at, later in zip(own, [*own[1:], None], strict=True):
                version = self.version(at)
                first = bisect_left(retained, version)
                if first < len(retained) and (later is None or retained[first] < self.version(later)):
                    yield at

    def _begins(self, at: int) -> bool:
        fact = self._facts[at]
        return fact.kind in ("set", "delete") or (fact.kind == "checkpoint" and fact.size is not None)

    # What `retained_origins` asks

    def last(self, name: BranchName, version: Version) -> int | None:
        while True:
            own = self._own.get(name, [])
            count = bisect_right(own, version, key=self.version)
            if count:
                return own[count - 1]
            state = branch_spans.found(self._branches, name)
            if state.parent is None:
                return None
            name, version = state.parent, min(version, state.fork)

    def version(self, at: int) -> Version:
        return self._facts[at].version

    def kind(self, at: int) -> FactKind:
        return self._facts[at].kind

    def branch(self, at: int) -> BranchName:
        return self._facts[at].branch

    def parent(self, at: int) -> int | None:
        return self._parents[at]

    def is_erased(self, at: int) -> bool:
        fact = self._facts[at]
        return fact.size is None and fact.kind != "delete"

    def above(self, version: Version) -> Iterable[int]:
        return range(bisect_right(self._facts, version, key=lambda fact: fact.version), len(self._facts))
