"""Best common ancestors over all parents, against brute force (MERGE-2)."""

from __future__ import annotations

import random
import sys

import pytest

from merge_oracle import Node, Oracle, best_common
from merge_space import Space
from stemmadb.protocol.errors import UnknownBranch
from stemmadb.protocol.model.log.ancestry import (
    ORIGIN,
    BranchGraph,
    BranchPoint,
    MergeEdge,
    best_common_ancestors,
    graph,
    is_ancestor,
    knowledge,
    settle,
)
from stemmadb.protocol.model.log.state import BranchState
from stemmadb.protocol.model.values.ids import MAIN, BranchName, Version


def point(name: str, version: int) -> BranchPoint:
    return BranchPoint(BranchName(name), Version(version))


def best(space: Space, one: tuple[str, int], other: tuple[str, int]) -> list[tuple[str, int]]:
    return [(at.branch, at.version) for at in best_common_ancestors(space.graph(), point(*one), point(*other))]


@pytest.mark.rule("MERGE-2")
def test_without_merges_the_base_is_the_last_commit_before_the_fork() -> None:
    space = Space()
    space.set("main", "urn:x", 1)
    space.set("main", "urn:x", 2)
    space.fork("draft")
    space.set("draft", "urn:x", 3)
    space.set("main", "urn:x", 4)
    assert best(space, ("draft", 9), ("main", 9)) == [("main", 2)]


@pytest.mark.rule("MERGE-2")
def test_branches_of_an_empty_space_have_the_empty_space_in_common() -> None:
    space = Space()
    space.fork("draft")
    space.set("draft", "urn:x", 1)
    space.set("main", "urn:x", 2)
    assert best(space, ("draft", 9), ("main", 9)) == [(ORIGIN.branch, ORIGIN.version)]
    assert settle(space.graph(), point("draft", 1)) is None


@pytest.mark.rule("MERGE-2")
def test_after_a_merge_the_base_is_what_was_merged() -> None:
    space = Space()
    space.set("main", "urn:x", 1)
    space.fork("draft")
    merged = space.set("draft", "urn:x", 2)
    space.merge("draft", "main")
    space.set("draft", "urn:x", 3)
    assert best(space, ("draft", 9), ("main", 9)) == [("draft", merged)]
    assert best(space, ("main", 9), ("draft", 9)) == [("draft", merged)]


@pytest.mark.rule("MERGE-2")
def test_siblings_that_were_merged_with_each_other_share_more_than_their_fork() -> None:
    space = Space()
    space.set("main", "urn:x", 1)
    space.fork("one")
    space.fork("two")
    shared = space.set("one", "urn:x", 2)
    space.merge("one", "two")
    assert best(space, ("one", 9), ("two", 9)) == [("one", shared)]


@pytest.mark.rule("MERGE-2")
def test_a_criss_cross_has_two_best_ancestors() -> None:
    space = Space()
    space.set("main", "urn:x", 1)
    space.fork("draft")
    ours = space.set("main", "urn:y", 2)
    theirs = space.set("draft", "urn:z", 3)
    space.merge("draft", "main")
    space.merge("main", "draft", version=ours)
    assert best(space, ("draft", 99), ("main", 99)) == [("draft", theirs), ("main", ours)]


@pytest.mark.rule("MERGE-2")
def test_two_names_for_one_state_are_one_ancestor() -> None:
    """`main` at 1 and at any later version before its next commit are the same, whoever names which."""
    space = Space()
    space.set("main", "urn:x", 1)
    space.fork("one")
    space.fork("two")
    space.fork("other")
    space.set("other", "urn:o", 1)
    space.merge("main", "other", version=4)
    at = space.set("other", "urn:o", 2)
    space.merge("other", "one")
    space.merge("main", "two", version=int(space.version))
    space.merge("other", "two")
    assert best(space, ("one", 99), ("two", 99)) == [("other", at)]


