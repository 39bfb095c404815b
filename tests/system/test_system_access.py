"""Rights over real sockets: what is forbidden looks like what is missing, and nobody keeps what was taken back."""

from __future__ import annotations

import secrets
from typing import Any

import pytest

from plain_bytes import Key, digest, unpack
from plain_client import Gone, PlainClient, Refused
from plain_content import delete_, increment, link_to, patch_, query_of, read_, set_
from plain_delegation import delegate
from plain_holding import Fields
from plain_world import ServedSpace, agree, new_key

pytestmark = pytest.mark.asyncio(loop_scope="module")
MINE, SECRET = "urn:mine:", "urn:them:"


@pytest.mark.rule("ACL-3")
async def test_a_space_is_founded_by_its_own_key_with_its_access_list(address: str, text: bool) -> None:
    served_space = ServedSpace(address)
    founder = served_space.client(served_space.key, text=text)
    await founder.open()
    assert (await founder.rejected(set_("urn:a:1", 1)))["code"] == "forbidden"
    assert (await founder.write_now(set_(served_space.space, served_space.roles)))["version"] == 1
    owner = await served_space.enter(text=text)
    await owner.write_now(set_("urn:a:1", 1))
    assert (await founder.rejected(set_("urn:a:1", 2)))["code"] == "forbidden"
    await served_space.close()


@pytest.mark.rule("ACL-1")
async def test_each_role_may_do_what_it_says_and_no_more(served_space: ServedSpace, text: bool) -> None:
    reader, writer = [
        await served_space.enter(await served_space.let_in(role), text=text) for role in ("read", "write")
    ]
    await writer.write_now(set_("urn:a:1", {"n": 1}))
    assert (await reader.query(query_of("urn:a:1")))["urn:a:1"][2] == {"n": 1}
    assert (await reader.rejected(set_("urn:a:1", 2)))["code"] == "forbidden"
    assert (await writer.rejected(set_(served_space.space, {writer.key.did: "own"})))["code"] == "forbidden"
    ids = {"operation": bytes(16), "nonce": bytes(16)}
    for kind, fields in (
        ("erase", {"entity": "urn:a:1", "versions": [4]}),
        ("compact", {"floor": 2}),
        ("revoke", {"delegation": digest(b"token")}),
    ):
        assert (await writer.refusal(kind, **ids, **fields)).code == "forbidden"
    assert (await reader.refusal("branch.create", **ids, name="draft")).code == "forbidden"
    await writer.write("branch.create", name="draft")


@pytest.mark.rule("ACL-1")
async def test_the_access_list_is_set_whole_alone_on_main_and_keeps_an_owner(served_space: ServedSpace) -> None:
    owner = await served_space.enter()
    await owner.write("branch.create", name="draft")
    whole = set_(served_space.space, served_space.roles)
    wrong: list[tuple[list[Fields], str]] = [
        ([whole, set_("urn:a:1", 1)], "main"),
        ([whole], "draft"),
        ([set_(served_space.space, {})], "main"),
        ([set_(served_space.space, {served_space.owner.did: "write"})], "main"),
        ([set_(served_space.space, {served_space.owner.did: "king"})], "main"),
        ([patch_(served_space.space, {"op": "add", "path": f"/{served_space.key.did}", "value": "read"})], "main"),
        ([delete_(served_space.space)], "main"),
    ]
    for operations, branch in wrong:
        verdict = await owner.rejected(*operations, branch=branch)
        assert verdict["code"] in ("forbidden", "malformed", "invalid_value"), verdict
    await owner.write_now(whole)


