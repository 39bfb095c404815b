"""History, log, difference and blame as a user reads them, in pages and across lost connections."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from requesters import request_world
from service_peers import ALICE, BOB, SPACE, patch, put, remove
from stemmadb.client.reading.branches import Branches
from stemmadb.client.reading.differences import EntityChange, diff
from stemmadb.client.reading.entries import FactChange
from stemmadb.client.reading.moment import Moment
from stemmadb.client.reading.past import HistoryPoint, blame, history, log
from stemmadb.protocol.errors import FutureVersion, InvalidQuery, NotFound, UnknownBranch
from stemmadb.protocol.model.values.body import encode
from stemmadb.protocol.model.values.ids import MAIN, BranchName, Version
from stemmadb.protocol.model.values.limits import Limits
from stemmadb.protocol.wire.messages.reading import LogRequest

X, Y = "urn:x", "urn:y"
HERE = HistoryPoint(MAIN)


@pytest.mark.rule("HISTORY-1")
async def test_history_tells_every_change_with_its_commit_newest_first() -> None:
    async with request_world() as it:
        await it.commit(put(X, {"a": 1}), note=encode({"message": "first"}))
        await it.commit(patch(X, {"op": "replace", "path": "/a", "value": 2}))
        await it.commit(remove(X))
        gone, patched, made = await history(it.requester, X, HERE).all()
        assert (made.version, made.kind, made.value, made.patch) == (2, "set", {"a": 1}, None)
        assert (made.note, made.author, made.branch, made.made_by) == (
            {"message": "first"},
            ALICE.did,
            MAIN,
            "commit",
        )
        assert made.time_ms == it.harness.clock.now
        assert made.time == datetime.fromtimestamp(it.harness.clock.now / 1000, UTC)
        assert made.hash.startswith("b3:")
        assert (patched.kind, patched.value) == ("patch", None)
        assert patched.patch == [{"op": "replace", "path": "/a", "value": 2}]
        assert (gone.version, gone.kind, gone.value, gone.patch, gone.gone) == (4, "delete", None, None, False)


@pytest.mark.rule("HISTORY-1", "QUERY-6")
async def test_history_is_read_page_by_page_of_one_version_while_others_write() -> None:
    async with request_world(limits=Limits(page_max=2)) as it:
        for value in range(5):
            await it.commit(put(X, value))
        listing = history(it.requester, X, HERE, order="oldest")
        assert repr(listing) == "Listing(version=None)"
        assert not it.requester.asked
        seen = []
        async for entry in listing:
            seen.append(entry.value)
            await it.commit(put(X, "later"))
        assert seen == [0, 1, 2, 3, 4]
        assert listing.version == 6
        assert len(it.requester.asked) == 3
        assert len(await listing.all()) == 10
        assert listing.version == 11


async def test_of_a_list_no_more_is_asked_for_than_is_wanted() -> None:
    async with request_world(limits=Limits(page_max=2)) as it:
        for value in range(5):
            await it.commit(put(X, value))
        listing = history(it.requester, X, HERE)
        newest = await listing.first()
        assert newest is not None
        assert newest.value == 4
        assert [entry.value for entry in await listing.all(limit=3)] == [4, 3, 2]
        assert await listing.all(limit=0) == []
        assert len(it.requester.asked) == 3
        with pytest.raises(InvalidQuery):
            await listing.all(limit=-1)


async def test_the_history_of_what_never_was_is_not_found() -> None:
    async with request_world() as it:
        with pytest.raises(NotFound):
            await history(it.requester, X, HERE).first()
        with pytest.raises(NotFound):
            await blame(it.requester, X, branch=MAIN)


@pytest.mark.rule("HISTORY-1")
async def test_the_log_shows_the_commits_that_pass_every_filter() -> None:
    async with request_world() as it:
        bob = await it.harness.peer(BOB).open()
        await it.commit(put(X, 1))
        it.harness.clock.now += 1_000
        await bob.commit(put(Y, 1))
        then = datetime.fromtimestamp(it.harness.clock.now / 1000, UTC)
        it.harness.clock.now += 1_000
        await it.commit(put(Y, 2))
        assert [entry.version for entry in await log(it.requester).all()] == [4, 3, 2, 1]
        assert [entry.version for entry in await log(it.requester, author=BOB.did).all()] == [3]
        assert [entry.version for entry in await log(it.requester, prefix=Y, order="oldest").all()] == [3, 4]
        assert [entry.version for entry in await log(it.requester, since=then, until=then).all()] == [3]
        assert [entry.version for entry in await log(it.requester, session=bob.session).all()] == [3]
        assert [entry.version for entry in await log(it.requester, version=2, branch="main").all()] == [2, 1]
        entry = await log(it.requester, author=BOB.did).first()
        assert entry is not None
        assert (entry.kind, entry.branch, entry.session, entry.local) == ("commit", "main", bob.session, 1)
        assert (entry.time, entry.details, entry.changes, entry.facts_count) == (then, None, (), 1)


@pytest.mark.rule("HISTORY-1")
@pytest.mark.parametrize("page_max", [1, 2, 3, 1000])
async def test_a_commit_that_is_cut_between_pages_of_the_log_is_one_entry(page_max: int) -> None:
    big = "x" * 900
    limits = Limits(page_max=page_max, message_bytes_max=8_000, part_bytes_max=4_000, value_bytes_max=2_000)
    async with request_world(limits=limits) as it:
        await it.commit(*(put(f"urn:b:{n}", big) for n in range(6)))
        await it.commit(*(put(f"urn:c:{n}", big) for n in range(6)))
        entries = await log(it.requester, with_facts=True).all()
        assert [entry.version for entry in entries] == [3, 2, 1]
        assert [change.id for change in entries[0].changes] == [f"urn:c:{n}" for n in range(6)]
        assert entries[1].changes[5] == FactChange(id="urn:b:5", kind="set", branch=MAIN, value=big)  # type: ignore[arg-type]
        assert len(it.requester.asked) > 1
        first = await log(it.requester, with_facts=True).first()
        assert first == entries[0]


async def test_what_a_write_did_is_told_in_words() -> None:
    async with request_world() as it:
        await it.commit(put(X, 1))
        await Branches(it.requester).create("draft", note="try it")
        entry = await log(it.requester).first()
        assert entry is not None
        assert (entry.kind, entry.branch, entry.note) == ("branch.create", None, {"message": "try it"})
        assert entry.details == {"kind": "branch.create", "name": "draft", "parent": "main", "fork": 2}


@pytest.mark.rule("HISTORY-1")
async def test_a_difference_leads_from_one_state_to_another() -> None:
    async with request_world(limits=Limits(page_max=1)) as it:
        await it.commit(put(X, {"a": 1}), put(Y, 1))
        await it.commit(put(X, {"a": 2}), remove(Y), put("urn:z", None))
        found = await diff(it.requester, 2, 3, branch=MAIN)
        assert (found.left, found.right, found.version, len(found)) == (2, 3, 3, 3)
        changes = {change.id: change for change in found}
        assert changes == {
            X: EntityChange(
                id=X,  # type: ignore[arg-type]
                before=Version(2),
                after=Version(3),
                patch=[{"op": "replace", "path": "/a", "value": 2}],
            ),
            Y: EntityChange(id=Y, before=Version(2), value=1),  # type: ignore[arg-type]
            "urn:z": EntityChange(id="urn:z", after=Version(3)),  # type: ignore[arg-type]
        }
        assert [change.kind for change in found] == ["changed", "removed", "added"]
        assert len(it.requester.asked) == 3
        assert not await diff(it.requester, 3, branch=MAIN)
        assert [change.id for change in await diff(it.requester, 2, 3, branch=MAIN, prefix="urn:z*")] == ["urn:z"]


async def test_the_sides_of_a_difference_can_be_times_branches_and_moments() -> None:
    async with request_world() as it:
        await it.commit(put(X, 1))
        then = datetime.fromtimestamp(it.harness.clock.now / 1000, UTC)
        it.harness.clock.now += 1_000
        await it.commit(put(X, 2))
        assert [change.before for change in await diff(it.requester, then, branch=MAIN)] == [2]
        moment = Moment(it.requester, branch=MAIN, space=SPACE.did, time=then)
        assert [change.before for change in await diff(it.requester, moment, "main", branch=MAIN)] == [2]
        with pytest.raises(UnknownBranch):
            await diff(it.requester, "draft", branch=MAIN)
        with pytest.raises(FutureVersion):
            await diff(it.requester, 1, 9, branch=MAIN)
        with pytest.raises(InvalidQuery):
            await diff(it.requester, -1, branch=MAIN)


@pytest.mark.rule("HISTORY-1")
async def test_blame_names_who_wrote_each_leaf_last() -> None:
    async with request_world(limits=Limits(page_max=1)) as it:
        bob = await it.harness.peer(BOB).open()
        await it.commit(put(X, {"a": 1, "b": {"c": 2}}))
        await bob.commit(patch(X, {"op": "replace", "path": "/b/c", "value": 3}), note=encode("better"))
        lines = await blame(it.requester, X, branch=MAIN)
        told = [(line.path, line.version, line.author, line.note) for line in lines]
        assert told == [("/a", 2, ALICE.did, {}), ("/b/c", 3, BOB.did, {"message": "better"})]
        assert [line.path for line in await blame(it.requester, X, branch=MAIN, path="/b")] == ["/b/c"]
        assert [line.version for line in await blame(it.requester, X, branch=MAIN, version=Version(2))] == [2, 2]


async def test_reading_goes_on_after_connections_were_lost() -> None:
    async with request_world(limits=Limits(page_max=1)) as it:
        for value in range(3):
            await it.commit(put(X, value))
        it.requester.losses.extend(["answer", "no", "question", "answer"])
        assert [entry.version for entry in await log(it.requester).all()] == [4, 3, 2, 1]
        assert it.requester.asked == [LogRequest] * 7


async def test_what_is_read_belongs_to_the_reader() -> None:
    async with request_world() as it:
        await it.commit(put(X, {"a": [1]}), note=encode({"m": 1}))
        listing = history(it.requester, X, HERE)
        entry = await listing.first()
        assert entry is not None
        assert isinstance(entry.value, dict)
        entry.value["a"] = "spoilt"
        again = await listing.first()
        assert again is not None
        assert again.value == {"a": [1]}


async def test_a_time_without_a_zone_is_refused() -> None:
    async with request_world() as it:
        with pytest.raises(InvalidQuery, match="has no zone"):
            log(it.requester, since=datetime(2026, 1, 1))
        with pytest.raises(InvalidQuery):
            log(it.requester, version=-3)
        with pytest.raises(InvalidQuery):
            history(it.requester, X, HistoryPoint(MAIN, Version(-1)))
        with pytest.raises(InvalidQuery):
            await blame(it.requester, X, branch=MAIN, version=Version(-1))
        with pytest.raises(UnknownBranch):
            await log(it.requester, branch=BranchName("nowhere")).first()
