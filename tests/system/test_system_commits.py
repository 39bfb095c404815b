"""Commits over real sockets: verdicts in frames, refusals that explain themselves, exactly once."""

from __future__ import annotations

import asyncio
import secrets

import pytest

from plain_bytes import body_digest, empty_hash, fact_hash, pack, unpack
from plain_client import PlainClient
from plain_content import delete_, increment, patch_, query_of, read_, replace, set_
from plain_holding import Fields, Sent
from plain_world import ServedSpace

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.workers]
TODO = {"title": "write the spec", "done": False}


async def resend(client: PlainClient, sent: Sent, **instead: object) -> Fields:
    """Sends a commit that is decided already, and waits for its verdict in a later frame."""
    client.holding.verdicts.pop((sent.session, sent.local), None)
    message: Fields = {"type": "commit", "local": sent.local, "nonce": sent.nonce, "content": sent.content}
    if sent.session != client.holding.session:
        message["session"] = sent.session
    await client.send(message | instead)
    return await client.verdict(sent.local, sent.session)


async def sent_and_accepted(client: PlainClient, *operations: Fields) -> tuple[Sent, Fields]:
    local = await client.commit(*operations)
    sent = client.holding.pending[client.holding.session, local]
    return sent, await client.verdict(local)


@pytest.mark.rule("SYNC-2", "FACT-2")
async def test_an_accepted_commit_is_told_with_what_its_hashes_need(served_space: ServedSpace, text: bool) -> None:
    client = await served_space.enter(text=text)
    verdict = await client.write_now(set_("urn:a:1", TODO), set_("urn:a:2", None), delete_("urn:a:1"))
    assert verdict["version"] == client.holding.to == 2
    assert verdict["hash"] == client.holding.hash
    first = fact_hash("set", "urn:a:1", empty_hash("urn:a:1"), body_digest(verdict["salts"][0], pack(TODO)))
    second = fact_hash("set", "urn:a:2", empty_hash("urn:a:2"), body_digest(verdict["salts"][1], pack(None)))
    third = fact_hash("delete", "urn:a:1", first, body_digest(None, None))
    assert verdict["hashes"] == [first, second, third]
    assert verdict["salts"][2] is None
    assert await client.verified() == verdict["hash"]


@pytest.mark.rule("SYNC-2", "SYNC-3")
async def test_own_facts_are_not_sent_back_and_others_get_them_with_their_commit(
    served_space: ServedSpace, text: bool
) -> None:
    mine, other = await served_space.enter(text=text), await served_space.enter(text=text)
    for client in (mine, other):
        await client.watch_filled(1, query_of("urn:a:*"))
    await mine.write_now(set_("urn:a:1", TODO))
    verdict = await mine.write_now(patch_("urn:a:1", replace("/done", True)), note={"message": "done at last"})
    await other.reach(verdict["version"])
    assert not [frame for frame in mine.holding.frames if frame["commits"]]
    [commit] = [commit for frame in other.holding.frames for commit in frame["commits"] if commit["version"] == 3]
    assert commit["author"] == served_space.owner.did
    assert (commit["session"], commit["local"]) == (mine.holding.session, 2)
    assert (commit["branch"], commit.get("kind", "commit")) == ("main", "commit")
    assert commit["time"] == verdict["time"]
    assert unpack(commit["note"]) == {"message": "done at last"}
    assert [fact["kind"] for fact in commit["facts"]] == ["patch"]
    for client in (mine, other):
        assert client.holding.value("urn:a:1") == {**TODO, "done": True}
        assert client.holding.entities["main", "urn:a:1"].hash == verdict["hashes"][0]
        assert not client.holding.doubts


@pytest.mark.rule("SYNC-5", "COMMIT-2")
async def test_a_stale_read_is_named_with_the_current_value(served_space: ServedSpace, text: bool) -> None:
    mine, other = await served_space.enter(text=text), await served_space.enter(text=text)
    await other.write_now(set_("urn:a:1", TODO))
    await other.write_now(patch_("urn:a:1", replace("/done", True)), set_("urn:a:2", 1))
    await other.write_now(set_("urn:b:1", 1))
    change = patch_("urn:a:1", replace("/done", None), blind=False)
    verdict = await mine.rejected(change, reads=[read_(2, entity="urn:a:1", path="/done")])
    assert verdict["code"] == "conflict"
    assert verdict["details"]["count"] == 1
    [stale] = verdict["stale"]
    assert (stale["branch"], stale["id"], stale["path"]) == ("main", "urn:a:1", "/done")
    assert (stale["read"], stale["head"], stale["winner"]) == (2, 3, 3)
    assert stale["author"] == served_space.owner.did
    [current] = verdict["current"]
    assert (current["id"], current["version"], unpack(current["body"])) == ("urn:a:1", 3, {**TODO, "done": True})
    assert mine.holding.to >= 4
    again = patch_("urn:a:1", replace("/done", None), blind=False)
    await mine.write_now(again, reads=[read_(current["version"], entity="urn:a:1", path="/done")])


