"""Who is answered what: by role, and by the ids that a right is narrowed to (ACL-1, ACL-2)."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator, Callable
from itertools import chain
from pathlib import Path
from typing import Any

import msgspec
import pytest

from blob_space import SMALL, name_of
from request_harness import CAROL, STRANGER, TODO_ONLY, RequestHarness, request_harness, writing
from space import ALICE, BOB, SPACE, delete_, set_
from stemmadb.protocol import errors
from stemmadb.protocol.errors import Forbidden, StemmaError
from stemmadb.protocol.model.access.access_roles import NOBODY, Rights
from stemmadb.protocol.model.query.query import Query, Root
from stemmadb.protocol.model.values.ids import BranchName, EntityId, Hash, Version
from stemmadb.protocol.model.values.limits import DEFAULTS
from stemmadb.protocol.wire.messages.access import AclAnswer, AclRequest, RevokeRequest
from stemmadb.protocol.wire.messages.base import PagedRequest, Request
from stemmadb.protocol.wire.messages.blobs import BlobBegin, BlobChunk, BlobEnd, BlobRead
from stemmadb.protocol.wire.messages.overview import CountRequest, PrefixesRequest
from stemmadb.protocol.wire.messages.reading import (
    BlameRequest,
    DiffRequest,
    HistogramRequest,
    HistoryRequest,
    LogRequest,
    Moment,
    QueryRequest,
    UnresolvedLink,
)
from stemmadb.protocol.wire.messages.structure import (
    CompactRequest,
    CreateBranch,
    CreateTag,
    DeleteBranch,
    DeleteTag,
    EraseRequest,
    ListBranches,
    ListTags,
    MergeRequest,
    Resolution,
    RevertRequest,
)
from stemmadb.server.engine.base.paging import anything
from stemmadb.server.service.base.request_context import Caller
from stemmadb.server.service.requests import readable_ids, redaction
from stemmadb.server.storage.memory import MemoryStorage
from stemmadb.server.storage.port import Storage
from stemmadb.server.storage.sqlite import SqliteStorage

ONE, SECRET = EntityId("urn:todo:1"), EntityId("urn:secret:1")
DRAFT = BranchName("draft")
EVERYTHING = QueryRequest(id=1, query=Query((Root("*"),)))
READS_TODO = Rights("read", ("urn:todo:",))


@pytest.fixture
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> Storage:
    return SqliteStorage(tmp_path) if getattr(request, "param", "memory") == "sqlite" else MemoryStorage()


@pytest.fixture
async def it(storage: Storage) -> AsyncIterator[RequestHarness]:
    """Versions 2 to 7: what may be read and what may not, in the same commits and in others, on two branches."""
    async with request_harness(storage) as made:
        await made.engine.must(set_(ONE, 1, blind=True), set_(SECRET, 1, blind=True))
        await made.ask(CreateBranch(**writing("draft"), name=DRAFT))
        await made.engine.must(set_(SECRET, 2, blind=True), set_(ONE, 2, blind=True), branch="draft")
        await made.engine.must(set_(SECRET, 3, blind=True))
        await made.engine.must(set_("urn:todo:2", 1, blind=True))
        await made.engine.must(set_("urn:secret:2", 1, blind=True), branch="draft")
        await made.context.blobs.put(SMALL)
        yield made


READS: list[Request] = [
    EVERYTHING,
    QueryRequest(id=1, query=Query((Root("*", "", True),))),
    HistoryRequest(id=1, entity=ONE),
    LogRequest(id=1),
    DiffRequest(id=1, left=Moment(), right=Moment(branch=DRAFT)),
    BlameRequest(id=1, entity=ONE),
    HistogramRequest(id=1),
    HistogramRequest(id=1, by="time", prefix="urn:"),
    CountRequest(id=1, query=Query((Root("*"),))),
    PrefixesRequest(id=1),
    msgspec.structs.replace(EVERYTHING, shape="ids"),
    msgspec.structs.replace(EVERYTHING, shape="preview"),
    ListBranches(id=1),
    ListTags(id=1),
    AclRequest(id=1),
    BlobRead(id=1, blob=name_of(SMALL)),
]
PREVIEWS: list[Request] = [
    MergeRequest(**writing("o"), source=DRAFT, dry_run=True),
    RevertRequest(**writing("o"), versions=(Version(6),), dry_run=True),
]
WRITES: list[Request] = [
    CreateBranch(**writing("o"), name=BranchName("new")),
    DeleteBranch(**writing("o"), name=DRAFT),
    CreateTag(**writing("o"), name=BranchName("v1")),
    MergeRequest(**writing("o"), source=DRAFT),
    RevertRequest(**writing("o"), versions=(Version(6),)),
    BlobBegin(id=1, blob=name_of(b"other"), size=5),
]
OWNERS: list[Request] = [
    EraseRequest(**writing("o"), entity=ONE, versions=(Version(2),)),
    CompactRequest(**writing("o"), floor=Version(3)),
    RevokeRequest(**writing("o"), delegation=Hash(b"d" * 32)),
]
FAILING: list[Request] = [
    CreateBranch(**writing("o"), name=DRAFT),
    CreateTag(**writing("o"), name=BranchName("v1"), version=Version(99)),
    DeleteTag(**writing("o"), name=BranchName("no")),
    DeleteBranch(**writing("o"), name=BranchName("no")),
    MergeRequest(**writing("o"), source=BranchName("no")),
    MergeRequest(**writing("o"), source=DRAFT, strategy="fail"),
    RevertRequest(**writing("o"), versions=(Version(99),)),
    BlobChunk(id=1, blob=Hash(b"?" * 32), offset=0, data=b""),
    BlobEnd(id=1, blob=Hash(b"?" * 32)),
]
FAILING_OWNERS: list[Request] = [
    EraseRequest(**writing("o"), entity=ONE, versions=(Version(99),)),
    EraseRequest(**writing("o"), entity=ONE, versions=(Version(2),), blobs=(Hash(b"?" * 32),)),
    CompactRequest(**writing("o"), floor=Version(99)),
]


async def refusal(it: RequestHarness, request: Request, **who: Any) -> StemmaError:
    before = it.engine.space.version
    with pytest.raises(StemmaError) as raised:
        await it.ask(request, **who)
    assert it.engine.space.version == before
    return raised.value


@pytest.mark.rule("ACL-2")
@pytest.mark.parametrize("request_", [*READS, HistoryRequest(id=1, entity=EntityId("urn:no"))])
async def test_one_without_a_role_reads_nothing(it: RequestHarness, request_: Request) -> None:
    error = await refusal(it, request_, by=STRANGER)
    assert isinstance(error, Forbidden)
    assert error.facts == {"action": "read", "needs": "read"}


@pytest.mark.rule("ACL-1", "ACL-2")
@pytest.mark.parametrize("request_", [*WRITES, *FAILING])
@pytest.mark.parametrize("who", [STRANGER, CAROL], ids=["stranger", "reader"])
async def test_one_who_may_not_write_is_told_that_and_nothing_else(
    it: RequestHarness, request_: Request, who: Any
) -> None:
    error = await refusal(it, request_, by=who)
    assert isinstance(error, Forbidden)
    assert error.facts["needs"] == "write"


@pytest.mark.rule("ACL-1", "MERGE-4")
@pytest.mark.parametrize("request_", PREVIEWS)
async def test_a_reader_of_everything_previews_what_a_writer_would(it: RequestHarness, request_: Request) -> None:
    shown = await it.ask(request_, by=CAROL)
    assert shown == await it.ask(request_, by=BOB)
    assert shown.writes
    for rights in (READS_TODO, Rights("read", ()), NOBODY):
        assert isinstance(await refusal(it, request_, by=CAROL, rights=rights), Forbidden)
    assert isinstance(await refusal(it, request_, by=STRANGER), Forbidden)
    assert len(it.context.previews) == 0


@pytest.mark.rule("ACL-1")
async def test_a_preview_looks_at_no_more_than_a_query(it: RequestHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    await it.engine.must(*[set_(f"urn:n:{n}", n, blind=True) for n in range(12)], branch="draft")
    monkeypatch.setattr("stemmadb.server.engine.plan.planned_write.VISITS_PER_ENTITY_MAX", 0.001)
    error = await refusal(it, MergeRequest(**writing("o"), source=DRAFT, dry_run=True), by=CAROL)
    assert isinstance(error, errors.LimitExceeded)
    assert error.facts["bound"] == "query_visits_max"
    assert (await it.ask(MergeRequest(**writing("w"), source=DRAFT), by=BOB)).version is not None


@pytest.mark.rule("ACL-1", "ACL-2")
@pytest.mark.parametrize("request_", [*OWNERS, *FAILING_OWNERS])
@pytest.mark.parametrize("who", [STRANGER, CAROL, BOB], ids=["stranger", "reader", "writer"])
async def test_one_who_does_not_own_the_space_destroys_nothing(
    it: RequestHarness, request_: Request, who: Any
) -> None:
    error = await refusal(it, request_, by=who)
    assert isinstance(error, Forbidden)
    assert error.facts == {"action": "write", "needs": "own"}


@pytest.mark.rule("ACL-1")
@pytest.mark.parametrize(
    ("who", "requests"),
    [
        (CAROL, [*READS, *PREVIEWS]),
        (BOB, [*READS, *PREVIEWS, *WRITES]),
        (ALICE, [*READS, *PREVIEWS, *WRITES, *OWNERS]),
    ],
    ids=["reader", "writer", "owner"],
)
async def test_each_role_includes_those_before_it(it: RequestHarness, who: Any, requests: list[Request]) -> None:
    for number, request in enumerate(requests):
        if hasattr(request, "operation"):
            request = msgspec.structs.replace(request, operation=number.to_bytes(16, "big"))  # noqa: PLW2901
        if isinstance(request, DeleteBranch):
            await it.ask(CreateBranch(**writing("spare"), name=BranchName("spare")), by=who)
            request = msgspec.structs.replace(request, name=BranchName("spare"))  # noqa: PLW2901
        assert await it.ask(request, by=who) is not None


@pytest.mark.rule("ACL-2")
async def test_a_reader_whose_role_was_taken_gets_nothing_more_not_even_the_past(it: RequestHarness) -> None:
    first = await it.ask(msgspec.structs.replace(EVERYTHING, limit=1), by=CAROL)
    await it.engine.must(set_(SPACE, {SPACE: "own", ALICE: "own"}, blind=True))
    for request in (
        *READS,
        msgspec.structs.replace(EVERYTHING, after=first.next),
        AclRequest(id=1, version=Version(1)),
    ):
        assert isinstance(await refusal(it, request, by=CAROL), Forbidden)


# ------------------------------------------------------------ rights for some ids


def test_what_may_be_read_is_covered_by_the_fewest_prefixes_in_order() -> None:
    mine = caller(Rights("read", ("urn:b:", "urn:a:1", "urn:a:", "x:")))
    assert readable_ids.prefixes_within(mine, "") == ("urn:a:", "urn:b:", "x:")
    assert readable_ids.prefixes_within(mine, "urn:a:12") == ("urn:a:12",)
    assert readable_ids.prefixes_within(mine, "urn:c:") == ()
    assert readable_ids.prefixes_within(caller(Rights("read", ("urn:a:", ""))), "urn:c:") == ("urn:c:",)


def test_a_prefix_lies_behind_a_place_that_is_after_all_it_covers() -> None:
    after = EntityId("urn:b:1")
    assert [readable_ids.lies_behind(one, after) for one in ("urn:a:", "urn:b:", "urn:b:2", "urn:c:", "")] == [
        True,
        False,
        False,
        False,
        False,
    ]
    assert not readable_ids.lies_behind("urn:a:", None)


def test_only_one_who_may_read_everything_is_known_to_the_engine_as_such() -> None:
    assert caller(Rights("read")).may_read is anything
    for rights in (NOBODY, TODO_ONLY, Rights("own", ())):
        assert caller(rights).may_read is not anything


def told(answer: Any) -> str:
    """All of an answer as text, the places inside of cursors too."""
    text = repr(answer)
    if getattr(answer, "next", None) is not None:
        text += repr(base64.urlsafe_b64decode(answer.next))
    return text


PAGED: dict[str, tuple[PagedRequest, Callable[[Any], tuple[Any, ...]]]] = {
    "query": (EVERYTHING, lambda page: page.entities),
    "several roots": (
        QueryRequest(id=1, query=Query((Root("urn:*"), Root("urn:todo:2*"), Root("urn:a:*"), Root("urn:secret:1")))),
        lambda page: page.entities + page.unresolved,
    ),
    "query of ids": (msgspec.structs.replace(EVERYTHING, shape="ids"), lambda page: page.entities),
    "query of previews": (msgspec.structs.replace(EVERYTHING, shape="preview"), lambda page: page.entities),
    "log": (LogRequest(id=1, with_facts=True), lambda page: page.entries),
    "log of a branch": (LogRequest(id=1, with_facts=True, branch=DRAFT), lambda page: page.entries),
    "log of ids": (LogRequest(id=1, with_ids=True), lambda page: page.entries),
    "log of kinds": (LogRequest(id=1, with_ids=True, kinds=("commit",)), lambda page: page.entries),
    "diff": (DiffRequest(id=1, left=Moment(version=Version(0)), right=Moment()), lambda page: page.changes),
    "diff of branches": (DiffRequest(id=1, left=Moment(), right=Moment(branch=DRAFT)), lambda page: page.changes),
    "diff under": (
        DiffRequest(id=1, left=Moment(version=Version(0)), right=Moment(), prefix="urn:todo:2"),
        lambda page: page.changes,
    ),
}


@pytest.mark.rule("ACL-2", "QUERY-5")
@pytest.mark.parametrize("name", PAGED)
@pytest.mark.parametrize("limit", [1, 2, None])
@pytest.mark.parametrize("prefixes", [("urn:todo:",), ("urn:todo:2", "urn:a:", "urn:todo:1", "urn:a:1"), (), ("x:",)])
async def test_no_page_tells_what_may_not_be_read_and_together_they_tell_the_rest(
    it: RequestHarness, name: str, limit: int | None, prefixes: tuple[str, ...]
) -> None:
    for id_ in ("urn:a:1", "urn:a:2", "urn:m:1", "urn:todo:20", "urn:z:1"):
        await it.engine.must(set_(id_, "value", blind=True))
    await it.engine.must(delete_("urn:todo:20", blind=True), set_("urn:z:2", 1, blind=True))
    asked, items = PAGED[name]
    rights = Rights("read", prefixes)
    pages = await it.pages(msgspec.structs.replace(asked, limit=limit), rights=rights)
    whole = items(await it.ask(asked))
    found = list(chain.from_iterable(map(items, pages)))
    hidden = ["urn:m:", "urn:z:", SPACE]
    hidden += [] if name == "several roots" else ["urn:secret"]  # there it is named by the one who asks
    for page in pages:
        text = told(page)
        assert not [id_ for id_ in hidden if id_ in text]
    if not name.startswith("log"):
        may_see = [one for one in whole if rights.may_read(one.id)]
        lost = [UnresolvedLink(id="urn:secret:1")] if name == "several roots" else []
        assert sorted(map(repr, found)) == sorted(map(repr, [*may_see, *lost]))
    assert all(limit is None or len(items(page)) <= limit or page.unresolved for page in pages)


@pytest.mark.rule("ACL-2", "QUERY-10", "QUERY-11")
@pytest.mark.parametrize("prefixes", [("urn:todo:",), ("urn:todo:2", "urn:a:1"), ("x:",), ()])
async def test_overviews_count_what_may_be_read_and_name_nothing_else(
    it: RequestHarness, prefixes: tuple[str, ...]
) -> None:
    for id_ in ("urn:a:1", "urn:a:2", "urn:todo:20", "urn:z:1"):
        await it.engine.must(set_(id_, "value", blind=True))
    rights = Rights("read", prefixes)
    for root in ("*", "urn:todo:*", "urn:secret:1"):
        asked = Query((Root(root),))
        counted = await it.ask(CountRequest(id=1, query=asked), rights=rights)
        assert (counted.entities, counted.exact) == (
            len((await it.ask(QueryRequest(id=1, query=asked), rights=rights)).entities),
            True,
        )
    readable = [one.id for one in (await it.ask(EVERYTHING)).entities if rights.may_read(one.id)]
    for prefix in ("", "urn:", "urn:todo:"):
        pages = await it.pages(PrefixesRequest(id=1, prefix=prefix, limit=1), rights=rights)
        shown = [(one.prefix, one.entities) for page in pages for one in page.prefixes]
        ends = sorted({_child(id_, prefix) for id_ in readable if id_.startswith(prefix)})
        assert shown == [(end, sum(_child(id_, prefix) == end for id_ in readable)) for end in ends]
        assert not [page for page in pages if "secret" in told(page)]


def _child(id_: str, prefix: str) -> str:
    head, separator, _ = id_[len(prefix) :].partition(":")
    return prefix + head + separator


@pytest.mark.rule("ACL-2")
async def test_a_query_with_a_schema_stays_within_the_ids(it: RequestHarness) -> None:
    await it.engine.must(set_("urn:todo:9", {"/": {"link@1": {"id": SECRET}}}, blind=True))
    for root in ("*", "urn:todo:9"):
        answer = await it.ask(QueryRequest(id=1, query=Query((Root(root, "", True),))), rights=READS_TODO)
        assert answer.unresolved == (UnresolvedLink(id=SECRET),)
        assert all(entity.id.startswith("urn:todo:") for entity in answer.entities)
    nothing = await it.ask(QueryRequest(id=1, query=Query((Root("urn:secret:*", "", True),))), rights=READS_TODO)
    assert (nothing.version, nothing.entities) == (it.engine.space.version, ())


@pytest.mark.rule("ACL-2")
@pytest.mark.parametrize("make", [HistoryRequest, BlameRequest])
async def test_what_may_not_be_read_looks_like_what_was_never_written(it: RequestHarness, make: Any) -> None:
    errors_ = [
        await refusal(it, make(id=1, entity=EntityId(id_), branch=DRAFT), rights=READS_TODO)
        for id_ in (SECRET, "urn:secret:9")
    ]
    assert [type(one) for one in errors_] == [errors.NotFound] * 2
    assert [one.facts for one in errors_] == [{"id": id_, "branch": "draft"} for id_ in (SECRET, "urn:secret:9")]


@pytest.mark.rule("ACL-2")
async def test_a_log_passes_by_commits_of_which_nothing_may_be_read(it: RequestHarness) -> None:
    answer = await it.ask(LogRequest(id=1, with_facts=True), rights=READS_TODO)
    assert [entry.version for entry in answer.entries] == [6, 4, 3, 2]
    assert {item.id for entry in answer.entries for item in entry.items} == {ONE, "urn:todo:2"}


@pytest.mark.rule("ACL-2", "HISTORY-4")
@pytest.mark.parametrize("by", ["version", "time"])
@pytest.mark.parametrize("storage", ["memory", "sqlite"], indirect=True)
async def test_a_histogram_counts_the_commits_that_the_log_shows(it: RequestHarness, by: Any) -> None:
    every: tuple[dict[str, Any], ...] = ({}, {"prefix": "urn:todo:"}, {"branch": DRAFT}, {"author": ALICE})
    for rights in (
        READS_TODO,
        Rights("read", ("urn:todo:2", "urn:secret:2")),
        Rights("read", ("x:",)),
        Rights("read"),
    ):
        for filters in every:
            shown = await it.ask(LogRequest(id=1, order="oldest", **filters), rights=rights)
            answer = await it.ask(HistogramRequest(id=1, by=by, buckets=400, **filters), rights=rights)
            assert (answer.version, answer.exact, answer.next) == (7, True, None)
            assert sum(one.commits for one in answer.buckets) == len(shown.entries)
            ends = {one for bucket in answer.buckets for one in (bucket.from_version, bucket.to_version)}
            assert ends <= {entry.version for entry in shown.entries}


@pytest.mark.rule("HISTORY-4")
async def test_a_histogram_goes_on_where_it_was_late(it: RequestHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stemmadb.server.service.requests.overviews.WALK_MS", -1)
    monkeypatch.setattr("stemmadb.server.engine.read.log_histogram.LOOKED_AT", 1)
    asked, commits, answers = HistogramRequest(id=1, author=ALICE), 0, 0
    while asked.after is not None or not answers:
        answer = await it.ask(asked, by=CAROL)
        commits, answers = commits + sum(one.commits for one in answer.buckets), answers + 1
        assert answer.exact is (answer.next is None)
        await it.engine.must(set_("urn:later", answers, blind=True))  # later commits do not count
        if answer.next is None:
            break
        asked = msgspec.structs.replace(asked, after=answer.next)
    assert answers > 2
    assert commits == len((await it.ask(LogRequest(id=1, author=ALICE, version=Version(7)))).entries)


@pytest.mark.rule("HISTORY-4")
async def test_a_log_with_ids_has_the_facts_without_what_they_say(it: RequestHarness) -> None:
    whole = await it.ask(LogRequest(id=1, with_facts=True))
    bare = await it.ask(LogRequest(id=1, with_ids=True))
    fields = ("index", "id", "kind", "parent", "branch")
    for one, other in zip(whole.entries, bare.entries, strict=True):
        said = [[[getattr(item, name) for name in fields] for item in entry.items] for entry in (one, other)]
        assert said[0] == said[1]
        assert not [item for item in other.items if item.body or item.salt or item.digest]
        assert msgspec.structs.replace(one, items=()) == msgspec.structs.replace(other, items=())


@pytest.mark.rule("HISTORY-4")
@pytest.mark.parametrize("kinds", [("branch.create",), ("commit", "branch.create"), ("erase", "merge"), ("commit",)])
async def test_a_log_of_kinds_has_those_and_no_others(it: RequestHarness, kinds: Any) -> None:
    every = await it.ask(LogRequest(id=1))
    found = await it.ask(LogRequest(id=1, kinds=kinds))
    assert found.entries == tuple(entry for entry in every.entries if entry.kind in kinds)


@pytest.mark.rule("ACL-2")
@pytest.mark.parametrize("storage", ["memory", "sqlite"], indirect=True)
async def test_the_head_of_a_branch_is_the_last_write_that_may_be_read(it: RequestHarness) -> None:
    for rights, heads in (
        (READS_TODO, {"draft": 4, "main": 6}),
        (Rights("read", ("urn:todo:2", "urn:secret:2")), {"draft": 7, "main": 6}),
        (Rights("read", ("urn:no",)), {"draft": 0, "main": 0}),
        (Rights("read"), {"draft": 7, "main": 6}),
    ):
        answer = await it.ask(ListBranches(id=1), rights=rights)
        assert {branch.name: branch.head for branch in answer.branches} == heads


@pytest.mark.rule("ACL-2")
async def test_many_branches_come_in_shorter_pages_for_narrow_rights(
    it: RequestHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stemmadb.server.service.requests.structure.NARROW_PAGE_MAX", 2)
    for number in range(4):
        await it.ask(CreateBranch(**writing(f"b{number}"), name=BranchName(f"b{number}")))
    pages = await it.pages(ListBranches(id=1, limit=5), rights=READS_TODO)
    assert [len(page.branches) for page in pages] == [2, 2, 2]
    assert [branch.name for page in pages for branch in page.branches] == ["b0", "b1", "b2", "b3", "draft", "main"]


async def test_roles_are_told_to_those_who_may_read_the_access_list(it: RequestHarness) -> None:
    hidden = await it.ask(AclRequest(id=1), rights=READS_TODO)
    assert hidden == AclAnswer(version=Version(7), mine=READS_TODO)
    shown = await it.ask(AclRequest(id=1), rights=Rights("read", (SPACE,)))
    assert shown.roles[ALICE] == "own"
    assert isinstance(
        await refusal(it, AclRequest(id=1, version=Version(99)), rights=READS_TODO), errors.FutureVersion
    )


@pytest.mark.rule("ACL-2", "BLOB-1")
async def test_a_blob_is_for_those_who_may_read_its_metadata(it: RequestHarness) -> None:
    there, missing = (BlobRead(id=1, blob=name_of(data)) for data in (SMALL, b"?"))
    for request in (there, missing):
        error = await refusal(it, request, rights=READS_TODO)
        assert isinstance(error, errors.UnknownBlob)
    assert (await it.ask(there, rights=Rights("read", ("urn:blob-meta:",)))).data == SMALL
    uploads: list[Request] = [
        BlobBegin(id=1, blob=name_of(SMALL), size=len(SMALL)),
        BlobChunk(id=1, blob=name_of(SMALL), offset=0, data=b""),
        BlobEnd(id=1, blob=name_of(SMALL)),
    ]
    for upload in uploads:
        assert isinstance(await refusal(it, upload, rights=TODO_ONLY), Forbidden)
        assert await it.ask(upload, rights=Rights("write", ("urn:todo:", "urn:blob-meta:"))) is not None


# ------------------------------------------------------------ merges, reverts and what their errors tell


@pytest.mark.rule("ACL-2")
async def test_a_merge_tells_conflicts_only_in_what_may_be_read(it: RequestHarness) -> None:
    await it.engine.must(set_(ONE, 5, blind=True))
    wide = await it.ask(MergeRequest(**writing("1"), source=DRAFT, strategy="target"), by=BOB)
    assert (wide.conflicts_count, [one.id for one in wide.conflicts]) == (2, [SECRET, ONE])
    again = await it.ask(MergeRequest(**writing("1"), source=DRAFT, strategy="target"), by=BOB, rights=TODO_ONLY)
    assert (again.conflicts_count, [one.id for one in again.conflicts]) == (1, [ONE])
    lost = await it.ask(MergeRequest(**writing("1"), source=DRAFT, strategy="target"), by=BOB, rights=NOBODY)
    assert (lost.version, lost.conflicts_count, lost.conflicts) == (wide.version, 0, ())


@pytest.mark.rule("ACL-2")
@pytest.mark.parametrize(
    "request_",
    [
        MergeRequest(**writing("1"), source=DRAFT, dry_run=True),
        MergeRequest(**writing("1"), source=DRAFT, strategy="fail"),
        MergeRequest(**writing("1"), source=DRAFT, resolutions=(Resolution(id=EntityId("urn:secret:9")),)),
        RevertRequest(**writing("1"), versions=(Version(5),), dry_run=True),
        RevertRequest(**writing("1"), versions=(Version(2),)),
        RevertRequest(**writing("1"), versions=(Version(7),)),
    ],
)
async def test_a_plan_that_concerns_other_ids_is_forbidden_without_naming_them(
    it: RequestHarness, request_: Request
) -> None:
    error = await refusal(it, request_, by=BOB, rights=TODO_ONLY)
    assert isinstance(error, Forbidden)
    assert "secret" not in repr((error.message, error.facts))


@pytest.mark.rule("ACL-2")
async def test_conflicts_of_a_revert_and_a_merge_show_only_what_may_be_read(it: RequestHarness) -> None:
    await it.engine.must(set_(ONE, 7, blind=True))
    stale = await refusal(it, RevertRequest(**writing("1"), versions=(Version(2),)), by=BOB, rights=TODO_ONLY)
    assert isinstance(stale, errors.Conflict)
    assert (stale.facts["count"], [one.id for one in stale.facts["stale"]]) == (1, [ONE])
    wide = await refusal(it, RevertRequest(**writing("1"), versions=(Version(2),)), by=BOB)
    assert wide.facts["count"] == 2
    failed = MergeRequest(**writing("1"), source=DRAFT, strategy="fail")
    contested = await refusal(it, failed, by=BOB, rights=TODO_ONLY)
    assert isinstance(contested, errors.MergeConflict)
    assert (contested.facts["count"], [one.id for one in contested.facts["conflicts"]]) == (1, [ONE])
    assert (await refusal(it, failed, by=BOB)).facts["count"] == 2


@pytest.mark.rule("ACL-2")
async def test_a_plan_within_the_ids_is_told_whole(it: RequestHarness) -> None:
    undone = await it.ask(
        RevertRequest(**writing("1"), versions=(Version(6),), dry_run=True), by=BOB, rights=TODO_ONLY
    )
    assert [write.id for write in undone.writes] == ["urn:todo:2"]
    for request, error in (
        (MergeRequest(**writing("1"), source=BranchName("no")), errors.UnknownBranch),
        (RevertRequest(**writing("1"), versions=(Version(99),)), errors.FutureVersion),
        (MergeRequest(**writing("1"), source=DRAFT, target=DRAFT), errors.InvalidMerge),
    ):
        assert isinstance(await refusal(it, request, by=BOB, rights=TODO_ONLY), error)


def caller(rights: Rights) -> Caller:
    return Caller(BOB, b"s" * 16, rights)


@pytest.mark.rule("ACL-2")
@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (errors.Erased(id=ONE), errors.Erased),
        (errors.Erased(id=SECRET), Forbidden),
        (Forbidden(action=f"write {SECRET!r}", needs="write"), Forbidden),
        (errors.Malformed(path="versions", why="version 5 wrote nothing"), Forbidden),
        (errors.LimitExceeded(bound="bulk_operations_max", maximum=1, actual=2), Forbidden),
        (errors.MergeBusy(attempts=5), errors.MergeBusy),
        (errors.IdentityClash(local="x"), errors.IdentityClash),
        (errors.Unavailable(), errors.Unavailable),
        (errors.Compacted(version=1, oldest=2), errors.Compacted),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, StemmaError) else "",
)
def test_what_a_plan_failed_with_is_cut_for_narrow_rights(found: StemmaError, expected: type[StemmaError]) -> None:
    with pytest.raises(expected) as raised, redaction.planned(caller(TODO_ONLY), DEFAULTS):
        raise found
    assert SECRET not in repr((raised.value.message, raised.value.facts))
    with pytest.raises(type(found)), redaction.planned(caller(Rights("write")), DEFAULTS):
        raise found


@pytest.mark.rule("ACL-1", "ACL-2")
def test_what_concerns_every_id_is_not_for_narrow_rights() -> None:
    for found, expected in (
        (errors.UnknownBlob(blob="b3:x"), Forbidden),
        (errors.BranchExists(branch="draft"), Forbidden),
        (errors.IdentityClash(local="x"), errors.IdentityClash),
        (errors.StorageFull(), errors.StorageFull),
    ):
        with pytest.raises(expected), redaction.structural(caller(TODO_ONLY), "write"):
            raise found
        with pytest.raises(type(found)), redaction.structural(caller(Rights("write")), "write"):
            raise found
    with pytest.raises(Forbidden) as raised, redaction.structural(caller(Rights("own", ("urn:todo:",))), "own"):
        raise errors.UnknownBlob(blob="b3:x")
    assert raised.value.facts["needs"] == "own, for every id"
