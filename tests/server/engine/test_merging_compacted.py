"""Merges after compactions: no compaction changes a later merge (MERGE-1, MERGE-3, COMPACT-1)."""

from __future__ import annotations

from pathlib import Path

import pytest

from engines import engine
from merge_schedules import CompactedSchedule, ErasedSchedule
from merge_story import E, Story, told
from merge_twins import Twins
from space import patch_
from stemmadb.protocol.model.log.commit_record import BranchDelete, Strategy
from stemmadb.protocol.model.values.ids import BranchName, EntityId
from stemmadb.server.storage.sqlite import SqliteStorage

HISTORIES = 60
HISTORIES_ON_FILES = 12
TELLING = (83, 1299, 1383, 1591)
"""Seeds that show a compaction that drops what merges copied, and a merge that asks what came before the split."""


@pytest.mark.rule("MERGE-1", "MERGE-3", "MERGE-4", "COMPACT-1")
@pytest.mark.parametrize("seed", range(HISTORIES))
async def test_a_compaction_changes_no_later_merge(seed: int) -> None:
    async with engine() as it:
        await CompactedSchedule(seed, it).run()


@pytest.mark.rule("MERGE-1", "MERGE-3", "COMPACT-1")
@pytest.mark.parametrize("seed", range(HISTORIES, HISTORIES + HISTORIES_ON_FILES))
async def test_nor_does_it_on_files(seed: int, tmp_path: Path) -> None:
    async with engine(SqliteStorage(tmp_path)) as it:
        await CompactedSchedule(seed, it).run()


@pytest.mark.rule("MERGE-3", "MERGE-4", "ERASE-1", "COMPACT-1")
@pytest.mark.parametrize("seed", range(HISTORIES))
async def test_an_erasure_changes_no_later_merge_of_other_entities(seed: int) -> None:
    async with engine() as it:
        await ErasedSchedule(seed, it).run()


@pytest.mark.rule("MERGE-1", "MERGE-3", "COMPACT-1")
@pytest.mark.parametrize("seed", [*range(20), *TELLING])
async def test_two_spaces_of_which_one_is_compacted_merge_alike(seed: int) -> None:
    async with engine() as plain, engine() as compacted:
        await Twins(seed, plain, compacted).run()


async def _crosswise(story: Story, *, counts: bool) -> None:
    await story.create("b1")
    await story.set("main", 0)
    if counts:
        await story.increment("main", "/n", 1)
    await story.merge("main", "b1", "source")
    await story.set("main", 1)
    await story.create("b2")
    if counts:
        await story.merge("b1", "main", "target")
    await story.merge("b1", "b2", "source")
    await story.increment("b2", "/o/m", 2)
    await story.merge("main", "b1", "fields")
    await story.merge("b2", "main", "source")
    if counts:
        await story.merge("b2", "b1", "target")


@pytest.mark.rule("MERGE-1", "MERGE-3", "COMPACT-1")
@pytest.mark.parametrize("counts", [False, True])
@pytest.mark.parametrize("strategy", ["fields", "lww"])
async def test_the_original_of_a_copied_value_outlives_a_compaction(counts: bool, strategy: Strategy) -> None:
    reports = []
    for compacted in (False, True):
        async with engine() as it:
            story = Story(it)
            await _crosswise(story, counts=counts)
            if compacted:
                await story.compact()
            reports.append((told(await story.merge("main", "b1", strategy)), await it.value(E, "b1")))
    assert reports[0] == reports[1]


@pytest.mark.rule("MERGE-4", "COMPACT-1")
async def test_a_checkpoint_is_nothing_that_a_merge_could_bring() -> None:
    async with engine() as it:
        story = Story(it)
        await story.set("main", 0)
        for _ in range(18):
            await story.increment("main", "/n", 1)
        await story.create("b1")
        await story.merge("main", "b1", "lww")
        await story.compact()
        assert (await story.merge("main", "b1", "lww")).version is None


