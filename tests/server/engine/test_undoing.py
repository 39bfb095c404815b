"""Undo on a real space: versions, sessions and authors, what it refuses, and what overtakes it (COMMIT-9)."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from asking import Overtaken, asked, tip_of
from engines import Engine, engine
from merge_builders import increment, replace
from space import ALICE, BOB, SPACE, delete_, patch_, session_of, set_
from stemmadb.protocol import errors
from stemmadb.protocol.model.commit.stale_reads import StaleRead
from stemmadb.protocol.model.log.commit_record import BranchCreate, BranchDelete, Compact, Erase, Revert
from stemmadb.protocol.model.values.ids import MAIN, BranchName, Did, EntityId, Version
from stemmadb.protocol.model.values.limits import Limits
from stemmadb.server.engine.base.space_port import SpaceApi
from stemmadb.server.engine.plan.merge import MergeWanted, merge
from stemmadb.server.engine.plan.planned_write import ATTEMPTS_MAX
from stemmadb.server.engine.plan.undo import PlannedRevert, RevertWanted, revert
from stemmadb.server.storage.port import Destroyed, FactPosition

DRAFT = BranchName("draft")
X, Y = EntityId("urn:x"), EntityId("urn:y")
STRANGER = Did("did:key:z6MkpTHR8VNsBxYAAWHut2Geadd9jSwuBV8xRoAnwWsdvktH")


async def undo(
    it: Engine, *versions: int, operation: str = "u", space: SpaceApi | None = None, **how: Any
) -> PlannedRevert:
    wanted = RevertWanted(versions=tuple(map(Version, versions)), **how)
    return await revert(space or it.space, asked(operation), wanted)


async def put(it: Engine, id_: str, value: Any, **how: Any) -> Version:
    return await it.must(set_(id_, value, blind=True), **how)


async def edit(it: Engine, *operations: dict[str, Any], id_: str = X, **how: Any) -> Version:
    return await it.must(patch_(id_, *operations, blind=True), **how)


@pytest.mark.rule("COMMIT-9")
async def test_undoing_the_last_commit_gives_the_state_before_it() -> None:
    async with engine() as it:
        await put(it, X, {"a": 1})
        last = await it.must(patch_(X, replace("/a", 2), blind=True), set_(Y, 1, blind=True), delete_(X, blind=True))
        report = await undo(it, last)
        assert (await it.value(X), await it.value(Y)) == ({"a": 1}, None)
        assert (report.version, report.reverted) == (4, (last,))
        assert [(write.id, write.kind) for write in report.writes] == [(X, "set"), (Y, "delete")]


@pytest.mark.rule("COMMIT-9")
async def test_an_undo_is_a_commit_of_its_own() -> None:
    async with engine() as it:
        made = await put(it, X, 1)
        report = await revert(it.space, asked("u", author=BOB, note=b"\xa3why"), RevertWanted(versions=(made, made)))
        commit = (await it.space.read(lambda reader: reader.commits([Version(3)])))[Version(3)]
        assert (commit.version, commit.hash, commit.time) == (report.version, report.hash, report.time)
        assert (commit.author, commit.branch, commit.note) == (BOB, MAIN, b"\xa3why")
        assert commit.details == Revert(versions=(made,))


@pytest.mark.rule("COMMIT-9")
async def test_an_undo_undone_gives_the_state_back() -> None:
    async with engine() as it:
        await put(it, X, {"a": 1, "n": 1})
        made = await it.must(patch_(X, replace("/a", 2), increment("/n"), blind=True), set_(Y, 1, blind=True))
        undone = await undo(it, made)
        assert undone.version is not None
        await undo(it, undone.version, operation="redo")
        assert (await it.value(X), await it.value(Y)) == ({"a": 2, "n": 2}, 1)


@pytest.mark.rule("COMMIT-9")
async def test_a_merge_is_undone_like_a_commit() -> None:
    async with engine() as it:
        await put(it, X, {"a": 1})
        await it.structure(BranchCreate(name=DRAFT, parent=MAIN, fork=Version(2)))
        await edit(it, replace("/a", 2), branch="draft")
        report = await merge(it.space, asked("m"), MergeWanted(source=DRAFT))
        assert report.version is not None
        await undo(it, report.version)
        assert (await it.value(X), await it.value(X, "draft")) == ({"a": 1}, {"a": 2})


@pytest.mark.rule("COMMIT-9", "BRANCH-2")
async def test_what_was_made_before_a_fork_can_be_undone_on_the_branch_alone() -> None:
    async with engine() as it:
        await put(it, X, {"a": 1, "b": 1})
        made = await edit(it, replace("/a", 2))
        await it.structure(BranchCreate(name=DRAFT, parent=MAIN, fork=made))
        await edit(it, replace("/a", 3))
        await edit(it, replace("/b", 2), branch="draft")
        await undo(it, made, branch=DRAFT)
        assert (await it.value(X, "draft"), await it.value(X)) == ({"a": 1, "b": 2}, {"a": 3, "b": 1})


@pytest.mark.rule("COMMIT-9")
async def test_later_facts_on_the_same_paths_refuse_it_and_nothing_is_written() -> None:
    async with engine() as it:
        await put(it, X, {"a": 1, "b": 1})
        made = await it.must(patch_(X, replace("/a", 2), blind=True), set_(Y, 1, blind=True))
        winner = await edit(it, replace("/a", 3), author=BOB)
        last = await edit(it, replace("/b", 3))
        before = await tip_of(it.space)
        with pytest.raises(errors.Conflict) as caught:
            await undo(it, made)
        stale = StaleRead(branch=MAIN, id=X, path="/a", read=made, head=last, winner=winner, author=BOB)
        assert (caught.value.facts["stale"], await tip_of(it.space)) == ((stale,), before)
        await undo(it, made, winner)
        assert (await it.value(X), await it.value(Y)) == ({"a": 1, "b": 3}, None)


@pytest.mark.rule("COMMIT-9")
async def test_all_of_a_session_is_undone() -> None:
    async with engine() as it:
        await put(it, X, {"a": 0, "b": 0})
        for number in range(1, 4):
            await edit(it, replace("/a", number), session="wrong")
            await edit(it, replace("/b", number), session="right")
        report = await undo(it, session=session_of("wrong"))
        assert (report.reverted, await it.value(X)) == ((3, 5, 7), {"a": 0, "b": 3})


@pytest.mark.rule("COMMIT-9")
async def test_all_of_an_author_after_a_version_is_undone() -> None:
    async with engine() as it:
        await put(it, X, {"a": 0, "b": 0})
        first = await edit(it, replace("/a", 1), author=BOB)
        second = await edit(it, replace("/a", 2), author=BOB)
        third = await put(it, Y, 1, author=BOB)
        await edit(it, replace("/b", 1), author=ALICE)
        report = await undo(it, author=BOB, since=first)
        assert (report.reverted, await it.value(X), await it.value(Y)) == ((second, third), {"a": 1, "b": 1}, None)


@pytest.mark.rule("COMMIT-9", "BRANCH-2")
async def test_an_authors_work_is_undone_as_far_as_the_branch_sees_it() -> None:
    async with engine() as it:
        seen = await put(it, X, 1, author=BOB)
        await it.structure(BranchCreate(name=DRAFT, parent=MAIN, fork=seen))
        await put(it, Y, 1, author=BOB)
        own = await put(it, Y, 2, author=BOB, branch="draft")
        assert (await undo(it, author=BOB, branch=DRAFT)).reverted == (seen, own)
        assert [await it.value(id_, branch) for branch in ("main", "draft") for id_ in (X, Y)] == [1, 1, None, None]


@pytest.mark.rule("COMMIT-9")
async def test_an_authors_own_undo_is_undone_with_the_rest() -> None:
    async with engine() as it:
        await put(it, X, 0)
        made = await put(it, X, 1, author=BOB)
        await revert(it.space, asked("b", author=BOB), RevertWanted(versions=(made,)))
        last = await put(it, X, 2, author=BOB)
        assert (await undo(it, author=BOB)).reverted == (made, 4, last)
        assert await it.value(X) == 0


@pytest.mark.rule("COMMIT-9")
async def test_a_session_and_an_author_together_must_both_hold() -> None:
    async with engine() as it:
        await put(it, X, 1, author=ALICE, session="s")
        mine = await put(it, Y, 1, author=BOB, session="s")
        await put(it, "urn:z", 1, author=BOB, session="t")
        assert (await undo(it, author=BOB, session=session_of("s"))).reverted == (mine,)


@pytest.mark.rule("COMMIT-9")
async def test_many_commits_and_long_pasts_are_read_in_pages() -> None:
    async with engine() as it:
        await put(it, X, {"n": 0, "m": 0})
        for _ in range(300):
            await edit(it, increment("/n"), session="wrong")
            await edit(it, increment("/m"), session="right")
        report = await undo(it, session=session_of("wrong"))
        assert (len(report.reverted), await it.value(X)) == (300, {"n": 0, "m": 300})


@pytest.mark.rule("COMMIT-9")
async def test_nothing_to_undo_writes_nothing() -> None:
    async with engine() as it:
        first, second = await put(it, X, {"a": 1}), await edit(it, replace("/a", 1))
        before = await tip_of(it.space)
        assert await undo(it, session=session_of("nobody's")) == PlannedRevert()
        assert await undo(it, author=ALICE, since=second) == PlannedRevert()
        assert await undo(it, second) == PlannedRevert()
        assert (first, await tip_of(it.space)) == (2, before)


@pytest.mark.rule("COMMIT-9")
async def test_the_access_list_is_passed_by() -> None:
    async with engine() as it:
        before = await tip_of(it.space)
        assert await undo(it, 1) == PlannedRevert()
        assert await undo(it, author=SPACE) == PlannedRevert()
        assert await tip_of(it.space) == before


async def refused(it: Engine, kind: type[errors.StemmaError], who: Did = ALICE, **wanted: Any) -> None:
    before = await tip_of(it.space)
    for dry_run in (False, True):
        with pytest.raises(kind):
            await revert(it.space, asked("bad", author=who), RevertWanted(**wanted), dry_run=dry_run)
    assert await tip_of(it.space) == before


@pytest.mark.rule("COMMIT-9")
@pytest.mark.parametrize(
    ("kind", "wanted"),
    [
        (errors.Malformed, {}),
        (errors.Malformed, {"versions": (2,), "author": ALICE}),
        (errors.Malformed, {"versions": (2,), "session": b"s" * 16}),
        (errors.Malformed, {"versions": (2,), "since": 1}),
        (errors.Malformed, {"since": 1}),
        (errors.Malformed, {"versions": (0,)}),
        (errors.Malformed, {"versions": (2, -1)}),
        (errors.FutureVersion, {"versions": (2, 99)}),
        (errors.Malformed, {"versions": (2, 3)}),  # a branch was made
        (errors.Malformed, {"versions": (4,)}),  # on another branch
        (errors.Malformed, {"versions": (5,)}),  # an erasure that set a value
        (errors.UnknownBranch, {"versions": (2,), "branch": "nowhere"}),
        (errors.BranchDeleted, {"versions": (2,), "branch": "ended"}),
    ],
)
async def test_an_undo_that_cannot_be_is_refused_and_writes_nothing(
    kind: type[errors.StemmaError], wanted: dict[str, Any]
) -> None:
    async with engine() as it:
        await put(it, X, 1)
        await it.structure(BranchCreate(name=DRAFT, parent=MAIN, fork=Version(2)))
        await put(it, X, 2, branch="draft")
        await erase_with_survivor(it)
        await it.structure(BranchCreate(name=BranchName("ended"), parent=MAIN, fork=Version(2)))
        await it.structure(BranchDelete(name=BranchName("ended")))
        await refused(it, kind, **wanted)


@pytest.mark.rule("ACL-1")
async def test_a_stranger_is_told_nothing_but_that() -> None:
    async with engine() as it:
        await refused(it, errors.Forbidden, STRANGER, versions=(99,))


async def erase_with_survivor(it: Engine) -> None:
    proposal = it.propose(set_(Y, 1, blind=True))
    made = asked("erase")
    details = Erase(id=Y, versions=(Version(2),))
    outcome = await it.space.decide(
        msgspec.structs.replace(proposal, identity=made.identity, request=made.request, branch=None, details=details)
    )
    assert not isinstance(outcome, errors.StemmaError)


@pytest.mark.rule("COMMIT-9")
async def test_an_authors_erasures_are_not_undone() -> None:
    async with engine() as it:
        made = await put(it, X, 1)
        await erase_with_survivor(it)
        assert (await undo(it, author=ALICE)).reverted == (made,)
        assert (await it.value(X), await it.value(Y)) == (None, 1)


@pytest.mark.rule("COMMIT-9", "ERASE-1")
async def test_an_erased_fact_is_not_undone() -> None:
    async with engine() as it:
        await put(it, X, 1)
        made = await put(it, X, 2)
        await put(it, X, 3)
        await it.structure(Erase(id=X, versions=(made,)), destroyed=Destroyed(facts=[FactPosition(made, 0)]))
        await refused(it, errors.Erased, versions=(made,))
        await refused(it, errors.Erased, versions=(Version(4),))


@pytest.mark.rule("COMMIT-9", "COMPACT-1")
async def test_a_state_that_was_compacted_away_is_not_given_back() -> None:
    async with engine() as it:
        first = await put(it, X, 1)
        second = await put(it, X, 2)
        await it.structure(
            Compact(floor=second), destroyed=Destroyed(facts=[FactPosition(first, 0)], snapshots_below=second)
        )
        await refused(it, errors.Compacted, versions=(second,))
        await refused(it, errors.Compacted, versions=(first, second))


async def test_what_one_undo_does_is_bounded() -> None:
    async with engine(limits=Limits(bulk_operations_max=2)) as it:
        for number in range(3):
            await put(it, X, number, session="one")
        made = await it.must(*(set_(f"urn:y:{number}", 1, blind=True) for number in range(3)))
        await refused(it, errors.LimitExceeded, versions=(2, 3, 4))
        await refused(it, errors.LimitExceeded, session=session_of("one"))
        await refused(it, errors.LimitExceeded, versions=(made,))
        assert (await undo(it, session=session_of("one"), since=Version(2))).reverted == (3, 4)


@pytest.mark.rule("COMMIT-9")
async def test_a_dry_run_predicts_exactly_what_the_undo_writes() -> None:
    async with engine() as it:
        await put(it, X, {"a": 1})
        made = await it.must(patch_(X, replace("/a", 2), blind=True), set_(Y, 1, blind=True))
        before = await tip_of(it.space)
        dry = await revert(it.space, asked("u"), RevertWanted(versions=(made,)), dry_run=True)
        assert (dry.version, dry.hash, dry.time, await tip_of(it.space)) == (None, None, None, before)
        report = await undo(it, made)
        assert (report.writes, report.reverted) == (dry.writes, dry.reverted)


@pytest.mark.rule("COMMIT-11")
async def test_an_undo_that_is_sent_again_is_answered_from_its_record() -> None:
    async with engine() as it:
        made = await put(it, X, 1)
        first = await undo(it, made)
        await put(it, X, 2)
        before = await tip_of(it.space)
        assert (await undo(it, made), await tip_of(it.space)) == (first, before)
        with pytest.raises(errors.IdentityClash):
            await revert(it.space, asked("u", request="another"), RevertWanted(versions=(made,)))


@pytest.mark.rule("COMMIT-9")
async def test_an_undo_that_was_overtaken_is_planned_again_and_work_elsewhere_does_not_stop_it() -> None:
    async with engine() as it:
        await put(it, X, {"a": 1, "n": 1, "b": 1})
        made = await edit(it, replace("/a", 2), increment("/n"))
        work = [increment("/n", 5), replace("/b", 2)]

        async def meanwhile() -> None:
            if work:
                await edit(it, work.pop(0))

        space = Overtaken(it.space, meanwhile)
        await undo(it, made, space=space)
        assert (space.decisions, await it.value(X)) == (2, {"a": 1, "n": 6, "b": 2})


@pytest.mark.rule("COMMIT-9")
async def test_what_is_touched_between_the_plan_and_the_decision_refuses_it() -> None:
    async with engine() as it:
        await put(it, X, {"a": 1})
        made = await edit(it, replace("/a", 2))
        space = Overtaken(it.space, lambda: edit(it, replace("/a", 3)))
        with pytest.raises(errors.Conflict) as caught:
            await undo(it, made, space=space)
        assert (caught.value.facts["stale"][0].winner, space.decisions) == (4, 1)
        assert await it.value(X) == {"a": 3}


@pytest.mark.rule("COMMIT-9")
async def test_an_undo_that_is_overtaken_each_time_is_given_up() -> None:
    async with engine() as it:
        await put(it, X, {"n": 1})
        made = await edit(it, increment("/n"))
        space = Overtaken(it.space, lambda: edit(it, increment("/n")))
        with pytest.raises(errors.MergeBusy):
            await undo(it, made, space=space)
        assert (space.decisions, await it.value(X)) == (ATTEMPTS_MAX, {"n": 2 + ATTEMPTS_MAX})
