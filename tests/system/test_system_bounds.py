"""Every bound that a client can pass over the socket: a typed error that names it, and the session lives."""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from plain_bytes import digest
from plain_client import PlainClient
from plain_content import content_of, increment, link_to, patch_, query_of, read_, set_
from plain_holding import Fields
from plain_world import ServedSpace, agree

pytestmark = pytest.mark.asyncio(loop_scope="module")
SMALL = {
    "message_bytes_max": 60_000, "part_bytes_max": 4_000, "value_bytes_max": 20_000, "depth_max": 8,
    "id_bytes_max": 80, "operations_max": 12, "bulk_operations_max": 20, "patch_operations_max": 4, "reads_max": 6,
    "locals_max": 3, "note_bytes_max": 200, "watches_max": 3, "roots_max": 4, "query_entities_max": 20,
    "query_depth_max": 3, "query_bytes_max": 40_000, "schema_bytes_max": 4_000, "page_max": 5, "branch_depth_max": 3,
    "blob_chunk_bytes_max": 1_000, "blob_bytes_max": 5_000, "quiet_versions_max": 5, "lost_keep_max": 4,
}  # fmt: skip
Attempt = Callable[[PlainClient], Awaitable[Fields]]
IDS = {"operation": bytes(16), "nonce": bytes(16)}


@pytest.fixture(scope="module")
def settings() -> dict[str, Any]:
    return dict(SMALL)


def asking(kind: str, **fields: Any) -> Attempt:
    """A request that is too large in one way."""

    async def attempt(client: PlainClient) -> Fields:
        return (await client.refusal(kind, **fields)).error

    return attempt


def writing(*operations: Fields, **more: Any) -> Attempt:
    """A commit that is: it is answered with a verdict, or with an error that has its local."""

    async def attempt(client: PlainClient) -> Fields:
        local = await client.commit(*operations, **more)
        identity = (client.holding.session, local)
        await client.until(lambda: identity in client.holding.verdicts or bool(client.errors))
        if client.errors:
            assert client.errors[-1]["local"] == local
            return client.errors[-1]
        return client.holding.verdicts[identity]

    return attempt


def nested(depth: int) -> Any:
    value: Any = 0
    for _ in range(depth):
        value = [value]
    return value


MANY = [set_(f"urn:n:{number}", 1) for number in range(13)]
READS = [read_(1, entity=f"urn:n:{number}") for number in range(7)]
CASES: list[tuple[str, Attempt]] = [
    ("value_bytes_max", writing(set_("urn:a:1", "x" * 20_001))),
    ("operations_max", writing(*MANY)),
    ("patch_operations_max", writing(set_("urn:a:1", {"n": 0}), patch_("urn:a:1", *[increment("/n")] * 5))),
    ("reads_max", writing(set_("urn:a:1", 1), reads=READS)),
    ("locals_max", writing(set_("urn:a:1", 1), reads=[read_(1, entity="urn:a:1", locals_=[1, 2, 3, 4])])),
    ("note_bytes_max", writing(set_("urn:a:1", 1), note="x" * 201)),
    ("roots_max", asking("query", query=query_of(*["urn:a:1"] * 5))),
    ("page_max", asking("log", limit=6)),
    ("schema_bytes_max", asking("query", query=query_of({"id": "*", "schema": {"title": "x" * 4_001}}))),
    ("blob_bytes_max", asking("blob.begin", blob=digest(b"x"), size=5_001)),
    ("blob_chunk_bytes_max", asking("blob.chunk", blob=digest(b"x"), offset=0, data=bytes(1_001))),
    ("bulk_operations_max", asking("erase", **IDS, entity="urn:a:1", versions=list(range(1, 23)))),
]


@pytest.mark.rule("WIRE-4", "COMMIT-6")
@pytest.mark.parametrize(("bound", "attempt"), CASES, ids=[bound for bound, _ in CASES])
async def test_past_a_bound_the_answer_names_it(
    served_space: ServedSpace, bound: str, attempt: Attempt, text: bool
) -> None:
    client = await served_space.enter(text=text)
    error = await attempt(client)
    assert error["code"] == "limit_exceeded", error
    assert error["details"]["bound"] == bound
    assert error["details"]["maximum"] == SMALL[bound] == client.limits[bound]
    assert error["details"]["actual"] > SMALL[bound]
    client.errors.clear()
    await client.write_now(set_("urn:a:2", 1))