@pytest.mark.rule("MERGE-2", "COMPACT-1")
@pytest.mark.parametrize("backend", ["memory", "sqlite"])
async def test_a_base_behind_a_checkpoint_is_read_from_the_checkpoint(backend: str, tmp_path: Path) -> None:
    """The base is the last change before the fork, and the fork pins the checkpoint that followed it."""
    reports = []
    for compacted in (False, True):
        storage = SqliteStorage(tmp_path / f"{compacted}") if backend == "sqlite" else None
        async with engine(storage) as it:
            story = Story(it)
            await story.set("main", 0)
            for _ in range(18):
                await story.increment("main", "/n", 1)
            if compacted:
                await story.compact()
            await story.create("b1")
            await story.increment("b1", "/n", 1)
            await it.must(patch_(E, {"op": "add", "path": "/t", "value": "b"}, blind=True), branch="main")
            if compacted:
                await story.compact()
            reports.append((told(await story.merge("b1", "main", "fields")), await it.value(E, "main")))
    assert reports[0] == reports[1]
    assert reports[0][1] == {"n": 19, "t": "b", "o": {"m": 2}}


@pytest.mark.rule("MERGE-3", "COMPACT-1")
async def test_what_a_branch_without_the_entity_may_add_up_with_stays() -> None:
    """Two numbers that are assigned the same value on two branches are added up, whenever the second one is made."""
    reports = []
    for compacted in (False, True):
        async with engine() as it:
            story = Story(it)
            await story.create("b1")
            await story.set("main", 0)
            for _ in range(18):
                await story.increment("main", "/n", 1)
            if compacted:
                await story.compact()
                await story.compact()
            await story.set("b1", 0)
            await story.increment("b1", "/n", 1)
            reports.append((told(await story.merge("main", "b1", "fields")), await it.value(E, "b1")))
    assert reports[0] == reports[1]
    assert reports[0][1] == {"n": 19, "t": "a", "o": {"m": 2}}


@pytest.mark.rule("MERGE-3", "COMPACT-1")
@pytest.mark.parametrize("strategy", ["fields", "lww"])
async def test_a_copy_of_a_value_that_a_compaction_took_counts_from_the_merge(strategy: Strategy) -> None:
    """All branches continue the copy, so nothing is kept of the branch that it came from. It was a KeyError."""
    reports = []
    for compacted in (False, True):
        async with engine() as it:
            story = Story(it)
            await story.create("b0")
            await story.set("b0", 0)
            await story.merge("b0", "main", "lww")
            await it.structure(BranchDelete(name=BranchName("b0")))
            await story.create("b1")
            if compacted:
                await story.compact()
            await story.increment("b1", "/n", 1)
            await story.set("main", 3)
            await story.create("b2")
            await story.merge("b1", "b2", "source")
            await story.increment("main", "/n", 1)
            reports.append((told(await story.merge("b2", "main", strategy)), await it.value(E, "main")))
    assert reports[0] == reports[1]


@pytest.mark.rule("MERGE-3", "COMPACT-1")
async def test_increments_after_a_fork_behind_a_checkpoint_are_added() -> None:
    """Of the parent the branches know the last change, and the checkpoint that followed it alone has the value."""
    reports = []
    for compacted in (False, True):
        async with engine() as it:
            story = Story(it)
            await story.set("main", 0)
            for _ in range(18):
                await story.increment("main", "/n", 1)
            if compacted:
                await story.compact()
            await story.create("b1")
            await story.increment("b1", "/n", 1)
            await story.create("b2", "b1")
            if compacted:
                await story.compact()
            await story.increment("b1", "/n", 1)
            await story.increment("b2", "/n", 2)
            reports.append((told(await story.merge("b2", "b1", "fields")), await it.value(E, "b1")))
    assert reports[0] == reports[1]
    assert reports[0][1] == {"n": 22, "t": "a", "o": {"m": 2}}


