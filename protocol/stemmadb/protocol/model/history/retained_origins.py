"""Which facts of an entity a later merge may trace origins through, so that a compaction must keep them (MERGE-3).

A merge decides by origins: which version made each leaf, and which increments a number holds. A value that a merge
copied has its origin on the branch it came from, so a copy alone is not enough; the original has to stay.

Only differences between branches that can still be merged matter. Facts form a tree, each below the one it continues,
and the last fact that all those branches have in common, the trunk, stands for everything before it: of what was made
before two branches split, a merge compares the values only. For example, with `draft` forked from `main` at 4:

    main   set 1 - patch 3 - patch 7 - merge of draft@9 at 10
    draft                  \\- patch 6 - patch 9

    both branches live: the trunk is 3; 7, 6 and 9 stay, and with 3 what its value is replayed from
    draft deleted:      the trunk is the last fact on main; nothing stays but what its value is replayed from

A branch on which the entity never was has nothing in common with the others, so there is no trunk then: an entity of
the same id may be made there later, and two numbers that were assigned the same value are added up.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Protocol

import msgspec

from stemmadb.protocol.model.log import branch_spans
from stemmadb.protocol.model.log.ancestry import BranchPoint, MergeEdge
from stemmadb.protocol.model.log.branch_spans import Branches
from stemmadb.protocol.model.log.facts import FactKind
from stemmadb.protocol.model.values.ids import BranchName, Version


class Mergeable(msgspec.Struct, frozen=True):
    """What can still be merged: branches, each with its last version, the floor, and all merges by their target."""

    floor: Version
    ends: Mapping[BranchName, Version]
    merges: Mapping[BranchName, Sequence[MergeEdge]]

    def points(self) -> set[BranchPoint]:
        """Every branch at the floor and at its end."""
        return {
            BranchPoint(name, version) for name, end in self.ends.items() for version in (min(self.floor, end), end)
        }

    def edges(self) -> Iterator[MergeEdge]:
        for edges in self.merges.values():
            yield from edges


class FactTree(Protocol):
    """The facts of an entity, oldest first, as far as origins are concerned."""

    def version(self, at: int) -> Version: ...

    def kind(self, at: int) -> FactKind: ...

    def branch(self, at: int) -> BranchName: ...

    def is_erased(self, at: int) -> bool: ...

    def parent(self, at: int) -> int | None:
        """The fact that this one continues."""
        ...

    def last(self, name: BranchName, version: Version) -> int | None:
        """The last fact that a branch sees at a version."""
        ...

    def above(self, version: Version) -> Iterable[int]:
        """All facts after a version."""
        ...


class RetainedOrigins:
    """The facts that origins are traced through. Merges found on the way add points, until nothing is added."""

    def __init__(
        self, tree: FactTree, branches: Branches, mergeable: Mergeable, resolved: Collection[Version] = ()
    ) -> None:
        self._tree = tree
        self._branches = branches
        self._mergeable = mergeable
        self._resolved = frozenset(resolved)
        self._merged = {
            (edge.target, edge.version) for edge in mergeable.edges() if edge.version not in self._resolved
        }
        self._seen: dict[BranchName, set[Version]] = {}
        self._tops: set[int] = set()
        self._trunk: int | None = None
        self._is_absent = False
        """Whether a branch has no fact of the entity."""

    def facts(self) -> Iterator[tuple[int, bool]]:
        """Each fact that stays, and whether the value it begins with has to be replayed for it."""
        for point in self._mergeable.points():
            self._is_absent |= self._see(point) is None
        ends = self._mergeable.ends
        floor = self._mergeable.floor
        self._tops.update(at for at in self._tree.above(floor) if self._tree.branch(at) in ends)
        done: set[MergeEdge] = set()
        while True:
            self._trunk = None if self._is_absent else self._common(self._tops)
            found = [edge for edge in self._looked_through() if edge not in done]
            if not found:
                break
            for edge in found:
                done.add(edge)
                self._see(BranchPoint(edge.source, edge.source_version))
        for top in self._tops:
            *facts, last = self._back_from(top)
            yield from ((at, False) for at in facts)
            yield last, True

    def _see(self, point: BranchPoint) -> int | None:
        """The last fact at the point, which counts from now on."""
        for span in branch_spans.lineage(self._branches, point.branch, point.version):
            self._seen.setdefault(span.branch, set()).add(span.upto)
        if (at := self._tree.last(point.branch, point.version)) is not None:
            self._tops.add(at)
        return at

    def _common(self, tops: Collection[int]) -> int | None:
        """The last fact that all of them continue. A fact always comes after the one it continues."""
        left = set(tops)
        while len(left) > 1:
            latest = max(left)
            left.remove(latest)
            parent = self._tree.parent(latest)
            if parent is None:
                return None
            left.add(parent)
        return left.pop() if left else None

    def _back_from(self, top: int) -> Iterator[int]:
        """From a fact to the one that its origins begin with: an assignment of everything, or the trunk."""
        at = top
        yield at
        while not self._begins(at):
            parent = self._tree.parent(at)
            if parent is None:
                return
            at = parent
            yield at

    def _begins(self, at: int) -> bool:
        if at == self._trunk or self._tree.is_erased(at):
            return True
        if (self._tree.branch(at), self._tree.version(at)) in self._merged:
            return False
        return self._tree.kind(at) in ("set", "delete")

    def _looked_through(self) -> Iterator[MergeEdge]:
        """The merges whose source decides the origins of a state that counts."""
        for name, seen in self._seen.items():
            edges = self._mergeable.merges.get(name, ())
            if not edges:
                continue
            uptos = sorted(seen)
            begins = [self._begin(name, upto) for upto in uptos]
            for edge in edges[: bisect_right(edges, uptos[-1], key=_version)]:
                if self._counts(edge, uptos, begins):
                    yield edge

    def _begin(self, name: BranchName, upto: Version) -> Version | None:
        top = self._tree.last(name, upto)
        if top is None:
            return None
        *_, last = self._back_from(top)
        return self._tree.version(last)

    def _counts(self, edge: MergeEdge, uptos: Sequence[Version], begins: Sequence[Version | None]) -> bool:
        tree, version = self._tree, edge.version
        after, source = tree.last(edge.target, version), tree.last(edge.source, edge.source_version)
        if version in self._resolved or after is None or source is None:
            return False
        if self._trunk is not None and (after < self._trunk or version <= tree.version(self._trunk)):
            return False
        if version <= self._mergeable.floor and not any(
            upto >= version and begin is not None and begin <= version
            for upto, begin in zip(uptos, begins, strict=True)
        ):
            return False  # overwritten before any state that counts
        is_written = tree.version(after) == version and tree.branch(after) == edge.target
        return is_written or not self._continues(after, source)

    def _continues(self, at: int, older: int) -> bool:
        found: int | None = at
        while found is not None and found > older:
            found = self._tree.parent(found)
        return found == older


def _version(edge: MergeEdge) -> Version:
    return edge.version
