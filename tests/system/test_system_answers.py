"""Every request of the protocol over real sockets, on both subprotocols."""

from __future__ import annotations

import secrets

import pytest

from plain_bytes import digest, unpack
from plain_client import PlainClient
from plain_content import delete_, link_to, patch_, query_of, replace, set_
from plain_world import ServedSpace

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def with_todos(served_space: ServedSpace, text: bool) -> PlainClient:
    """Versions 2 to 4: two todos, one is changed, one is deleted."""
    client = await served_space.enter(text=text)
    await client.write_now(set_("urn:todo:1", {"title": "a", "done": False}), set_("urn:todo:2", {"title": "b"}))
    await client.write_now(patch_("urn:todo:1", replace("/done", True)), note={"message": "done"})
    await client.write_now(delete_("urn:todo:2"))
    return client


@pytest.mark.rule("QUERY-1", "QUERY-5", "SYNC-7")
async def test_queries_at_the_head_at_a_version_and_at_a_time(served_space: ServedSpace, text: bool) -> None:
    client = await with_todos(served_space, text)
    assert {key: value[2] for key, value in (await client.query(query_of("urn:todo:*"))).items()} == {
        "urn:todo:1": {"title": "a", "done": True}
    }
    then = await client.query(query_of("urn:todo:*", version=2))
    assert {key: value[2] for key, value in then.items()} == {
        "urn:todo:1": {"title": "a", "done": False},
        "urn:todo:2": {"title": "b"},
    }
    entries = (await client.request("log"))["entries"]
    timed = await client.request("query", query=query_of("urn:todo:*", time=entries[0]["time"]))
    assert timed["version"] == 4
    result = await client.request("query", query=query_of("urn:todo:1", "urn:todo:2", "urn:todo:9"))
    assert [item["id"] for item in result["unresolved"]] == ["urn:todo:2", "urn:todo:9"]
    assert result["version"] <= client.holding.to
    assert (await client.refusal("query", query=query_of("*", version=99))).details == {"version": 99, "head": 4}
    assert (await client.refusal("query", query=query_of("*", branch="nowhere"))).code == "unknown_branch"


@pytest.mark.rule("QUERY-2", "QUERY-3", "QUERY-4")
async def test_queries_follow_links_and_select_by_schema(served_space: ServedSpace, text: bool) -> None:
    client = await served_space.enter(text=text)
    await client.write_now(
        set_("urn:a", {"next": link_to("urn:b"), "open": True}),
        set_("urn:b", {"next": link_to("urn:a"), "also": link_to("urn:none")}),
        set_("urn:c", {"open": False}),
    )
    result = await client.request("query", query=query_of({"id": "urn:a", "schema": True}))
    assert {item["id"] for item in result["entities"]} == {"urn:a", "urn:b"}
    assert result["unresolved"] == [{"id": "urn:none"}]
    opened = {"properties": {"open": {"const": True}}, "required": ["open"]}
    assert (await client.query(query_of({"id": "urn:*", "schema": opened}))).keys() == {"urn:a"}


@pytest.mark.rule("QUERY-6")
async def test_pages_of_a_listing_show_the_version_of_the_first(served_space: ServedSpace, text: bool) -> None:
    client = await served_space.enter(text=text)
    await client.write_now(*[set_(f"urn:n:{number}", number) for number in range(10)])
    first = await client.request("query", query=query_of("urn:n:*"), limit=4)
    await client.write_now(delete_("urn:n:9"), set_("urn:n:5", "changed"))
    found, page = list(first["entities"]), first
    while page.get("next") is not None:
        page = await client.request("query", query=query_of("urn:n:*"), limit=4, after=page["next"])
        assert page["version"] == first["version"]
        found += page["entities"]
    assert [unpack(item["body"]) for item in found] == list(range(10))


@pytest.mark.rule("HISTORY-1", "HISTORY-2")
async def test_history_log_diff_and_blame(served_space: ServedSpace, text: bool) -> None:
    client = await with_todos(served_space, text)
    newest = (await client.request("history", entity="urn:todo:1", limit=1))["entries"]
    assert [(entry["version"], entry["kind"], unpack(entry["note"])) for entry in newest] == [
        (3, "patch", {"message": "done"})
    ]
    pages = await client.pages("history", "entries", entity="urn:todo:2", order="oldest", limit=1)
    assert [entry["kind"] for page in pages for entry in page] == ["set", "delete"]
    assert (await client.refusal("history", entity="urn:todo:9")).code == "not_found"
    log = (await client.request("log", prefix="urn:todo:2", order="oldest"))["entries"]
    assert [entry["version"] for entry in log] == [2, 4]
    changes = (await client.request("diff", left={"version": 2}, right={}))["changes"]
    assert [(change["id"], change.get("left"), change.get("right")) for change in changes] == [
        ("urn:todo:1", 2, 3),
        ("urn:todo:2", 2, None),
    ]
    assert unpack(changes[0]["patch"]) == [{"op": "replace", "path": "/done", "value": True}]
    lines = (await client.request("blame", entity="urn:todo:1"))["lines"]
    assert [(line["path"], line["version"]) for line in lines] == [("/title", 2), ("/done", 3)]
    assert "lines" not in await client.request("blame", entity="urn:todo:2"), "it was deleted"
    assert (await client.refusal("blame", entity="urn:todo:9")).code == "not_found"
    assert (await client.refusal("history", entity="urn:todo:1", version=99)).code == "future_version"


