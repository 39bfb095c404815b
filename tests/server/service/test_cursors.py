"""Cursors: they bring back exactly what was put into them, and nothing else is taken for one (QUERY-6)."""

from __future__ import annotations

import base64
import string
from collections.abc import Sequence
from functools import partial
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from request_harness import RequestHarness, request_harness, writing
from space import ALICE, SPACE, set_
from stemmadb.protocol.errors import Malformed, StemmaError
from stemmadb.protocol.model.query.query import Query, Root
from stemmadb.protocol.model.values.body import encode
from stemmadb.protocol.model.values.ids import BranchName, Did, EntityId, Version
from stemmadb.protocol.model.values.json_values import INT_MAX
from stemmadb.protocol.wire.messages.base import PagedRequest
from stemmadb.protocol.wire.messages.fields import Cursor
from stemmadb.protocol.wire.messages.overview import PrefixesRequest
from stemmadb.protocol.wire.messages.reading import (
    BlameRequest,
    DiffRequest,
    HistoryRequest,
    LogRequest,
    Moment,
    QueryRequest,
)
from stemmadb.protocol.wire.messages.structure import CreateBranch, CreateTag, ListBranches, ListTags
from stemmadb.server.engine.read.log_pieces import LogPlace
from stemmadb.server.service.base import cursor_cover, cursors
from stemmadb.server.service.base.cursors import At, Cursors, Kind
from stemmadb.server.storage.port import FactPosition

pytestmark = pytest.mark.rule("QUERY-6")

VERSIONS = st.integers(1, INT_MAX).map(Version)
URI_TEXT = st.text(
    st.characters(exclude_characters='<>"{}|\\^`', exclude_categories=["Cc", "Cf", "Cn", "Cs", "Zs", "Zl", "Zp"]),
    min_size=1,
)
IDS = URI_TEXT.map(lambda text: EntityId(f"urn:{text}")).filter(lambda id_: len(id_.encode()) <= 512)
NAMES = st.text(string.ascii_letters + string.digits + "._/-", min_size=1, max_size=128).map(BranchName)
COUNTS = st.integers(0, INT_MAX)
PLACES: list[tuple[Kind[Any], st.SearchStrategy[Any]]] = [
    (cursors.QUERY, IDS),
    (cursors.DIFF, IDS),
    (cursors.HISTORY, st.builds(FactPosition, VERSIONS, COUNTS)),
    (cursors.LOG, st.builds(LogPlace, VERSIONS, st.none() | st.integers(-1, INT_MAX))),
    (cursors.BLAME, COUNTS),
    (cursors.BRANCHES, NAMES),
    (cursors.TAGS, NAMES),
]
LONGEST: list[tuple[Kind[Any], Any]] = [
    (cursors.QUERY, EntityId("urn:" + "x" * 508)),
    (cursors.DIFF, EntityId("urn:" + "\U0001f40d" * 127)),
    (cursors.HISTORY, FactPosition(Version(INT_MAX), INT_MAX)),
    (cursors.LOG, LogPlace(Version(INT_MAX), INT_MAX)),
    (cursors.BLAME, INT_MAX),
    (cursors.BRANCHES, BranchName("x" * 128)),
]


def pins(kind: Kind[Any]) -> tuple[Version, ...]:
    return (Version(INT_MAX),) * kind.pins


@given(st.data())
def test_a_cursor_brings_back_its_place_and_its_versions(data: st.DataObject) -> None:
    kind, places = data.draw(st.sampled_from(PLACES))
    place = data.draw(places)
    book = Cursors(kind, SPACE, ("a question", 1, None))
    text = book.write(pins(kind), place)
    assert book.read(text) == At(pins(kind), place)


def test_the_end_of_a_list_has_no_cursor_and_a_first_page_no_place() -> None:
    book = Cursors(cursors.BLAME, SPACE, ())
    assert book.write([Version(1)], None) is None
    assert book.read(None) is None


@pytest.mark.parametrize(("kind", "place"), LONGEST)
def test_the_longest_cursor_fits_into_its_field(kind: Kind[Any], place: Any) -> None:
    text = Cursors(kind, SPACE, ()).write(pins(kind), place)
    assert text is not None
    whole = base64.urlsafe_b64encode(bytes(cursor_cover.COVER_BYTES) + base64.urlsafe_b64decode(text)).decode()
    assert msgspec.convert(whole, Cursor) == whole


def test_a_cursor_belongs_to_its_kind_its_space_and_its_question() -> None:
    text = Cursors(cursors.BRANCHES, SPACE, ("one",)).write([Version(3)], BranchName("draft"))
    for other in (
        Cursors(cursors.TAGS, SPACE, ("one",)),
        Cursors(cursors.BRANCHES, Did(ALICE), ("one",)),
        Cursors(cursors.BRANCHES, SPACE, ("other",)),
    ):
        with pytest.raises(Malformed) as raised:
            other.read(text)
        assert raised.value.facts["path"] == "after"