@pytest.mark.rule("COMMIT-2", "SYNC-5")
async def test_a_stale_prefix_is_named_with_what_appeared_there(served_space: ServedSpace, text: bool) -> None:
    mine, other = await served_space.enter(text=text), await served_space.enter(text=text)
    await other.write_now(set_("urn:a:1", 1))
    verdict = await mine.rejected(set_("urn:a:2", 2), reads=[read_(1, prefix="urn:a:")])
    assert [(stale["prefix"], stale["id"], stale["winner"]) for stale in verdict["stale"]] == [
        ("urn:a:", "urn:a:1", 2)
    ]
    assert [current["id"] for current in verdict["current"]] == ["urn:a:1"]
    await mine.write_now(set_("urn:a:2", 2), reads=[read_(2, prefix="urn:a:")])


@pytest.mark.rule("COMMIT-2", "COMMIT-3")
async def test_writes_of_different_paths_pass_each_other_by(served_space: ServedSpace) -> None:
    clients = [await served_space.enter() for _ in range(2)]
    await clients[0].write_now(set_("urn:a:1", {"x": 0, "y": 0}))
    for client, path in zip(clients, ("/x", "/y"), strict=True):
        change = patch_("urn:a:1", replace(path, 1), blind=False)
        await client.write_now(change, reads=[read_(2, entity="urn:a:1", path=path)])
    assert (await clients[0].query(query_of("urn:a:1")))["urn:a:1"][2] == {"x": 1, "y": 1}


@pytest.mark.rule("COMMIT-3", "COMMIT-6", "BRANCH-1")
async def test_refusals_say_why_and_leave_nothing(served_space: ServedSpace, text: bool) -> None:
    client = await served_space.enter(text=text)
    await client.write_now(set_("urn:a:1", TODO))
    missing = patch_("urn:a:2", replace("/done", True))
    wrong = patch_("urn:a:1", {"op": "test", "path": "/done", "value": True})
    cases: list[tuple[str, Fields, Fields]] = [
        ("undeclared", set_("urn:a:1", 1, blind=False), {}),
        ("not_found", missing, {}),
        ("not_found", delete_("urn:a:2"), {}),
        ("patch_failed", wrong, {}),
        ("unknown_branch", set_("urn:a:1", 1), {"branch": "nowhere"}),
        ("future_version", set_("urn:a:1", 1, blind=False), {"reads": [read_(99, entity="urn:a:1")]}),
    ]
    for code, operation, more in cases:
        verdict = await client.rejected(set_("urn:a:3", 1), operation, **more)
        assert verdict["code"] == code
        assert verdict["message"]
    assert (await client.query(query_of("*"))).keys() == {served_space.space, "urn:a:1"}
    assert client.holding.to == 2


@pytest.mark.rule("COMMIT-4", "COMMIT-5")
async def test_stacked_commits_are_accepted_together(served_space: ServedSpace, text: bool) -> None:
    client = await served_space.enter(text=text)
    await client.watch_filled(1, query_of("urn:a:*"))
    base = await client.commit(set_("urn:a:1", {"n": 0}))
    top = patch_("urn:a:1", replace("/n", 1), blind=False)
    stacked = await client.commit(top, reads=[read_(1, entity="urn:a:1", path="/n", locals_=[base])])
    third = patch_("urn:a:1", replace("/n", 2), blind=False)
    named = [base, [client.holding.session, stacked]]
    last = await client.commit(third, reads=[read_(1, entity="urn:a:1", path="/n", locals_=named)])
    assert [(await client.verdict(local))["verdict"] for local in (base, stacked, last)] == ["accepted"] * 3
    assert client.holding.value("urn:a:1") == {"n": 2}
    assert not client.holding.doubts


@pytest.mark.rule("COMMIT-4")
async def test_what_was_built_on_a_refused_commit_is_refused(served_space: ServedSpace, text: bool) -> None:
    client = await served_space.enter(text=text)
    await client.write_now(set_("urn:a:1", 1))
    base = await client.commit(set_("urn:a:1", 2, blind=False), reads=[read_(1, entity="urn:a:1")])
    top = await client.commit(set_("urn:a:1", 3, blind=False), reads=[read_(1, entity="urn:a:1", locals_=[base])])
    assert (await client.verdict(base))["code"] == "conflict"
    refused = await client.verdict(top)
    assert (refused["code"], refused["details"]["local"]) == ("dependency", base)