@pytest.mark.rule("ACL-2")
async def test_a_stranger_cannot_tell_what_is_there(served_space: ServedSpace, text: bool) -> None:
    owner, stranger = await served_space.enter(), served_space.client(new_key(), text=text)
    await owner.write_now(set_("urn:a:1", {"n": 1}))
    try:
        await stranger.open()
    except Gone as gone:
        nowhere = ServedSpace(served_space.address).client(new_key(), text=text)
        await nowhere.greet()
        await nowhere.send(nowhere.opening())
        other = await nowhere.farewell()
        assert gone.farewell["code"] == other.farewell["code"]  # noqa: PT017
        await nowhere.close()
        return
    assert await probe(stranger, "urn:a:1") == await probe(stranger, "urn:a:2")
    assert await stranger.query(query_of("*")) == {}
    assert (await stranger.rejected(set_("urn:a:1", 2)))["code"] == "forbidden"


async def answered(client: PlainClient, kind: str, **fields: Any) -> Fields:
    """The result, or the error, of a request."""
    try:
        return await client.request(kind, **fields)
    except Refused as refused:
        return {"code": refused.code, "details": refused.details}


async def probe(client: PlainClient, entity: str) -> list[Fields]:
    """Everything that can be asked about one entity, with its id taken out of the answers."""
    query = query_of(entity)
    asked: list[tuple[str, Fields]] = [
        ("query", {"query": query}),
        ("query", {"query": {**query, "version": 2}}),
        ("query", {"query": query_of({"id": entity, "schema": True})}),
        ("query", {"query": query_of(f"{entity}*")}),
        ("history", {"entity": entity}),
        ("history", {"entity": entity, "version": 2}),
        ("blame", {"entity": entity}),
        ("blame", {"entity": entity, "version": 2}),
        ("diff", {"left": {"version": 1}, "right": {}, "prefix": entity}),
        ("log", {"prefix": entity}),
        ("log", {"prefix": entity, "with_facts": True, "order": "oldest"}),
    ]
    answers = []
    for kind, fields in asked:
        text = repr(await answered(client, kind, **fields)).replace(entity, "ENTITY")
        answers.append({"kind": kind, "answer": text})
    return answers


async def delegated(served_space: ServedSpace, *, text: bool = False, **given: Any) -> PlainClient:
    """One to whom the owner has delegated the ids under one prefix."""
    key = new_key()
    token = delegate(served_space.owner, key.did, served_space.space, **{"prefixes": (MINE,), **given})
    return await served_space.enter(key, text=text, delegations=[token])


@pytest.mark.rule("ACL-2", "ACL-4")
async def test_a_delegate_sees_nothing_outside_its_prefix(served_space: ServedSpace, text: bool) -> None:
    owner = await served_space.enter()
    await owner.write_now(
        set_(f"{SECRET}1", {"secret": "s3cret"}),
        set_(f"{MINE}1", {"to": link_to(f"{SECRET}1"), "none": link_to(f"{SECRET}2"), "n": 0}),
        note={"message": "both"},
    )
    await owner.write_now(patch_(f"{SECRET}1", increment_of_nothing()), note={"message": "s3cret too"})
    delegate = await delegated(served_space, text=text)
    assert await probe(delegate, f"{SECRET}1") == await probe(delegate, f"{SECRET}2")
    assert (await delegate.query(query_of("*"))).keys() == {f"{MINE}1"}
    result = await delegate.request("query", query=query_of({"id": f"{MINE}*", "schema": True}))
    assert [item["id"] for item in result["entities"]] == [f"{MINE}1"]
    assert sorted(item["id"] for item in result["unresolved"]) == [f"{SECRET}1", f"{SECRET}2"]
    changes = (await delegate.request("diff", left={"version": 1}, right={}))["changes"]
    assert [change["id"] for change in changes] == [f"{MINE}1"]
    entries = [entry for page in await delegate.pages("log", "entries", with_facts=True) for entry in page]
    assert {item["id"] for entry in entries for item in entry.get("items", [])} <= {f"{MINE}1"}
    assert "s3cret" not in repr(entries)
    assert "s3cret" not in repr(delegate.holding.frames)


def increment_of_nothing() -> Fields:
    return {"op": "add", "path": "/more", "value": "s3cret"}


