"""Origins: leaf by leaf, the version at which what an entity holds was first made (MERGE-3).

What an ordinary commit, a revert or a resolution writes originates at its own version. What a merge writes keeps the
origin it had on the side it came from. For example: `draft` sets `/x` at 3 and is merged into `main` at 10; on `main`
`/x` originates at 3, so that an edit made elsewhere at 7 is the later one, whenever it is merged.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import partial
from itertools import chain
from typing import TypeAlias

import msgspec

from stemmadb.protocol.model.history import stamps
from stemmadb.protocol.model.history.difference import Content, item, keys, same
from stemmadb.protocol.model.history.stamps import Count, IsCommon, Stamp
from stemmadb.protocol.model.log import branch_spans, replay
from stemmadb.protocol.model.log.ancestry import BranchPoint, MergeEdge
from stemmadb.protocol.model.log.branch_spans import Branches
from stemmadb.protocol.model.log.commit_record import Arguments, Merge
from stemmadb.protocol.model.log.facts import Fact
from stemmadb.protocol.model.log.state import Missing
from stemmadb.protocol.model.values import body
from stemmadb.protocol.model.values.ids import EMPTY_SPACE, BranchName, Version


class WrittenLeaves(msgspec.Struct, frozen=True):
    """A fact, and what the commit that wrote it did beyond its facts."""

    fact: Fact
    details: Arguments | None = None


class Traced(msgspec.Struct, frozen=True):
    """The state of an entity, the version of its last fact, and what wrote each part of it."""

    content: Content
    version: Version
    stamp: Stamp


NEVER_WRITTEN = Traced(Missing.ABSENT, EMPTY_SPACE, stamps.whole(EMPTY_SPACE))

StampMerged: TypeAlias = Callable[[Traced, Content, Version, Merge], Stamp]
"""How what a merge has written is stamped, given the state before, the content after, its version, its details."""


def follow(before: Traced, written: WrittenLeaves, merged: StampMerged) -> Traced:
    """The state after one more fact.

    A `set`, a `delete`, a resolution, and a fact whose body is gone, write everything (COMMIT-2); a patch what its
    operations name; a merge what it changed, however its fact is encoded; a checkpoint nothing.
    """
    fact, details = written.fact, written.details
    if fact.kind == "patch" and fact.body is not None and not isinstance(details, Merge):
        return _patched(before, fact, fact.body)
    content = replay.fold(before.content, [fact])
    if fact.kind == "checkpoint":
        return Traced(content, before.version, before.stamp)
    if isinstance(details, Merge) and fact.id not in details.resolved and not fact.is_gone:
        return Traced(content, fact.version, merged(before, content, fact.version, details))
    return Traced(content, fact.version, stamps.whole(fact.version))


def _patched(before: Traced, fact: Fact, body_: bytes) -> Traced:
    if isinstance(before.content, Missing):  # replay knows what that means; what was written where is not known
        return Traced(replay.fold(before.content, [fact]), fact.version, stamps.whole(fact.version))
    content, stamp = stamps.patched(before.content, before.stamp, body.read_patch(body_), fact.version)
    return Traced(content, fact.version, stamp)


CommonBefore: TypeAlias = Callable[[MergeEdge, Version], bool]
"""Whether a commit was made before the two sides of a merge split (`ancestry.split`)."""


def _nothing_before(edge: MergeEdge, version: Version) -> bool:  # noqa: ARG001  # as `CommonBefore` is called
    return False


class OriginTrace:
    """One entity on all branches, at the points that are asked for."""

    def __init__(
        self,
        branches: Branches,
        facts: Iterable[WrittenLeaves],
        merges: Iterable[MergeEdge] = (),
        resolved: Collection[Version] = (),
        points: Iterable[BranchPoint] = (),
        common: CommonBefore = _nothing_before,
    ) -> None:
        """The entity's facts and all merges that any point asked for can know, each oldest first.

        Merges without a fact of the entity count too: increments of both sides may have come to what was there. And
        `resolved` are the versions of those that resolved the entity: one that left it absent wrote no fact (FACT-1),
        and decided it all the same.

        `common` says of a merge what its two sides had in common when they split.

        `points` are those that will be asked for: they are found together, in one walk along the facts. Any other
        point takes a walk of its own, for which the facts are iterated again.
        """
        self._branches = branches
        self._facts = facts
        self._merges = tuple(merges)
        self._resolved = resolved
        self._common = common
        self._found = self._walk(tuple(points))

    def at(self, point: BranchPoint) -> Traced:
        """The entity as the point sees it."""
        if point not in self._found:
            self._found |= self._walk((point,))
        return self._found[point]

    def _walk(self, points: Sequence[BranchPoint]) -> dict[BranchPoint, Traced]:
        if not points:
            return {}
        return _Walk(self._branches, self._merges, self._resolved, points, self._common).along(self._facts)


_Event: TypeAlias = WrittenLeaves | MergeEdge | BranchPoint


class _Walk:
    """Follows an entity in the order of versions, so that the source of every merge is there before the merge.

    No recursion, and each fact is read once however often branches were merged back and forth. Of every branch only
    the present state is held; besides that, where a branch was forked, where a merge yet to come looks back to, and
    the points asked for. So what is held does not grow with the number of facts.
    """

    def __init__(
        self,
        branches: Branches,
        merges: Sequence[MergeEdge],
        resolved: Collection[Version],
        points: Sequence[BranchPoint],
        common: CommonBefore,
    ) -> None:
        self._branches = branches
        self._merges = merges
        self._common = common
        self._resolved = resolved
        self._points = points
        self._heads: dict[BranchName, Traced] = {}
        self._cached: dict[BranchPoint, Traced] = {}
        forks = (BranchPoint(state.parent, state.fork) for state in branches.values() if state.parent is not None)
        looks = (point for edge in merges for point in _looks_back(edge))
        self._uses = Counter(self._own(point) for point in chain(points, forks, looks))

    def along(self, facts: Iterable[WrittenLeaves]) -> dict[BranchPoint, Traced]:
        """The state at each of the points."""
        holds = sorted(self._uses, key=lambda point: point.version)
        # Of one version its facts come first, then what its merge did beyond them, then what is held of it.
        streams: tuple[Iterable[tuple[Version, int, _Event]], ...] = (
            ((written.fact.version, 0, written) for written in facts),
            ((edge.version, 1, edge) for edge in self._merges),
            ((point.version, 2, point) for point in holds),
        )
        for _, _, event in heapq.merge(*streams, key=lambda found: found[:2]):
            self._take(event)
        return {point: self._at(point) for point in self._points}

    def _take(self, event: _Event) -> None:
        if isinstance(event, WrittenLeaves):
            branch_ = event.fact.branch
            self._heads[branch_] = follow(self._head(branch_), event, partial(self._inherit, branch_))
        elif isinstance(event, MergeEdge):
            self._meet(event)
        else:
            self._cached[event] = self._head(event.branch)

    def _own(self, point: BranchPoint) -> BranchPoint:
        """The point that sees the same, on the branch that it sees it on: not before that branch was forked."""
        state = branch_spans.found(self._branches, point.branch)
        while state.parent is not None and point.version <= state.fork:
            point = BranchPoint(state.parent, point.version)
            state = branch_spans.found(self._branches, point.branch)
        return point

    def _at(self, point: BranchPoint) -> Traced:
        own = self._own(point)
        if own in self._cached:
            return self._cached[own]
        head = self._head(own.branch)
        assert head.version <= own.version, "a merge that was not told of looks back"
        return head

    def _head(self, name: BranchName) -> Traced:
        """The branch as of now; nothing but its fork if nothing was written to it."""
        head = self._heads.get(name)
        if head is not None:
            return head
        state = branch_spans.found(self._branches, name)
        return (
            NEVER_WRITTEN if state.parent is None else self._cached[self._own(BranchPoint(state.parent, state.fork))]
        )

    def _meet(self, edge: MergeEdge) -> None:
        """What a merge did to the entity beyond its fact, if it wrote one at all."""
        now = self._head(edge.target)
        if edge.version in self._resolved:
            stamp = stamps.whole(edge.version)
        else:
            source, before = map(self._at, _looks_back(edge))
            stamp = _met(now, before, source, edge.version, partial(self._common, edge))
        if stamp is not now.stamp:
            self._heads[edge.target] = Traced(now.content, now.version, stamp)
        for point in map(self._own, _looks_back(edge)):
            self._release(point)

    def _release(self, point: BranchPoint) -> None:
        self._uses[point] -= 1
        if not self._uses[point]:
            del self._cached[point]

    def _inherit(
        self, target: BranchName, before: Traced, content: Content, version: Version, details: Merge
    ) -> Stamp:
        theirs = self._at(BranchPoint(details.source, details.source_version))
        is_common = partial(self._common, MergeEdge(target, version, details.source, details.source_version))
        return inherited(before.content, content, before.stamp, theirs.content, theirs.stamp, version, is_common)


def _looks_back(edge: MergeEdge) -> tuple[BranchPoint, BranchPoint]:
    """What a merge looked at: its source, and its target just before it."""
    return BranchPoint(edge.source, edge.source_version), BranchPoint(edge.target, Version(edge.version - 1))


def _met(now: Traced, before: Traced, source: Traced, version: Version, is_common: IsCommon) -> Stamp:
    """The stamps of a merged state, with the increments of both sides wherever that is what a number is made of."""
    stamp = now.stamp
    if before.stamp is source.stamp:
        return stamp
    for path in {path for side in (before, source) for path, _ in stamps.counted(side.stamp)}:
        old, other, new = (_found(side.content, path) for side in (before, source, now))
        mine, theirs, found = (stamps.at(side, path) for side in (before.stamp, source.stamp, stamp))
        if stamps.root(found) == stamps.root(theirs):  # what it counts from stays
            mine, old, theirs, other = theirs, other, mine, old
        is_same = mine.count is theirs.count
        count = None if is_same else stamps.united(mine, old, theirs, other, new, version, is_common)
        if count is not None:
            stamp = stamps.put(stamp, path, Stamp(found.version, found.assigned, count=count))
    return stamp


def _found(content: Content, path: Sequence[str]) -> Content:
    for key in path:
        content = item(content, key)
    return content


def inherited(
    old: Content,
    new: Content,
    mine: Stamp,
    other: Content,
    theirs: Stamp,
    version: Version,
    is_common: IsCommon = stamps.nothing,
) -> Stamp:
    """The stamps after a merge changed `old` to `new` at a version, with `other` being merged.

    What is unchanged keeps its origin; what is as on the other side comes from there; what is like neither is a sum
    of increments on both sides, and originates at the later of the two.
    """
    if same(old, new):
        return mine
    if isinstance(old, dict) and isinstance(new, dict):
        below = dict(mine.below)
        for key in keys(old, new):
            parts = (
                item(old, key),
                item(new, key),
                stamps.child(mine, key),
                item(other, key),
                stamps.child(theirs, key),
                version,
                is_common,
            )
            if not same(parts[0], parts[1]):
                below[key] = inherited(*parts)
        return Stamp(mine.version, mine.assigned, below)
    if same(new, other):
        return theirs
    count = stamps.united(mine, old, theirs, other, new, version, is_common)
    if count is None and stamps.is_number(new):
        # Something new to count from, and not the same as an equal sum elsewhere.
        count = Count(version, new, version, new, 0)
    # Without a number before it is no sum: a copy, say, of a value that is compacted away where it was made.
    assigned = mine.assigned if stamps.is_number(old) else version
    return Stamp(max(stamps.latest(mine), stamps.latest(theirs)), assigned, count=count)
