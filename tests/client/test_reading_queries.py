"""Queries as users write them, and reads at the head with own pending writes on top."""

from __future__ import annotations

import random
from typing import Any

import pytest

from requesters import PendingWrites, RequestWorld, request_world
from service_peers import SPACE, put, remove
from stemmadb.client.reading.branches import Branches
from stemmadb.client.reading.fetch import FetchedSnapshot
from stemmadb.client.reading.heads import HEAD_READS_MAX, Heads
from stemmadb.client.reading.moment import Moment
from stemmadb.client.reading.queries import EntityPath, QueryResult
from stemmadb.protocol.errors import (
    InvalidPointer,
    InvalidQuery,
    InvalidSchema,
    LimitExceeded,
    Malformed,
    Unavailable,
)
from stemmadb.protocol.model.query.query import Query, Root
from stemmadb.protocol.model.values.ids import MAIN, BranchName
from stemmadb.protocol.model.values.limits import Limits
from stemmadb.protocol.wire.messages.reading import QueryAnswer, QueryRequest

X, Y, Z = "urn:x", "urn:y", "urn:z"
OPEN = {"type": "object", "properties": {"done": {"const": False}}, "required": ["done"]}


def link(id_: str) -> dict[str, Any]:
    return {"/": {"link@1": {"id": id_}}}


def heads(it: RequestWorld, own: PendingWrites | None = None, branch: str = MAIN) -> Heads:
    return Heads(it.requester, own or PendingWrites(), branch=BranchName(branch), space=SPACE.did)


# ---------------------------------------------------------------- as users write them


@pytest.mark.rule("QUERY-1")
async def test_a_query_takes_ids_prefixes_roots_and_several_of_them() -> None:
    async with request_world() as it:
        await it.commit(put(X, {"a": 1}), put(Y, 2), put("urn:t:1", 3), put("urn:t:2", 4))
        at = heads(it)
        assert dict(await at.query(X)) == {X: {"a": 1}}
        assert dict(await at.query("urn:t:*")) == {"urn:t:1": 3, "urn:t:2": 4}
        assert dict(await at.query([Y, "urn:t:*"])) == {Y: 2, "urn:t:1": 3, "urn:t:2": 4}
        found = await at.query([Root(X, "/a"), Y, "urn:lost"])
        assert dict(found) == {X: {"a": 1}, Y: 2}
        assert found.roots == (EntityPath(X, "/a"), EntityPath(Y, ""))
        assert found.unresolved == (EntityPath("urn:lost", ""),)
        assert found.nested() == [1, 2]
        assert found.version == 2


async def test_a_query_that_found_nothing_is_falsy() -> None:
    async with request_world() as it:
        found = await heads(it).query("urn:t:*", schema=OPEN)
        assert not found
        assert (len(found), found.roots, found.unresolved, found.nested()) == (0, (), (), [])


async def test_what_cannot_be_asked_is_refused_before_it_is_sent() -> None:
    async with request_world() as it:
        at = heads(it)
        with pytest.raises(InvalidQuery):
            await at.query([])
        with pytest.raises(InvalidQuery):
            await at.query([3])  # type: ignore[list-item]
        with pytest.raises(InvalidSchema):
            await at.query("*", schema={"type": "nonsense"})
        with pytest.raises(InvalidSchema):
            await at.query("*", schema={"const": {1, 2}})
        with pytest.raises(InvalidPointer):
            await at.query(X, path="a")
        with pytest.raises(InvalidQuery):
            await at.list("urn:t:")
        assert not it.requester.asked


@pytest.mark.rule("QUERY-7")
async def test_links_are_followed_and_nested() -> None:
    async with request_world() as it:
        await it.commit(put(X, {"child": link(Y), "lost": link("urn:no")}), put(Y, {"n": 1}))
        for found in (
            await heads(it).query(X, schema=True),
            await Moment(it.requester, branch=MAIN, space=SPACE.did).query(X, schema=True),
        ):
            assert set(found) == {X, Y}
            assert found.unresolved == (EntityPath("urn:no", ""),)
            assert found.nested() == [{"child": {"n": 1}, "lost": link("urn:no")}]