@pytest.mark.rule("ACL-2", "ACL-4", "SYNC-5")
async def test_a_delegate_learns_nothing_from_conflicts(served_space: ServedSpace, text: bool) -> None:
    owner, delegate = await served_space.enter(), await delegated(served_space, text=text)
    await owner.write_now(set_(f"{SECRET}1", 1), set_(f"{MINE}1", 1))
    reads = [read_(1, entity=f"{SECRET}1"), read_(1, prefix=SECRET), read_(2, entity=f"{MINE}1")]
    await delegate.write_now(set_(f"{MINE}1", 2, blind=False), reads=reads)
    refused = await delegate.rejected(set_(f"{MINE}1", 3, blind=False), reads=[read_(1, prefix="urn:"), reads[2]])
    assert refused["code"] == "conflict"
    assert {stale["id"] for stale in refused["stale"]} == {f"{MINE}1"}
    assert {current["id"] for current in refused["current"]} == {f"{MINE}1"}
    assert SECRET not in repr(refused["details"])
    for entity in (f"{SECRET}1", f"{SECRET}2", served_space.space):
        told = await delegate.rejected(set_(entity, 1))
        assert told["code"] == "forbidden"
    assert (await delegate.rejected(patch_(f"{SECRET}1", increment("/n"))))["code"] == (
        await delegate.rejected(patch_(f"{SECRET}2", increment("/n")))
    )["code"]


@pytest.mark.rule("ACL-2", "ACL-4")
async def test_a_delegate_watches_its_prefix_only(served_space: ServedSpace, text: bool) -> None:
    owner, delegate = await served_space.enter(), await delegated(served_space, text=text)
    await owner.write_now(set_(f"{MINE}1", {"to": link_to(f"{SECRET}1")}), set_(f"{SECRET}1", {"n": 1}))
    await delegate.watch_filled(1, query_of("*"))
    await delegate.watch_filled(2, query_of({"id": f"{MINE}*", "schema": True}))
    await owner.write_now(set_(f"{SECRET}1", {"n": 2}), set_(f"{MINE}2", 1), note="s3cret")
    await owner.write_now(set_(f"{SECRET}1", {"n": 3}), note="s3cret")
    await delegate.reach(4)
    assert delegate.holding.held_by(1).keys() == delegate.holding.held_by(2).keys() == {f"{MINE}1", f"{MINE}2"}
    told = [fact["id"] for frame in delegate.holding.frames for c in frame["commits"] for fact in c["facts"]]
    assert not [entity for entity in told if not entity.startswith(MINE)]
    await agree(delegate)


@pytest.mark.rule("ACL-4")
async def test_a_delegate_may_write_its_ids_and_do_nothing_to_the_whole_space(
    served_space: ServedSpace, text: bool
) -> None:
    delegate = await delegated(served_space, text=text)
    await delegate.write_now(set_(f"{MINE}1", 1))
    ids = {"operation": secrets.token_bytes(16), "nonce": bytes(16)}
    for kind, fields in (
        ("branch.create", {"name": "draft"}),
        ("tag.create", {"name": "v1"}),
        ("compact", {"floor": 1}),
        ("erase", {"entity": f"{MINE}1", "versions": [2]}),
    ):
        assert (await delegate.refusal(kind, **ids, **fields)).code == "forbidden", kind
    mine = (await delegate.request("acl"))["mine"]
    assert (mine["role"], mine["prefixes"]) == ("write", [MINE])
    reader = await delegated(served_space, text=text, role="read")
    assert (await reader.query(query_of(f"{MINE}1")))[f"{MINE}1"][2] == 1
    assert (await reader.rejected(set_(f"{MINE}1", 2)))["code"] == "forbidden"


