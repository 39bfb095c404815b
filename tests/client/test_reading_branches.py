"""Branches, tags and merges as a user makes them; what was done once is done once, whatever connections do."""

from __future__ import annotations

from typing import Any

import pytest

from requesters import PeerRequester, request_world
from service_peers import CAROL, SPACE, put, remove
from stemmadb.client.reading.branches import Branch, Branches, Tag, Tags
from stemmadb.client.reading.merge import MergeClash, PlannedWrite, merge
from stemmadb.client.reading.moment import Moment
from stemmadb.client.reading.past import log
from stemmadb.client.reading.plain import DELETED
from stemmadb.protocol.errors import (
    BranchDeleted,
    BranchExists,
    BranchProtected,
    Forbidden,
    FutureVersion,
    InvalidMerge,
    InvalidName,
    InvalidQuery,
    InvalidValue,
    MergeConflict,
    TagExists,
    UnknownBranch,
    UnknownTag,
)
from stemmadb.protocol.model.values.ids import MAIN, BranchName, EntityId, Version
from stemmadb.protocol.model.values.limits import Limits
from stemmadb.protocol.wire.messages.structure import CreateBranch, MergeRequest

X, Y, Z = "urn:x", "urn:y", "urn:z"
DRAFT = BranchName("draft")


@pytest.mark.rule("BRANCH-1")
async def test_branches_are_made_listed_and_ended() -> None:
    async with request_world(limits=Limits(page_max=1)) as it:
        branches = Branches(it.requester)
        await it.commit(put(X, 1))
        made = await branches.create("draft", note="try")
        assert made.version == 3
        await branches.create("old", parent="draft", fork=2)
        await it.commit(put(X, 2), branch="draft")
        draft = Branch(name=DRAFT, parent=MAIN, fork=Version(2), version=Version(5))
        old = Branch(name=BranchName("old"), parent=DRAFT, fork=Version(2), version=Version(0))
        main = Branch(name=MAIN, parent=None, fork=Version(0), version=Version(2))
        assert await branches.list() == [draft, main, old]
        await branches.delete("old")
        assert await branches.list() == [draft, main]
        assert [(one.name, one.deleted) for one in await branches.list(deleted=True)][-1] == ("old", 6)


async def test_what_cannot_be_done_with_branches_says_why() -> None:
    async with request_world() as it:
        branches = Branches(it.requester)
        await branches.create("draft")
        with pytest.raises(BranchExists):
            await branches.create("draft")
        with pytest.raises(UnknownBranch):
            await branches.create("a", parent="nowhere")
        with pytest.raises(FutureVersion):
            await branches.create("a", fork=99)
        with pytest.raises(BranchProtected):
            await branches.delete("main")
        with pytest.raises(InvalidName):
            await branches.create("no name")
        with pytest.raises(InvalidQuery):
            await branches.create("a", fork=-1)
        with pytest.raises(InvalidValue):
            await branches.create("a", note={1, 2})  # type: ignore[arg-type]
        await branches.delete("draft")
        with pytest.raises(BranchDeleted):
            await branches.delete("draft")
    async with request_world(CAROL) as it:
        with pytest.raises(Forbidden):
            await Branches(it.requester).create("draft")


@pytest.mark.rule("COMMIT-11")
async def test_a_write_whose_answer_was_lost_is_done_once() -> None:
    async with request_world() as it:
        it.requester.losses.extend(["answer", "question", "answer"])
        made = await Branches(it.requester).create("draft")
        assert it.requester.asked == [CreateBranch] * 4
        assert [entry.version for entry in await log(it.requester).all()] == [made.version, 1]


async def test_tags_are_made_listed_and_removed() -> None:
    async with request_world(limits=Limits(page_max=1)) as it:
        tags = Tags(it.requester)
        await it.commit(put(X, 1))
        await tags.create("b")
        await tags.create("a", version=1, note={"why": "first"})
        first = Tag(name=BranchName("a"), branch=MAIN, version=Version(1))
        assert (await tags.list())[0] == first
        assert [tag.name for tag in await tags.list()] == ["a", "b"]
        with pytest.raises(TagExists):
            await tags.create("a")
        await tags.delete("a")
        assert [tag.name for tag in await tags.list()] == ["b"]
        with pytest.raises(UnknownTag):
            await tags.delete("a")


