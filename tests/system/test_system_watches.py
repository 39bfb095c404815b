"""Watches over real sockets: what they hold is the query run afresh, and the stream tells every difference."""

from __future__ import annotations

import asyncio

import pytest

from plain_client import PlainClient
from plain_content import delete_, increment, link_to, patch_, query_of, replace, set_
from plain_holding import Fields, Watch
from plain_world import ServedSpace, agree

pytestmark = pytest.mark.asyncio(loop_scope="module")
OPEN = {"properties": {"open": {"const": True}}, "required": ["open"]}


async def pair(served_space: ServedSpace, text: bool) -> tuple[PlainClient, PlainClient]:
    """One who writes and one who watches."""
    return await served_space.enter(text=text), await served_space.enter(text=text)


async def follow(watcher: PlainClient, verdict: Fields) -> Fields:
    """Reads until a commit was told; the frames since, joined as far as watches go."""
    start = len(watcher.holding.frames)
    await watcher.reach(verdict["version"])
    told: Fields = {"entered": [], "left": [], "facts": []}
    for frame in watcher.holding.frames[start:]:
        told["entered"] += [(item["watch"], item["id"], "body" in item) for item in frame["entered"]]
        told["left"] += [(item["watch"], item["id"]) for item in frame["left"]]
        told["facts"] += [(fact["id"], fact["kind"]) for commit in frame["commits"] for fact in commit["facts"]]
    return told


@pytest.mark.rule("WATCH-1", "SYNC-3")
async def test_a_watch_of_one_entity_tells_its_whole_life(served_space: ServedSpace, text: bool) -> None:
    writer, watcher = await pair(served_space, text)
    assert await watcher.watch_filled(1, query_of("urn:a:1")) == {}
    told = await follow(watcher, await writer.write_now(set_("urn:a:1", {"n": 0})))
    assert told == {"entered": [(1, "urn:a:1", True)], "left": [], "facts": []} or told["facts"] == []
    told = await follow(watcher, await writer.write_now(patch_("urn:a:1", increment("/n")), set_("urn:b:1", 0)))
    assert told == {"entered": [], "left": [], "facts": [("urn:a:1", "patch")]}
    assert watcher.holding.value("urn:a:1") == {"n": 1}
    told = await follow(watcher, await writer.write_now(delete_("urn:a:1")))
    assert told["left"] == [(1, "urn:a:1")]
    assert watcher.holding.held_by(1) == {}
    told = await follow(watcher, await writer.write_now(set_("urn:a:1", None)))
    assert told["entered"] == [(1, "urn:a:1", True)]
    assert watcher.holding.value("urn:a:1") is None
    await agree(watcher)


@pytest.mark.rule("WATCH-1")
async def test_watches_of_prefixes_and_of_everything(served_space: ServedSpace, text: bool) -> None:
    writer, watcher = await pair(served_space, text)
    await writer.write_now(set_("urn:a:1", 1), set_("urn:b:1", 1))
    assert (await watcher.watch_filled(1, query_of("urn:a:*"))).keys() == {"urn:a:1"}
    assert (await watcher.watch_filled(2, query_of("*"))).keys() == {served_space.space, "urn:a:1", "urn:b:1"}
    verdict = await writer.write_now(set_("urn:a:2", 2), delete_("urn:b:1"), set_("urn:c:1", 3))
    told = await follow(watcher, verdict)
    assert set(told["left"]) == {(2, "urn:b:1")}
    assert {(watch, entity) for watch, entity, _ in told["entered"]} == {
        (1, "urn:a:2"),
        (2, "urn:a:2"),
        (2, "urn:c:1"),
    }
    await agree(watcher)


@pytest.mark.rule("SYNC-3")
async def test_a_second_watch_of_the_same_entity_holds_it_when_the_first_one_ends(
    served_space: ServedSpace, text: bool
) -> None:
    writer, watcher = await pair(served_space, text)
    await writer.write_now(set_("urn:a:1", "x" * 1_000))
    await watcher.watch_filled(1, query_of("urn:a:1"))
    frames = len(watcher.holding.frames)
    await watcher.watch_filled(2, query_of("urn:a:*"))
    entered = [item for frame in watcher.holding.frames[frames:] for item in frame["entered"]]
    assert [(item["watch"], item["id"]) for item in entered] == [(2, "urn:a:1")]
    await watcher.unwatch(1)
    await follow(watcher, await writer.write_now(set_("urn:a:1", "y")))
    assert watcher.holding.value("urn:a:1") == "y"
    await agree(watcher)