@pytest.mark.rule("MERGE-3", "COMPACT-1")
@pytest.mark.parametrize("strategy", ["fields", "lww"])
async def test_a_number_assigned_what_it_once_counted_from_is_another_one(strategy: Strategy) -> None:
    """All branches have a counted number, and one assigns it what it counted from, which a compaction forgets.

    It was a sum without the compaction, and a conflict with it.
    """
    reports = []
    for compacted in (False, True):
        async with engine() as it:
            story = Story(it)
            await story.set("main", 0)
            for _ in range(18):
                await story.increment("main", "/n", 1)
            if compacted:
                await story.compact()
            await story.create("b1")
            if compacted:
                await story.compact()
            await story.set("b1", 0)
            await story.increment("main", "/n", 2)
            await story.merge("b1", "main", "target")
            await story.increment("b1", "/n", 1)
            await story.increment("main", "/n", 2)
            reports.append((told(await story.merge("main", "b1", strategy)), await it.value(E, "b1")))
    assert reports[0] == reports[1]
    assert reports[0][1] == {"n": 22, "t": "a", "o": {"m": 2}}


@pytest.mark.rule("MERGE-3", "COMPACT-1")
async def test_an_equal_value_is_no_conflict_for_increments_that_a_compaction_forgot() -> None:
    """One side goes back to a value that was counted before the split, the other assigns it."""
    reports = []
    for compacted in (False, True):
        async with engine() as it:
            story = Story(it)
            await story.set("main", 0)
            for _ in range(18):
                await story.increment("main", "/n", 1)
            if compacted:
                await story.compact()
            await story.create("b1")
            await story.create("b2")
            if compacted:
                await story.compact()
            await story.increment("b2", "/o/m", 1)
            await story.set("main", 5)
            await story.merge("main", "b1", "source")
            await story.merge("main", "b2", "target")
            await story.merge("b2", "main", "source")
            await story.set("b1", 18)
            report = await story.merge("main", "b1", "fields")
            reports.append((told(report), await it.value(E, "b1")))
    assert reports[0] == reports[1]
    assert reports[0] == (([(E, "", "both")], [E]), {"n": 18, "t": "a", "o": {"m": 3}})


@pytest.mark.rule("MERGE-3", "COMPACT-1")
async def test_a_sum_of_floats_is_the_same_after_a_compaction() -> None:
    """The value that a compaction leaves was rounded at each increment; the exact sum of its parts is another one."""
    reports = []
    for compacted in (False, True):
        async with engine() as it:
            story = Story(it)
            await story.set("main", 0.1)
            for _ in range(18):
                await story.increment("main", "/n", 0.1)
            if compacted:
                await story.compact()
            await story.create("b1")
            if compacted:
                await story.compact()
            await story.increment("b1", "/n", 0.2)
            await story.increment("main", "/n", 0.3)
            reports.append((told(await story.merge("main", "b1", "fields")), await it.value(E, "b1")))
            await story.increment("main", "/n", 0.7)
            reports.append((told(await story.merge("main", "b1", "fields")), await it.value(E, "b1")))
    assert reports[:2] == reports[2:]


@pytest.mark.rule("COMPACT-1")
async def test_what_was_merged_goes_once_no_other_branch_can_be_merged_any_more() -> None:
    """Origins are kept for merges to come, and not for ever: with one branch left there are none."""
    async with engine() as it:
        story = Story(it)
        await story.set("main", 0)
        await story.create("b1")
        for _ in range(5):
            await story.increment("b1", "/n", 1)
        await story.increment("main", "/o/m", 1)
        await story.merge("b1", "main", "fields")
        await story.compact()
        left = await it.space.read(lambda reader: [fact.branch for fact in reader.facts_of(EntityId(E)) if fact.body])
        assert left.count(BranchName("b1")) == 5
        await it.structure(BranchDelete(name=BranchName("b1")))
        await story.increment("main", "/o/m", 1)
        await story.compact()
        left = await it.space.read(lambda reader: [fact.branch for fact in reader.facts_of(EntityId(E)) if fact.body])
        assert left.count(BranchName("b1")) == 0
