"""Requests that read: what they answer, page by page, and that all pages are of one version."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import msgspec
import pytest

from read_worlds import HeldValues
from request_harness import CAROL, ROLES, RequestHarness, request_harness, writing
from space import ALICE, BOB, SPACE, delete_, patch_, session_of, set_
from stemmadb.protocol import errors
from stemmadb.protocol.model.access import access_roles
from stemmadb.protocol.model.log import chain as chains
from stemmadb.protocol.model.query.query import Query, Root
from stemmadb.protocol.model.values.body import encode, read_stored
from stemmadb.protocol.model.values.ids import BranchName, EntityId, TimeMs, Version
from stemmadb.protocol.model.values.limits import Limits
from stemmadb.protocol.wire import records
from stemmadb.protocol.wire.messages.access import AclAnswer, AclRequest
from stemmadb.protocol.wire.messages.base import PagedRequest
from stemmadb.protocol.wire.messages.overview import PrefixesRequest
from stemmadb.protocol.wire.messages.reading import (
    BlameRequest,
    DiffRequest,
    EntityChange,
    HistoryRequest,
    LogRequest,
    Moment,
    QueryRequest,
    Shape,
    UnresolvedLink,
)
from stemmadb.protocol.wire.messages.structure import (
    BranchEntry,
    CompactRequest,
    CreateBranch,
    CreateTag,
    DeleteBranch,
    DeleteTag,
    EraseRequest,
    ListBranches,
    ListTags,
    MergeRequest,
    TagEntry,
)
from stemmadb.server.engine.base.moments import ResolvedMoment
from stemmadb.server.engine.read import blame
from stemmadb.server.storage.port import LogReader
from stemmadb.server.storage.sqlite import SqliteStorage

ONE, TWO = EntityId("urn:todo:1"), EntityId("urn:todo:2")
DRAFT = BranchName("draft")
NOTE = encode({"message": "why"})


def query(*roots: Root | str, **how: Any) -> QueryRequest:
    made = tuple(Root(root) if isinstance(root, str) else root for root in roots)
    return QueryRequest(id=1, query=Query(made, **how))


def values(answer: Any) -> dict[str, Any]:
    return {entity.id: read_stored(entity.body) for entity in answer.entities}


# ------------------------------------------------------------ query


@pytest.mark.rule("QUERY-1")
async def test_a_query_answers_whole_values_at_a_version_a_time_or_the_head() -> None:
    async with request_harness() as it:
        await it.engine.must(set_(ONE, {"n": 1}, blind=True))
        it.engine.clock.tick(100)
        await it.engine.must(set_(ONE, {"n": 2}, blind=True))
        for asked, version, n in ((query(ONE), 3, 2), (query(ONE, version=2), 2, 1), (query(ONE, time=1_050), 2, 1)):
            answer = await it.ask(asked, by=CAROL)
            assert (answer.version, values(answer)) == (version, {ONE: {"n": n}})
        (entry,) = (await it.ask(HistoryRequest(id=2, entity=ONE, limit=1))).entries
        (entity,) = (await it.ask(query(ONE))).entities
        assert (entity.version, entity.hash) == (entry.version, entry.hash)


@pytest.mark.rule("QUERY-2", "QUERY-5")
async def test_a_query_with_a_schema_follows_links_and_tells_what_leads_nowhere() -> None:
    async with request_harness() as it:
        links = [{"/": {"link@1": {"id": id_}}} for id_ in (TWO, "urn:no:1")]
        await it.engine.must(set_(ONE, {"links": links}, blind=True), set_(TWO, "two", blind=True))
        answer = await it.ask(query(Root(ONE, "", True), Root("urn:no:2")))
        assert set(values(answer)) == {ONE, TWO}
        assert answer.unresolved == (UnresolvedLink(id="urn:no:1"), UnresolvedLink(id="urn:no:2"))
        assert answer.next is None


@pytest.mark.rule("QUERY-6")
async def test_an_answer_with_a_schema_that_fits_in_no_message_is_refused() -> None:
    limits = Limits(message_bytes_max=20_000, part_bytes_max=5_000)
    async with request_harness(limits=limits) as it:
        for number in range(3):
            await it.engine.must(set_(f"urn:big:{number}", "x" * 9_000, blind=True))
        with pytest.raises(errors.LimitExceeded) as raised:
            await it.ask_unread(query(Root("urn:big:*", "", True)))
        assert raised.value.facts["bound"] == "message_bytes_max"
        pages = await it.pages(query("urn:big:*"))
        assert [len(page.entities) for page in pages] == [1, 1, 1]


async def test_a_query_with_a_schema_does_not_mind_a_limit() -> None:
    async with request_harness() as it:
        await it.engine.must(set_(ONE, 1, blind=True), set_(TWO, 2, blind=True))
        asked = msgspec.structs.replace(query(Root("urn:todo:*", "", True)), limit=1)
        assert len((await it.ask(asked)).entities) == 2


# ------------------------------------------------------------ history, log, diff, blame, acl


@pytest.mark.rule("HISTORY-1")
async def test_history_tells_each_fact_with_its_commit() -> None:
    async with request_harness() as it:
        await it.engine.must(set_(ONE, {"n": 1}, blind=True), author=BOB, session="b", local=7, note=NOTE)
        await it.engine.must(patch_(ONE, {"op": "replace", "path": "/n", "value": 2}, blind=True))
        await it.ask(CreateBranch(**writing("draft"), name=DRAFT))
        await it.engine.must(delete_(ONE, blind=True), branch="draft")
        await it.ask(MergeRequest(**writing("merge"), source=DRAFT))
        answer = await it.ask(HistoryRequest(id=1, entity=ONE))
        assert [(entry.version, entry.kind, entry.made_by) for entry in answer.entries] == [
            (6, "delete", "merge"),
            (3, "patch", "commit"),
            (2, "set", "commit"),
        ]
        merged, patched, first = answer.entries
        assert (first.author, first.session, first.local, first.operation) == (BOB, session_of("b"), 7, None)
        assert (first.note, first.time, first.branch, first.index) == (NOTE, 1_000, "main", 0)
        assert (read_stored(first.body), patched.parent) == ({"n": 1}, first.hash)
        assert (merged.session, merged.local, merged.operation) == (None, None, session_of("merge"))
        assert (merged.body, merged.salt) == (None, None)
        oldest = await it.ask(HistoryRequest(id=1, entity=ONE, order="oldest", version=Version(3)))
        assert (oldest.version, oldest.entries) == (3, (first, patched))


async def test_history_keeps_the_place_of_what_was_erased() -> None:
    async with request_harness() as it:
        version = await it.engine.must(set_(ONE, "secret", blind=True))
        await it.ask(EraseRequest(**writing("erase"), entity=ONE, versions=(version,)))
        entries = (await it.ask(HistoryRequest(id=1, entity=ONE))).entries
        assert [(entry.kind, entry.body, entry.made_by) for entry in entries] == [
            ("delete", None, "erase"),
            ("set", None, "commit"),
        ]


@pytest.mark.rule("QUERY-5", "ERASE-1", "HISTORY-2")
async def test_a_query_names_what_was_erased_and_not_what_never_was() -> None:
    async with request_harness() as it:
        version = await it.engine.must(set_(ONE, "secret", blind=True), set_(TWO, link_to(ONE), blind=True))
        await it.ask(EraseRequest(**writing("erase"), entity=ONE, versions=(version,)))
        roots: list[Root | str] = [ONE, "urn:todo:*", Root(TWO, "", True), Root("urn:todo:*", "", True)]
        for root in roots:
            assert (await it.ask(query(root, version=version))).erased == (ONE,), root
        assert (await it.ask(query(ONE, version=version))).unresolved == (UnresolvedLink(id=ONE),)
        assert (await it.ask(query("urn:todo:404", TWO, version=version))).erased == ()
        assert (await it.ask(query("urn:todo:*"))).erased == ()


def link_to(id_: str) -> dict[str, Any]:
    return {"a": {"/": {"link@1": {"id": id_}}}}


@pytest.mark.rule("FACT-3")
async def test_a_log_with_facts_verifies_as_the_history_of_the_space() -> None:
    async with request_harness(limits=Limits(part_bytes_max=3_000)) as it:
        await it.engine.must(*[set_(f"urn:n:{n}", "x" * 500, blind=True) for n in range(9)], note=NOTE)
        await it.ask(CreateBranch(**writing("draft"), name=DRAFT))
        await it.engine.must(patch_("urn:n:1", {"op": "replace", "path": "", "value": 1}, blind=True), branch="draft")
        await it.ask(MergeRequest(**writing("merge"), source=DRAFT))
        pages = await it.pages(LogRequest(id=1, order="oldest", with_facts=True))
        assert len(pages) > 2
        entries = records.joined_entries(list(chain.from_iterable(page.entries for page in pages)))
        history = []
        for entry in entries:
            facts = tuple(records.fact_of(item, entry.version, entry.branch) for item in entry.items)
            history.append((records.commit_of(entry), facts))
        assert len(list(chains.verify(SPACE, history))) == 5


@pytest.mark.rule("HISTORY-1")
async def test_a_log_shows_the_commits_that_pass_every_filter() -> None:
    async with request_harness() as it:
        await it.engine.must(set_(ONE, 1, blind=True), author=BOB, session="b")
        await it.ask(CreateBranch(**writing("draft"), name=DRAFT))
        it.engine.clock.tick(100)
        await it.engine.must(set_(TWO, 1, blind=True), branch="draft")
        wanted = {
            "all": LogRequest(id=1),
            "draft": LogRequest(id=1, branch=DRAFT),
            "bob": LogRequest(id=1, author=BOB),
            "session": LogRequest(id=1, session=session_of("b")),
            "prefix": LogRequest(id=1, prefix="urn:todo:"),
            "since": LogRequest(id=1, since=TimeMs(1_001)),
            "until": LogRequest(id=1, until=TimeMs(1_000), order="oldest"),
            "version": LogRequest(id=1, version=Version(2)),
        }
        found = {name: [one.version for one in (await it.ask(asked)).entries] for name, asked in wanted.items()}
        assert found == {
            "all": [4, 3, 2, 1],
            "draft": [4],
            "bob": [2],
            "session": [2],
            "prefix": [4, 2],
            "since": [4],
            "until": [1, 2, 3],
            "version": [2, 1],
        }


@pytest.mark.rule("HISTORY-1")
async def test_a_diff_tells_how_to_get_from_one_side_to_the_other() -> None:
    async with request_harness() as it:
        await it.engine.must(set_(ONE, {"done": False}, blind=True), set_("urn:x:1", 1, blind=True))
        await it.ask(CreateBranch(**writing("draft"), name=DRAFT))
        await it.engine.must(
            patch_(ONE, {"op": "replace", "path": "/done", "value": True}, blind=True), branch="draft"
        )
        await it.engine.must(set_(TWO, "two", blind=True), delete_("urn:x:1", blind=True), branch="draft")
        asked = DiffRequest(id=1, left=Moment(version=Version(2)), right=Moment(branch=DRAFT))
        answer = await it.ask(asked)
        patch = encode([{"op": "replace", "path": "/done", "value": True}])
        assert (answer.left, answer.right) == (2, 5)
        assert answer.changes == (
            EntityChange(id=ONE, left=Version(2), right=Version(4), patch=patch),
            EntityChange(id=TWO, right=Version(5), body=encode("two")),
            EntityChange(id=EntityId("urn:x:1"), left=Version(2), body=encode(1)),
        )
        narrowed = await it.ask(msgspec.structs.replace(asked, prefix="urn:x:"))
        assert narrowed.changes == answer.changes[2:]
        at_times = DiffRequest(id=1, left=Moment(time=TimeMs(0)), right=Moment(time=TimeMs(1_000)))
        assert (await it.ask(at_times)).left == 0


@pytest.mark.rule("HISTORY-1")
async def test_blame_names_the_last_writer_of_each_leaf() -> None:
    async with request_harness() as it:
        await it.engine.must(set_(ONE, {"a": 1, "b": {"c": 2}}, blind=True), note=NOTE)
        await it.engine.must(patch_(ONE, {"op": "replace", "path": "/b/c", "value": 3}, blind=True), author=BOB)
        lines = (await it.ask(BlameRequest(id=1, entity=ONE))).lines
        assert [(one.path, one.version, one.author, one.note) for one in lines] == [
            ("/a", 2, ALICE, NOTE),
            ("/b/c", 3, BOB, None),
        ]
        below = await it.ask(BlameRequest(id=1, entity=ONE, path="/b"))
        assert below.lines == lines[1:]
        before = await it.ask(BlameRequest(id=1, entity=ONE, version=Version(2)))
        assert (before.version, {line.version for line in before.lines}) == (2, {2})


@pytest.mark.rule("HISTORY-1", "HISTORY-2")
async def test_the_pages_of_a_blame_find_its_leaves_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    found: list[str] = []
    leaves = blame._leaves

    def counted(log: LogReader, id_: EntityId, at: ResolvedMoment, path: str) -> Iterator[blame.Leaf]:
        found.append(path)
        return leaves(log, id_, at, path)

    monkeypatch.setattr(blame, "_leaves", counted)
    async with request_harness(SqliteStorage(tmp_path)) as it:
        await it.engine.must(set_(ONE, dict.fromkeys("abcd", 1) | {"e": {"f": 1, "g": 2}}, blind=True))
        asked = BlameRequest(id=1, entity=ONE)
        whole = (await it.ask(asked)).lines
        page = await it.ask(msgspec.structs.replace(asked, limit=2))
        await it.engine.must(patch_(ONE, {"op": "replace", "path": "/c", "value": 2}, blind=True))  # after the pages
        other = await it.ask(msgspec.structs.replace(asked, path="/e", limit=1))  # one blame is kept, the last
        assert (await it.ask(msgspec.structs.replace(asked, path="/e", limit=1, after=other.next))).lines == whole[5:]
        lines = list(page.lines)
        while page.next is not None:
            page = await it.ask(msgspec.structs.replace(asked, limit=2, after=page.next))
            lines += page.lines
        assert lines == list(whole)
        assert found == ["", "", "/e", ""]
        begun = await it.ask(msgspec.structs.replace(asked, limit=2))
        await it.ask(EraseRequest(**writing("erase"), entity=ONE, versions=(Version(2), Version(3))))
        with pytest.raises(errors.Erased):
            await it.ask(msgspec.structs.replace(asked, limit=2, after=begun.next))


async def test_the_access_list_is_told_as_of_a_version_with_the_rights_of_now() -> None:
    async with request_harness() as it:
        await it.engine.must(set_(SPACE, {**ROLES, CAROL: "write"}, blind=True))
        mine = access_roles.Rights("write")
        now = {**ROLES, CAROL: "write"}
        assert await it.ask(AclRequest(id=1), by=CAROL) == AclAnswer(version=Version(2), mine=mine, roles=now)  # type: ignore[arg-type]
        before = await it.ask(AclRequest(id=1, version=Version(1)), by=CAROL)
        assert before == AclAnswer(version=Version(1), mine=mine, roles=ROLES)  # type: ignore[arg-type]


# ------------------------------------------------------------ branches and tags


@pytest.mark.rule("BRANCH-1")
async def test_branches_and_tags_are_listed_by_name() -> None:
    async with request_harness() as it:
        await it.engine.must(set_(ONE, 1, blind=True))
        await it.ask(CreateBranch(**writing("1"), name=DRAFT, fork=Version(1)))
        await it.engine.must(set_(ONE, 1, blind=True), branch="draft")
        await it.ask(DeleteBranch(**writing("2"), name=DRAFT))
        await it.ask(CreateTag(**writing("3"), name=BranchName("v1"), branch=DRAFT, version=Version(4)))
        assert (await it.ask(ListBranches(id=1))).branches == (
            BranchEntry(name=DRAFT, parent=BranchName("main"), fork=Version(1), head=Version(4), deleted=Version(5)),
            BranchEntry(name=BranchName("main"), fork=Version(0), head=Version(2)),
        )
        listed = await it.ask(ListTags(id=1))
        assert listed.tags == (TagEntry(name=BranchName("v1"), branch=DRAFT, version=Version(4)),)
        assert listed.version == 6


# ------------------------------------------------------------ pages


async def busy(it: RequestHarness) -> None:
    """A space with several of everything."""
    for number in range(12):
        id_ = f"urn:todo:{number % 7}"
        await it.engine.must(
            set_(id_, {str(n): number for n in range(5)}, blind=True), author=(ALICE, BOB)[number % 2]
        )
        await it.ask(CreateBranch(**writing(f"b{number}"), name=BranchName(f"b{number:02}")))
        await it.ask(CreateTag(**writing(f"t{number}"), name=BranchName(f"t{number:02}")))
    await it.engine.must(delete_("urn:todo:3", blind=True))
    await it.engine.must(
        *[patch_(ONE, {"op": "replace", "path": f"/{n}", "value": -n}, blind=True) for n in range(3)]
    )


class Disturbing:
    """Writes of every kind, between two pages."""

    def __init__(self, it: RequestHarness) -> None:
        self._it = it
        self._count = 0

    async def __call__(self) -> None:
        it, self._count = self._it, self._count + 1
        n = self._count
        await it.engine.must(set_(f"urn:todo:{n % 9}", n, blind=True), delete_("urn:todo:6", blind=True))
        await it.engine.must(set_("urn:todo:6", n, blind=True))
        await it.ask(CreateBranch(**writing(f"x{n}"), name=BranchName(f"b05x{n}")))
        await it.ask(CreateTag(**writing(f"y{n}"), name=BranchName(f"t05x{n}")))
        if n < 12:
            await it.ask(DeleteBranch(**writing(f"z{n}"), name=BranchName(f"b{12 - n:02}")))
            await it.ask(DeleteTag(**writing(f"d{n}"), name=BranchName(f"t{12 - n:02}")))
            if n % 2:
                again = CreateTag(**writing(f"a{n}"), name=BranchName(f"t{12 - n:02}"), version=Version(1))
                await it.ask(again)


LISTS: dict[str, tuple[PagedRequest, Callable[[Any], tuple[Any, ...]]]] = {
    "query": (query("*", "urn:no:1"), lambda page: page.entities + page.unresolved),
    "query of ids": (msgspec.structs.replace(query("*"), shape="ids"), lambda page: page.entities),
    "query of previews": (msgspec.structs.replace(query("*"), shape="preview"), lambda page: page.entities),
    "prefixes": (PrefixesRequest(id=1, separators=""), lambda page: page.prefixes),
    "history": (HistoryRequest(id=1, entity=ONE), lambda page: page.entries),
    "history, oldest": (HistoryRequest(id=1, entity=ONE, order="oldest"), lambda page: page.entries),
    "log": (LogRequest(id=1, author=ALICE, with_facts=True), lambda page: page.entries),
    "log, oldest": (LogRequest(id=1, order="oldest"), lambda page: page.entries),
    "diff": (DiffRequest(id=1, left=Moment(version=Version(4)), right=Moment()), lambda page: page.changes),
    "blame": (BlameRequest(id=1, entity=ONE), lambda page: page.lines),
    "branches": (ListBranches(id=1), lambda page: page.branches),
    "tags": (ListTags(id=1), lambda page: page.tags),
}


@pytest.mark.rule("QUERY-6")
@pytest.mark.parametrize("name", LISTS)
@pytest.mark.parametrize(("limit", "backend"), [(1, "memory"), (2, "sqlite"), (5, "memory")])
async def test_all_pages_together_are_the_whole_as_of_the_first_whatever_is_written_meanwhile(
    name: str, limit: int, backend: str, tmp_path: Path
) -> None:
    asked, items = LISTS[name]
    async with request_harness(SqliteStorage(tmp_path) if backend == "sqlite" else None) as it:
        await busy(it)
        whole = await it.ask(asked)
        assert whole.next is None
        assert len(items(whole)) > 2
        pages = await it.pages(msgspec.structs.replace(asked, limit=limit), meanwhile=Disturbing(it))
        assert sorted(map(repr, chain.from_iterable(map(items, pages)))) == sorted(map(repr, items(whole)))
        if name != "query":  # there what is unresolved comes with the page of its id
            assert tuple(chain.from_iterable(map(items, pages))) == items(whole)
        assert all(len(items(page)) <= limit for page in pages)
        pinned = {(page.left, page.right) if name == "diff" else page.version for page in pages}
        assert pinned == {(whole.left, whole.right) if name == "diff" else whole.version}


@pytest.mark.rule("QUERY-9")
@pytest.mark.parametrize("shape", ["whole", "preview", "ids"])
async def test_a_page_holds_no_more_of_the_values_than_it_brings(
    shape: Shape, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with request_harness() as it:
        await it.engine.must(*[set_(f"urn:n:{n:02}", {"a": "x" * 2_000}, blind=True) for n in range(40)])
        held = HeldValues(monkeypatch)
        asked = msgspec.structs.replace(query(Root("urn:n:*", "/a")), shape=shape)
        page = await it.ask(asked)
        assert (len(page.entities), page.next) == (40, None)
        assert (len(held.made), held.most) == (40, 2), "that before is let go when the next one is there"


@pytest.mark.rule("QUERY-9")
async def test_what_a_page_of_previews_reads_is_bounded_by_the_bytes_of_a_page() -> None:
    """Each of 256 KiB counts 4 KiB and what its id takes, though its preview is smaller."""
    async with request_harness(limits=Limits(part_bytes_max=16 * 1024)) as it:
        for n in range(7):
            await it.engine.must(set_(f"urn:n:{n}", {"a": "x" * 256 * 1024}, blind=True))
        asked = msgspec.structs.replace(query("urn:n:*"), shape="preview")
        pages = await it.pages(asked)
        assert [len(page.entities) for page in pages] == [3, 3, 1]


@pytest.mark.rule("QUERY-6")
async def test_pages_of_a_query_by_time_stay_at_the_version_found_first() -> None:
    async with request_harness() as it:
        await it.engine.must(*[set_(f"urn:n:{n}", n, blind=True) for n in range(5)])
        asked = msgspec.structs.replace(query("urn:n:*", time=1_000), limit=2)

        async def meanwhile() -> None:
            await it.engine.must(set_("urn:n:3", "later, at the same time", blind=True))

        pages = await it.pages(asked, meanwhile=meanwhile)
        assert [page.version for page in pages] == [2, 2, 2]
        assert {id_: value for page in pages for id_, value in values(page).items()} == {
            f"urn:n:{n}": n for n in range(5)
        }


@pytest.mark.rule("HISTORY-2")
async def test_a_page_of_what_was_compacted_meanwhile_says_so() -> None:
    async with request_harness() as it:
        await busy(it)
        for name in ("query", "history", "diff", "blame"):
            asked = msgspec.structs.replace(LISTS[name][0], limit=1)
            if name == "diff":
                asked = msgspec.structs.replace(asked, left=Moment(branch=BranchName("b00")))
            first = await it.ask(asked)
            await it.engine.must(set_("urn:other", name, blind=True))
            await it.ask(CompactRequest(**writing(name), floor=it.engine.space.version))
            with pytest.raises(errors.Compacted):
                await it.ask(msgspec.structs.replace(asked, after=first.next))


@pytest.mark.rule("QUERY-6")
async def test_a_tag_that_was_made_twice_is_listed_as_it_was_made_last() -> None:
    async with request_harness() as it:
        names = [BranchName("a"), BranchName("b"), BranchName("c")]
        for number, name in enumerate([*names, *names]):
            if number >= 3:
                await it.ask(DeleteTag(**writing(f"d{number}"), name=name))
            await it.ask(CreateTag(**writing(f"c{number}"), name=name, version=Version(number)))
            await it.engine.must(set_(ONE, number, blind=True))
        await it.ask(DeleteTag(**writing("gone"), name=names[2]))
        whole = await it.ask(ListTags(id=1))
        first = await it.ask(ListTags(id=1, limit=1))
        await it.ask(DeleteTag(**writing("last"), name=names[1]))
        await it.ask(CreateTag(**writing("new"), name=names[2]))
        rest = await it.ask(ListTags(id=1, after=first.next))
        assert [tag.version for tag in whole.tags] == [3, 4]
        assert (*first.tags, *rest.tags) == whole.tags


async def test_a_list_of_branches_that_changed_too_much_is_to_be_begun_again(monkeypatch: pytest.MonkeyPatch) -> None:
    async with request_harness() as it:
        await busy(it)
        first = await it.ask(ListBranches(id=1, limit=1))
        await Disturbing(it)()
        monkeypatch.setattr("stemmadb.server.service.requests.past_structure.LOOKED_AT_MAX", 2)
        monkeypatch.setattr("stemmadb.server.service.requests.past_structure.RECORDS_PAGE", 1)
        with pytest.raises(errors.Malformed) as raised:
            await it.ask(ListBranches(id=1, limit=1, after=first.next))
        assert raised.value.facts["path"] == "after"
        assert "begin again" in raised.value.facts["why"]


@pytest.mark.rule("QUERY-6")
async def test_pages_end_where_a_message_would_grow_too_large() -> None:
    limits = Limits(message_bytes_max=30_000, part_bytes_max=8_000)
    async with request_harness(limits=limits) as it:
        chance = random.Random(7)
        for number in range(30):
            await it.engine.must(set_(f"urn:n:{number:02}", "x" * chance.randint(1, 9_000), blind=True), note=NOTE)
        for asked in (
            query("*"),
            LogRequest(id=1, with_facts=True),
            DiffRequest(id=1, left=Moment(version=Version(1)), right=Moment()),
        ):
            pages = await it.pages(asked)
            assert len(pages) > 10