@pytest.mark.rule("SYNC-3", "SYNC-2")
async def test_own_new_entities_enter_with_their_body(served_space: ServedSpace, text: bool) -> None:
    client = await served_space.enter(text=text)
    await client.watch_filled(1, query_of("urn:a:*"))
    verdict = await client.write_now(set_("urn:a:1", {"n": 1}), patch_("urn:a:1", increment("/n")))
    [entered] = [item for frame in client.holding.frames for item in frame["entered"]]
    assert "body" in entered
    assert entered["hash"] == verdict["hashes"][1]
    assert client.holding.value("urn:a:1") == {"n": 2}
    await agree(client)


@pytest.mark.rule("WATCH-1", "QUERY-3")
async def test_what_no_longer_matches_leaves_and_what_matches_again_enters(
    served_space: ServedSpace, text: bool
) -> None:
    writer, watcher = await pair(served_space, text)
    await writer.write_now(set_("urn:t:1", {"open": True}), set_("urn:t:2", {"open": False}))
    await watcher.watch_filled(1, query_of({"id": "urn:t:*", "schema": OPEN}))
    verdict = await writer.write_now(
        patch_("urn:t:1", replace("/open", False)), patch_("urn:t:2", replace("/open", True))
    )
    told = await follow(watcher, verdict)
    assert told["left"] == [(1, "urn:t:1")]
    assert told["entered"] == [(1, "urn:t:2", True)]
    await agree(watcher)


@pytest.mark.rule("WATCH-1", "WATCH-2", "SYNC-3")
async def test_links_that_move_take_their_targets_with_them(served_space: ServedSpace, text: bool) -> None:
    writer, watcher = await pair(served_space, text)
    await writer.write_now(
        set_("urn:g:root", {"next": link_to("urn:g:a")}),
        set_("urn:g:a", {"next": link_to("urn:g:b")}),
        set_("urn:g:b", {"next": link_to("urn:g:a"), "n": 0}),
        set_("urn:g:c", {"next": link_to("urn:g:d")}),
    )
    held = await watcher.watch_filled(1, query_of({"id": "urn:g:root", "schema": True}))
    assert held.keys() == {"urn:g:root", "urn:g:a", "urn:g:b"}
    told = await follow(watcher, await writer.write_now(set_("urn:g:root", {"next": link_to("urn:g:c")})))
    assert set(told["left"]) == {(1, "urn:g:a"), (1, "urn:g:b")}
    assert told["entered"] == [(1, "urn:g:c", True)]
    told = await follow(watcher, await writer.write_now(patch_("urn:g:b", increment("/n"))))
    assert told == {"entered": [], "left": [], "facts": []}
    told = await follow(watcher, await writer.write_now(set_("urn:g:d", link_to("urn:g:b"))))
    assert {entity for _, entity, _ in told["entered"]} == {"urn:g:a", "urn:g:b", "urn:g:d"}
    await agree(watcher)


@pytest.mark.rule("WATCH-1", "BRANCH-2")
async def test_several_branches_in_one_session(served_space: ServedSpace, text: bool) -> None:
    writer, watcher = await pair(served_space, text)
    await writer.write_now(set_("urn:a:1", "main"))
    await writer.write("branch.create", name="draft")
    await watcher.watch_filled(1, query_of("urn:a:*"))
    await watcher.watch_filled(2, query_of("urn:a:*", branch="draft"))
    await writer.write_now(set_("urn:a:1", "draft"), branch="draft")
    await follow(watcher, await writer.write_now(set_("urn:a:2", "main")))
    assert watcher.holding.value("urn:a:1") == "main"
    assert watcher.holding.value("urn:a:1", "draft") == "draft"
    await agree(watcher)
    await writer.write("merge", source="draft")
    await watcher.reach((await writer.request("ping"))["version"])
    assert watcher.holding.value("urn:a:1") == "draft"
    await agree(watcher)


@pytest.mark.rule("BRANCH-1", "SYNC-1")
async def test_a_watch_on_a_branch_that_is_deleted_ends(served_space: ServedSpace, text: bool) -> None:
    writer, watcher = await pair(served_space, text)
    await writer.write("branch.create", name="draft")
    await watcher.watch_filled(1, query_of("urn:a:*", branch="draft"))
    await writer.write_now(set_("urn:a:1", 1), branch="draft")
    await writer.write("branch.delete", name="draft")
    await watcher.until(lambda: watcher.holding.watches[1].ended is not None)
    ended = watcher.holding.watches[1].ended
    assert ended is not None
    assert ended["code"] == "branch_deleted"
    assert any(item["id"] == "urn:a:1" for frame in watcher.holding.frames for item in frame["entered"])


