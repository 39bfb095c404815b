"""Merges of branches that were forked below the floor of a compaction, while their parent went on (MERGE-3).

Every story is told without a compaction, and with compactions at different moments; all of them end alike.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final, NamedTuple

import pytest

from engines import engine
from merge_story import E, Story
from stemmadb.protocol.model.log.commit_record import Strategy

Tell = Callable[[Story], Awaitable[None]]

NEVER: Final[frozenset[str]] = frozenset()
COMPACTED: Final = (
    frozenset({"before"}),
    frozenset({"after"}),
    frozenset({"end"}),
    frozenset({"before", "after"}),
    frozenset({"before", "after", "end"}),
)
"""At which moments: before the fork, after it, and before the merge."""


def doc(n: float, t: str = "a", m: float = 2) -> dict[str, Any]:
    return {"n": n, "t": t, "o": {"m": m}}


async def different_fields(story: Story) -> None:
    await story.put("main", "/t", "b")
    await story.put("b1", "/o/m", 5)


async def the_same_field(story: Story) -> None:
    await story.put("main", "/t", "b")
    await story.put("b1", "/t", "c")


async def only_the_parent(story: Story) -> None:
    await story.increment("main", "/n", 1)
    await story.put("main", "/t", "b")


async def both_count(story: Story) -> None:
    await story.increment("main", "/n", 1)
    await story.increment("b1", "/n", 2)


async def one_counts_and_the_other_assigns_what_it_was(story: Story) -> None:
    await story.increment("b1", "/n", 1)
    await story.put("main", "/n", 18)


async def one_counts_and_the_other_assigns(story: Story) -> None:
    await story.put("main", "/n", 5)
    await story.increment("b1", "/n", 1)


async def both_count_to_the_same(story: Story) -> None:
    await story.increment("main", "/n", 2)
    await story.increment("b1", "/n", 2)


async def both_assign_and_count(story: Story) -> None:
    """Two assignments of an equal value, both made since the split, can be one."""
    await story.put("main", "/n", 0)
    await story.put("b1", "/n", 0)
    await story.increment("main", "/n", 1)
    await story.increment("b1", "/n", 2)


async def the_parent_deletes(story: Story) -> None:
    await story.delete("main")


async def the_parent_deletes_and_the_branch_edits_later(story: Story) -> None:
    await story.delete("main")
    await story.put("b1", "/t", "c")


async def the_branch_edits_and_the_parent_deletes_later(story: Story) -> None:
    await story.put("b1", "/t", "c")
    await story.delete("main")


async def deleted_and_made_again(story: Story) -> None:
    await story.delete("main")
    await story.set("main", 18)
    await story.increment("main", "/n", 1)
    await story.increment("b1", "/n", 2)


async def reverted_on_the_parent(story: Story) -> None:
    counted = await story.increment("main", "/n", 4)
    await story.increment("b1", "/n", 1)
    await story.revert("main", counted)
    await story.increment("main", "/n", 2)


async def merged_before(story: Story) -> None:
    """What the parent got of the branch counts once."""
    await story.increment("b1", "/n", 1)
    await story.merge("b1", "main", "fields")
    await story.increment("main", "/n", 1)
    await story.increment("b1", "/n", 1)


async def crosswise(story: Story) -> None:
    await story.increment("b1", "/n", 1)
    await story.increment("main", "/n", 1)
    await story.merge("b1", "main", "fields")
    await story.increment("b1", "/n", 1)
    await story.merge("main", "b1", "fields")
    await story.increment("main", "/n", 1)
    await story.increment("b1", "/n", 1)


async def through_a_branch_of_the_branch(story: Story) -> None:
    """The one between the two is deleted, and its increments are known by its child alone."""
    await story.increment("b1", "/n", 1)
    await story.create("b2", "b1")
    await story.increment("b1", "/n", 10)
    await story.increment("b2", "/n", 2)
    await story.increment("main", "/n", 4)
    await story.merge("b2", "b1", "source")


async def a_branch_of_the_branch_is_merged_into_the_parent(story: Story) -> None:
    await story.increment("b1", "/n", 1)
    await story.create("b2", "b1")
    await story.increment("b2", "/n", 2)
    await story.merge("b2", "main", "fields")
    await story.delete_branch("b2")
    await story.increment("b1", "/n", 4)
    await story.increment("main", "/n", 8)


async def erased_on_the_parent(story: Story) -> None:
    """The erasure leaves the parent without the entity; what is made then has nothing of what was erased."""
    counted = await story.increment("main", "/n", 4)
    await story.increment("b1", "/n", 1)
    await story.erase(counted)
    await story.set("main", 7)


STORIES: Final[dict[Tell, tuple[Any, Any, Any, Any]]] = {
    # The merge of b1 into main by fields, and by lww; that of main into b1 by fields, and by lww.
    different_fields: (doc(18, "b", 5), doc(18, "a", 5), doc(18, "b", 5), doc(18, "a", 5)),
    the_same_field: (doc(18, "c"),) * 4,
    only_the_parent: (doc(19, "b"),) * 4,
    both_count: (doc(21), doc(20), doc(21), doc(20)),
    one_counts_and_the_other_assigns_what_it_was: (doc(19),) * 4,
    one_counts_and_the_other_assigns: (doc(19),) * 4,
    both_count_to_the_same: (doc(22), doc(20), doc(22), doc(20)),
    both_assign_and_count: (doc(3), doc(2), doc(3), doc(2)),
    the_parent_deletes: (None,) * 4,
    the_parent_deletes_and_the_branch_edits_later: (doc(18, "c"),) * 4,
    the_branch_edits_and_the_parent_deletes_later: (None,) * 4,
    deleted_and_made_again: (doc(20),) * 4,
    reverted_on_the_parent: (doc(21), doc(20), doc(21), doc(20)),
    merged_before: (doc(21), doc(20), doc(21), doc(20)),
    crosswise: (doc(23), doc(22), doc(23), doc(22)),
    through_a_branch_of_the_branch: (doc(25), doc(22), doc(25), doc(22)),
    a_branch_of_the_branch_is_merged_into_the_parent: (doc(33), doc(29), doc(33), doc(29)),
    erased_on_the_parent: (doc(7),) * 4,
}
MERGES: Final[tuple[tuple[str, str, Strategy], ...]] = (
    ("b1", "main", "fields"),
    ("b1", "main", "lww"),
    ("main", "b1", "fields"),
    ("main", "b1", "lww"),
)


class Ending(NamedTuple):
    """The conflicts of the merge at the end, and what the target holds then."""

    conflicts: list[tuple[str, str]]
    value: Any


async def ending(tell: Tell, at: frozenset[str], source: str, target: str, strategy: Strategy) -> Ending:
    async with engine() as it:
        story = Story(it)
        await story.set("main", 0)
        for _ in range(18):  # so many that a compaction writes a checkpoint
            await story.increment("main", "/n", 1)
        if "before" in at:
            await story.compact()
        await story.create("b1")
        if "after" in at:
            await story.compact()
        await tell(story)
        if "end" in at:
            await story.compact()
            await story.compact()
        report = await story.merge(source, target, strategy)
        return Ending([(one.path, one.winner) for one in report.conflicts], await it.value(E, target))


@pytest.mark.rule("MERGE-1", "MERGE-3", "COMPACT-1")
@pytest.mark.parametrize("merge", range(4), ids=["-".join(one) for one in MERGES])
@pytest.mark.parametrize("tell", STORIES, ids=[one.__name__ for one in STORIES])
async def test_a_branch_from_before_the_floor_merges_with_its_parent_as_without_a_compaction(
    tell: Tell, merge: int
) -> None:
    source, target, strategy = MERGES[merge]
    plain = await ending(tell, NEVER, source, target, strategy)
    assert plain.value == STORIES[tell][merge]
    for at in COMPACTED:
        assert await ending(tell, at, source, target, strategy) == plain, sorted(at)


async def made_by_the_parent(story: Story) -> None:
    await story.set("main", 3)
    await story.increment("main", "/n", 1)


async def made_by_both(story: Story) -> None:
    await story.set("main", 3)
    await story.set("b1", 3)
    await story.increment("main", "/n", 1)
    await story.increment("b1", "/n", 2)


async def made_and_deleted_by_the_parent(story: Story) -> None:
    await story.set("main", 3)
    await story.set("b1", 4)
    await story.delete("main")


@pytest.mark.rule("MERGE-3", "COMPACT-1")
@pytest.mark.parametrize("is_compacted", [False, True])
@pytest.mark.parametrize("merge", range(4), ids=["-".join(one) for one in MERGES])
@pytest.mark.parametrize(
    ("tell", "expected"),
    [
        (made_by_the_parent, (doc(4),) * 4),
        (made_by_both, (doc(6), doc(5), doc(6), doc(5))),
        (made_and_deleted_by_the_parent, (doc(4),) * 4),  # absent as at the base: only the branch changed it
    ],
)
async def test_an_entity_that_one_side_has_not_at_the_split_is_merged_as_without_a_compaction(
    tell: Tell, expected: tuple[Any, Any, Any, Any], merge: int, is_compacted: bool
) -> None:
    async with engine() as it:
        story = Story(it)
        await story.create("b1")
        if is_compacted:
            await story.compact()
        await tell(story)
        if is_compacted:
            await story.compact()
            await story.compact()
        source, target, strategy = MERGES[merge]
        await story.merge(source, target, strategy)
        assert await it.value(E, target) == expected[merge]