async def test_what_a_query_gives_belongs_to_the_reader() -> None:
    async with request_world() as it:
        await it.commit(put(X, {"child": link(Y), "other": link(Y)}), put(Y, {"n": [1]}))
        own = PendingWrites()
        own.add(Z, "set", {"deep": [1]})
        found: Any = await heads(it, own).query([X, Z], schema=True)
        nested: Any = found.nested()
        nested[0]["child"]["n"].append(2)
        found[Y]["n"].append(3)
        found[X].clear()
        found[Z]["deep"].append(2)
        assert found.nested() == [{"child": {"n": [1]}, "other": {"n": [1]}}, {"deep": [1]}]
        assert found.roots == (EntityPath(X, ""), EntityPath(Z, ""))
        assert await heads(it, own).get(Z) == {"deep": [1]}
        got: Any = await heads(it, own).get(Z)
        got["deep"].append(9)
        assert own.pending[0].value == {"deep": [1]}


# ---------------------------------------------------------------- own pending writes on top


@pytest.mark.rule("NURSERY-1")
async def test_own_pending_writes_are_seen_at_once() -> None:
    async with request_world() as it:
        await it.commit(put(X, {"n": 1}), put(Y, 2))
        own = PendingWrites()
        at = heads(it, own)
        own.add(X, "patch", [{"op": "replace", "path": "/n", "value": 5}])
        own.add(Y, "delete")
        own.add(Z, "set", 3)
        assert await at.get(X) == {"n": 5}
        assert await at.get(X, "/n") == 5
        assert await at.get(X, "/m") is None
        assert await at.get(Y) is None
        assert await at.get(Z) == 3
        assert await at.list("urn:*") == {X: {"n": 5}, Z: 3}
        assert list(await at.query("*")) == [SPACE.did, X, Z]
        found = await at.query([X, Y])
        assert (dict(found), found.unresolved) == ({X: {"n": 5}}, (EntityPath(Y, ""),))


@pytest.mark.rule("NURSERY-1")
async def test_pending_writes_on_another_branch_are_not_seen() -> None:
    async with request_world() as it:
        await it.commit(put(X, 1))
        await Branches(it.requester).create("draft")
        own = PendingWrites(BranchName("draft"))
        own.add(X, "set", 2)
        assert await heads(it, own).list("urn:*") == {X: 1}
        assert await heads(it, own, "draft").list("urn:*") == {X: 2}


@pytest.mark.rule("QUERY-7")
async def test_a_pending_link_is_followed_to_what_the_server_has() -> None:
    async with request_world() as it:
        await it.commit(put(X, {"done": True}), put(Y, {"next": link(Z)}), put(Z, {"z": 1}))
        own = PendingWrites()
        own.add(X, "set", {"done": False, "next": link(Y)})
        schema = {**OPEN, "properties": {"done": {"const": False}, "next": True}}
        found = await heads(it, own).query("urn:x*", schema=schema)
        assert set(found) == {X, Y, Z}
        assert found.nested() == [{"done": False, "next": {"next": {"z": 1}}}]
        own.add(Y, "delete")
        found = await heads(it, own).query("urn:x*", schema=schema)
        assert (set(found), found.unresolved) == ({X}, (EntityPath(Y, ""),))


@pytest.mark.rule("NURSERY-1")
async def test_a_read_that_would_miss_an_own_accepted_write_is_made_again() -> None:
    async with request_world() as it:
        await it.commit(put(X, 1))
        own = PendingWrites()
        at = heads(it, own)

        async def accepted() -> None:
            own.accept(await it.commit(put(X, 2)))

        for read in (at.get, at.query):
            own.add(X, "set", 2)
            it.requester.meanwhile.append(accepted)
            it.requester.asked.clear()
            got = await read(X)
            assert (dict(got) if isinstance(got, QueryResult) else {X: got}) == {X: 2}
            assert it.requester.asked == [QueryRequest] * 2