@pytest.mark.rule("BRANCH-1", "WATCH-1", "WATCH-3", "COMPACT-1")
async def test_a_watch_on_a_branch_that_was_deleted_and_compacted_is_refused_as_deleted(
    served_space: ServedSpace, text: bool
) -> None:
    client = await served_space.enter(text=text)
    await client.write("branch.create", name="draft")
    await client.write_now(set_("urn:a:1", 1, blind=True), branch="draft")
    await client.write("branch.delete", name="draft")
    floor = (await client.write_now(set_("urn:a:2", 1, blind=True)))["version"]
    await client.write("compact", floor=floor)
    for more in ({}, {"since": 2}, {"since": floor}):
        refused = await client.refusal("watch", watch=1, query=query_of("urn:a:*", branch="draft"), **more)
        assert refused.code == "branch_deleted"


@pytest.mark.rule("WATCH-1", "SYNC-3")
async def test_a_watch_that_is_replaced_tells_the_difference(served_space: ServedSpace, text: bool) -> None:
    writer, watcher = await pair(served_space, text)
    await writer.write_now(set_("urn:a:1", 1), set_("urn:a:2", 2), set_("urn:b:1", 3))
    await watcher.watch_filled(1, query_of("urn:a:*"))
    frames = len(watcher.holding.frames)
    held = await watcher.watch_filled(1, query_of("urn:a:2", "urn:b:*"))
    assert held.keys() == {"urn:a:2", "urn:b:1"}
    after = watcher.holding.frames[frames:]
    assert {item["id"] for frame in after for item in frame["left"]} == {"urn:a:1"}
    assert [item["id"] for frame in after for item in frame["entered"] if "body" in item] == ["urn:b:1"]
    await follow(watcher, await writer.write_now(set_("urn:a:1", 9), set_("urn:a:2", 9), set_("urn:b:1", 9)))
    await agree(watcher)


@pytest.mark.rule("WATCH-1")
async def test_after_unwatch_nothing_more_is_told(served_space: ServedSpace, text: bool) -> None:
    writer, watcher = await pair(served_space, text)
    await writer.write_now(set_("urn:a:1", 1))
    await watcher.watch_filled(1, query_of("urn:a:*"))
    await watcher.unwatch(1)
    told = await follow(watcher, await writer.write_now(set_("urn:a:1", 2), set_("urn:a:2", 2)))
    assert told == {"entered": [], "left": [], "facts": []}
    assert await watcher.watch_filled(1, query_of("urn:a:*")) == await watcher.query(query_of("urn:a:*"))


@pytest.mark.rule("WATCH-3")
async def test_a_watch_can_start_in_the_past(served_space: ServedSpace, text: bool) -> None:
    writer, watcher = await pair(served_space, text)
    for number in range(8):
        await writer.write_now(set_(f"urn:a:{number % 3}", number), set_("urn:b:1", number), note={"n": number})
    query = query_of("urn:a:*")
    result = await watcher.watch(1, query, since=4)
    commits = list(result.get("commits") or [])
    while result.get("next") is not None:
        result = await watcher.request("watch", watch=1, query=query, since=4, after=result["next"])
        commits += result.get("commits") or []
    assert [commit["version"] for commit in commits] == list(range(5, 10))
    assert {fact["id"] for commit in commits for fact in commit["facts"]} == {"urn:a:0", "urn:a:1", "urn:a:2"}
    assert all("parent" in fact and "salt" in fact for commit in commits for fact in commit["facts"])
    await watcher.filled(1)
    await follow(watcher, await writer.write_now(set_("urn:a:9", 1)))
    await agree(watcher)


@pytest.mark.rule("WATCH-3", "HISTORY-2")
async def test_a_watch_cannot_start_in_the_future_or_look_at_the_past_only(
    served_space: ServedSpace, text: bool
) -> None:
    client = await served_space.enter(text=text)
    assert (await client.refusal("watch", watch=1, query=query_of("*"), since=99)).code == "future_version"
    assert (await client.refusal("watch", watch=1, query=query_of("*", version=1))).code == "invalid_query"
    assert (await client.refusal("watch", watch=1, query=query_of("*", branch="nowhere"))).code == "unknown_branch"


