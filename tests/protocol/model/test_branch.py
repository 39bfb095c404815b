"""Branches as spans of the log (BRANCH-1, BRANCH-2)."""

from __future__ import annotations

import random

import pytest

from stemmadb.protocol.errors import (
    BranchDeleted,
    BranchExists,
    BranchProtected,
    FutureVersion,
    InvalidName,
    LimitExceeded,
    UnknownBranch,
)
from stemmadb.protocol.model.log.branch_spans import (
    Span,
    apart,
    check_create,
    check_delete,
    lineage,
    only_in,
    visible,
)
from stemmadb.protocol.model.log.state import BranchState
from stemmadb.protocol.model.values.ids import MAIN, BranchName, Version
from stemmadb.protocol.model.values.limits import Limits

DRAFT, IDEA = BranchName("draft"), BranchName("idea")
BRANCHES = {
    MAIN: BranchState(name=MAIN),
    DRAFT: BranchState(name=DRAFT, parent=MAIN, fork=Version(10), depth=2),
    IDEA: BranchState(name=IDEA, parent=DRAFT, fork=Version(20), depth=3, deleted=Version(30)),
}


def span(name: str, after: int, upto: int) -> Span:
    return Span(BranchName(name), Version(after), Version(upto))


def spans_of(name: str, version: int) -> tuple[Span, ...]:
    return lineage(BRANCHES, BranchName(name), Version(version))


@pytest.mark.rule("BRANCH-2")
def test_a_branch_sees_its_own_facts_and_those_of_its_parent_up_to_the_fork() -> None:
    assert spans_of("draft", 25) == (span("draft", 10, 25), span("main", 0, 10))


@pytest.mark.rule("BRANCH-2")
def test_a_version_at_or_below_the_fork_belongs_to_the_parent() -> None:
    assert spans_of("draft", 10) == spans_of("main", 10) == (span("main", 0, 10),)
    assert spans_of("draft", 7) == (span("main", 0, 7),)
    assert spans_of("idea", 12) == spans_of("draft", 12)


@pytest.mark.rule("BRANCH-2")
def test_a_fork_of_a_fork_sees_through_both() -> None:
    assert spans_of("idea", 25) == (span("idea", 20, 25), span("draft", 10, 20), span("main", 0, 10))


@pytest.mark.rule("BRANCH-1")
def test_a_deleted_branch_reads_up_to_its_deletion() -> None:
    assert spans_of("idea", 99)[0] == span("idea", 20, 30)


@pytest.mark.rule("BRANCH-1")
def test_a_fork_of_a_deleted_branch_reads_up_to_that_deletion() -> None:
    late = BranchState(name=BranchName("late"), parent=IDEA, fork=Version(40), depth=4)
    seen = lineage(BRANCHES | {late.name: late}, late.name, Version(50))
    assert seen[:2] == (span("late", 40, 50), span("idea", 20, 30))


@pytest.mark.rule("BRANCH-2")
def test_the_empty_space_has_no_spans() -> None:
    assert spans_of("main", 0) == spans_of("idea", 0) == ()


@pytest.mark.rule("BRANCH-1")
def test_an_unknown_branch_and_a_future_version_are_told_as_such() -> None:
    with pytest.raises(UnknownBranch) as unknown:
        spans_of("nowhere", 1)
    assert unknown.value.facts == {"branch": "nowhere"}
    with pytest.raises(FutureVersion) as future:
        lineage(BRANCHES, MAIN, Version(8), head=Version(7))
    assert future.value.facts == {"version": 8, "head": 7}
    assert lineage(BRANCHES, MAIN, Version(7), head=Version(7))


@pytest.mark.rule("BRANCH-2")
def test_what_is_visible_lies_in_a_span() -> None:
    spans = spans_of("draft", 25)
    seen = [
        (name, version) for name in BRANCHES for version in range(1, 40) if visible(spans, name, Version(version))
    ]
    assert seen == [(MAIN, version) for version in range(1, 11)] + [(DRAFT, version) for version in range(11, 26)]