@pytest.mark.rule("COMMIT-5")
async def test_a_commit_that_is_sent_again_gets_the_same_verdict_and_writes_nothing(
    served_space: ServedSpace, text: bool
) -> None:
    client = await served_space.enter(text=text)
    sent, first = await sent_and_accepted(
        client, patch_(served_space.space + "#", increment("/n")), set_("urn:a:1", 1)
    )
    assert first["verdict"] == "rejected"
    sent, first = await sent_and_accepted(client, set_("urn:a:1", {"n": 0}), patch_("urn:a:1", increment("/n")))
    again = await resend(client, sent)
    assert again == first
    await client.close()
    elsewhere = await served_space.enter(text=text)
    assert await resend(elsewhere, sent) == {**first, "session": sent.session}
    assert await elsewhere.request("ping") == {"version": 2}
    assert (await elsewhere.query(query_of("urn:a:1")))["urn:a:1"][2] == {"n": 1}


@pytest.mark.rule("COMMIT-5")
async def test_another_commit_under_an_accepted_identity_is_a_clash(served_space: ServedSpace, text: bool) -> None:
    client = await served_space.enter(text=text)
    sent, _ = await sent_and_accepted(client, set_("urn:a:1", 1))
    verdict = await resend(client, sent, nonce=secrets.token_bytes(16))
    assert (verdict["verdict"], verdict["code"]) == ("rejected", "identity_clash")
    assert verdict["details"]["local"] == sent.local
    await client.write_now(set_("urn:a:1", 2))


@pytest.mark.rule("COMMIT-5")
async def test_a_local_below_an_accepted_one_is_overtaken(served_space: ServedSpace) -> None:
    client = await served_space.enter()
    await client.write_now(set_("urn:a:1", 1), local=5)
    verdict = await client.rejected(set_("urn:a:1", 2), local=3)
    assert verdict["code"] == "overtaken"
    assert verdict["details"] == {"local": 3, "highest": 5}
    await client.write_now(set_("urn:a:1", 3), local=9)


@pytest.mark.rule("COMMIT-5", "SYNC-6")
async def test_a_flood_of_commits_is_decided_in_order(served_space: ServedSpace) -> None:
    client, watcher = await served_space.enter(), await served_space.enter()
    await watcher.watch_filled(1, query_of("urn:a:*"))
    locals_ = [await client.commit(set_("urn:a:1", number)) for number in range(300)]
    versions = [(await client.verdict(local))["version"] for local in locals_]
    assert versions == list(range(2, 302))
    await watcher.reach(301)
    assert watcher.holding.value("urn:a:1") == 299
    told = [commit["version"] for frame in watcher.holding.frames for commit in frame["commits"]]
    assert told == sorted(set(told))
    assert not watcher.holding.doubts


@pytest.mark.rule("COMMIT-3", "COMMIT-1")
async def test_increments_of_several_clients_are_all_counted(served_space: ServedSpace) -> None:
    clients = [await served_space.enter() for _ in range(4)]
    await clients[0].write_now(set_("urn:a:1", {"n": 0}))
    for client in clients:
        await client.watch_filled(1, query_of("urn:a:1"))

    async def count(client: PlainClient) -> None:
        locals_ = [await client.commit(patch_("urn:a:1", increment("/n"), blind=False)) for _ in range(25)]
        for local in locals_:
            assert (await client.verdict(local))["verdict"] == "accepted"

    await asyncio.gather(*map(count, clients))
    for client in clients:
        await client.reach(102)
        assert client.holding.value("urn:a:1") == {"n": 100}
        assert not client.holding.doubts


@pytest.mark.rule("COMMIT-11")
async def test_a_write_with_an_operation_id_is_done_once(served_space: ServedSpace, text: bool) -> None:
    client = await served_space.enter(text=text)
    operation, nonce = secrets.token_bytes(16), secrets.token_bytes(16)
    first = await client.write("branch.create", operation=operation, nonce=nonce, name="draft")
    assert await client.write("branch.create", operation=operation, nonce=nonce, name="draft") == first
    other = await served_space.enter(text=text)
    assert await other.write("branch.create", operation=operation, nonce=nonce, name="draft") == first
    refused = await client.refusal("branch.create", operation=operation, nonce=nonce, name="another")
    assert refused.code == "identity_clash"
    refused = await client.refusal("branch.create", operation=secrets.token_bytes(16), nonce=nonce, name="draft")
    assert refused.code == "branch_exists"
    assert await client.request("ping") == {"version": first["version"]}


@pytest.mark.rule("COMMIT-1", "FACT-3")
async def test_the_whole_space_verifies_from_its_log(served_space: ServedSpace) -> None:
    client = await served_space.enter()
    for number in range(40):
        sent = await client.commit(set_(f"urn:a:{number % 7}", {"n": number}), note={"number": number})
    await client.verdict(sent)
    await client.write("branch.create", name="draft")
    await client.write_now(patch_("urn:a:1", increment("/n")), set_("urn:a:1", 1), branch="draft")
    await client.write_now(delete_("urn:a:2"), set_("urn:a:2", [1.5, "ü"]), branch="draft")
    merged = await client.write("merge", source="draft", strategy="source")
    await client.reach(merged["version"])
    assert await client.verified() == client.holding.hash
    pages = await client.pages("log", "entries", order="oldest", with_facts=True, limit=3)
    assert len(pages) > 10