@pytest.mark.rule("MERGE-2", "MERGE-4")
def test_an_ancestor_is_known_as_one() -> None:
    space = Space()
    space.set("main", "urn:x", 1)
    space.fork("draft")
    at = space.set("draft", "urn:x", 2)
    assert is_ancestor(space.graph(), point("main", 9), point("draft", 9))
    assert not is_ancestor(space.graph(), point("draft", 9), point("main", 9))
    assert is_ancestor(space.graph(), point("draft", at - 1), point("main", 9))
    assert is_ancestor(space.graph(), point("draft", 0), point("main", 0))
    space.merge("draft")
    assert is_ancestor(space.graph(), point("draft", 9), point("main", 9))


@pytest.mark.rule("MERGE-2")
def test_an_unknown_branch_has_no_ancestors() -> None:
    with pytest.raises(UnknownBranch):
        best(Space(), ("nowhere", 1), ("main", 1))


class Both:
    """A random history of commits, forks and merges, in the space and as an explicit graph."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.space = Space()
        self.oracle = Oracle()

    def grow(self) -> None:
        name = self.random.choice(list(self.space.branches))
        kind = self.random.choices(["commit", "merge", "fork"], [4, 5, 2])[0]
        before = int(self.space.version)
        if kind == "commit":
            self.oracle.commit(name, self.space.set(name, "urn:x", before), {})
        elif kind == "fork" and len(self.space.branches) < 6:
            at, new = self.random.randint(0, before), f"b{before}"
            self.space.fork(new, name, at)
            self.oracle.forks[new] = (name, at)
        else:
            self._merge(
                name, self.random.choice(list(self.space.branches)), max(0, before - self.random.choice([0, 1, 2, 3]))
            )

    def _merge(self, target: str, source: str, version: int) -> None:
        before = self.space.version
        if source != target:
            parent = self.oracle.at(source, version)
            self.space.merge(source, target, version=version)
            if self.space.version > before:
                self.oracle.commit(target, int(self.space.version), {}, parent)

    def pick(self) -> tuple[BranchPoint, Node]:
        name = self.random.choice(list(self.space.branches))
        version = max(0, int(self.space.version) - self.random.choice([0, 1, 3, 20]))
        return point(name, version), self.oracle.at(name, version)


def compare_with_brute_force(seed: int) -> int:
    """One random graph; gives for how many pairs there were several best ancestors."""
    both = Both(seed)
    for _ in range(40):
        both.grow()
    known = both.space.graph()
    several = 0
    for _ in range(20):
        (one, one_node), (other, other_node) = both.pick(), both.pick()
        expected = {point(node.branch, node.version) for node in best_common(one_node, other_node)}
        found = best_common_ancestors(known, one, other)
        assert set(found) == expected
        assert len(found) == len(expected)
        assert [at.version for at in found] == sorted((at.version for at in found), reverse=True)
        ancestors = any(node is one_node for node in other_node.ancestors())
        assert is_ancestor(known, one, other) == ancestors
        several += len(found) > 1
    return several


@pytest.mark.rule("MERGE-2")
def test_random_graphs_have_the_best_ancestors_that_brute_force_finds() -> None:
    assert sum(map(compare_with_brute_force, range(200))) > 20


def back_and_forth(count: int) -> BranchGraph:
    """Work on both sides and a merge, `count` times, in turn in either direction."""
    draft = BranchName("draft")
    branches = {
        MAIN: BranchState(name=MAIN),
        draft: BranchState(name=draft, parent=MAIN, fork=Version(1), depth=2),
    }
    edges = []
    for index in range(count):
        version = 10 + 10 * index
        target, source = (MAIN, draft) if index % 2 else (draft, MAIN)
        edges.append(MergeEdge(target, Version(version), source, Version(version - 1)))
    return graph(branches, edges, lambda _, version: version)


@pytest.mark.rule("MERGE-2")
def test_ten_thousand_merges_back_and_forth_neither_recurse_nor_multiply() -> None:
    merged = back_and_forth(10_000)
    limit = sys.getrecursionlimit()
    try:
        sys.setrecursionlimit(200)
        found = best_common_ancestors(merged, point("main", 200_000), point("draft", 200_000))
    finally:
        sys.setrecursionlimit(limit)
    assert found == (point("draft", 99_999),)
    assert len(knowledge(merged, point("main", 200_000))) == 2