def forged(book: Cursors[Any], *written: Any) -> str:
    """A cursor with the right mark and anything behind it."""
    return base64.urlsafe_b64encode(encode([book._mark, *written])).decode()


@pytest.mark.parametrize(
    ("kind", "pinned", "place"),
    [
        (cursors.QUERY, [3], ["no uri"]),
        (cursors.QUERY, [3], ["urn:" + "x" * 1_400]),
        (cursors.QUERY, [3], [7]),
        (cursors.QUERY, [3], []),
        (cursors.QUERY, [3], None),
        (cursors.QUERY, [3], ["urn:a", "urn:b"]),
        (cursors.QUERY, [], ["urn:a"]),
        (cursors.QUERY, [3, 3], ["urn:a"]),
        (cursors.QUERY, [-1], ["urn:a"]),
        (cursors.QUERY, [2**63], ["urn:a"]),
        (cursors.QUERY, ["3"], ["urn:a"]),
        (cursors.PREFIXES, [3], ["a\n"]),
        (cursors.PREFIXES, [3], [1]),
        (cursors.DIFF, [3], ["urn:a"]),
        (cursors.HISTORY, [3], [3]),
        (cursors.HISTORY, [3], [4, 0]),
        (cursors.HISTORY, [3], [0, 0]),
        (cursors.HISTORY, [3], [3, -1]),
        (cursors.HISTORY, [3], [3, 2**63]),
        (cursors.HISTORY, [3], [True, 0]),
        (cursors.HISTOGRAM, [3], [4]),
        (cursors.HISTOGRAM, [3], [0]),
        (cursors.HISTOGRAM, [3], [2, 1, 4]),
        (cursors.HISTOGRAM, [3], [2, 3, 3]),
        (cursors.HISTOGRAM, [3], [1, 2]),
        (cursors.LOG, [3], [4, None]),
        (cursors.LOG, [3], [0, None]),
        (cursors.LOG, [3], [-1, None]),
        (cursors.LOG, [3], [3, -2]),
        (cursors.LOG, [3], [3, "0"]),
        (cursors.BLAME, [3], [-1]),
        (cursors.BLAME, [3], [None]),
        (cursors.BRANCHES, [3], ["not a name"]),
        (cursors.TAGS, [3], [3]),
    ],
)
def test_a_place_that_is_none_is_malformed(kind: Kind[Any], pinned: Any, place: Any) -> None:
    book = Cursors(kind, SPACE, ())
    with pytest.raises(Malformed) as raised:
        book.read(forged(book, pinned, place))
    assert raised.value.facts["path"] == "after"


def test_what_pins_more_versions_than_any_list_is_no_cursor() -> None:
    """Before its kind is known, what covers it is looked up for each of them."""
    text = forged(Cursors(cursors.DIFF, SPACE, ()), [1, 2], ["urn:a"])
    assert cursors.pinned_by(text) == (1, 2)
    with pytest.raises(Malformed):
        cursors.pinned_by(forged(Cursors(cursors.DIFF, SPACE, ()), list(range(1, 500)), ["urn:a"]))


def test_a_cursor_has_one_form() -> None:
    book = Cursors(cursors.BLAME, SPACE, ())
    text = book.write([Version(3)], 7)
    assert text is not None
    for other in (text + "\n", " " + text, text.rstrip("="), text + "====", forged(book, [3], [7], None), ""):
        if other != text:
            with pytest.raises(Malformed):
                book.read(other)
    wide = base64.urlsafe_b64encode(b"\x93" + encode(book._mark) + b"\x91\xcd\x00\x03" + encode([7])).decode()
    with pytest.raises(Malformed):
        book.read(wide)


# ------------------------------------------------------------ in requests


def taken_apart(text: str) -> tuple[bytes, list[Any]]:
    """What covers a cursor of an answer, and the cursor: its mark, its versions and its place."""
    whole = base64.urlsafe_b64decode(text)
    return whole[: cursor_cover.COVER_BYTES], msgspec.msgpack.decode(whole[cursor_cover.COVER_BYTES :])


def put_together(cover: bytes, *cursor: Any) -> str:
    return base64.urlsafe_b64encode(cover + encode(cursor)).decode()


REQUESTS: list[PagedRequest] = [
    QueryRequest(id=1, query=Query((Root("*"),))),
    HistoryRequest(id=1, entity=EntityId("urn:n:1")),
    HistoryRequest(id=1, entity=EntityId("urn:n:1"), order="oldest"),
    PrefixesRequest(id=1, prefix="urn:n:"),
    PrefixesRequest(id=1, separators=""),
    LogRequest(id=1),
    LogRequest(id=1, order="oldest", with_facts=True, branch=BranchName("draft")),
    DiffRequest(id=1, left=Moment(version=Version(1)), right=Moment()),
    BlameRequest(id=1, entity=EntityId("urn:n:1")),
    ListBranches(id=1),
    ListTags(id=1),
]