@pytest.mark.rule("MERGE-1")
async def test_a_merge_brings_what_the_source_has_and_reports_what_both_changed() -> None:
    async with request_world() as it:
        await it.commit(put(X, 1), put(Y, 1))
        await Branches(it.requester).create("draft")
        await it.commit(put(X, 2), put(Z, 3), branch="draft")
        await it.commit(put(X, 5))
        report = await merge(it.requester, "draft", "main", note={"message": "bring it"})
        assert (report.version, report.source_version, report.target_version) == (6, 5, 5)
        clash = MergeClash(
            id=EntityId(X), path="", base=Version(2), source=Version(4), target=Version(5), winner="target"
        )
        assert (report.conflicts, report.conflicts_count, report.writes_count) == ((clash,), 1, 1)
        assert report.hash is not None
        assert await Moment(it.requester, branch=MAIN, space=SPACE.did).list("urn:*") == {X: 5, Y: 1, Z: 3}
        again = await merge(it.requester, "draft", "main")
        assert (again.version, again.conflicts, again.hash, again.time_ms) == (None, (), None, None)


@pytest.mark.rule("MERGE-4")
async def test_a_dry_run_says_what_would_be_written() -> None:
    async with request_world() as it:
        await it.commit(put(X, {"a": 1}), put(Y, 1))
        await Branches(it.requester).create("draft")
        await it.commit(put(X, {"a": 2}), remove(Y), put(Z, {"z": None}), branch="draft")
        report = await merge(it.requester, "draft", "main", dry_run=True)
        assert (report.version, report.writes_count) == (None, 3)
        assert report.writes == (
            PlannedWrite(id=EntityId(X), kind="patch", patch=[{"op": "replace", "path": "/a", "value": 2}]),
            PlannedWrite(id=EntityId(Y), kind="delete"),
            PlannedWrite(id=EntityId(Z), kind="set", value={"z": None}),
        )
        assert await Moment(it.requester, branch=MAIN, space=SPACE.did).get(X) == {"a": 1}


@pytest.mark.rule("MERGE-3")
async def test_conflicts_under_fail_come_with_the_error_and_resolutions_settle_them() -> None:
    async with request_world() as it:
        await it.commit(put(X, 1), put(Y, 1))
        await Branches(it.requester).create("draft")
        await it.commit(put(X, 2), put(Y, 2), branch="draft")
        await it.commit(put(X, 5), put(Y, 5))
        with pytest.raises(MergeConflict) as failed:
            await merge(it.requester, "draft", "main", strategy="fail")
        clashes = failed.value.facts["conflicts"]
        assert failed.value.facts["count"] == 2
        assert [(clash.id, clash.base, clash.source, clash.target) for clash in clashes] == [
            (X, 2, 4, 5),
            (Y, 2, 4, 5),
        ]
        assert all(isinstance(clash, MergeClash) for clash in clashes)
        report = await merge(it.requester, "draft", "main", strategy="fail", resolutions={X: {"both": 7}, Y: DELETED})
        assert [clash.winner for clash in report.conflicts] == ["resolution", "resolution"]
        assert await Moment(it.requester, branch=MAIN, space=SPACE.did).list("urn:*") == {X: {"both": 7}}


class Untold(PeerRequester):
    """A server whose conflicts cannot be read."""

    async def ask(self, *_: Any, **__: Any) -> Any:
        raise MergeConflict(count=1, conflicts=["many"])


async def test_conflicts_that_cannot_be_read_do_not_hide_the_error() -> None:
    async with request_world() as it:
        with pytest.raises(MergeConflict) as failed:
            await merge(Untold(it.harness), "draft", "main")
        assert failed.value.facts == {"count": 1, "conflicts": ()}


@pytest.mark.rule("MERGE-3")
async def test_the_strategy_and_the_version_of_the_source_are_given() -> None:
    async with request_world() as it:
        await it.commit(put(X, 1))
        await Branches(it.requester).create("draft")
        version = await it.commit(put(X, 2), branch="draft")
        await it.commit(put(X, 3), branch="draft")
        await it.commit(put(X, 5))
        report = await merge(it.requester, "draft", "main", strategy="source", source_version=version)
        assert report.source_version == version
        assert await Moment(it.requester, branch=MAIN, space=SPACE.did).get(X) == 2
        with pytest.raises(InvalidMerge, match="lww"):
            await merge(it.requester, "draft", "main", strategy="best")  # type: ignore[arg-type]
        with pytest.raises(InvalidMerge):
            await merge(it.requester, "main", "main")
        with pytest.raises(InvalidMerge):
            await merge(it.requester, "draft", "main", resolutions={"urn:no": None})


@pytest.mark.rule("COMMIT-11")
async def test_a_merge_whose_answer_was_lost_gives_the_same_report() -> None:
    async with request_world() as it:
        await it.commit(put(X, 1))
        await Branches(it.requester).create("draft")
        await it.commit(put(Y, 2), branch="draft")
        it.requester.asked.clear()
        it.requester.losses.append("answer")
        report = await merge(it.requester, "draft", "main")
        assert report.version == 5
        assert it.requester.asked == [MergeRequest] * 2
