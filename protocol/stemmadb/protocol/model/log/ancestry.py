"""The best common ancestors of two points, in the graph of all parents: forks and merges (MERGE-2).

The ancestors of a point are prefix-closed on every branch: whoever knows version 9 of a branch knows all of it up to
9. So they are a vector, branch -> highest version known, and what two points have in common is the smaller entry of
each branch. An ancestor always has a lower version than its descendants. Hence the highest common point is a best
one; so is the highest of those it does not know, and so on. Each step walks every merge at most once.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeAlias

import msgspec

from stemmadb.protocol.model.log import branch_spans
from stemmadb.protocol.model.log.branch_spans import Branches
from stemmadb.protocol.model.values.ids import EMPTY_SPACE, MAIN, BranchName, Version

Last: TypeAlias = Callable[[BranchName, Version], Version]
"""The version of the last commit that wrote a fact on a branch or merged into it, erasures included, at or below a
version; 0 if there is none. A merge that wrote nothing counts: it changes what is known there.

Without it two names for one state, such as `main` at 15 and `main` at 17 with nothing between, would count as two.
"""
Knowledge: TypeAlias = dict[BranchName, Version]


class BranchPoint(msgspec.Struct, frozen=True, order=True):
    """A branch at a version."""

    branch: BranchName
    version: Version


ORIGIN = BranchPoint(MAIN, EMPTY_SPACE)
"""The empty space, which is an ancestor of everything."""


class MergeEdge(msgspec.Struct, frozen=True):
    """A merge commit: written on `target` at `version`, with (source, source_version) as its second parent."""

    target: BranchName
    version: Version
    source: BranchName
    source_version: Version


class BranchGraph(msgspec.Struct, frozen=True):
    """Branches and merges; `graph` makes one."""

    branches: Branches
    merges: Mapping[BranchName, Sequence[MergeEdge]]
    last: Last


def graph(branches: Branches, merges: Iterable[MergeEdge], last: Last) -> BranchGraph:
    """The graph of a space."""
    into: dict[BranchName, list[MergeEdge]] = {}
    for edge in sorted(merges, key=_version):
        into.setdefault(edge.target, []).append(edge)
    return BranchGraph(branches, into, last)


def best_common_ancestors(graph: BranchGraph, one: BranchPoint, other: BranchPoint) -> tuple[BranchPoint, ...]:
    """The common ancestors that no other common ancestor knows, newest first; never none (MERGE-2).

    Several in a criss-cross. Each is settled: the branch and version of a commit, or the empty space.
    """
    mine, theirs = knowledge(graph, one), knowledge(graph, other)
    common = {name: min(version, theirs[name]) for name, version in mine.items() if name in theirs}
    best: list[BranchPoint] = []
    while common:
        name = max(common, key=lambda candidate: common[candidate])
        best.append(BranchPoint(name, common[name]))
        known = knowledge(graph, best[-1])
        common = {name: version for name, version in common.items() if version > known.get(name, EMPTY_SPACE)}
    return tuple(best) or (ORIGIN,)


def is_ancestor(graph: BranchGraph, point: BranchPoint, of: BranchPoint) -> bool:
    """Whether all of `point` is in `of` already: merging it again would bring nothing (MERGE-4)."""
    settled = settle(graph, point)
    return settled is None or settled.version <= knowledge(graph, of).get(settled.branch, EMPTY_SPACE)


def knowledge(graph: BranchGraph, point: BranchPoint) -> Knowledge:
    """For each branch the last commit that the point knows, over forks and merges alike.

    Without recursion: thousands of merges back and forth are as deep as they are many.
    """
    known: Knowledge = {}
    todo = [point]
    while todo:
        point = todo.pop()
        if point.version <= known.get(point.branch, EMPTY_SPACE):
            continue  # most merges end here, without a look at the log
        settled = settle(graph, point)
        if settled is None or settled.version <= known.get(settled.branch, EMPTY_SPACE):
            continue
        state = graph.branches[settled.branch]
        before = known.get(settled.branch)
        known[settled.branch] = settled.version
        if before is None and state.parent is not None:
            todo.append(BranchPoint(state.parent, state.fork))
        todo.extend(_merged(graph, settled, before or state.fork))
    return known


def knower(
    graph: BranchGraph, point: BranchPoint, created_on: Callable[[Version], BranchName]
) -> Callable[[Version], bool]:
    """Whether a point knows the commit of a version, given the branch each commit was made on."""
    known = knowledge(graph, point)
    return lambda version: version <= point.version and version <= known.get(created_on(version), EMPTY_SPACE)


def split(branches: Branches, one: BranchPoint, other: BranchPoint) -> BranchPoint:
    """Where two points part: the last point that both see through forks alone.

    For example: with `a` and `b` forked from `main` at 5 and 8, both part at `main` 5, whatever was merged since.
    """
    theirs = {span.branch: span.upto for span in branch_spans.lineage(branches, other.branch, other.version)}
    for span in branch_spans.lineage(branches, one.branch, one.version):
        if span.branch in theirs:
            return BranchPoint(span.branch, min(span.upto, theirs[span.branch]))
    return ORIGIN


def settle(graph: BranchGraph, point: BranchPoint) -> BranchPoint | None:
    """The last commit at or before the point, on its branch or above a fork; None in the empty space."""
    name, version = point.branch, point.version
    while True:
        state = branch_spans.found(graph.branches, name)
        own = graph.last(name, version)
        if own > state.fork:
            return BranchPoint(name, own)
        if state.parent is None:
            return None
        name, version = state.parent, min(version, state.fork)


def _merged(graph: BranchGraph, point: BranchPoint, after: Version) -> list[BranchPoint]:
    """The second parents of the merges into a branch in a span of it."""
    edges = graph.merges.get(point.branch, ())
    start, end = bisect_right(edges, after, key=_version), bisect_right(edges, point.version, key=_version)
    return [BranchPoint(edge.source, edge.source_version) for edge in edges[start:end]]


def _version(edge: MergeEdge) -> Version:
    return edge.version