@pytest.mark.rule("ACL-2", "ACL-4")
async def test_a_delegate_learns_nothing_from_plans_blobs_and_lists(served_space: ServedSpace, text: bool) -> None:
    owner = await served_space.enter()
    await owner.write_now(set_(f"{SECRET}1", {"secret": "s3cret", "n": 0}), set_(f"{MINE}1", {"n": 0}))
    await owner.write("branch.create", name="draft")
    changed = await owner.write_now(patch_(f"{SECRET}1", increment("/n")))
    await owner.write_now(patch_(f"{SECRET}1", increment("/n")), branch="draft")
    blob = b"s3cret"
    await owner.request("blob.begin", blob=digest(blob), size=len(blob))
    await owner.request("blob.chunk", blob=digest(blob), offset=0, data=blob)
    await owner.request("blob.end", blob=digest(blob))
    delegate = await delegated(served_space, text=text)
    planned: list[tuple[str, Fields]] = [
        ("merge", {"source": "draft"}),
        ("merge", {"source": "draft", "strategy": "fail"}),
        ("revert", {"versions": [changed["version"]]}),
        ("revert", {"author": served_space.owner.did}),
    ]
    for kind, fields in planned:
        ids = {"operation": secrets.token_bytes(16), "nonce": bytes(16)}
        told = repr(await answered(delegate, kind, **ids, **fields, dry_run=True))
        assert SECRET not in told
        assert "s3cret" not in told
        assert (await delegate.refusal(kind, **ids, **fields)).code == "forbidden"
    there = await delegate.refusal("blob.read", blob=digest(blob))
    missing = await delegate.refusal("blob.read", blob=digest(b"none"))
    assert (there.code, missing.code) == ("unknown_blob", "unknown_blob")
    assert "roles" not in await delegate.request("acl")
    since = await delegate.request("watch", watch=1, query=query_of("*"), since=1)
    shown = {fact["id"] for commit in since.get("commits") or [] for fact in commit["facts"]}
    assert shown == {f"{MINE}1"}


@pytest.mark.rule("ACL-1", "ACL-4", "MERGE-1")
async def test_a_merge_by_a_delegate_takes_nothing_from_others(served_space: ServedSpace) -> None:
    owner = await served_space.enter()
    await owner.write_now(set_(f"{SECRET}1", {"text": "a", "n": 0}))
    await owner.write("branch.create", name="draft")
    await owner.write_now(patch_(f"{SECRET}1", increment("/n")), branch="draft")
    await owner.write_now(patch_(f"{SECRET}1", {"op": "replace", "path": "/text", "value": "b"}))
    delegate = await delegated(served_space)
    for strategy in ("lww", "target", "source", "fields"):
        ids = {"operation": secrets.token_bytes(16), "nonce": bytes(16)}
        assert (await delegate.refusal("merge", **ids, source="draft", strategy=strategy)).code == "forbidden", (
            strategy
        )
    await owner.write("merge", source="draft", strategy="fields")
    assert (await owner.query(query_of(f"{SECRET}1")))[f"{SECRET}1"][2] == {"text": "b", "n": 1}


async def refused_opening(served_space: ServedSpace, key: Key, *tokens: bytes) -> str:
    """Why a session under these delegations is not opened, or may not write."""
    client = served_space.client(key, delegations=list(tokens))
    try:
        await client.open()
    except Gone as gone:
        return str(gone.farewell["code"])
    assert not (await answered(client, "query", query=query_of("*"))).get("entities")
    return await sent_away_or_refused(client, set_(f"{MINE}1", 1))


