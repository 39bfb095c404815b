"""Origins: leaf by leaf, the version at which what an entity holds was first made (MERGE-3).

What an ordinary commit, a revert or a resolution writes originates at its own version. What a merge writes keeps the
origin it had on the side it came from. For example: `draft` sets `/x` at 3 and is merged into `main` at 10; on `main`
`/x` originates at 3, so that an edit made elsewhere at 7 is the later one, whenever it is merged.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import TypeAlias

import msgspec

from stemmadb.protocol.model import body, branch, replay, stamps
from stemmadb.protocol.model.ancestry import MergeEdge, Point
from stemmadb.protocol.model.branch import Branches
from stemmadb.protocol.model.commit import Arguments, Merge
from stemmadb.protocol.model.difference import Content, item, keys, same
from stemmadb.protocol.model.facts import Fact
from stemmadb.protocol.model.ids import EMPTY_SPACE, BranchName, Version
from stemmadb.protocol.model.stamps import Count, Stamp
from stemmadb.protocol.model.state import Missing


class Written(msgspec.Struct, frozen=True):
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


def follow(before: Traced, written: Written, merged: StampMerged) -> Traced:
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


class Trace:
    """One entity on all branches, fact by fact.

    In the order of versions, so that the source of every merge has been followed before the merge: no recursion, and
    each fact is read once however often branches were merged back and forth.
    """

    def __init__(
        self,
        branches: Branches,
        facts: Iterable[Written],
        merges: Iterable[MergeEdge] = (),
        resolved: Collection[Version] = (),
    ) -> None:
        """The entity's facts and all merges that any point asked for can know, each oldest first.

        Merges without a fact of the entity count too: increments of both sides may have come to what was there. And
        `resolved` are the versions of those that resolved the entity: one that left it absent wrote no fact (FACT-1),
        and decided it all the same.
        """
        self._branches = branches
        self._versions: dict[BranchName, list[Version]] = {}
        self._states: dict[BranchName, list[Traced]] = {}
        self._resolved = resolved
        waiting = deque(merges)
        for written in facts:
            while waiting and waiting[0].version < written.fact.version:
                self._meet(waiting.popleft())
            self._take(written)
        for edge in waiting:
            self._meet(edge)

    def at(self, point: Point) -> Traced:
        """The entity as the point sees it."""
        name, version = point.branch, point.version
        while True:
            count = bisect_right(self._versions.get(name, ()), version)
            if count:
                return self._states[name][count - 1]
            state = branch.found(self._branches, name)
            if state.parent is None:
                return NEVER_WRITTEN
            name, version = state.parent, min(version, state.fork)

    def _take(self, written: Written) -> None:
        point = Point(written.fact.branch, written.fact.version)
        self._keep(point, follow(self.at(point), written, self._inherit))

    def _meet(self, edge: MergeEdge) -> None:
        """What a merge did to the entity beyond its fact, if it wrote one at all."""
        point = Point(edge.target, edge.version)
        now = self.at(point)
        if edge.version in self._resolved:
            stamp = stamps.whole(edge.version)
        else:
            before = self.at(Point(edge.target, Version(edge.version - 1)))
            stamp = _met(now, before, self.at(Point(edge.source, edge.source_version)))
        if stamp is not now.stamp:
            self._keep(point, Traced(now.content, now.version, stamp))

    def _keep(self, point: Point, state: Traced) -> None:
        versions = self._versions.setdefault(point.branch, [])
        assert not versions or versions[-1] <= point.version, "facts are traced oldest first"
        versions.append(point.version)
        self._states.setdefault(point.branch, []).append(state)

    def _inherit(self, before: Traced, content: Content, version: Version, details: Merge) -> Stamp:
        theirs = self.at(Point(details.source, details.source_version))
        return inherited(before.content, content, before.stamp, theirs.content, theirs.stamp, version)


def _met(now: Traced, before: Traced, source: Traced) -> Stamp:
    """The stamps of a merged state, with the increments of both sides wherever that is what a number is made of."""
    stamp = now.stamp
    if before.stamp is source.stamp:
        return stamp
    for path in {path for side in (before, source) for path, _ in stamps.counted(side.stamp)}:
        old, other, new = (_found(side.content, path) for side in (before, source, now))
        mine, theirs, found = (stamps.at(side, path) for side in (before.stamp, source.stamp, stamp))
        if stamps.root(found) == stamps.root(theirs):  # what it counts from stays
            mine, old, theirs, other = theirs, other, mine, old
        count = stamps.united(mine, old, theirs, other, new) if mine.count is not theirs.count else None
        if count is not None:
            stamp = stamps.put(stamp, path, Stamp(found.version, found.assigned, count=count))
    return stamp


def _found(content: Content, path: Sequence[str]) -> Content:
    for key in path:
        content = item(content, key)
    return content


def inherited(old: Content, new: Content, mine: Stamp, other: Content, theirs: Stamp, version: Version) -> Stamp:
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
            )
            if not same(parts[0], parts[1]):
                below[key] = inherited(*parts)
        return Stamp(mine.version, mine.assigned, below)
    if same(new, other):
        return theirs
    count = stamps.united(mine, old, theirs, other, new)
    if count is None and stamps.is_number(
        new
    ):  # something new to count from, and not the same as an equal sum elsewhere
        count = Count(version, new, version)
    return Stamp(max(stamps.latest(mine), stamps.latest(theirs)), mine.assigned, count=count)
