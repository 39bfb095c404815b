"""Requests that write beside fast-path commits: what they do and answer, and that each is done once (COMMIT-11)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable

import msgspec
import pytest

from engines import turns
from request_harness import CAROL, ROLES, RequestHarness, request_harness, writing
from space import ALICE, BOB, SPACE, set_
from stemmadb.protocol import errors
from stemmadb.protocol.model.commit.admission import RefusedCommit
from stemmadb.protocol.model.log.commit_record import Contested, Revoke
from stemmadb.protocol.model.values.body import encode
from stemmadb.protocol.model.values.ids import BranchName, EntityId, Hash, Version
from stemmadb.protocol.model.values.limits import Limits
from stemmadb.protocol.wire.messages.access import RevokeRequest
from stemmadb.protocol.wire.messages.base import WriteRequest
from stemmadb.protocol.wire.messages.reading import LogRequest
from stemmadb.protocol.wire.messages.structure import (
    CompactRequest,
    CreateBranch,
    CreateTag,
    DeleteBranch,
    DeleteTag,
    EraseRequest,
    ListTags,
    MergeRequest,
    MergeWrite,
    Resolution,
    RevertRequest,
    Survivor,
    operation_digest,
)

ONE, TWO = EntityId("urn:todo:1"), EntityId("urn:todo:2")
MAIN, DRAFT, OLD = BranchName("main"), BranchName("draft"), BranchName("old")
TAG = BranchName("v1")
NOTE = encode({"message": "why"})


@pytest.fixture
async def it() -> AsyncIterator[RequestHarness]:
    """Version 2 writes two entities; `draft` and main changed one of them each their own way, `old` is a branch."""
    async with request_harness() as made:
        await made.engine.must(set_(ONE, {"n": 0}, blind=True), set_(TWO, "two", blind=True))
        await made.ask(CreateBranch(**writing("draft"), name=DRAFT))
        await made.ask(CreateBranch(**writing("old"), name=OLD))
        await made.ask(CreateTag(**writing("tag"), name=TAG))
        await made.engine.must(set_(ONE, {"n": 1}, blind=True), branch="draft")
        await made.engine.must(set_(ONE, {"n": 2}, blind=True))
        await made.engine.must(set_("urn:todo:3", 3, blind=True), branch="draft")
        assert made.engine.space.version == 8
        yield made


WRITES: list[Callable[[], WriteRequest]] = [
    lambda: CreateBranch(**writing("again"), name=BranchName("new"), parent=DRAFT, fork=Version(6), note=NOTE),
    lambda: CreateBranch(**writing("again"), name=BranchName("new")),
    lambda: DeleteBranch(**writing("again"), name=OLD, note=NOTE),
    lambda: CreateTag(**writing("again"), name=BranchName("v2"), branch=DRAFT, version=Version(6), note=NOTE),
    lambda: DeleteTag(**writing("again"), name=TAG, note=NOTE),
    lambda: MergeRequest(**writing("again"), source=DRAFT, resolutions=(Resolution(id=ONE),), note=NOTE),
    lambda: RevertRequest(**writing("again"), versions=(Version(7),), note=NOTE),
    lambda: EraseRequest(**writing("again"), entity=TWO, versions=(Version(2),), note=NOTE),
    lambda: CompactRequest(**writing("again"), floor=Version(2), note=NOTE),
    lambda: RevokeRequest(**writing("again"), delegation=Hash(b"d" * 32)),
]


@pytest.mark.rule("COMMIT-11")
@pytest.mark.parametrize("make", WRITES)
async def test_a_write_is_done_once_and_answered_the_same_each_time(
    it: RequestHarness, make: Callable[[], WriteRequest]
) -> None:
    request = make()
    first = await it.ask(request)
    assert first.version == it.engine.space.version == 9
    await it.engine.must(set_("urn:other", 1, blind=True))
    again = await it.ask(msgspec.structs.replace(request, id=2))
    if isinstance(request, CompactRequest):  # what was removed is told once
        first, again = ((one.version, one.hash, one.time, one.floor) for one in (first, again))
    assert again == first
    assert it.engine.space.version == 10


@pytest.mark.rule("COMMIT-11")
@pytest.mark.parametrize("make", WRITES)
async def test_the_log_keeps_the_digest_the_author_and_the_note_of_a_write(
    it: RequestHarness, make: Callable[[], WriteRequest]
) -> None:
    request = make()
    answer = await it.ask(request)
    (entry,) = (await it.ask(LogRequest(id=1, limit=1))).entries
    assert (entry.hash, entry.time, entry.version) == (answer.hash, answer.time, 9)
    assert (entry.request, entry.operation, entry.author) == (operation_digest(request), request.operation, ALICE)
    assert entry.note == getattr(request, "note", None)


@pytest.mark.rule("COMMIT-11", "ACL-1")
@pytest.mark.parametrize("make", WRITES)
async def test_one_who_lost_its_rights_still_learns_what_became_of_its_write(
    it: RequestHarness, make: Callable[[], WriteRequest]
) -> None:
    await it.engine.must(set_(SPACE, {**ROLES, CAROL: "own"}, blind=True))
    request = make()
    first = await it.ask(request, by=CAROL)
    await it.engine.must(set_(SPACE, {SPACE: "own", ALICE: "own"}, blind=True))
    again = await it.ask(request, by=CAROL)
    assert (again.version, again.hash, again.time) == (first.version, first.hash, first.time)
    other = msgspec.structs.replace(request, operation=b"another operation"[:16])
    with pytest.raises(errors.Forbidden):
        await it.ask(other, by=CAROL)


async def test_branches_and_tags_come_and_go(it: RequestHarness) -> None:
    await it.ask(CreateBranch(**writing("1"), name=BranchName("new"), parent=DRAFT, fork=Version(6)))
    assert await it.engine.value(ONE, branch="new") == {"n": 1}
    assert await it.engine.value("urn:todo:3", branch="new") is None
    await it.ask(DeleteBranch(**writing("2"), name=BranchName("new")))
    assert isinstance(await it.engine.commit(set_(ONE, 1, blind=True), branch="new"), RefusedCommit)
    with pytest.raises(errors.BranchExists):
        await it.ask(CreateBranch(**writing("3"), name=BranchName("new")))
    await it.ask(DeleteTag(**writing("4"), name=TAG))
    assert (await it.ask(ListTags(id=1))).tags == ()
    await it.ask(CreateTag(**writing("5"), name=TAG, version=Version(2)))
    with pytest.raises(errors.TagExists):
        await it.ask(CreateTag(**writing("6"), name=TAG))


@pytest.mark.rule("MERGE-1", "MERGE-3", "MERGE-4")
async def test_a_merge_tells_its_conflicts_and_a_dry_run_exactly_what_it_would_write(it: RequestHarness) -> None:
    predicted = await it.ask(MergeRequest(**writing("dry"), source=DRAFT, strategy="source", dry_run=True), by=BOB)
    conflict = Contested(
        id=ONE,
        base=Version(2),
        source=Version(6),
        target=Version(7),
        winner="source",
        path=predicted.conflicts[0].path,
    )
    assert (predicted.version, predicted.hash, predicted.time) == (None, None, None)
    assert (predicted.conflicts_count, predicted.conflicts) == (1, (conflict,))
    assert predicted.writes_count == 2
    assert predicted.writes[1] == MergeWrite(id=EntityId("urn:todo:3"), kind="set", body=encode(3))
    assert it.engine.space.version == 8
    done = await it.ask(MergeRequest(**writing("merge"), source=DRAFT, strategy="source"), by=BOB)
    assert (done.version, done.source_version, done.target_version) == (9, 8, 8)
    assert (done.conflicts, done.writes_count, done.writes) == ((conflict,), 2, ())
    assert await it.engine.value(ONE) == {"n": 1}
    assert it.context.merges._known.upto == 8, "what was read of the merges is kept"


@pytest.mark.rule("MERGE-3")
async def test_a_resolution_is_a_value_null_or_a_delete(it: RequestHarness) -> None:
    merge = MergeRequest(**writing("1"), source=DRAFT, dry_run=True)
    for resolution, write in (
        (Resolution(id=ONE, body=encode("mine")), MergeWrite(id=ONE, kind="set", body=encode("mine"))),
        (Resolution(id=ONE, body=encode(None)), MergeWrite(id=ONE, kind="set", body=encode(None))),
        (Resolution(id=ONE), MergeWrite(id=ONE, kind="delete")),
    ):
        report = await it.ask(msgspec.structs.replace(merge, resolutions=(resolution,)))
        assert report.writes[0] == write
        assert report.conflicts[0].winner == "resolution"


@pytest.mark.rule("COMMIT-11")
async def test_a_merge_that_is_repeated_is_not_measured_by_bounds_that_were_lowered(it: RequestHarness) -> None:
    resolution = Resolution(id=ONE, body=encode("x" * 100))
    request = MergeRequest(**writing("1"), source=DRAFT, resolutions=(resolution,))
    first = await it.ask(request)
    it.context.space.limits = msgspec.structs.replace(it.context.space.limits, value_bytes_max=10)
    assert (await it.ask(request)).hash == first.hash


@pytest.mark.rule("MERGE-3")
async def test_a_merge_that_shall_fail_on_conflicts_fails(it: RequestHarness) -> None:
    with pytest.raises(errors.MergeConflict) as raised:
        await it.ask(MergeRequest(**writing("1"), source=DRAFT, strategy="fail"))
    assert raised.value.facts["count"] == 1
    assert [one.id for one in raised.value.facts["conflicts"]] == [ONE]
    assert it.engine.space.version == 8


async def test_a_merge_that_brings_nothing_writes_nothing(it: RequestHarness) -> None:
    await it.ask(MergeRequest(**writing("1"), source=DRAFT))
    report = await it.ask(MergeRequest(**writing("2"), source=DRAFT))
    assert (report.version, report.writes_count) == (None, 0)
    assert it.engine.space.version == 9


async def test_reports_are_cut_at_a_page_and_their_counts_are_not() -> None:
    async with request_harness(limits=Limits(page_max=3)) as it:
        ids = [f"urn:n:{n}" for n in range(5)]
        await it.engine.must(*[set_(id_, 0, blind=True) for id_ in ids])
        await it.ask(CreateBranch(**writing("1"), name=DRAFT))
        await it.engine.must(*[set_(id_, 1, blind=True) for id_ in ids], branch="draft")
        await it.engine.must(*[set_(id_, 2, blind=True) for id_ in ids])
        merge = MergeRequest(**writing("2"), source=DRAFT, strategy="source", dry_run=True)
        report = await it.ask(merge)
        assert (report.conflicts_count, report.writes_count) == (5, 5)
        assert (len(report.conflicts), len(report.writes)) == (3, 3)
        undone = await it.ask(RevertRequest(**writing("3"), versions=(Version(5),), dry_run=True))
        assert (undone.writes_count, len(undone.writes), undone.reverted) == (5, 3, (5,))
        with pytest.raises(errors.MergeConflict) as raised:
            await it.ask(msgspec.structs.replace(merge, strategy="fail"))
        assert (raised.value.facts["count"], len(raised.value.facts["conflicts"])) == (5, 3)


async def test_reports_are_cut_where_a_message_would_grow_too_large() -> None:
    async with request_harness(limits=Limits(part_bytes_max=8_000, message_bytes_max=30_000)) as it:
        await it.ask(CreateBranch(**writing("1"), name=DRAFT))
        for number in range(5):
            await it.engine.must(set_(f"urn:n:{number}", "x" * 9_000, blind=True), branch="draft")
        report = await it.ask(MergeRequest(**writing("2"), source=DRAFT, dry_run=True))
        assert (report.writes_count, len(report.writes)) == (5, 1)


@pytest.mark.rule("COMMIT-9")
async def test_a_revert_undoes_versions_a_session_or_an_author(it: RequestHarness) -> None:
    predicted = await it.ask(RevertRequest(**writing("1"), versions=(Version(7),), dry_run=True), by=BOB)
    assert predicted.writes == (MergeWrite(id=ONE, kind="set", body=encode({"n": 0})),)
    assert (predicted.version, predicted.reverted) == (None, (7,))
    done = await it.ask(RevertRequest(**writing("2"), versions=(Version(7),)), by=BOB)
    assert (done.version, done.reverted, done.writes_count, done.writes) == (9, (7,), 1, ())
    await it.engine.must(set_("urn:b", 1, blind=True), author=BOB, session="b")
    by_author = await it.ask(RevertRequest(**writing("3"), author=BOB, since=Version(9)))
    assert by_author.reverted == (10,)
    nothing = await it.ask(RevertRequest(**writing("4"), session=b"?" * 16))
    assert (nothing.version, nothing.reverted) == (None, ())
    await it.ask(RevertRequest(**writing("5"), branch=DRAFT, versions=(Version(8),)))
    assert await it.engine.value("urn:todo:3", branch="draft") is None


@pytest.mark.rule("ERASE-1")
async def test_an_erasure_destroys_and_leaves_the_survivors(it: RequestHarness) -> None:
    survivors = (Survivor(branch=MAIN, body=encode("rest")), Survivor(branch=DRAFT))
    answer = await it.ask(EraseRequest(**writing("1"), entity=TWO, versions=(Version(2),), survivors=survivors))
    assert (answer.version, answer.erased) == (9, 1)
    assert await it.engine.value(TWO) == "rest"
    assert await it.engine.value(TWO, branch="draft") is None


@pytest.mark.rule("COMPACT-1")
async def test_a_compaction_tells_the_floor_and_what_went() -> None:
    async with request_harness() as it:
        for number in range(4):
            await it.engine.must(set_(ONE, "x" * (100 + number), blind=True))
        answer = await it.ask(CompactRequest(**writing("1"), floor=Version(5)))
        assert (answer.version, answer.floor, answer.bodies, answer.blobs) == (6, 5, 3, 0)
        assert answer.bytes >= 300


@pytest.mark.rule("ACL-1")
async def test_a_revocation_is_in_the_log(it: RequestHarness) -> None:
    await it.ask(RevokeRequest(**writing("1"), delegation=Hash(b"d" * 32)))
    (entry,) = (await it.ask(LogRequest(id=1, limit=1))).entries
    assert entry.kind == "revoke"
    assert entry.arguments == encode(Revoke(delegation=Hash(b"d" * 32)))


async def test_an_erasure_takes_blobs_with_everything_sent_of_them(it: RequestHarness) -> None:
    stored = await it.context.blobs.put(b"secret")
    request = EraseRequest(**writing("1"), entity=TWO, versions=(Version(2),), blobs=(stored.hash,))
    await it.ask(request)
    with pytest.raises(errors.UnknownBlob):
        await it.context.blobs.stat(stored.hash)
    await it.context.blobs.begin(stored.hash, size=6)
    await it.context.blobs.chunk(stored.hash, offset=0, data=b"sec")
    assert await it.ask(request)
    assert (await it.context.blobs.begin(stored.hash, size=6)).offset == 0


async def test_the_access_list_is_neither_erased_nor_merged_nor_reverted(it: RequestHarness) -> None:
    with pytest.raises(errors.Forbidden):
        await it.ask(EraseRequest(**writing("1"), entity=EntityId(SPACE), versions=(Version(1),)))
    await it.engine.must(set_(SPACE, {**ROLES, BOB: "read"}, blind=True))
    nothing = await it.ask(RevertRequest(**writing("2"), author=ALICE, since=Version(8)))
    assert nothing.version is None
    await turns()
    assert (await it.engine.value(SPACE))[BOB] == "read"