@pytest.mark.rule("SYNC-7", "WATCH-1")
async def test_a_large_watch_is_filled_in_pages_while_commits_flow(served_space: ServedSpace) -> None:
    writer, watcher = await pair(served_space, text=False)
    for page in range(5):
        operations = [set_(f"urn:large:{page}:{number}", {"n": 0, "text": "x" * 300}) for number in range(1_000)]
        await writer.write_now(*operations)
    await watcher.watch_filled(2, query_of("urn:large:0:1"))
    watcher.holding.watches[1] = Watch(query_of("urn:large:*"))
    number = await watcher.ask("watch", watch=1, query=query_of("urn:large:*"))
    own = await watcher.commit(patch_("urn:large:0:1", increment("/n")), set_("urn:large:own", {"n": 0}))
    for count in range(30):
        entity = f"urn:large:{count % 5}:{count}"
        await writer.write_now(patch_(entity, increment("/n")), set_(f"urn:large:new:{count}", {"n": 0}))
    await writer.write_now(delete_("urn:large:4:999"), delete_("urn:large:0:0"))
    await watcher.answer(number)
    await watcher.verdict(own)
    await watcher.filled(1)
    await watcher.reach((await writer.request("ping"))["version"])
    pages = [frame for frame in watcher.holding.frames if any(item["watch"] == 1 for item in frame["entered"])]
    assert len(pages) > 1
    assert len(watcher.holding.held_by(1)) == 5_000 + 30 + 1 - 2
    await agree(watcher)


@pytest.mark.rule("SYNC-7")
async def test_a_watch_registered_while_commits_flow_misses_none_and_sees_none_twice(
    served_space: ServedSpace,
) -> None:
    writers = [await served_space.enter() for _ in range(3)]
    watcher = await served_space.enter()
    done = False

    async def write(client: PlainClient, number: int) -> None:
        count = 0
        while not done:
            count += 1
            change = set_(f"urn:r:{number}:{count % 4}", count)
            await client.write_now(change, patch_("urn:r:sum", increment("/n")))
            if count % 5 == 0:
                await client.write_now(delete_(f"urn:r:{number}:{count % 4}"))

    await writers[0].write_now(set_("urn:r:sum", {"n": 0}))
    running = [asyncio.ensure_future(write(client, number)) for number, client in enumerate(writers)]
    for number in range(1, 25):
        query = query_of({"id": "urn:r:*" if number % 2 else "urn:r:sum", "schema": {"title": f"new {number}"}})
        await watcher.watch_filled(number, query)
        held, to = watcher.holding.held_by(number), watcher.holding.to
        assert held == await watcher.query({**query, "version": to})
        if number % 4 == 0:
            await watcher.unwatch(number)
    done = True
    await asyncio.gather(*running)
    await agree(watcher)
    told = [commit["version"] for frame in watcher.holding.frames for commit in frame["commits"]]
    assert told == sorted(set(told))


@pytest.mark.rule("SYNC-7")
async def test_an_answer_never_comes_before_the_frame_that_reaches_its_version(
    served_space: ServedSpace, text: bool
) -> None:
    writer, reader = await pair(served_space, text)
    await reader.watch_filled(1, query_of("urn:a:*"))
    for count in range(20):
        verdict = await writer.write_now(set_("urn:a:1", count))
        result = await reader.request("query", query=query_of("urn:a:1"))
        assert result["version"] >= verdict["version"], "a read is as fresh as any commit that was acknowledged"
        assert result["version"] <= reader.holding.to
        assert reader.holding.value("urn:a:1") == count


@pytest.mark.rule("WATCH-1", "ERASE-1", "COMPACT-1", "COMMIT-9")
async def test_watches_follow_writes_of_every_kind(served_space: ServedSpace, text: bool) -> None:
    writer, watcher = await pair(served_space, text)
    await watcher.watch_filled(1, query_of("urn:a:*"))
    await watcher.watch_filled(2, query_of({"id": "urn:a:1", "schema": True}))
    await writer.write_now(set_("urn:a:1", {"n": 1, "to": link_to("urn:a:2")}), set_("urn:a:2", "secret"))
    await writer.write("branch.create", name="draft")
    await writer.write_now(patch_("urn:a:1", increment("/n")), set_("urn:a:3", 3), branch="draft")
    changed = await writer.write_now(patch_("urn:a:1", replace("/to", link_to("urn:a:3"))))
    kinds: list[tuple[str, Fields]] = [
        ("merge", {"source": "draft", "strategy": "fields"}),
        ("revert", {"versions": [changed["version"]]}),
        ("tag.create", {"name": "v1"}),
        ("erase", {"entity": "urn:a:2", "versions": [2], "survivors": [{"branch": "main"}]}),
        ("compact", {"floor": 5}),
        ("branch.delete", {"name": "draft"}),
    ]
    for kind, fields in kinds:
        await writer.write(kind, **fields)
        await watcher.reach((await writer.request("ping"))["version"])
        await agree(watcher)
    assert watcher.holding.held_by(1).keys() == {"urn:a:1", "urn:a:3"}