@pytest.mark.rule("ACL-4")
async def test_delegations_that_delegate_nothing(served_space: ServedSpace) -> None:
    key, other, stranger = new_key(), new_key(), new_key()
    owner, space = served_space.owner, served_space.space
    writer = await served_space.let_in("write")
    good = delegate(owner, key.did, space, prefixes=(MINE,))
    payload, _ = unpack(good)
    wrong = {
        "another space": [delegate(owner, key.did, other.did)],
        "another audience": [delegate(owner, other.did, space)],
        "not signed by its issuer": [good[:-1] + bytes((good[-1] ^ 1,))],
        "junk": [b"junk"],
        "owning is not delegated": [delegate(owner, key.did, space, role="own")],
        "changed": [good.replace(payload[-40:], bytes(40))],
        "its parent is missing": [delegate(owner, key.did, space, parent=good)],
        "too many": [delegate(owner, key.did, space) for _ in range(33)],
        "too many prefixes": [delegate(owner, key.did, space, prefixes=tuple(f"urn:{n}" for n in range(65)))],
        "not the shortest form": [b"\xdc\x00\x02" + good[1:]],
    }
    for why, tokens in wrong.items():
        assert await refused_opening(served_space, key, *tokens) == "invalid_delegation", why
    worthless = {
        "a stranger issued it": [delegate(stranger, key.did, space)],
        "one who does not own issued it": [delegate(writer, key.did, space)],
        "expired": [delegate(owner, key.did, space, begins=-2_000, ends=-1_000)],
        "not yet": [delegate(owner, key.did, space, begins=60_000)],
    }
    for why, tokens in worthless.items():
        assert await refused_opening(served_space, key, *tokens) in ("forbidden", "unknown_space"), why


@pytest.mark.rule("ACL-4")
async def test_a_chain_of_a_thousand_valid_links_is_refused_and_costs_others_nothing(
    served_space: ServedSpace,
) -> None:
    holder, tokens, parent = served_space.owner, list[bytes](), None
    for _ in range(1_000):
        following = new_key()
        parent = delegate(holder, following.did, served_space.space, parent=parent)
        tokens.append(parent)
        holder = following
    assert await refused_opening(served_space, holder, *tokens) == "invalid_delegation"
    await (await served_space.enter()).write_now(set_("urn:a:1", 1, blind=True))


@pytest.mark.rule("ACL-4")
async def test_who_shows_a_delegation_acts_under_it_alone(served_space: ServedSpace, text: bool) -> None:
    narrow = delegate(served_space.owner, served_space.owner.did, served_space.space, prefixes=(MINE,))
    owner = await served_space.enter(text=text, delegations=[narrow])
    await owner.write_now(set_(f"{MINE}1", 1))
    assert (await owner.rejected(set_(f"{SECRET}1", 1)))["code"] == "forbidden"
    assert (await owner.query(query_of("*"))).keys() == {f"{MINE}1"}
    weak = delegate(served_space.owner, served_space.owner.did, served_space.space, prefixes=(SECRET,), role="read")
    both = await served_space.enter(text=text, delegations=[narrow, weak])
    told = (await both.request("acl"))["mine"]
    assert (told["role"], sorted(told["prefixes"])) == ("read", [MINE, SECRET])


@pytest.mark.rule("ACL-4")
async def test_what_an_owner_delegated_ends_when_it_owns_no_more(served_space: ServedSpace) -> None:
    other = await served_space.let_in("own")
    key = new_key()
    client = await served_space.enter(
        key, delegations=[delegate(other, key.did, served_space.space, prefixes=(MINE,))]
    )
    await client.watch_filled(1, query_of(f"{MINE}*"))
    await client.write_now(set_(f"{MINE}1", 1))
    await served_space.allow(other.did, "write")
    assert (await sent_away_or_refused(client, set_(f"{MINE}1", 2))) == "forbidden"
    owner = await served_space.enter()
    await nothing_more(client, (await owner.write_now(set_(f"{MINE}1", "s3cret")))["version"])


async def sent_away_or_refused(client: PlainClient, operation: Fields) -> str:
    try:
        return str((await client.rejected(operation))["code"])
    except Gone as gone:
        return str(gone.farewell["code"])