@pytest.mark.rule("NURSERY-1")
async def test_a_write_that_was_made_and_accepted_while_reading_is_not_lost_beneath_a_later_one() -> None:
    async with request_world() as it:
        await it.commit(put(X, {"n": 1}))
        own = PendingWrites()

        async def write_twice() -> None:
            own.add(X, "set", {"m": 1})
            own.accept(await it.commit(put(X, {"m": 1})))
            own.add(X, "patch", [{"op": "add", "path": "/k", "value": 2}])

        it.requester.meanwhile.append(write_twice)
        assert dict(await heads(it, own).query("urn:*")) == {X: {"m": 1, "k": 2}}


@pytest.mark.rule("NURSERY-1")
async def test_a_later_pending_write_is_not_shown_without_an_earlier_one_that_was_accepted_meanwhile() -> None:
    async with request_world() as it:
        await it.commit(put(X, 1))
        own = PendingWrites()

        async def write_both() -> None:
            own.add(X, "set", 2)
            own.accept(await it.commit(put(X, 2)))
            own.add(Y, "set", 3)

        it.requester.meanwhile.append(write_both)
        assert dict(await heads(it, own).query("urn:*")) == {X: 2, Y: 3}


@pytest.mark.rule("NURSERY-1")
async def test_a_pending_write_that_no_longer_applies_is_not_shown() -> None:
    async with request_world() as it:
        await it.commit(put(X, {"n": 1}))
        own = PendingWrites()
        own.add(X, "patch", [{"op": "remove", "path": "/gone"}])
        found = await heads(it, own).query("urn:*")
        assert repr(found) == "QueryResult(version=2, {'urn:x': {'n': 1}})"


async def test_a_pending_patch_makes_an_entity_match_that_did_not() -> None:
    async with request_world() as it:
        await it.commit(put(X, {"done": True, "n": 1}))
        own = PendingWrites()
        own.add(X, "patch", [{"op": "replace", "path": "/done", "value": False}])
        assert dict(await heads(it, own).query("urn:*", schema=OPEN)) == {X: {"done": False, "n": 1}}


@pytest.mark.rule("QUERY-1")
async def test_links_are_followed_at_the_version_of_the_roots_whatever_is_written_meanwhile() -> None:
    async with request_world() as it:
        await it.commit(put(X, 1), put(Y, "old"))
        own = PendingWrites()
        own.add(X, "set", link(Y))

        async def overtake() -> None:
            await it.commit(put(Y, "new"))

        it.requester.meanwhile.append(overtake)
        found = await heads(it, own).query(X, schema=True)
        assert (found.version, dict(found)) == (2, {X: link(Y), Y: "old"})


@pytest.mark.rule("NURSERY-1")
async def test_a_refusal_while_links_are_followed_leaves_no_half_of_a_commit() -> None:
    async with request_world() as it:
        await it.commit(put(X, {"to": link(Y)}), put(Y, {"old": 1}), put(Z, 1))
        own = PendingWrites()
        own.add(X, "set", {"to": link(Z), "new": True})
        own.add(Y, "set", {"new": True})

        async def nothing() -> None: ...

        async def refused() -> None:
            own.pending.clear()

        it.requester.meanwhile.extend([nothing, refused])
        found = await heads(it, own).query(X, schema=True)
        assert dict(found) == {X: {"to": link(Y)}, Y: {"old": 1}}
        assert not it.requester.meanwhile


async def test_a_head_that_own_commits_change_all_the_time_says_so() -> None:
    async with request_world() as it:
        await it.commit(put(X, 0))
        own = PendingWrites()

        async def again() -> None:
            own.add(X, "set", 0)
            own.accept(await it.commit(put(X, 0)))

        it.requester.meanwhile.extend([again] * HEAD_READS_MAX)
        with pytest.raises(Unavailable) as busy:
            await heads(it, own).get(X)
        assert busy.value.retriable
        assert len(it.requester.asked) == HEAD_READS_MAX


