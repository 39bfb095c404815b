"""What is decided between a plan and its decision voids the plan if it looked at what is not so any more."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from asking import Overtaken, asked
from destroying import all_bytes, verified
from engines import Engine, engine
from space import patch_, set_
from stemmadb.protocol import errors
from stemmadb.protocol.model.values.ids import BranchName, EntityId, TimeMs, Version
from stemmadb.server.engine.plan import branch_writes, compaction, erasure, merge, undo
from stemmadb.server.engine.plan.merge import MergeWanted
from stemmadb.server.engine.plan.undo import RevertWanted
from stemmadb.server.storage.port import LogReader

X = EntityId("urn:x")
DRAFT = BranchName("draft")
OTHER = BranchName("other")
NOW = TimeMs(1_000)


def once(act: Callable[[], Awaitable[object]]) -> Callable[[], Awaitable[None]]:
    left = [act]

    async def meanwhile() -> None:
        if left:
            await left.pop()()

    return meanwhile


async def with_secret(it: Engine) -> Version:
    await it.must(set_(X, {"n": "first"}, blind=True))
    await branch_writes.create_branch(it.space, asked("draft"), name=DRAFT)
    secret = await it.must(set_(X, {"n": "secret"}, blind=True))
    await it.must(set_(X, {"n": "after"}, blind=True))
    return secret


@pytest.mark.rule("ERASE-1", "MERGE-1")
async def test_a_merge_that_was_planned_before_an_erasure_leaves_no_copy_behind_it() -> None:
    async with engine() as it:
        secret = await with_secret(it)
        space = Overtaken(it.space, once(lambda: erasure.erase(it.space, asked("e"), {X: [secret]}, {})))
        wanted = MergeWanted(source=BranchName("main"), source_version=secret, target=DRAFT)
        with pytest.raises(errors.Erased):
            await merge.merge(space, asked("m"), wanted)
        assert b"secret" not in await all_bytes(it)


@pytest.mark.rule("ERASE-1", "COMMIT-9")
async def test_a_revert_that_was_planned_before_an_erasure_leaves_no_copy_behind_it() -> None:
    async with engine() as it:
        secret = await with_secret(it)
        space = Overtaken(it.space, once(lambda: erasure.erase(it.space, asked("e"), {X: [secret]}, {})))
        with pytest.raises(errors.Erased):
            await undo.revert(space, asked("r"), RevertWanted(versions=(Version(secret + 1),)))
        assert b"secret" not in await all_bytes(it)


@pytest.mark.rule("ERASE-1")
async def test_a_branch_that_is_made_and_merged_into_while_erasing_keeps_no_copy() -> None:
    async with engine() as it:
        secret = await with_secret(it)

        async def act() -> None:
            await branch_writes.create_branch(it.space, asked("other"), name=OTHER, fork=Version(2))
            wanted = MergeWanted(source=BranchName("main"), source_version=secret, target=OTHER)
            await merge.merge(it.space, asked("m"), wanted)

        await erasure.erase(Overtaken(it.space, once(act)), asked("e"), {X: [secret]}, {})
        assert b"secret" not in await all_bytes(it)
        await verified(it)


@pytest.mark.rule("ERASE-1", "COMPACT-1")
async def test_a_checkpoint_that_is_written_while_erasing_goes_too() -> None:
    async with engine() as it:
        secret = await it.must(set_(X, {"n": 0, "s": "secret"}, blind=True))
        for number in range(64):
            await it.must(patch_(X, {"op": "replace", "path": "/n", "value": number}, blind=True))
        act = once(lambda: compaction.compact(it.space, asked("c"), it.space.version, now=NOW))
        await erasure.erase(Overtaken(it.space, act), asked("e"), {X: [secret]}, {})
        assert b"secret" not in await all_bytes(it)


@pytest.mark.rule("COMPACT-1")
@pytest.mark.parametrize("what", ["branch", "tag", "merge"])
async def test_what_begins_to_look_below_the_floor_while_compacting_is_kept(what: str) -> None:
    async with engine() as it:
        await it.must(set_(X, {"n": "first"}, blind=True))
        await branch_writes.create_branch(it.space, asked("draft"), name=DRAFT)
        for number in range(6):
            await it.must(set_(X, {"n": number}, blind=True))
        at = Version(5)

        async def act() -> None:
            if what == "branch":
                await branch_writes.create_branch(it.space, asked("o"), name=OTHER, fork=at)
            elif what == "tag":
                await branch_writes.create_tag(it.space, asked("t"), name="t", version=at)
            else:
                wanted = MergeWanted(source=BranchName("main"), source_version=at, target=DRAFT)
                await merge.merge(it.space, asked("m"), wanted)

        space = Overtaken(it.space, once(act))
        await compaction.compact(space, asked("c"), it.space.version, now=NOW)
        assert space.decisions == 2

        def ask(reader: LogReader) -> list[int]:
            return [fact.version for fact in reader.facts_of(X) if fact.body is not None]

        assert 5 in await it.space.read(ask)


@pytest.mark.rule("COMPACT-1")
async def test_a_branch_or_a_tag_below_a_floor_that_rises_meanwhile_is_refused() -> None:
    async with engine() as it:
        for number in range(6):
            await it.must(set_(X, {"n": number}, blind=True))
        floors = iter((4, 5))

        async def act() -> None:
            floor = next(floors)
            await compaction.compact(it.space, asked(f"c{floor}"), Version(floor), now=NOW)

        with pytest.raises(errors.Compacted):
            await branch_writes.create_branch(Overtaken(it.space, act), asked("b"), name=DRAFT, fork=Version(3))
        with pytest.raises(errors.Compacted):
            await branch_writes.create_tag(Overtaken(it.space, act), asked("t"), name="t", version=Version(4))


async def test_a_branch_is_given_up_after_a_bounded_number_of_attempts() -> None:
    async with engine() as it:
        await it.must(set_(X, 1, blind=True))

        async def act() -> None:
            await compaction.compact(it.space, asked(f"c{it.space.version}"), Version(1), now=NOW)

        with pytest.raises(errors.MergeBusy):
            await branch_writes.create_branch(Overtaken(it.space, act), asked("b"), name=DRAFT)


@pytest.mark.rule("MERGE-5")
async def test_a_merge_expects_its_target_at_a_version_where_it_is_decided() -> None:
    async with engine() as it:
        await with_secret(it)
        at = it.space.version
        wanted = MergeWanted(source=DRAFT, expect_target=at)
        await it.must(set_(EntityId("urn:y"), {"n": "draft"}, blind=True), branch="draft")
        with pytest.raises(errors.FutureVersion):
            await merge.merge(it.space, asked("f"), MergeWanted(source=DRAFT, expect_target=Version(99)))
        elsewhere = once(lambda: it.must(set_(EntityId("urn:z"), {"n": 1}, blind=True), branch="draft"))
        done = await merge.merge(Overtaken(it.space, elsewhere), asked("m"), wanted)
        assert done.version is not None, "what is written on another branch does not count"
        with pytest.raises(errors.Conflict):
            await merge.merge(it.space, asked("n"), wanted)
        assert await merge.merge(it.space, asked("m"), wanted) == done


@pytest.mark.rule("MERGE-5")
async def test_a_write_that_comes_between_plan_and_decision_ends_a_merge_that_expects_its_target() -> None:
    async with engine() as it:
        await with_secret(it)
        await it.must(set_(EntityId("urn:y"), {"n": "draft"}, blind=True), branch="draft")
        wanted = MergeWanted(source=DRAFT, expect_target=it.space.version)
        between = once(lambda: it.must(set_(EntityId("urn:unrelated"), {"n": 1}, blind=True)))
        with pytest.raises(errors.Conflict):
            await merge.merge(Overtaken(it.space, between), asked("m"), wanted)
        assert await it.value(EntityId("urn:y")) is None
