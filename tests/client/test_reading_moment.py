"""A branch as it was: values, lists and queries of one past version, and the errors that say why there is none."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from requesters import RequestWorld, request_world
from service_peers import SPACE, patch, put, remove
from stemmadb.client.reading.blobs import Blobs
from stemmadb.client.reading.branches import Branches, Tags
from stemmadb.client.reading.erasure import compact, erase
from stemmadb.client.reading.moment import Moment
from stemmadb.client.reading.plain import DELETED
from stemmadb.protocol.errors import (
    Compacted,
    Erased,
    FutureVersion,
    InvalidId,
    InvalidPointer,
    InvalidQuery,
    UnknownBlob,
    UnknownBranch,
    UnknownTag,
)
from stemmadb.protocol.model.values.ids import MAIN, BranchName
from stemmadb.protocol.model.values.limits import Limits

X, Y = "urn:x", "urn:y"
pytestmark = pytest.mark.rule("HISTORY-2")


def at(it: RequestWorld, branch: str = MAIN, **when: Any) -> Moment:
    return Moment(it.requester, branch=BranchName(branch), space=SPACE.did, **when)


def clock(it: RequestWorld) -> datetime:
    return datetime.fromtimestamp(it.harness.clock.now / 1000, UTC)


async def test_a_value_is_read_as_it_was_at_a_version() -> None:
    async with request_world() as it:
        await it.commit(put(X, {"a": {"b": 1}}))
        await it.commit(patch(X, {"op": "replace", "path": "/a/b", "value": 2}))
        await it.commit(remove(X))
        assert await at(it, version=2).get(X) == {"a": {"b": 1}}
        assert await at(it, version=3).get(X, "/a/b") == 2
        assert await at(it, version=3).get(X, "/a/nothing") is None
        assert await at(it, version=4).get(X) is None
        assert await at(it, version=1).get(X) is None
        assert await at(it, version=0).get(X) is None


async def test_a_value_is_read_as_it_was_at_a_time() -> None:
    async with request_world() as it:
        await it.commit(put(X, 1))
        first = clock(it)
        it.harness.clock.now += 1_000
        await it.commit(put(X, 2))
        then = at(it, time=first + timedelta(milliseconds=999, microseconds=999))
        assert repr(then) == f"Moment('main', time={it.harness.clock.now - 1})"
        assert await then.get(X) == 1
        assert repr(then) == "Moment('main', version=2)"
        elsewhere = (first + timedelta(seconds=1)).astimezone(timezone(timedelta(hours=5)))
        assert await at(it, time=elsewhere).get(X) == 2
        assert await at(it, time=it.harness.clock.now).get(X) == 2
        assert await at(it, time=it.harness.clock.now - 1).get(X) == 1


async def test_what_is_asked_first_settles_the_version_for_all_that_follows() -> None:
    async with request_world() as it:
        await it.commit(put(X, 1))
        now = at(it)
        assert await now.get(X) == 1
        await it.commit(put(X, 2), put(Y, 1))
        assert (await now.get(X), await now.get(Y), await now.list("urn:*")) == (1, None, {X: 1})
        assert (now.version, (await now.query("urn:*")).version) == (2, 2)
        assert await at(it).settled() == 3


async def test_two_first_questions_at_once_are_of_one_version() -> None:
    async with request_world() as it:
        await it.commit(put(X, 1))

        async def overtake() -> None:
            await it.commit(put(X, 2))

        it.requester.meanwhile.append(overtake)
        now = at(it)
        first, second, version = await asyncio.gather(now.get(X), now.get(X), now.settled())
        assert (first, second, version) == (1, 1, 2)


async def test_a_tag_names_a_version_of_its_branch() -> None:
    async with request_world(limits=Limits(page_max=1)) as it:
        await it.commit(put(X, 1))
        await Branches(it.requester).create("draft")
        await it.commit(put(X, 2), branch="draft")
        tags = Tags(it.requester)
        await tags.create("a", version=2)
        await tags.create("b", branch="draft")
        await it.commit(put(X, 3), branch="draft")
        moment = at(it, tag="b")
        assert await moment.get(X) == 2
        assert (moment.branch, moment.version) == ("draft", 5)
        assert await at(it, tag="a").get(X) == 1
        with pytest.raises(UnknownTag):
            await at(it, tag="c").get(X)


async def test_a_list_has_everything_under_a_prefix_whatever_the_pages() -> None:
    async with request_world(limits=Limits(page_max=2)) as it:
        await it.commit(*(put(f"urn:n:{n}", n) for n in range(5)), put(X, "x"))
        then = at(it, version=2)
        await it.commit(remove("urn:n:3"), put("urn:n:9", 9))
        assert await then.list("urn:n:*") == {f"urn:n:{n}": n for n in range(5)}
        assert set(await then.list()) == {*(f"urn:n:{n}" for n in range(5)), X, SPACE.did}
        assert await then.list("urn:m:*") == {}
        with pytest.raises(InvalidQuery, match="ends with"):
            await then.list("urn:n:")


async def test_history_and_blame_go_up_to_the_moment() -> None:
    async with request_world() as it:
        await it.commit(put(X, 1))
        then = clock(it)
        it.harness.clock.now += 1_000
        await it.commit(put(X, 2))
        assert [entry.version for entry in await at(it, time=then).history(X).all()] == [2]
        assert [entry.version for entry in await at(it, version=3).history(X, order="oldest").all()] == [2, 3]
        assert [line.version for line in await at(it, time=then).blame(X)] == [2]


async def test_a_branch_is_read_at_any_version_as_well() -> None:
    async with request_world() as it:
        await it.commit(put(X, 1))
        await Branches(it.requester).create("draft")
        await it.commit(put(X, 2), branch="draft")
        assert await at(it, "draft", version=3).get(X) == 1
        assert await at(it, "draft").get(X) == 2
        assert await at(it).get(X) == 1


async def test_what_cannot_be_read_says_why() -> None:
    async with request_world() as it:
        await it.commit(put(X, 1))
        with pytest.raises(FutureVersion) as future:
            await at(it, version=9).get(X)
        assert future.value.facts["head"] == 2
        with pytest.raises(UnknownBranch):
            await at(it, "draft").list()
        with pytest.raises(InvalidId):
            await at(it).get("no id")
        with pytest.raises(InvalidPointer):
            await at(it).get(X, "a")
        with pytest.raises(InvalidQuery, match="has no zone"):
            at(it, time=datetime(2026, 1, 1))
        for wrong in ({"version": -1}, {"version": True}, {"version": 1, "tag": "v"}, {"time": 1.5}, {"time": -1}):
            with pytest.raises(InvalidQuery):
                at(it, **wrong)


@pytest.mark.rule("ERASE-1", "COMPACT-1")
async def test_what_was_erased_or_compacted_is_not_taken_for_what_never_was() -> None:
    async with request_world() as it:
        await it.commit(put(X, {"a": "secret"}))
        await it.commit(patch(X, {"op": "add", "path": "/b", "value": 1}))
        await it.commit(remove(X))
        await it.commit(put(X, {"a": "public"}))
        await erase(it.requester, X, [2])
        for version in (2, 3):
            with pytest.raises(Erased):
                await at(it, version=version).get(X)
            with pytest.raises(Erased):
                await at(it, version=version).get(X, "/b")
        assert await at(it, version=4).get(X) is None
        assert await at(it, version=5).get(X) == {"a": "public"}
        assert await at(it, version=3).list("urn:*") == {}
        await compact(it.requester, 5)
        with pytest.raises(Compacted) as compacted:
            await at(it, version=4).get(X)
        assert compacted.value.facts["oldest"] == 5


@pytest.mark.rule("ERASE-1")
async def test_erasing_a_head_leaves_what_is_given_on_each_branch() -> None:
    async with request_world() as it:
        await it.commit(put(X, "secret"))
        await Branches(it.requester).create("draft")
        done = await erase(it.requester, X, [2], survivors={"main": {"kept": None}, "draft": DELETED}, note="law")
        assert (done.version, done.erased) == (4, 1)
        assert await at(it).get(X) == {"kept": None}
        assert await at(it, "draft").get(X) is None
        gone = (await at(it).history(X, order="oldest").all())[0]
        assert (gone.kind, gone.value, gone.gone) == ("set", None, True)


@pytest.mark.rule("ERASE-1")
async def test_blobs_are_erased_with_the_value_that_names_them() -> None:
    async with request_world() as it:
        ref = await Blobs(it.requester).put(b"secret")
        await it.commit(put(X, {"file": ref.hash}))
        await it.commit(put(X, {}))
        await erase(it.requester, X, [2], blobs=[ref.hash])
        with pytest.raises(UnknownBlob):
            await Blobs(it.requester).get(ref)


async def test_a_compaction_tells_what_it_removed() -> None:
    async with request_world() as it:
        for value in range(4):
            await it.commit(put(X, value))
        done = await compact(it.requester, 5, note={"message": "old"})
        assert (done.version, done.floor, done.bodies) == (6, 5, 3)


async def test_what_a_moment_gives_belongs_to_the_reader() -> None:
    async with request_world() as it:
        await it.commit(put(X, {"a": [1]}))
        then = at(it, version=2)
        value: Any = await then.get(X)
        value["a"].append(2)
        found: Any = await then.query(X)
        found[X]["a"].append(3)
        assert await then.get(X) == {"a": [1]}
