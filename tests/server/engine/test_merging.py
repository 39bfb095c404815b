"""Merges on a real space: what they write, what they refuse, and what overtakes them (MERGE-1..4, COMMIT-11)."""

from __future__ import annotations

from typing import Any

import pytest

from asking import Overtaken, asked, tip_of
from engines import Engine, engine
from merge_builders import increment, replace
from space import ALICE, BOB, SPACE, delete_, patch_, set_
from stemmadb.protocol import errors
from stemmadb.protocol.model.log.commit_record import BranchCreate, BranchDelete, Compact, Erase, Merge
from stemmadb.protocol.model.log.state import Missing
from stemmadb.protocol.model.values.body import encode
from stemmadb.protocol.model.values.ids import MAIN, BranchName, Did, EntityId, Version
from stemmadb.protocol.model.values.limits import Limits
from stemmadb.server.engine.base.space_port import SpaceApi
from stemmadb.server.engine.plan.known_merges import KnownMerges
from stemmadb.server.engine.plan.merge import MergeWanted, PlannedMerge, merge
from stemmadb.server.engine.plan.planned_write import ATTEMPTS_MAX
from stemmadb.server.storage.port import Destroyed, FactPosition

DRAFT = BranchName("draft")
X = EntityId("urn:x")
STRANGER = Did("did:key:z6MkpTHR8VNsBxYAAWHut2Geadd9jSwuBV8xRoAnwWsdvktH")
BASE = {"a": 0, "b": 0, "n": 0}


async def forked(it: Engine, value: Any = BASE, *names: str) -> None:
    """An entity on main at 2, and branches forked from there."""
    await it.must(set_(X, value, blind=True))
    for name in names or ("draft",):
        await it.structure(BranchCreate(name=BranchName(name), parent=MAIN, fork=Version(2)))


async def draft_into_main(it: Engine, operation: str = "m", **how: Any) -> PlannedMerge:
    return await merged(it, operation, "draft", "main", **how)


async def merged(
    it: Engine, operation: str, source: str, target: str, *, space: SpaceApi | None = None, **how: Any
) -> PlannedMerge:
    wanted = MergeWanted(source=BranchName(source), target=BranchName(target), **how)
    return await merge(space or it.space, asked(operation), wanted)


async def predicted(it: Engine, **how: Any) -> PlannedMerge:
    return await merge(it.space, asked("dry"), MergeWanted(source=DRAFT, **how), dry_run=True)


async def edit(it: Engine, on: str, *operations: dict[str, Any], id_: str = X) -> Version:
    return await it.must(patch_(id_, *operations, blind=True), branch=on)


async def head(it: Engine) -> Version:
    return (await tip_of(it.space)).version


@pytest.mark.rule("MERGE-1")
async def test_a_merge_is_a_commit_on_the_target_with_a_second_parent() -> None:
    async with engine() as it:
        await forked(it)
        await edit(it, "draft", replace("/a", 1))
        report = await merge(it.space, asked("m", note=b"\xa3why"), MergeWanted(source=DRAFT))
        assert await it.value(X) == {"a": 1, "b": 0, "n": 0}
        assert (report.version, report.source_version, report.target_version) == (5, 4, 4)
        commit = (await it.space.read(lambda reader: reader.commits([Version(5)])))[Version(5)]
        assert (commit.hash, commit.time, commit.note) == (report.hash, report.time, b"\xa3why")
        assert (commit.branch, commit.author) == (MAIN, ALICE)
        assert commit.details == Merge(source=DRAFT, source_version=Version(4), target_version=Version(4))
        (fact,) = (await it.space.read(lambda reader: reader.facts([Version(5)])))[Version(5)]
        assert [(write.id, write.kind, write.body) for write in report.writes] == [(X, "patch", fact.body)]


@pytest.mark.rule("MERGE-2")
async def test_merging_again_after_more_work_does_not_see_old_changes_as_new() -> None:
    async with engine() as it:
        known = KnownMerges()
        await forked(it)
        for number in range(1, 4):
            await edit(it, "draft", replace("/a", number))
            await edit(it, "main", replace("/b", number))
            for name, source, target in (("there", "draft", "main"), ("back", "main", "draft")):
                wanted = MergeWanted(source=BranchName(source), target=BranchName(target), strategy="fields")
                report = await merge(it.space, asked(f"{name} {number}"), wanted, known=known)
                assert len(report.conflicts) == (1 if name == "there" else 0)
            assert await it.value(X) == await it.value(X, "draft") == {"a": number, "b": number, "n": 0}