@pytest.mark.rule("WIRE-4", "MODEL-2")
async def test_an_id_that_is_too_long_is_refused(served_space: ServedSpace, text: bool) -> None:
    client = await served_space.enter(text=text)
    error = await writing(set_("urn:" + "x" * 77, 1))(client)
    assert error["code"] in ("invalid_id", "limit_exceeded")
    client.errors.clear()
    await client.write_now(set_("urn:" + "x" * 76, 1))


@pytest.mark.rule("MODEL-3")
async def test_a_value_that_is_nested_too_deep_is_refused_with_its_place(
    served_space: ServedSpace, text: bool
) -> None:
    client = await served_space.enter(text=text)
    error = await writing(set_("urn:a:1", nested(9)))(client)
    assert error["code"] == "invalid_value"
    assert error["details"]["path"].startswith("/0/0")
    await client.write_now(set_("urn:a:1", nested(8)))


@pytest.mark.rule("WIRE-4")
async def test_a_message_past_the_bound_of_its_kind(served_space: ServedSpace, text: bool) -> None:
    client = await served_space.enter(text=text)
    refused = await client.refusal("history", entity="urn:a:1", after="x" * 4_100)
    assert refused.code in ("limit_exceeded", "malformed")
    content = content_of([set_("urn:a:1", "x" * 60_001)], reads=[], branch="main")
    large = {"type": "commit", "local": 1, "nonce": bytes(16), "content": content}
    await client.send(large)
    await client.until(lambda: bool(client.errors))
    assert client.errors[-1]["code"] == "limit_exceeded"
    assert client.errors[-1]["details"]["bound"] == "message_bytes_max"
    assert client.errors[-1]["local"] == 1
    client.errors.clear()
    await client.write_now(set_("urn:a:1", 1))


@pytest.mark.rule("WATCH-1", "WIRE-4")
async def test_too_many_watches(served_space: ServedSpace, text: bool) -> None:
    client = await served_space.enter(text=text)
    for number in (1, 2, 3):
        await client.watch_filled(number, query_of("urn:a:*"))
    refused = await client.refusal("watch", watch=4, query=query_of("urn:a:*"))
    assert (refused.code, refused.details["bound"]) == ("limit_exceeded", "watches_max")
    await client.watch_filled(3, query_of("urn:b:*"))
    await client.unwatch(1)
    await client.watch_filled(4, query_of("urn:a:*"))


async def filled_space(served_space: ServedSpace, count: int, size: int = 1) -> PlainClient:
    client = await served_space.enter()
    for number in range(count):
        await client.write_now(set_(f"urn:q:{number:03}", "x" * size))
    return client


@pytest.mark.rule("QUERY-6", "WATCH-1")
@pytest.mark.parametrize(("bound", "count", "size"), [("query_entities_max", 21, 1), ("query_bytes_max", 5, 9_000)])
async def test_an_answer_that_is_too_large(served_space: ServedSpace, bound: str, count: int, size: int) -> None:
    client = await filled_space(served_space, count, size)
    query = query_of({"id": "urn:q:*", "schema": True})
    assert (await client.refusal("query", query=query)).details["bound"] == bound
    assert (await client.refusal("watch", watch=1, query=query)).details["bound"] == bound


@pytest.mark.rule("WATCH-1", "QUERY-6")
async def test_a_watch_that_grows_past_a_bound_ends_and_the_session_lives(
    served_space: ServedSpace, text: bool
) -> None:
    client = await filled_space(served_space, 20)
    watcher = await served_space.enter(text=text)
    await watcher.watch_filled(1, query_of({"id": "urn:q:*", "schema": True}))
    await client.write_now(set_("urn:q:999", 1))
    await watcher.until(lambda: watcher.holding.watches[1].ended is not None)
    ended = watcher.holding.watches[1].ended
    assert ended is not None
    assert (ended["code"], ended["details"]["bound"]) == ("limit_exceeded", "query_entities_max")
    await watcher.watch_filled(2, query_of("urn:q:000"))


