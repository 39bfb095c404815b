"""The picture of branches: forks, merges, heads, ends, and the commits in between."""

from __future__ import annotations

import pytest

from stemmadb.client.console import graph
from stemmadb.client.console.graph import Here
from stemmadb.client.reading.branches import Branch
from stemmadb.client.reading.entries import LogEntry
from stemmadb.protocol.model.values.ids import BranchName, Did, TimeMs, Version


def branch(name: str, version: int, parent: str | None = None, fork: int = 0, deleted: int | None = None) -> Branch:
    return Branch(
        name=BranchName(name),
        parent=None if parent is None else BranchName(parent),
        fork=Version(fork),
        version=Version(version),
        deleted=None if deleted is None else Version(deleted),
    )


def commit(version: int, name: str | None = "main", *, source: str | None = None) -> LogEntry:
    return LogEntry(
        version=Version(version),
        kind="commit" if source is None else "merge",
        author=Did("did:key:z"),
        time_ms=TimeMs(0),
        branch=None if name is None else BranchName(name),
        details=None if source is None else {"source": source, "source_version": version - 1},
        hash="b3:",
    )


def drawn(branches: list[Branch], log: list[LogEntry], here: Here | None = None) -> list[str]:
    rows = graph.draw(branches, log, here=here)
    return [
        f"{''.join(cell.letter for cell in row.cells)} {row.mark.version} {row.mark.kind} {row.mark.branch}"
        + (f" x{row.mark.count}" if row.mark.count else "")
        for row in rows
    ]


def test_nothing_is_drawn_of_nothing() -> None:
    assert drawn([], []) == []


def test_a_single_branch_is_its_head_and_a_count() -> None:
    assert drawn([branch("main", 5)], [commit(version) for version in range(5, 0, -1)]) == [
        "● 5 head main",
        "┊ 4 gap main x4",
    ]


def test_a_fork_leaves_its_parent_above_the_commit_it_forks_from() -> None:
    log = [commit(4), commit(3, "draft"), commit(2), commit(1)]
    assert drawn([branch("main", 4), branch("draft", 3, "main", 1)], log) == [
        "●   4 head main",
        "│ ● 3 head draft",
        "┊ │ 2 gap main x1",
        "├─╯ 1 fork draft",
        "┊   1 gap main x1",
    ]


def test_a_merge_joins_the_source_that_ends_there() -> None:
    log = [commit(5), commit(4, "main", source="draft"), commit(3, "draft"), commit(1)]
    assert drawn([branch("main", 5), branch("draft", 3, "main", 1)], log)[:3] == [
        "●   5 head main",
        "●─╮ 4 merge main",
        "│ ● 3 head draft",
    ]


def test_a_merge_joins_the_source_that_goes_on() -> None:
    log = [commit(5, "draft"), commit(4, "main", source="draft"), commit(3, "draft"), commit(1)]
    assert drawn([branch("main", 4), branch("draft", 5, "main", 1)], log) == [
        "  ● 5 head draft",
        "●─┤ 4 merge main",
        "│ ┊ 3 gap draft x1",
        "├─╯ 1 fork draft",
        "┊   1 gap main x1",
    ]


def test_a_merge_into_a_branch_to_the_right_leaves_the_parent_to_the_left() -> None:
    log = [commit(4), commit(3, "draft", source="main"), commit(2), commit(1)]
    assert drawn([branch("main", 4), branch("draft", 3, "main", 1)], log)[:2] == [
        "●   4 head main",
        "├─● 3 merge draft",
    ]
    assert drawn([branch("main", 2), branch("draft", 3, "main", 1)], log[1:])[0] == "╭─● 3 merge draft"


def test_a_line_crosses_the_branches_between() -> None:
    log = [commit(6, "main", source="far"), commit(5, "far"), commit(4, "near"), commit(1)]
    branches = [branch("main", 6), branch("near", 8, "main", 1), branch("far", 5, "main", 2)]
    assert drawn(branches, [commit(8, "near"), *log])[1] == "●─┼─╮ 6 merge main"


def test_a_column_is_used_again_after_a_branch_ended() -> None:
    log = [commit(9), commit(8, "two"), commit(5), commit(4, "one"), commit(1)]
    branches = [branch("main", 9), branch("one", 4, "main", 1), branch("two", 8, "main", 5)]
    assert all(len(row.cells) == 3 for row in graph.draw(branches, log, here=None))


def test_a_branch_of_a_branch_stands_to_its_right() -> None:
    log = [commit(5, "inner"), commit(4, "outer"), commit(3, "outer"), commit(1)]
    branches = [branch("main", 1), branch("outer", 4, "main", 1), branch("inner", 5, "outer", 3)]
    assert drawn(branches, log) == [
        "    ● 5 head inner",
        "  ● │ 4 head outer",
        "  ├─╯ 3 fork inner",
        "  ┊   3 gap outer x1",
        "╭─╯   1 fork outer",
        "●     1 head main",
    ]


def test_a_branch_without_commits_is_a_circle_and_a_deleted_one_ends() -> None:
    log = [commit(3, None), commit(2), commit(1)]
    assert drawn([branch("main", 2), branch("idea", 0, "main", 2)], log)[0] == "╭─○ 2 fork idea"
    assert drawn([branch("main", 2), branch("idea", 0, "main", 2, deleted=3)], log)[:2] == [
        "  ✕ 3 end idea",
        "╭─╯ 2 fork idea",
    ]


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        (2, ["● 4 head main", "┊ 3 gap main x1", "◆ 2 here main", "┊ 1 gap main x1"]),
        (4, ["◆ 4 here main", "● 4 head main", "┊ 3 gap main x3"]),
    ],
)
def test_where_one_stands_is_marked(version: int, expected: list[str]) -> None:
    log = [commit(number) for number in (4, 3, 2, 1)]
    assert drawn([branch("main", 4)], log, Here(BranchName("main"), Version(version))) == expected


def test_a_place_between_the_commits_of_a_branch_is_marked_too() -> None:
    log = [commit(4), commit(3, "draft"), commit(1)]
    branches = [branch("main", 4), branch("draft", 3, "main", 1)]
    assert drawn(branches, log, Here(BranchName("main"), Version(2)))[2] == "◆ │ 2 here main"


def test_what_lies_below_the_oldest_commit_goes_on_below() -> None:
    log = [commit(9), commit(8, "draft")]
    assert drawn([branch("main", 9), branch("draft", 8, "main", 3), branch("stale", 4, "main", 2)], log) == [
        "●   9 head main",
        "│ ● 8 head draft",
    ]


def test_commits_of_branches_that_are_not_drawn_are_not_counted() -> None:
    assert drawn([branch("main", 3)], [commit(3), commit(2, "other"), commit(1)])[1] == "┊ 1 gap main x1"


def test_every_row_has_one_cell_for_a_column_and_one_between() -> None:
    names = [f"b{number}" for number in range(6)]
    branches = [branch("main", 20), *(branch(name, 10 + at, "main", at + 1) for at, name in enumerate(names))]
    log = [commit(20), *(commit(10 + at, name) for at, name in enumerate(names)), commit(1)]
    assert {len(row.cells) for row in graph.draw(branches, log, here=None)} == {13}