@pytest.mark.rule("MERGE-4")
async def test_what_the_target_knows_already_writes_nothing() -> None:
    async with engine() as it:
        await forked(it)
        assert (await draft_into_main(it)).version is None
        await edit(it, "draft", replace("/a", 1))
        assert (await draft_into_main(it)).version == 5
        for number, (source, target) in enumerate((("draft", "main"), ("draft", "draft2"))):
            if target == "draft2":
                await it.structure(BranchCreate(name=BranchName(target), parent=DRAFT, fork=Version(5)))
            before = await head(it)
            report = await merged(it, f"again {number}", source, target)
            assert (report.version, report.writes, report.conflicts, await head(it)) == (None, (), (), before)


@pytest.mark.rule("MERGE-4")
async def test_a_merge_that_writes_nothing_of_a_source_that_was_not_known_is_recorded() -> None:
    async with engine() as it:
        await forked(it)
        await edit(it, "draft", replace("/a", 1))
        await edit(it, "draft", replace("/a", 0))
        report = await draft_into_main(it)
        assert (report.version, report.writes) == (6, ())
        assert (await draft_into_main(it, "again")).version is None


@pytest.mark.rule("MERGE-4")
@pytest.mark.parametrize("strategy", ["lww", "source", "target", "fields"])
async def test_a_dry_run_predicts_exactly_what_the_merge_writes(strategy: str) -> None:
    async with engine() as it:
        await forked(it)
        await edit(it, "draft", replace("/a", 1), increment("/n"))
        await edit(it, "main", replace("/a", 2), increment("/n"))
        await it.must(set_("urn:y", 1, blind=True), branch="draft")
        before = await head(it)
        dry = await predicted(it, strategy=strategy)
        assert (dry.version, dry.hash, dry.time, await head(it)) == (None, None, None, before)
        made = await draft_into_main(it, strategy=strategy)
        assert (made.conflicts, made.writes) == (dry.conflicts, dry.writes)
        assert (made.source_version, made.target_version) == (dry.source_version, dry.target_version)
        expected = {"lww": 2, "source": 1, "target": 2, "fields": 2}[strategy]
        numbers = {"lww": 1, "source": 1, "target": 1, "fields": 2}[strategy]
        assert await it.value(X) == {"a": expected, "b": 0, "n": numbers}
        assert await it.value("urn:y") == 1


@pytest.mark.rule("MERGE-3")
async def test_fail_writes_nothing_and_names_every_conflict() -> None:
    async with engine() as it:
        await forked(it)
        await edit(it, "draft", replace("/a", 1))
        await edit(it, "main", replace("/a", 2))
        before = await head(it)
        with pytest.raises(errors.MergeConflict) as caught:
            await draft_into_main(it, strategy="fail")
        assert [(one.id, one.base, one.source, one.target) for one in caught.value.facts["conflicts"]] == [
            (X, 2, 4, 5)
        ]
        assert await head(it) == before


@pytest.mark.rule("MERGE-3")
async def test_a_resolution_wins_and_is_remembered_in_later_merges() -> None:
    async with engine() as it:
        await forked(it, BASE, "draft", "late")
        await edit(it, "draft", replace("/a", 1))
        await edit(it, "main", replace("/a", 2))
        report = await draft_into_main(it, resolutions={X: {"a": 3}})
        assert ([one.winner for one in report.conflicts], await it.value(X)) == (["resolution"], {"a": 3})
        await edit(it, "late", replace("/a", 9))
        await merged(it, "late", "draft", "late", strategy="source")
        await merged(it, "main", "main", "late")
        assert await it.value(X, "late") == {"a": 3}


@pytest.mark.rule("MERGE-3")
async def test_a_resolution_to_nothing_deletes() -> None:
    async with engine() as it:
        await forked(it)
        await edit(it, "draft", replace("/a", 1))
        await edit(it, "main", replace("/a", 2))
        await draft_into_main(it, resolutions={X: Missing.ABSENT})
        assert await it.value(X) is None