@pytest.mark.rule("QUERY-6")
async def test_bounds_hold_for_schemas_and_lists_come_in_pages() -> None:
    limits = Limits(page_max=3, query_entities_max=4, roots_max=2)
    async with request_world(limits=limits) as it:
        await it.commit(*(put(f"urn:n:{n}", {"n": n}) for n in range(4)))
        own = PendingWrites()
        for n in range(3, 9):
            own.add(f"urn:n:{n}", "set", n)
        assert len(await heads(it, own).list("urn:n:*")) == 9
        with pytest.raises(LimitExceeded) as too_many:
            await heads(it, own).query("urn:n:*", schema=True)
        assert too_many.value.facts["bound"] == "query_entities_max"


async def test_lost_connections_do_not_show() -> None:
    async with request_world(limits=Limits(page_max=1)) as it:
        await it.commit(put(X, 1), put(Y, 2))
        own = PendingWrites()
        own.add(Z, "set", 3)
        it.requester.losses.extend(["question", "answer", "no", "answer", "no", "question"])
        assert await heads(it, own).list("urn:*") == {X: 1, Y: 2, Z: 3}


async def test_pages_of_two_versions_are_never_put_together() -> None:
    async with request_world(limits=Limits(page_max=1)) as it:
        await it.commit(put(X, 1), put(Y, 2))
        first = await it.requester.ask(QueryRequest, QueryAnswer, query=Query((Root("urn:*"),)))
        snapshot = FetchedSnapshot(first.version)
        snapshot.take(first)
        await it.commit(put(Y, 3))
        with pytest.raises(Malformed):
            snapshot.take(await it.requester.ask(QueryRequest, QueryAnswer, query=Query((Root("urn:*"),))))


IDS = [f"urn:g:{n}" for n in range(6)]
SCHEMAS: list[Any] = [
    None,
    True,
    {"type": "object", "properties": {"done": {"const": False}, "next": True}},
    {"properties": {"next": {"properties": {"next": {"type": "object"}}}}},
]


def random_value(rng: random.Random) -> Any:
    value: dict[str, Any] = {"done": rng.random() < 0.5}
    if rng.random() < 0.8:
        value["next"] = link(rng.choice(IDS))
    if rng.random() < 0.3:
        value["more"] = [link(rng.choice(IDS))]
    return value


@pytest.mark.rule("NURSERY-1", "QUERY-7")
@pytest.mark.parametrize("seed", range(40))
async def test_what_is_shown_with_pending_writes_is_what_the_server_has_once_they_are_accepted(seed: int) -> None:
    rng = random.Random(seed)
    async with request_world(limits=Limits(page_max=rng.choice([2, 1000]), roots_max=rng.choice([3, 1000]))) as it:
        held = [id_ for id_ in IDS if rng.random() < 0.7]
        if held:
            await it.commit(*(put(id_, random_value(rng)) for id_ in held))
        own = PendingWrites()
        operations = []
        for id_ in rng.sample(IDS, rng.randint(1, 4)):
            if id_ in held and rng.random() < 0.3:
                own.add(id_, "delete")
                operations.append(remove(id_))
            else:
                value = random_value(rng)
                own.add(id_, "set", value)
                operations.append(put(id_, value))
        asked = [
            (rng.choice(["urn:g:*", "urn:g:1*", IDS[0], [IDS[0], IDS[3]], [IDS[2], "urn:g:4*"]]), rng.choice(SCHEMAS))
            for _ in range(4)
        ]
        shown = [await heads(it, own).query(selector, schema=schema) for selector, schema in asked]
        await it.commit(*operations)
        for (selector, schema), before in zip(asked, shown, strict=True):
            after = await heads(it).query(selector, schema=schema)
            assert dict(before) == dict(after)
            assert before.unresolved == after.unresolved
            assert (before.roots, before.nested()) == (after.roots, after.nested())