@pytest.mark.rule("ACL-4")
async def test_a_chain_may_narrow_and_never_widen(served_space: ServedSpace) -> None:
    middle, last = new_key(), new_key()
    first = delegate(served_space.owner, middle.did, served_space.space, prefixes=(MINE,), role="write")
    narrowed = delegate(middle, last.did, served_space.space, prefixes=(f"{MINE}a",), ends=60_000, parent=first)
    client = await served_space.enter(last, delegations=[first, narrowed])
    await client.write_now(set_(f"{MINE}a:1", 1))
    assert (await client.rejected(set_(f"{MINE}b:1", 1)))["code"] == "forbidden"
    reading = delegate(served_space.owner, middle.did, served_space.space, prefixes=(MINE,), role="read")
    wider: dict[str, tuple[bytes, Fields]] = {
        "more ids": (first, {"prefixes": ("urn:",)}),
        "every id": (first, {"prefixes": ("",)}),
        "longer": (first, {"prefixes": (MINE,), "ends": 7_200_000}),
        "earlier": (first, {"prefixes": (MINE,), "begins": -7_200_000}),
        "a stronger role": (reading, {"prefixes": (MINE,), "role": "write", "ends": 60_000}),
    }
    for why, (parent, fields) in wider.items():
        widened = delegate(middle, last.did, served_space.space, parent=parent, **{"begins": -60_000, **fields})
        assert await refused_opening(served_space, last, parent, widened) == "invalid_delegation", why


@pytest.mark.rule("ACL-4", "ACL-2")
async def test_a_revoked_delegation_ends_at_once_with_all_that_was_made_from_it(
    served_space: ServedSpace, text: bool
) -> None:
    owner, middle, last = await served_space.enter(text=text), new_key(), new_key()
    first = delegate(served_space.owner, middle.did, served_space.space, prefixes=(MINE,))
    second = delegate(
        middle, last.did, served_space.space, prefixes=(MINE,), ends=60_000, begins=-60_000, parent=first
    )
    client = await served_space.enter(last, delegations=[first, second], text=text)
    await client.watch_filled(1, query_of("*"))
    await client.write_now(set_(f"{MINE}1", 1))
    assert client.holding.held_by(1).keys() == {f"{MINE}1"}
    revoked = await owner.write("revoke", delegation=digest(first))
    assert await sent_away_or_refused(client, set_(f"{MINE}1", 2)) == "forbidden"
    written = await owner.write_now(set_(f"{MINE}1", "s3cret"))
    await nothing_more(client, written["version"])
    assert await refused_opening(served_space, last, first, second) in (
        "forbidden",
        "invalid_delegation",
        "unknown_space",
    )
    entries = (await owner.request("log"))["entries"]
    assert (entries[1]["version"], entries[1]["kind"]) == (revoked["version"], "revoke")


@pytest.mark.rule("ACL-4")
async def test_a_delegation_ends_while_its_session_is_open(served_space: ServedSpace) -> None:
    delegate = await delegated(served_space, ends=1_500)
    await delegate.watch_filled(1, query_of(f"{MINE}*"))
    verdict: Fields = await delegate.write_now(set_(f"{MINE}1", 0))
    while verdict["verdict"] == "accepted":
        verdict = await delegate.verdict(await delegate.commit(set_(f"{MINE}1", 1)))
    assert verdict["code"] == "forbidden"
    owner = await served_space.enter()
    await nothing_more(delegate, (await owner.write_now(set_(f"{MINE}1", "s3cret")))["version"])


async def nothing_more(client: PlainClient, version: int) -> None:
    """One who lost its rights is told nothing of what is there, also of the past; it may have been sent away."""
    try:
        for query in (query_of("*"), query_of(f"{MINE}1"), query_of("*", version=2)):
            answer = await answered(client, "query", query=query)
            assert not answer.get("entities"), answer
        for kind, items in (("log", "entries"), ("branch.list", "branches"), ("tag.list", "tags")):
            assert not (await answered(client, kind)).get(items), kind
        await client.reach(version)
    except (Gone, Refused):
        pass
    assert "s3cret" not in repr(client.holding.frames)
    assert not client.holding.held_by(1), "what may not be read any more has left"