@pytest.mark.rule("MERGE-3")
async def test_a_resolution_that_left_an_entity_absent_decided_it_all_the_same() -> None:
    async with engine() as it:
        await forked(it, BASE, "draft", "other")
        await it.must(delete_(X, blind=True))
        await edit(it, "draft", replace("/a", 1))
        await edit(it, "other", replace("/a", 2))
        report = await draft_into_main(it, resolutions={X: Missing.ABSENT})
        assert (report.writes, [one.winner for one in report.conflicts]) == ((), ["resolution"])
        await merged(it, "other", "other", "main")
        assert await it.value(X) is None


@pytest.mark.rule("MERGE-3")
async def test_an_edit_is_as_late_as_it_was_made_and_not_as_it_was_merged() -> None:
    async with engine() as it:
        await forked(it, BASE, "draft", "other")
        await edit(it, "draft", replace("/a", 1))
        await edit(it, "other", replace("/a", 2))
        await draft_into_main(it)
        await merged(it, "second", "other", "main")
        assert await it.value(X) == {"a": 2, "b": 0, "n": 0}


@pytest.mark.rule("MERGE-3")
async def test_an_old_version_of_the_source_is_merged_as_it_was() -> None:
    async with engine() as it:
        await forked(it)
        first = await edit(it, "draft", replace("/a", 1))
        await edit(it, "draft", replace("/a", 2))
        report = await draft_into_main(it, source_version=first)
        assert (report.source_version, await it.value(X)) == (first, {"a": 1, "b": 0, "n": 0})


@pytest.mark.rule("BRANCH-1")
async def test_a_deleted_branch_can_be_merged_from_and_not_into() -> None:
    async with engine() as it:
        await forked(it)
        await edit(it, "draft", replace("/a", 1))
        await it.structure(BranchDelete(name=DRAFT))
        await edit(it, "main", replace("/b", 1))
        assert (await draft_into_main(it, strategy="fields")).version == 7
        assert await it.value(X) == {"a": 1, "b": 1, "n": 0}
        await refused(it, errors.BranchDeleted, source="main", target="draft")


async def refused(it: Engine, kind: type[errors.StemmaError], author: Did = ALICE, **wanted: Any) -> None:
    before = await tip_of(it.space)
    for dry_run in (False, True):
        with pytest.raises(kind):
            await merge(it.space, asked("bad", author=author), MergeWanted(**wanted), dry_run=dry_run)
    assert await tip_of(it.space) == before


@pytest.mark.rule("MERGE-1", "MERGE-3")
@pytest.mark.parametrize(
    ("kind", "wanted"),
    [
        (errors.UnknownBranch, {"source": "nowhere"}),
        (errors.UnknownBranch, {"source": "draft", "target": "nowhere"}),
        (errors.FutureVersion, {"source": "draft", "source_version": 99}),
        (errors.Malformed, {"source": "draft", "source_version": -1}),
        (errors.InvalidMerge, {"source": "main"}),
        (errors.InvalidMerge, {"source": "draft", "strategy": "best"}),
        (errors.InvalidMerge, {"source": "draft", "resolutions": {X: 1}}),
        (errors.InvalidMerge, {"source": "draft", "resolutions": {SPACE: {}}}),
        (errors.Forbidden, {"source": "nowhere", "author": STRANGER}),
    ],
)
async def test_a_merge_that_cannot_be_is_refused_and_writes_nothing(
    kind: type[errors.StemmaError], wanted: dict[str, Any]
) -> None:
    async with engine() as it:
        await forked(it)
        await edit(it, "draft", replace("/a", 1))
        await refused(it, kind, **wanted)


@pytest.mark.rule("MERGE-1")
async def test_the_access_list_is_passed_by() -> None:
    async with engine() as it:
        await it.structure(BranchCreate(name=DRAFT, parent=MAIN, fork=Version(1)))
        await it.must(set_("urn:x", 1, blind=True), branch="draft")
        roles = {ALICE: "own", BOB: "read"}
        await it.must(set_(SPACE, roles, blind=True))
        report = await merged(it, "up", "main", "draft")
        assert (report.writes, await it.value(SPACE)) == ((), roles)