@pytest.mark.rule("BRANCH-2")
def test_what_only_one_lineage_has_is_where_it_goes_its_own_way() -> None:
    draft, main = spans_of("draft", 25), spans_of("main", 30)
    assert only_in(draft, main) == (span("draft", 10, 25),)
    assert only_in(main, draft) == (span("main", 10, 30),)
    assert apart(draft, main) == (span("draft", 10, 25), span("main", 10, 30))
    assert apart(draft, draft) == ()


@pytest.mark.rule("BRANCH-2")
def test_span_difference_is_set_difference() -> None:
    chance = random.Random(1)

    def some() -> list[Span]:
        ends = [sorted(chance.sample(range(12), 2)) for _ in range(chance.randint(0, 3))]
        return [span(chance.choice("ab"), after, upto) for after, upto in ends]

    def facts(spans: tuple[Span, ...] | list[Span]) -> set[tuple[str, int]]:
        return {(item.branch, version) for item in spans for version in range(item.after + 1, item.upto + 1)}

    for _ in range(2_000):
        one, other = some(), some()
        left = only_in(one, other)
        assert facts(left) == facts(one) - facts(other)
        assert all(piece.after < piece.upto for piece in left)


def create(name: str, parent: str = "main", fork: int = 5, limits: Limits | None = None) -> None:
    check_create(
        BRANCHES.get,
        BranchName(name),
        parent=BranchName(parent),
        fork=Version(fork),
        head=Version(50),
        limits=limits or Limits(),
    )


@pytest.mark.rule("BRANCH-1")
def test_a_branch_can_be_made_from_any_that_is_or_was_there() -> None:
    create("new", "main", 50)
    create("new", "idea", 0)


@pytest.mark.rule("BRANCH-1")
@pytest.mark.parametrize(
    ("name", "parent", "fork", "error"),
    [
        ("main", "main", 5, BranchExists),
        ("draft", "main", 5, BranchExists),
        ("idea", "main", 5, BranchExists),
        ("new", "nowhere", 5, UnknownBranch),
        ("new", "main", 51, FutureVersion),
        ("", "main", 5, InvalidName),
        ("a b", "main", 5, InvalidName),
        ("x" * 129, "main", 5, InvalidName),
    ],
)
def test_a_branch_that_cannot_be_made_is_refused(name: str, parent: str, fork: int, error: type[Exception]) -> None:
    with pytest.raises(error):
        create(name, parent, fork)


@pytest.mark.rule("BRANCH-1")
def test_the_65th_level_is_refused_and_the_64th_is_not() -> None:
    branches = {MAIN: BranchState(name=MAIN)}
    above = MAIN
    for depth in range(2, 65):
        name = BranchName(f"level-{depth}")
        check_create(branches.get, name, parent=above, fork=Version(depth), head=Version(99))
        branches[name] = BranchState(name=name, parent=above, fork=Version(depth), depth=depth)
        above = name
    assert len(lineage(branches, above, Version(99))) == 64
    with pytest.raises(LimitExceeded) as refused:
        check_create(branches.get, BranchName("level-65"), parent=above, fork=Version(65), head=Version(99))
    assert refused.value.facts == {"bound": "branch_depth_max", "maximum": 64, "actual": 65}


@pytest.mark.rule("BRANCH-1")
def test_the_depth_bound_is_the_servers_own() -> None:
    create("new", "draft", limits=Limits(branch_depth_max=3))
    with pytest.raises(LimitExceeded):
        create("new", "draft", limits=Limits(branch_depth_max=2))


@pytest.mark.rule("BRANCH-1")
def test_a_branch_is_deleted_once_and_main_never() -> None:
    check_delete(BRANCHES.get, DRAFT)
    with pytest.raises(BranchProtected):
        check_delete(BRANCHES.get, MAIN)
    with pytest.raises(BranchDeleted):
        check_delete(BRANCHES.get, IDEA)
    with pytest.raises(UnknownBranch):
        check_delete(BRANCHES.get, BranchName("nowhere"))