@pytest.mark.rule("ACL-2")
async def test_a_reader_that_lost_its_role_gets_nothing_more(served_space: ServedSpace, text: bool) -> None:
    key = await served_space.let_in("read")
    owner, reader = await served_space.enter(), await served_space.enter(key, text=text)
    await owner.write_now(set_(f"{MINE}1", 1))
    await reader.watch_filled(1, query_of(f"{MINE}*"))
    assert reader.holding.held_by(1).keys() == {f"{MINE}1"}
    await served_space.allow(key.did, None)
    written = await owner.write_now(set_(f"{MINE}1", "s3cret"), set_(f"{MINE}2", "s3cret"))
    await nothing_more(reader, written["version"])
    back = served_space.client(key, text=text)
    try:
        await back.open()
        assert await back.query(query_of("*")) == {}
    except Gone as gone:
        assert gone.farewell["code"] in ("forbidden", "unauthenticated", "unknown_space")  # noqa: PT017


@pytest.mark.rule("ACL-2", "RESUME-1")
async def test_a_watch_comes_whole_when_more_may_be_read_than_before(served_space: ServedSpace) -> None:
    key = new_key()
    owner = await served_space.enter()
    await owner.write_now(set_(f"{MINE}1", 1), set_(f"{SECRET}1", 1))
    token = delegate(served_space.owner, key.did, served_space.space, prefixes=(MINE,))
    client = await served_space.enter(key, delegations=[token])
    await client.watch_filled(1, query_of("*"))
    await client.close()
    await served_space.allow(key.did, "read")
    client.delegations = []
    await client.resume()
    await client.filled(1)
    assert f"{SECRET}1" in client.holding.held_by(1)
    await agree(client)


async def sent_or_kept(client: PlainClient, operation: Fields) -> int:
    """The local of a commit, which stays pending if the server has said goodbye meanwhile."""
    try:
        return await client.commit(operation)
    except Gone:
        return client.last_local


async def verdict_by_coming_back(client: PlainClient, local: int) -> Fields:
    """One who lost its rights may be sent away, and comes back for its verdicts."""
    try:
        return await client.verdict(local)
    except Gone:
        await client.resume()
        return await client.verdict(local)


@pytest.mark.rule("ACL-1", "ACL-2")
async def test_a_writer_that_loses_its_role_in_flight_is_judged_by_the_new_list(
    served_space: ServedSpace, text: bool
) -> None:
    key = await served_space.let_in("write")
    writer, owner = await served_space.enter(key, text=text), await served_space.enter()
    first = await writer.write_now(set_(f"{MINE}1", 0))
    locals_ = [await writer.commit(set_(f"{MINE}1", number)) for number in range(40)]
    change = await owner.commit(set_(served_space.space, {served_space.owner.did: "own"}))
    locals_ += [await sent_or_kept(writer, set_(f"{MINE}1", number)) for number in range(40)]
    changed = (await owner.verdict(change))["version"]
    locals_ += [await sent_or_kept(writer, set_(f"{MINE}1", "late"))]
    verdicts = [await verdict_by_coming_back(writer, local) for local in locals_]
    kinds = [verdict["verdict"] for verdict in verdicts]
    assert kinds == sorted(kinds), "after the first that is refused, all are"
    assert kinds[-1] == "rejected"
    for verdict in verdicts:
        if verdict["verdict"] == "accepted":
            assert first["version"] < verdict["version"] < changed
        else:
            assert verdict["code"] == "forbidden"
    assert (await owner.query(query_of(f"{MINE}1")))[f"{MINE}1"][2] != "late"


@pytest.mark.rule("ACL-1", "COMMIT-5")
async def test_one_who_lost_its_role_still_learns_its_verdicts(served_space: ServedSpace) -> None:
    key = await served_space.let_in("write")
    writer = await served_space.enter(key)
    local = await writer.commit(set_(f"{MINE}1", 1))
    sent = writer.holding.pending[writer.holding.session, local]
    accepted = await writer.verdict(local)
    await writer.close()
    await served_space.allow(key.did, None)
    writer.holding.verdicts.clear()
    writer.holding.pending[sent.session, sent.local] = sent
    await writer.resume()
    assert (await writer.verdict(local))["version"] == accepted["version"]