@pytest.mark.rule("COMMIT-11")
async def test_a_merge_that_is_sent_again_is_answered_from_its_record() -> None:
    async with engine() as it:
        await forked(it)
        await edit(it, "draft", replace("/a", 1))
        await edit(it, "main", replace("/a", 2))
        first = await draft_into_main(it, strategy="source", resolutions={})
        await it.structure(BranchDelete(name=DRAFT))
        before = await head(it)
        assert (await draft_into_main(it, strategy="source"), await head(it)) == (first, before)
        with pytest.raises(errors.IdentityClash):
            await merge(it.space, asked("m", request="another"), MergeWanted(source=DRAFT))


@pytest.mark.rule("COMMIT-11")
async def test_the_same_merge_twice_at_a_time_is_done_once() -> None:
    async with engine() as it:
        await forked(it)
        await edit(it, "draft", replace("/a", 1))
        firsts: list[PlannedMerge] = []

        async def meanwhile() -> None:
            firsts.append(await draft_into_main(it))

        report = await draft_into_main(it, space=Overtaken(it.space, meanwhile))
        assert (report, await head(it)) == (firsts[0], 5)


@pytest.mark.rule("MERGE-1")
async def test_a_merge_that_was_overtaken_is_planned_again() -> None:
    async with engine() as it:
        await forked(it)
        await edit(it, "draft", replace("/a", 1))
        left = [2, 3]

        async def meanwhile() -> None:
            if left:
                await edit(it, "main", replace("/a", left.pop(0)))

        space = Overtaken(it.space, meanwhile)
        report = await draft_into_main(it, space=space, strategy="source")
        assert (space.decisions, report.version, report.target_version) == (3, 7, 6)
        assert [(one.id, one.target) for one in report.conflicts] == [(X, 6)]
        assert await it.value(X) == {"a": 1, "b": 0, "n": 0}


@pytest.mark.rule("MERGE-1")
async def test_another_merge_into_the_target_makes_it_plan_again() -> None:
    async with engine() as it:
        await forked(it, BASE, "draft", "other")
        await edit(it, "draft", replace("/a", 1))
        await it.must(set_("urn:y", 1, blind=True), branch="other")
        names = ["first"]

        async def meanwhile() -> None:
            if names:
                await merged(it, names.pop(), "other", "main")

        space = Overtaken(it.space, meanwhile)
        assert (await draft_into_main(it, space=space)).version == 8
        assert space.decisions == 2


@pytest.mark.rule("MERGE-1")
async def test_work_elsewhere_on_a_busy_target_does_not_stop_a_merge() -> None:
    async with engine() as it:
        await forked(it)
        await edit(it, "draft", replace("/a", 1))

        async def meanwhile() -> None:
            await it.must(set_("urn:y", 1, blind=True))

        space = Overtaken(it.space, meanwhile)
        assert (await draft_into_main(it, space=space)).version == 6
        assert space.decisions == 1


@pytest.mark.rule("MERGE-1")
async def test_a_merge_that_is_overtaken_each_time_is_given_up() -> None:
    async with engine() as it:
        await forked(it)
        await edit(it, "draft", replace("/a", 1))

        async def meanwhile() -> None:
            await edit(it, "main", increment("/n"))

        space = Overtaken(it.space, meanwhile)
        with pytest.raises(errors.MergeBusy) as caught:
            await draft_into_main(it, space=space)
        assert caught.value.facts["attempts"] == space.decisions == ATTEMPTS_MAX
        assert (await it.value(X))["a"] == 0


@pytest.mark.rule("BRANCH-1")
async def test_a_target_that_is_deleted_meanwhile_refuses_the_merge() -> None:
    async with engine() as it:
        await forked(it)
        await edit(it, "main", replace("/a", 1))
        space = Overtaken(it.space, lambda: it.structure(BranchDelete(name=DRAFT)))
        with pytest.raises(errors.BranchDeleted):
            await merged(it, "m", "main", "draft", space=space)
        assert space.decisions == 1


async def test_the_writes_of_a_merge_are_bounded() -> None:
    async with engine(limits=Limits(bulk_operations_max=2)) as it:
        await forked(it)
        for number in range(3):
            await it.must(set_(f"urn:y:{number}", 1, blind=True), branch="draft")
        await refused(it, errors.LimitExceeded, source="draft")
        assert len((await draft_into_main(it, source_version=Version(5))).writes) == 2


