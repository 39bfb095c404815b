"""What a trace holds does not grow with the number of facts, and stays exact (MERGE-3)."""

from __future__ import annotations

import gc
import random
from collections.abc import Callable, Iterator, Sequence

import pytest

from merge_builders import X, increment, replace
from merge_space import Space, make_fact
from stemmadb.protocol.model.history import stamps
from stemmadb.protocol.model.history.origins import OriginTrace, Traced, WrittenLeaves
from stemmadb.protocol.model.history.stamps import Stamp
from stemmadb.protocol.model.log.ancestry import BranchPoint, MergeEdge
from stemmadb.protocol.model.log.commit_record import Merge, Strategy
from stemmadb.protocol.model.log.state import BranchState
from stemmadb.protocol.model.values.ids import MAIN, BranchName, Version

FACTS = 3_000
LOOK_EVERY = 500
HELD_MAX = 20
DRAFT = BranchName("draft")
BRANCHES = {MAIN: BranchState(name=MAIN), DRAFT: BranchState(name=DRAFT, parent=MAIN, fork=Version(1), depth=2)}


def held_now() -> int:
    return sum(1 for thing in gc.get_objects() if type(thing) is Traced)


class Counting:
    """Facts that are made as they are asked for, looking from time to time at how many states are held."""

    def __init__(self, facts: Callable[[], Iterator[WrittenLeaves]]) -> None:
        self._facts = facts
        self._others = held_now()
        self.most = 0
        self.walks = 0

    def __iter__(self) -> Iterator[WrittenLeaves]:
        self.walks += 1
        for number, written in enumerate(self._facts()):
            yield written
            if number % LOOK_EVERY == 0:
                self.most = max(self.most, held_now() - self._others)


def patches(versions: Sequence[int]) -> Iterator[WrittenLeaves]:
    yield WrittenLeaves(make_fact(1, "set", {"v": 0, "w": {"x": 1}}))
    for version in versions:
        yield WrittenLeaves(make_fact(version, "patch", [replace("/v", version)]))


@pytest.mark.rule("MERGE-3")
def test_a_long_line_of_patches_holds_only_the_states_asked_for() -> None:
    facts = Counting(lambda: patches(range(2, FACTS)))
    points = [BranchPoint(MAIN, Version(version)) for version in (1, 700, 2_000, FACTS)]
    trace = OriginTrace(BRANCHES, facts, points=points)
    found = [trace.at(point) for point in points]
    assert [traced.version for traced in found] == [1, 700, 2_000, FACTS - 1]
    assert [stamps.at(traced.stamp, ["v"]).version for traced in found] == [1, 700, 2_000, FACTS - 1]
    assert (facts.walks, facts.most <= HELD_MAX) == (1, True)


def crosswise(rounds: int) -> tuple[list[MergeEdge], Callable[[], Iterator[WrittenLeaves]]]:
    """Two branches that are merged back and forth, each merge with a change of its own."""
    edges: list[MergeEdge] = []
    for index in range(rounds):
        source, target = (MAIN, DRAFT) if index % 2 else (DRAFT, MAIN)
        edges.append(MergeEdge(target, Version(2 * index + 4), source, Version(2 * index + 3)))

    def facts() -> Iterator[WrittenLeaves]:
        yield WrittenLeaves(make_fact(1, "set", {"v": 0}))
        for edge in edges:
            change = [replace("/v", edge.version)]
            yield WrittenLeaves(make_fact(edge.source_version, "patch", change, on=edge.source))
            details = Merge(
                source=edge.source, source_version=edge.source_version, target_version=edge.source_version
            )
            yield WrittenLeaves(make_fact(edge.version, "patch", change, on=edge.target), details)

    return edges, facts