async def filled(it: RequestHarness) -> None:
    for number in range(5):
        await it.engine.must(*[set_(f"urn:n:{n}", {"a": number, "b": number}, blind=True) for n in range(3)])
    await it.ask(CreateBranch(**writing("branch"), name=BranchName("draft")))
    for number in range(3):
        await it.engine.must(set_("urn:n:1", number, blind=True), branch="draft")
        await it.ask(CreateTag(**writing(f"tag{number}"), name=BranchName(f"v{number}")))
    await it.engine.must(set_("urn:n:1", {"a": 1, "b": 2}, blind=True))


@pytest.mark.parametrize("asked", REQUESTS, ids=lambda request: type(request).__name__)
async def test_the_cursor_of_one_list_is_malformed_in_every_other(asked: PagedRequest) -> None:
    async with request_harness() as it:
        await filled(it)
        first = await it.ask(msgspec.structs.replace(asked, limit=1))
        assert first.next is not None
        for other in REQUESTS:
            request = msgspec.structs.replace(other, after=first.next, limit=2)
            if other is asked:
                assert await it.ask(request)
                continue
            with pytest.raises(Malformed) as raised:
                await it.ask(request)
            assert raised.value.facts["path"] == "after"


@pytest.mark.parametrize("asked", REQUESTS, ids=lambda request: type(request).__name__)
async def test_a_cursor_that_pins_a_version_not_written_yet_is_malformed(asked: PagedRequest) -> None:
    async with request_harness() as it:
        await filled(it)
        first = await it.ask(msgspec.structs.replace(asked, limit=1))
        cover, (mark, pinned, place) = taken_apart(first.next)
        far = put_together(cover, mark, [99] * len(pinned), place)
        with pytest.raises(Malformed) as raised:
            await it.ask(msgspec.structs.replace(asked, after=far))
        assert raised.value.facts["path"] == "after"


@pytest.mark.parametrize("asked", REQUESTS, ids=lambda request: type(request).__name__)
async def test_a_cursor_of_another_history_is_malformed(asked: PagedRequest) -> None:
    """The same versions are there, with other hashes: a standby was promoted that had lost the last commits."""
    async with request_harness() as lost, request_harness() as kept:
        await filled(lost)
        await kept.engine.must(set_("urn:other", 1, blind=True))
        await filled(kept)
        asked = msgspec.structs.replace(asked, limit=1)
        first = await lost.ask(asked)
        assert await lost.ask(msgspec.structs.replace(asked, after=first.next))
        assert (await kept.ask(asked)).next is not None
        with pytest.raises(Malformed) as raised:
            await kept.ask(msgspec.structs.replace(asked, after=first.next))
        assert raised.value.facts["path"] == "after"
        cover, cursor = taken_apart(first.next)
        own_cover, _ = taken_apart((await kept.ask(asked)).next)
        with pytest.raises(Malformed):
            await lost.ask(msgspec.structs.replace(asked, after=put_together(own_cover, *cursor)))
        with pytest.raises(Malformed):
            await lost.ask(msgspec.structs.replace(asked, after=put_together(cover, *cursor) + "\n"))


PIECES = st.none() | st.integers(-2, 30) | st.integers(-(2**63), 2**64 - 1) | st.text(max_size=6) | IDS | NAMES
JUNK = st.text(max_size=60) | st.binary(max_size=60).map(lambda data: base64.urlsafe_b64encode(data).decode())


@settings(deadline=None, max_examples=60)
@given(
    asked=st.sampled_from(REQUESTS),
    junk=JUNK,
    pinned=st.lists((st.integers(0, 20) | st.integers(0, INT_MAX)).map(Version), min_size=1, max_size=2),
    place=st.lists(PIECES, min_size=1, max_size=2),
    limit=st.sampled_from([None, 1, 3]),
)
async def test_whatever_is_sent_as_a_cursor_gets_a_page_or_a_typed_error(
    asked: PagedRequest, junk: str, pinned: Sequence[Version], place: Sequence[Any], limit: int | None
) -> None:
    async with request_harness() as it:
        await filled(it)
        first = await it.ask(msgspec.structs.replace(asked, limit=1))
        cover, (mark, *_) = taken_apart(first.next)
        theirs = await it.context.space.read(partial(cursor_cover.cover_of, pinned=pinned))
        made_up = put_together(theirs or cover, mark, pinned, place)
        with pytest.raises(Malformed):
            await it.ask_unread(msgspec.structs.replace(asked, after=junk, limit=limit))
        try:
            page: Any = await it.ask_unread(msgspec.structs.replace(asked, after=made_up, limit=limit))
        except StemmaError:
            return
        assert type(page) is asked.answer