async def test_a_patch_of_too_many_operations_becomes_a_set() -> None:
    async with engine(limits=Limits(patch_operations_max=2)) as it:
        await forked(it)
        await it.must(set_(X, {"a": 1, "b": 1, "n": 1}, blind=True), branch="draft")
        dry = await predicted(it)
        report = await draft_into_main(it)
        assert report.writes == dry.writes
        assert [(write.kind, write.body) for write in report.writes] == [("set", encode({"a": 1, "b": 1, "n": 1}))]
        assert await it.value(X) == {"a": 1, "b": 1, "n": 1}


async def test_a_value_that_is_too_large_for_the_bounds_of_now_is_refused() -> None:
    async with engine(limits=Limits(value_bytes_max=250)) as it:
        await forked(it, {"o": {}})
        await edit(it, "draft", {"op": "add", "path": "/o/s", "value": "s" * 150})
        await edit(it, "main", {"op": "add", "path": "/o/t", "value": "t" * 150})
        with pytest.raises(errors.LimitExceeded):
            await draft_into_main(it, strategy="fields")
        with pytest.raises(errors.LimitExceeded):
            await draft_into_main(it, resolutions={X: "s" * 250})


async def erased(it: Engine, version: Version, id_: EntityId = X) -> None:
    destroyed = Destroyed(facts=[FactPosition(version, 0)], snapshots_of=[id_])
    await it.structure(Erase(id=id_, versions=(version,)), destroyed=destroyed)


@pytest.mark.rule("MERGE-3", "ERASE-1")
async def test_a_side_that_was_erased_can_only_be_resolved_or_left() -> None:
    async with engine() as it:
        await forked(it)
        await erased(it, await edit(it, "draft", replace("/a", 1)))
        await refused(it, errors.Erased, source="draft")
        assert (await predicted(it, strategy="target")).writes == ()
        assert [write.kind for write in (await predicted(it, resolutions={X: {"a": 3}})).writes] == ["patch"]


@pytest.mark.rule("MERGE-3", "COMPACT-1")
async def test_a_source_that_was_compacted_away_says_so() -> None:
    async with engine() as it:
        await forked(it)
        made = await edit(it, "draft", replace("/a", 1))
        ended = await it.structure(BranchDelete(name=DRAFT))
        assert not isinstance(ended, errors.StemmaError)
        floor = await it.must(set_("urn:y", 1, blind=True))
        await it.structure(
            Compact(floor=floor), destroyed=Destroyed(facts=[FactPosition(made, 0)], snapshots_below=floor)
        )
        with pytest.raises(errors.Compacted) as caught:
            await draft_into_main(it)
        assert caught.value.facts["oldest"] == floor
        with pytest.raises(errors.Compacted):
            await draft_into_main(it, source_version=made)


@pytest.mark.rule("MERGE-3", "ERASE-1")
async def test_what_was_erased_above_the_floor_of_a_compaction_is_called_erased() -> None:
    async with engine() as it:
        await forked(it)
        made = await edit(it, "draft", replace("/a", 1))
        await it.structure(Compact(floor=made))
        await erased(it, made)
        await refused(it, errors.Erased, source="draft")
        await refused(it, errors.Erased, source="draft", source_version=made)


@pytest.mark.rule("MERGE-3", "ERASE-1")
async def test_what_was_resolved_to_stay_absent_is_later_than_what_was_made_before() -> None:
    async with engine() as it:
        await it.structure(BranchCreate(name=DRAFT, parent=MAIN, fork=Version(1)))
        made = await it.must(set_(X, 1, blind=True), branch="draft")
        await erased(it, made)
        await it.must(set_(X, 2, blind=True), branch="draft")
        await draft_into_main(it, "first", source_version=made, resolutions={X: Missing.ABSENT})
        report = await draft_into_main(it, "second")
        assert ([one.winner for one in report.conflicts], await it.value(X)) == (["target"], None)


@pytest.mark.rule("MERGE-3")
async def test_equal_numbers_of_both_sides_are_one_change_only_if_nobody_counted() -> None:
    """Asks which commits the base knows, for numbers assigned on both sides and in an erasure."""
    async with engine() as it:
        await forked(it)
        for name in ("draft", "main"):
            await edit(it, name, replace("/n", 5))
            await edit(it, name, increment("/n"))
        report = await draft_into_main(it, strategy="fields")
        assert [(one.path, one.winner) for one in report.conflicts] == [("/n", "both")]
        assert await it.value(X) == {"a": 0, "b": 0, "n": 7}