@pytest.mark.rule("MERGE-3")
def test_what_a_merge_looked_back_to_is_let_go_after_it() -> None:
    edges, made = crosswise(FACTS // 2)
    facts = Counting(made)
    point = BranchPoint(MAIN, edges[-1].version)
    traced = OriginTrace(BRANCHES, facts, edges, points=[point]).at(point)
    assert stamps.at(traced.stamp, ["v"]).version == edges[-1].source_version
    assert facts.most <= HELD_MAX


@pytest.mark.rule("MERGE-3")
def test_a_merge_of_an_old_version_sees_the_source_as_it_was_then() -> None:
    edge = MergeEdge(MAIN, Version(9), DRAFT, Version(3))
    details = Merge(source=DRAFT, source_version=Version(3), target_version=Version(8))
    facts = [
        WrittenLeaves(make_fact(1, "set", {"v": 0})),
        *(WrittenLeaves(make_fact(version, "patch", [replace("/v", version)], on=DRAFT)) for version in (2, 3, 4, 5)),
        WrittenLeaves(make_fact(9, "patch", [replace("/v", 3)]), details),
    ]
    point = BranchPoint(MAIN, Version(9))
    assert stamps.at(OriginTrace(BRANCHES, facts, [edge], points=[point]).at(point).stamp, ["v"]).version == 3


@pytest.mark.rule("MERGE-3")
def test_a_merge_that_nobody_told_of_is_not_guessed() -> None:
    details = Merge(source=DRAFT, source_version=Version(2), target_version=Version(3))
    facts = [
        WrittenLeaves(make_fact(1, "set", {"v": 0})),
        *(WrittenLeaves(make_fact(version, "patch", [replace("/v", version)], on=DRAFT)) for version in (2, 3)),
        WrittenLeaves(make_fact(4, "patch", [replace("/v", 2)]), details),
    ]
    with pytest.raises(AssertionError, match="not told of"):
        OriginTrace(BRANCHES, facts).at(BranchPoint(MAIN, Version(4)))


@pytest.mark.rule("MERGE-3")
def test_a_point_below_a_fork_is_seen_on_the_branch_above_it() -> None:
    low, lower = BranchName("low"), BranchName("lower")
    branches = BRANCHES | {
        low: BranchState(name=low, parent=DRAFT, fork=Version(6), depth=3),
        lower: BranchState(name=lower, parent=low, fork=Version(3), depth=4),
    }
    facts = [
        WrittenLeaves(make_fact(1, "set", {"v": 0})),
        WrittenLeaves(make_fact(3, "patch", [replace("/v", 3)], on=DRAFT)),
        WrittenLeaves(make_fact(5, "patch", [replace("/v", 5)], on=DRAFT)),
        WrittenLeaves(make_fact(8, "patch", [replace("/v", 8)], on=lower)),
    ]
    points = [BranchPoint(name, Version(at)) for name, at in ((lower, 7), (lower, 8), (low, 9), (low, 4), (lower, 2))]
    trace = OriginTrace(branches, facts, points=points)
    assert [trace.at(point).version for point in points] == [3, 8, 5, 3, 1]


@pytest.mark.rule("MERGE-3")
@pytest.mark.parametrize("seed", range(40))
def test_one_walk_for_all_points_finds_what_a_walk_for_each_finds(seed: int) -> None:
    space = random_space(random.Random(seed))
    written, resolved = space.facts[X], space.resolved.get(X, ())
    points = [BranchPoint(name, Version(at)) for name in space.branches for at in range(space.version + 1)]
    together = OriginTrace(space.branches, written, space.edges, resolved, points)
    for point in points:
        found, alone = together.at(point), OriginTrace(space.branches, written, space.edges, resolved).at(point)
        assert (found.version, plain(found.stamp)) == (alone.version, plain(alone.stamp))
        assert found.content == alone.content == space.get(point.branch, X, point.version)


def plain(stamp: Stamp) -> object:
    """A stamp that can be compared: counts are shared, and equal only to themselves."""
    below = {key: plain(found) for key, found in stamp.below.items()}
    return stamp.version, stamp.assigned, stamps.root(stamp), stamps.increments(stamp.count), below


def random_space(chance: random.Random) -> Space:
    space = Space()
    space.set("main", X, {"n": 0, "o": {"a": 0, "b": 0}})
    names = ["main"]
    strategies: list[Strategy] = ["lww", "fields", "source"]
    for number in range(25):
        kind, on = chance.choice(["fork", "patch", "patch", "count", "merge", "merge", "set"]), chance.choice(names)
        if kind == "fork" and len(names) < 5:
            space.fork(f"b{len(names)}", on, chance.randint(1, space.version))
            names.append(f"b{len(names)}")
        elif kind == "patch":
            space.patch(on, X, replace(f"/o/{chance.choice('ab')}", number))
        elif kind == "count":
            space.patch(on, X, increment("/n"))
        elif kind == "set":
            space.set(on, X, {"n": number, "o": {"a": number, "b": 0}})
        elif (source := chance.choice(names)) != on:
            space.merge(source, on, chance.choice(strategies), version=chance.randint(1, space.version))
    return space
