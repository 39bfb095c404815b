"""Requests: every message has someone who answers it, and what is wrong with one gets its one typed error."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from engines import turns
from request_harness import RequestHarness, request_harness, writing
from space import ALICE, BOB, patch_, set_
from stemmadb.protocol import errors
from stemmadb.protocol.model.query.query import Query, Root
from stemmadb.protocol.model.values.body import encode
from stemmadb.protocol.model.values.ids import BranchName, Did, EntityId, Hash, TimeMs, Version
from stemmadb.protocol.model.values.limits import Limits
from stemmadb.protocol.wire.messages import REQUESTS
from stemmadb.protocol.wire.messages.access import AclRequest
from stemmadb.protocol.wire.messages.base import PagedRequest, Request
from stemmadb.protocol.wire.messages.blobs import BlobBegin, BlobChunk, BlobEnd, BlobRead
from stemmadb.protocol.wire.messages.reading import (
    BlameRequest,
    DiffRequest,
    HistoryRequest,
    LogRequest,
    Moment,
    QueryRequest,
    UnwatchRequest,
    WatchRequest,
)
from stemmadb.protocol.wire.messages.session import Ping
from stemmadb.protocol.wire.messages.structure import (
    CompactRequest,
    CreateBranch,
    CreateTag,
    DeleteBranch,
    DeleteTag,
    EraseRequest,
    EraseTarget,
    ListBranches,
    ListTags,
    MergeRequest,
    Resolution,
    RevertRequest,
    Survivor,
)
from stemmadb.server.service.requests.dispatch import HANDLERS

ONE = EntityId("urn:todo:1")
DRAFT = BranchName("draft")
BAD_NAME = BranchName("not a name")
BAD_ID = EntityId("no uri")
BAD_DID = Did("did:key:zNobody")
FAR = Version(99)


def query(*ids: str, **how: Any) -> QueryRequest:
    return QueryRequest(id=1, query=Query(tuple(Root(id_) for id_ in ids), **how))


async def filled(it: RequestHarness) -> None:
    """Versions 2 to 9: an entity that was written, erased and written again, a branch, a compaction to 4."""
    await it.engine.must(set_(ONE, {"n": 1}, blind=True))
    await it.engine.must(patch_(ONE, {"op": "add", "path": "/m", "value": 2}, blind=True))
    await it.engine.must(set_("urn:todo:2", "two", blind=True))
    await it.ask(CreateBranch(**writing("draft"), name=DRAFT))
    await it.ask(CompactRequest(**writing("compact"), floor=Version(4)))
    await it.engine.must(set_("urn:todo:3", "secret", blind=True))
    survivor = Survivor(branch=BranchName("main"), body=encode("rest"))
    await it.ask(
        EraseRequest(**writing("erase"), entity=EntityId("urn:todo:3"), versions=(Version(7),), survivors=(survivor,))
    )
    assert it.engine.space.version == 8


@pytest.mark.rule("WIRE-4")
def test_every_request_but_those_of_the_session_is_answered() -> None:
    assert set(HANDLERS) == set(REQUESTS) - {WatchRequest, UnwatchRequest, Ping}


@pytest.mark.rule("HISTORY-2")
@pytest.mark.parametrize(
    ("request_", "error", "facts"),
    [
        (HistoryRequest(id=1, entity=ONE, version=FAR), errors.FutureVersion, {"version": 99, "head": 8}),
        (BlameRequest(id=1, entity=ONE, version=FAR), errors.FutureVersion, {"version": 99, "head": 8}),
        (query("*", version=99), errors.FutureVersion, {"version": 99, "head": 8}),
        (LogRequest(id=1, version=FAR), errors.FutureVersion, {"version": 99, "head": 8}),
        (DiffRequest(id=1, left=Moment(version=FAR), right=Moment()), errors.FutureVersion, {"version": 99}),
        (AclRequest(id=1, version=FAR), errors.FutureVersion, {"version": 99}),
        (HistoryRequest(id=1, entity=ONE, version=Version(3)), errors.Compacted, {"version": 3, "oldest": 4}),
        (BlameRequest(id=1, entity=ONE, version=Version(3)), errors.Compacted, {"oldest": 4}),
        (query(ONE, version=3), errors.Compacted, {"oldest": 4}),
        (query(ONE, time=0), errors.Compacted, {"oldest": 4}),
        (DiffRequest(id=1, left=Moment(), right=Moment(version=Version(1))), errors.Compacted, {"oldest": 4}),
        (BlameRequest(id=1, entity=EntityId("urn:todo:3"), version=Version(7)), errors.Erased, {"id": "urn:todo:3"}),
        (HistoryRequest(id=1, entity=ONE, branch=BranchName("no")), errors.UnknownBranch, {"branch": "no"}),
        (BlameRequest(id=1, entity=ONE, branch=BranchName("no")), errors.UnknownBranch, {"branch": "no"}),
        (query(ONE, branch="no"), errors.UnknownBranch, {"branch": "no"}),
        (LogRequest(id=1, branch=BranchName("no")), errors.UnknownBranch, {"branch": "no"}),
        (DiffRequest(id=1, left=Moment(), right=Moment(branch=BranchName("no"))), errors.UnknownBranch, {}),
        (HistoryRequest(id=1, entity=EntityId("urn:no")), errors.NotFound, {"id": "urn:no", "branch": "main"}),
        (BlameRequest(id=1, entity=EntityId("urn:no"), branch=DRAFT), errors.NotFound, {"branch": "draft"}),
    ],
    ids=lambda value: value.__name__ if isinstance(value, type) else None,
)
async def test_reading_the_past_fails_with_a_typed_error(
    request_: Request, error: type[errors.StemmaError], facts: dict[str, Any]
) -> None:
    async with request_harness() as it:
        await filled(it)
        with pytest.raises(error) as raised:
            await it.ask(request_)
        assert facts.items() <= raised.value.facts.items()


BAD_INPUT: list[tuple[Request, type[errors.StemmaError], dict[str, Any]]] = [
    (query(), errors.InvalidQuery, {}),
    (query("*", version=1, time=1), errors.InvalidQuery, {}),
    (query("no uri"), errors.InvalidId, {}),
    (query("a b*"), errors.InvalidId, {}),
    (query("*", branch="not a name"), errors.InvalidName, {}),
    (QueryRequest(id=1, query=Query((Root("*", "no pointer"),))), errors.InvalidPointer, {}),
    (QueryRequest(id=1, query=Query((Root("*", "", {"format": "date"}),))), errors.InvalidSchema, {}),
    (QueryRequest(id=1, query=Query((Root("*", "", True),)), after="x"), errors.Malformed, {"path": "after"}),
    (HistoryRequest(id=1, entity=BAD_ID), errors.InvalidId, {}),
    (HistoryRequest(id=1, entity=EntityId("urn:" + "x" * 512)), errors.InvalidId, {}),
    (HistoryRequest(id=1, entity=ONE, branch=BAD_NAME), errors.InvalidName, {}),
    (BlameRequest(id=1, entity=BAD_ID), errors.InvalidId, {}),
    (BlameRequest(id=1, entity=ONE, branch=BAD_NAME), errors.InvalidName, {}),
    (BlameRequest(id=1, entity=ONE, path="no pointer"), errors.InvalidPointer, {}),
    (LogRequest(id=1, author=BAD_DID), errors.InvalidDid, {}),
    (LogRequest(id=1, branch=BAD_NAME), errors.InvalidName, {}),
    (LogRequest(id=1, prefix="a b"), errors.InvalidId, {}),
    (DiffRequest(id=1, left=Moment(branch=BAD_NAME), right=Moment()), errors.InvalidName, {}),
    (DiffRequest(id=1, left=Moment(), right=Moment(branch=BAD_NAME)), errors.InvalidName, {}),
    (DiffRequest(id=1, left=Moment(), right=Moment(), prefix="a b"), errors.InvalidId, {}),
    (
        DiffRequest(id=1, left=Moment(version=Version(8), time=TimeMs(1)), right=Moment()),
        errors.InvalidQuery,
        {},
    ),
    (CreateBranch(**writing("o"), name=BAD_NAME), errors.InvalidName, {}),
    (CreateBranch(**writing("o"), name=BranchName("b"), parent=BAD_NAME), errors.InvalidName, {}),
    (CreateBranch(**writing("o"), name=BranchName("b"), parent=BranchName("no")), errors.UnknownBranch, {}),
    (CreateBranch(**writing("o"), name=BranchName("b"), fork=FAR), errors.FutureVersion, {"head": 8}),
    (CreateBranch(**writing("o"), name=BranchName("b"), fork=Version(2)), errors.Compacted, {"oldest": 4}),
    (CreateBranch(**writing("o"), name=DRAFT), errors.BranchExists, {"branch": "draft"}),
    (CreateBranch(**writing("o"), name=BranchName("b"), note=b"\xc1"), errors.InvalidValue, {}),
    (DeleteBranch(**writing("o"), name=BAD_NAME), errors.InvalidName, {}),
    (DeleteBranch(**writing("o"), name=BranchName("main")), errors.BranchProtected, {}),
    (DeleteBranch(**writing("o"), name=BranchName("no")), errors.UnknownBranch, {}),
    (CreateTag(**writing("o"), name=BAD_NAME), errors.InvalidName, {}),
    (CreateTag(**writing("o"), name=BranchName("t"), branch=BAD_NAME), errors.InvalidName, {}),
    (CreateTag(**writing("o"), name=BranchName("t"), branch=BranchName("no")), errors.UnknownBranch, {}),
    (CreateTag(**writing("o"), name=BranchName("t"), version=FAR), errors.FutureVersion, {}),
    (DeleteTag(**writing("o"), name=BAD_NAME), errors.InvalidName, {}),
    (DeleteTag(**writing("o"), name=BranchName("no")), errors.UnknownTag, {"tag": "no"}),
    (MergeRequest(**writing("o"), source=BAD_NAME), errors.InvalidName, {}),
    (MergeRequest(**writing("o"), source=DRAFT, target=BAD_NAME), errors.InvalidName, {}),
    (MergeRequest(**writing("o"), source=BranchName("no")), errors.UnknownBranch, {}),
    (MergeRequest(**writing("o"), source=BranchName("main")), errors.InvalidMerge, {}),
    (MergeRequest(**writing("o"), source=DRAFT, source_version=FAR), errors.FutureVersion, {}),
    (
        MergeRequest(**writing("o"), source=DRAFT, resolutions=(Resolution(id=ONE), Resolution(id=ONE))),
        errors.Malformed,
        {"path": "resolutions"},
    ),
    (MergeRequest(**writing("o"), source=DRAFT, resolutions=(Resolution(id=ONE),)), errors.InvalidMerge, {}),
    (MergeRequest(**writing("o"), source=DRAFT, resolutions=(Resolution(id=BAD_ID),)), errors.InvalidId, {}),
    (RevertRequest(**writing("o")), errors.Malformed, {"path": "versions"}),
    (RevertRequest(**writing("o"), author=BAD_DID), errors.InvalidDid, {}),
    (RevertRequest(**writing("o"), versions=(Version(2),), branch=BAD_NAME), errors.InvalidName, {}),
    (RevertRequest(**writing("o"), versions=(FAR,)), errors.FutureVersion, {}),
    (RevertRequest(**writing("o"), versions=(Version(2),), since=Version(1)), errors.Malformed, {"path": "since"}),
    (RevertRequest(**writing("o"), versions=(Version(5),)), errors.Malformed, {"path": "versions"}),
    (RevertRequest(**writing("o"), versions=(Version(2),)), errors.Conflict, {"count": 1}),
    (RevertRequest(**writing("o"), versions=(Version(7), Version(8))), errors.Malformed, {"path": "versions"}),
    (EraseRequest(**writing("o"), entity=BAD_ID, versions=(Version(2),)), errors.InvalidId, {}),
    (EraseRequest(**writing("o"), entity=ONE, versions=()), errors.Malformed, {"path": "versions"}),
    (
        EraseRequest(
            **writing("o"),
            entity=ONE,
            versions=(Version(2),),
            entities=(EraseTarget(id=ONE, versions=(Version(2),)),),
        ),
        errors.Malformed,
        {"path": "entities/0"},
    ),
    (EraseRequest(**writing("o"), entity=ONE, versions=(FAR,)), errors.FutureVersion, {}),
    (EraseRequest(**writing("o"), entity=ONE, versions=(Version(4),)), errors.NotFound, {"id": ONE}),
    (
        EraseRequest(**writing("o"), entity=ONE, versions=(Version(2),), blobs=(Hash(b"?" * 32),)),
        errors.UnknownBlob,
        {},
    ),
    (
        EraseRequest(
            **writing("o"),
            entity=ONE,
            versions=(Version(2),),
            survivors=(Survivor(branch=DRAFT), Survivor(branch=DRAFT)),
        ),
        errors.Malformed,
        {"path": "survivors"},
    ),
    (
        EraseRequest(**writing("o"), entity=ONE, versions=(Version(2),), survivors=(Survivor(branch=BAD_NAME),)),
        errors.InvalidName,
        {},
    ),
    (CompactRequest(**writing("o"), floor=FAR), errors.FutureVersion, {}),
    (BlobBegin(id=1, blob=Hash(b"?" * 32), size=1, content_type="\n"), errors.Malformed, {}),
    (BlobChunk(id=1, blob=Hash(b"?" * 32), offset=0, data=b""), errors.UnknownBlob, {}),
    (BlobEnd(id=1, blob=Hash(b"?" * 32)), errors.UnknownBlob, {}),
    (BlobRead(id=1, blob=Hash(b"?" * 32)), errors.UnknownBlob, {}),
]


@pytest.mark.rule("WIRE-4")
@pytest.mark.parametrize(("request_", "error", "facts"), BAD_INPUT)
async def test_what_is_wrong_with_a_request_is_one_typed_error_and_nothing_is_written(
    request_: Request, error: type[errors.StemmaError], facts: dict[str, Any]
) -> None:
    async with request_harness() as it:
        await filled(it)
        with pytest.raises(error) as raised:
            await it.ask_unread(request_)
        assert facts.items() <= raised.value.facts.items()
        await turns()
        assert it.engine.space.version == 8


PAGED: list[Callable[[], PagedRequest]] = [
    lambda: query("*"),
    lambda: HistoryRequest(id=1, entity=ONE),
    lambda: LogRequest(id=1),
    lambda: DiffRequest(id=1, left=Moment(version=Version(1)), right=Moment()),
    lambda: BlameRequest(id=1, entity=ONE),
    lambda: ListBranches(id=1),
    lambda: ListTags(id=1),
]


@pytest.mark.parametrize("make", PAGED)
async def test_a_limit_beyond_a_page_is_refused_with_the_name_of_the_bound(make: Callable[[], PagedRequest]) -> None:
    async with request_harness(limits=Limits(page_max=3)) as it:
        await it.engine.must(set_(ONE, {"n": 1}, blind=True))
        assert await it.ask(msgspec.structs.replace(make(), limit=3))
        with pytest.raises(errors.LimitExceeded) as raised:
            await it.ask_unread(msgspec.structs.replace(make(), limit=4))
        assert raised.value.facts == {"bound": "page_max", "maximum": 3, "actual": 4}


async def test_a_note_that_is_too_long_is_refused_with_the_name_of_the_bound() -> None:
    async with request_harness(limits=Limits(note_bytes_max=8)) as it:
        request = CreateBranch(**writing("o"), name=DRAFT, note=encode("x" * 8))
        with pytest.raises(errors.LimitExceeded) as raised:
            await it.ask_unread(request)
        assert raised.value.facts["bound"] == "note_bytes_max"


async def test_a_deleted_branch_can_be_read_and_merged_from_and_not_written() -> None:
    async with request_harness() as it:
        await it.ask(CreateBranch(**writing("1"), name=DRAFT))
        await it.engine.must(set_(ONE, 1, blind=True), branch="draft")
        await it.ask(DeleteBranch(**writing("2"), name=DRAFT))
        assert len((await it.ask(query("*", branch="draft"))).entities) == 2
        assert (await it.ask(MergeRequest(**writing("3"), source=DRAFT))).writes_count == 1
        for request in (
            MergeRequest(**writing("4"), source=BranchName("main"), target=DRAFT),
            RevertRequest(**writing("5"), author=ALICE, branch=DRAFT),
            DeleteBranch(**writing("6"), name=DRAFT),
        ):
            with pytest.raises(errors.BranchDeleted):
                await it.ask(request)


async def test_a_value_that_is_too_large_or_no_json_is_refused_as_a_resolution() -> None:
    async with request_harness(limits=Limits(value_bytes_max=300)) as it:
        await it.engine.must(set_(ONE, 0, blind=True))
        await it.ask(CreateBranch(**writing("1"), name=DRAFT))
        await it.engine.must(set_(ONE, 1, blind=True), branch="draft")
        await it.engine.must(set_(ONE, 2, blind=True))
        for body, error in ((encode("x" * 300), errors.LimitExceeded), (b"\xc1", errors.InvalidValue)):
            with pytest.raises(error):
                await it.ask_unread(
                    MergeRequest(**writing("2"), source=DRAFT, resolutions=(Resolution(id=ONE, body=body),))
                )
        assert await it.engine.value(ONE) == 2


async def test_an_operation_id_names_one_write_of_one_principal() -> None:
    async with request_harness() as it:
        await it.ask(CreateBranch(**writing("same"), name=DRAFT))
        with pytest.raises(errors.IdentityClash):
            await it.ask(CreateBranch(**writing("same"), name=BranchName("other")))
        with pytest.raises(errors.IdentityClash):
            await it.ask(CreateBranch(**writing("same", nonce=b"m" * 16), name=DRAFT))
        with pytest.raises(errors.IdentityClash):
            await it.ask(DeleteBranch(**writing("same"), name=DRAFT))
        await it.ask(CreateBranch(**writing("same"), name=BranchName("other")), by=BOB)