@pytest.mark.rule("BRANCH-1", "MERGE-1", "MERGE-3", "COMMIT-9")
async def test_branches_tags_merges_and_reverts(served_space: ServedSpace, text: bool) -> None:
    client = await with_todos(served_space, text)
    made = await client.write("branch.create", name="draft", fork=2)
    await client.write_now(set_("urn:todo:2", "kept"), branch="draft")
    branches = (await client.request("branch.list"))["branches"]
    assert [(item["name"], item.get("parent"), item["fork"]) for item in branches] == [
        ("draft", "main", 2),
        ("main", None, 0),
    ]
    await client.write("tag.create", name="v1", version=made["version"])
    assert [tag["name"] for tag in (await client.request("tag.list"))["tags"]] == ["v1"]
    assert (await client.refusal("tag.create", operation=bytes(16), nonce=bytes(16), name="v1")).code == "tag_exists"
    await client.write("tag.delete", name="v1")
    dry = await client.write("merge", source="draft", dry_run=True)
    assert (dry["writes_count"], dry.get("version")) == (1, None)
    failed = await client.refusal(
        "merge", operation=secrets.token_bytes(16), nonce=bytes(16), source="draft", strategy="fail"
    )
    assert failed.code == "merge_conflict"
    merged = await client.write("merge", source="draft", strategy="source")
    assert merged["conflicts_count"] == 1
    assert (await client.query(query_of("urn:todo:2")))["urn:todo:2"][2] == "kept"
    undone = await client.write("revert", versions=[merged["version"]])
    assert undone["reverted"] == [merged["version"]]
    assert await client.query(query_of("urn:todo:2")) == {}
    await client.write("branch.delete", name="draft")
    assert (await client.rejected(set_("urn:a", 1), branch="draft"))["code"] == "branch_deleted"
    assert (await client.query(query_of("urn:todo:2", branch="draft")))["urn:todo:2"][2] == "kept"


@pytest.mark.rule("ERASE-1", "COMPACT-1")
async def test_erasing_and_compacting(served_space: ServedSpace, text: bool) -> None:
    client = await with_todos(served_space, text)
    erased = await client.write("erase", entity="urn:todo:2", versions=[2])
    assert erased["erased"] >= 1
    assert (await client.refusal("blame", entity="urn:todo:2", version=2)).code == "erased"
    gone = await client.request("query", query=query_of("urn:todo:2", version=2))
    assert [item["id"] for item in gone["unresolved"]] == ["urn:todo:2"]
    [first] = (await client.request("history", entity="urn:todo:2", order="oldest", limit=1))["entries"]
    assert "body" not in first
    assert "salt" not in first
    compacted = await client.write("compact", floor=3)
    assert compacted["floor"] == 3
    refused = await client.refusal("query", query=query_of("*", version=2))
    assert (refused.code, refused.details["oldest"]) == ("compacted", 3)
    await client.verified()


@pytest.mark.rule("BLOB-1")
async def test_a_blob_is_uploaded_in_chunks_resumed_and_read(served_space: ServedSpace, text: bool) -> None:
    client = await served_space.enter(text=text)
    data = secrets.token_bytes(30_000)
    name = digest(data)
    begun = await client.request("blob.begin", blob=name, size=len(data), content_type="text/plain")
    assert begun == {"offset": 0}
    assert (await client.request("blob.chunk", blob=name, offset=0, data=data[:10_000]))["offset"] == 10_000
    await client.close()
    client = await served_space.enter(text=text)
    begun = await client.request("blob.begin", blob=name, size=len(data), content_type="text/plain")
    offset = begun["offset"]
    await client.request("blob.chunk", blob=name, offset=offset, data=data[offset:])
    ended = await client.request("blob.end", blob=name)
    assert ended == {"blob": name, "size": len(data), "content_type": "text/plain"}
    read = await client.request("blob.read", blob=name, offset=100, length=50)
    assert read["data"] == data[100:150]
    assert (await client.refusal("blob.read", blob=digest(b"none"))).code == "unknown_blob"
    wrong = digest(b"wrong")
    await client.request("blob.begin", blob=wrong, size=5)
    await client.request("blob.chunk", blob=wrong, offset=0, data=b"right")
    assert (await client.refusal("blob.end", blob=wrong)).code == "blob_mismatch"


@pytest.mark.rule("ACL-1")
async def test_the_access_list_can_be_asked_for(served_space: ServedSpace, text: bool) -> None:
    reader = await served_space.let_in("read")
    client = await served_space.enter(reader, text=text)
    told = await client.request("acl")
    assert told["mine"]["role"] == "read"
    owner = await served_space.enter(text=text)
    told = await owner.request("acl")
    assert told["mine"]["role"] == "own"
    assert told["roles"] == served_space.roles
    assert (await owner.request("acl", version=1))["roles"] == {served_space.owner.did: "own"}