@pytest.mark.rule("QUERY-6")
async def test_links_followed_too_far(served_space: ServedSpace) -> None:
    client = await served_space.enter()
    await client.write_now(*[set_(f"urn:l:{n}", link_to(f"urn:l:{n + 1}")) for n in range(5)], set_("urn:l:5", 1))
    refused = await client.refusal("query", query=query_of({"id": "urn:l:0", "schema": True}))
    assert (refused.code, refused.details["bound"]) == ("limit_exceeded", "query_depth_max")


@pytest.mark.rule("BRANCH-1")
async def test_branches_nested_too_deep(served_space: ServedSpace) -> None:
    client = await served_space.enter()
    await client.write("branch.create", name="b2")
    await client.write("branch.create", name="b3", parent="b2")
    refused = await client.refusal("branch.create", **IDS, name="b4", parent="b3")
    assert (refused.code, refused.details["bound"]) == ("limit_exceeded", "branch_depth_max")


@pytest.mark.rule("SYNC-1")
async def test_a_quiet_session_gets_an_empty_frame_now_and_then(served_space: ServedSpace, text: bool) -> None:
    quiet, writer = await served_space.enter(text=text), await served_space.enter()
    for number in range(6):
        await writer.write_now(set_("urn:a:1", number))
    await quiet.until(lambda: quiet.holding.to >= 2)
    assert quiet.heard == ["hello", "sync", "sync"]


@pytest.mark.rule("SYNC-1")
async def test_a_large_frame_comes_in_parts_and_one_commit_in_several_items(
    served_space: ServedSpace, text: bool
) -> None:
    writer, watcher = await served_space.enter(), await served_space.enter(text=text)
    await watcher.watch_filled(1, query_of("urn:a:*"))
    for suffix in ("x", "y"):
        await writer.write_now(*[set_(f"urn:a:{number}", suffix * 3_000) for number in range(8)])
        await watcher.reach(writer.holding.to)
        assert max(frame["parts"] for frame in watcher.holding.frames) > 1
        await agree(watcher)
    split = [frame for frame in watcher.holding.frames if frame["commits"] and frame["parts"] > 1]
    assert [len(commit["facts"]) for frame in split for commit in frame["commits"]] == [8]
    await watcher.close()
    fresh = await served_space.enter(text=text)
    await fresh.watch_filled(1, query_of("urn:a:*"))
    await agree(fresh)


@pytest.mark.rule("RESUME-4")
async def test_no_more_commits_are_kept_for_comparison_than_a_client_keeps(served_space: ServedSpace) -> None:
    client = await served_space.enter()
    for number in range(7):
        await client.write_now(set_("urn:a:1", number))
    await client.close()
    frame = await client.open(hash=secrets.token_bytes(32))
    assert frame["reset"] == "history"
    assert [item["local"] for item in frame["kept"]] == [4, 5, 6, 7]


@pytest.mark.rule("SYNC-5")
async def test_a_rejection_carries_as_many_current_values_as_fit(served_space: ServedSpace, text: bool) -> None:
    client, other = await served_space.enter(text=text), await served_space.enter()
    for number in range(6):
        await other.write_now(set_(f"urn:s:{number}", "x" * 400))
    reads = [read_(1, entity=f"urn:s:{number}") for number in range(6)]
    verdict = await client.rejected(set_("urn:a:1", 1), reads=reads)
    assert verdict["details"]["count"] == 6
    assert [stale["id"] for stale in verdict["stale"]] == [f"urn:s:{number}" for number in range(5)]
    fitting = sum(len(item["body"]) for item in verdict["current"])
    assert 0 < fitting < SMALL["message_bytes_max"]
    await client.write_now(set_("urn:a:1", 1))


@pytest.mark.rule("WIRE-4")
async def test_held_locals_are_bounded_too(served_space: ServedSpace) -> None:
    client = served_space.client()
    await client.greet()
    await client.send(client.opening(held=[1, 2, 3, 4]))
    gone = await client.farewell()
    assert (gone.farewell["code"], gone.farewell["details"]["bound"]) == ("limit_exceeded", "locals_max")


@pytest.mark.rule("WIRE-4")
async def test_a_content_within_its_bounds_is_not_refused_for_its_size(served_space: ServedSpace) -> None:
    client = await served_space.enter()
    operations = [set_(f"urn:n:{number}", "x" * 4_000) for number in range(12)]
    assert len(content_of(operations, reads=[], branch="main")) < SMALL["message_bytes_max"]
    await client.write_now(*operations)
