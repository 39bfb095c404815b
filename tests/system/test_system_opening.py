"""Connections and sessions over real sockets: handshakes, signatures, take-over, requests and what breaks them."""

from __future__ import annotations

import asyncio
import json
import re
import secrets
from pathlib import Path
from typing import Any

import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidHandshake
from websockets.typing import Origin, Subprotocol

from plain_bytes import opening_payload, pack, public_key_of, space_hash, unpack
from plain_client import BINARY, TEXT, Gone, PlainClient
from plain_content import query_of, set_
from plain_world import ServedSpace, new_key

pytestmark = pytest.mark.asyncio(loop_scope="module")
ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module", params=["picows", "websockets"])
def settings(request: pytest.FixtureRequest) -> dict[str, Any]:
    """Every transport does the same."""
    return {"listener": request.param}


@pytest.mark.rule("WIRE-2")
async def test_the_server_speaks_first_and_tells_every_bound(served_space: ServedSpace, text: bool) -> None:
    client = served_space.client(text=text)
    hello = await client.greet()
    assert hello["type"] == "hello"
    assert len(hello["challenge"]) == 32
    public_key_of(hello["server"])
    page = (ROOT / "docs/spec/07-invariants.md").read_text().split("## Bounds")[1].split("These are fixed")[0]
    named = set(re.findall(r"^\| `(\w+)` ", page, re.MULTILINE))
    assert named <= client.limits.keys()
    other = served_space.client(text=text)
    assert (await other.greet())["challenge"] != hello["challenge"]


@pytest.mark.rule("WIRE-1")
@pytest.mark.parametrize("offered", [[BINARY, TEXT], [TEXT, BINARY]], ids=["binary first", "text first"])
async def test_a_server_that_is_offered_both_subprotocols_takes_msgpack(
    served_space: ServedSpace, offered: list[Subprotocol]
) -> None:
    async with connect(
        f"{served_space.address}/v1/spaces/{served_space.space}", subprotocols=offered, proxy=None
    ) as socket:
        assert socket.subprotocol == BINARY
        assert isinstance(await socket.recv(), bytes)
        assert not socket.protocol.extensions


@pytest.mark.rule("WIRE-1")
async def test_the_colons_of_the_path_may_be_escaped(served_space: ServedSpace) -> None:
    path = served_space.space.replace(":", "%3A")
    async with connect(f"{served_space.address}/v1/spaces/{path}", subprotocols=[BINARY], proxy=None) as socket:
        data = await socket.recv()
        assert isinstance(data, bytes)
        assert unpack(data)["type"] == "hello"


@pytest.mark.rule("WIRE-1")
@pytest.mark.parametrize(
    ("path", "subprotocols", "origin"),
    [
        ("/v1/spaces/{space}", None, None),
        ("/v1/spaces/{space}", ["stemma.v2.msgpack"], None),
        ("/v1/spaces/", [BINARY], None),
        ("/v1/spaces/did:key:z6Mk", [BINARY], None),
        ("/v2/spaces/{space}", [BINARY], None),
        ("/v1/spaces/{space}", [BINARY], "https://evil.example"),
    ],
    ids=["no subprotocol", "another subprotocol", "no space", "no DID", "another path", "an origin not allowed"],
)
async def test_a_handshake_that_does_not_fit_is_refused(
    served_space: ServedSpace, path: str, subprotocols: list[Subprotocol] | None, origin: str | None
) -> None:
    with pytest.raises(InvalidHandshake):
        async with connect(
            served_space.address + path.format(space=served_space.space),
            subprotocols=subprotocols,
            origin=Origin(origin) if origin else None,
            proxy=None,
        ):
            pass


@pytest.mark.rule("WIRE-2", "SYNC-1")
async def test_a_new_session_gets_one_frame_from_nothing_to_now(served_space: ServedSpace, text: bool) -> None:
    client = served_space.client(text=text)
    frame = await client.open()
    assert (frame["from"], frame["to"]) == (0, 1)
    assert client.heard == ["hello", "sync"]
    assert (await client.request("log"))["entries"][0]["hash"] == frame["hash"]
    assert await client.request("ping") == {"version": 1}


@pytest.mark.rule("SYNC-1", "ACL-3")
async def test_an_empty_space_is_at_version_0_with_the_hash_of_its_name(
    served_space: ServedSpace, text: bool
) -> None:
    empty = ServedSpace(served_space.address)
    client = empty.client(empty.key, text=text)
    frame = await client.open()
    assert (frame["from"], frame["to"], frame["hash"]) == (0, 0, space_hash(empty.space))
    await empty.close()


@pytest.mark.rule("WIRE-2")
async def test_requests_and_the_commits_of_a_new_client_may_follow_at_once(
    served_space: ServedSpace, text: bool
) -> None:
    client = served_space.client(text=text)
    await client.greet()
    await client.send(client.opening())
    number = await client.ask("ping")
    local = await client.commit(set_("urn:a:1", 1))
    assert (await client.verdict(local))["verdict"] == "accepted"
    assert (await client.answer(number))["version"] in (1, 2)
    assert client.heard.index("sync") < client.heard.index("ok")


@pytest.mark.rule("WIRE-2")
async def test_fields_that_have_their_default_may_be_written_out(served_space: ServedSpace, text: bool) -> None:
    client = served_space.client(text=text)
    await client.open(to=0, hash=None, lowest=1, held=[], watches=[], delegations=[])
    assert await client.query({"roots": [{"id": "urn:a:1", "path": ""}], "branch": "main"}) == {}


async def not_let_in(client: PlainClient, **instead: Any) -> Gone:
    await client.greet()
    await client.send(client.opening(**instead))
    return await client.farewell()


@pytest.mark.rule("WIRE-2")
@pytest.mark.parametrize("lie", ["server", "challenge", "space", "principal", "session", "key", "bits"])
async def test_a_signature_over_anything_else_opens_nothing(served_space: ServedSpace, lie: str, text: bool) -> None:
    client, stranger = served_space.client(text=text), new_key()
    hello = await client.greet()
    said: dict[str, Any] = {
        "server": hello["server"],
        "challenge": hello["challenge"],
        "space": served_space.space,
        "principal": served_space.owner.did,
        "session": client.holding.session,
    }
    if lie in said:
        said[lie] = secrets.token_bytes(len(said[lie])) if isinstance(said[lie], bytes) else stranger.did
    signature = (stranger if lie == "key" else served_space.owner).sign(opening_payload(**said))
    if lie == "bits":
        signature = bytes([signature[0] ^ 1]) + signature[1:]
    await client.send(client.opening(signature=signature))
    gone = await client.farewell()
    assert gone.farewell["code"] == "unauthenticated"
    assert gone.close_code == 1008


@pytest.mark.rule("WIRE-2")
async def test_an_opening_that_was_overheard_is_worth_nothing_on_another_connection(
    served_space: ServedSpace,
) -> None:
    client = served_space.client()
    await client.greet()
    overheard = client.opening()
    await client.send(overheard)
    await client.pump()
    thief = served_space.client(session=client.holding.session)
    await thief.greet()
    await thief.send(overheard)
    gone = await thief.farewell()
    assert gone.farewell["code"] == "unauthenticated"
    assert (await client.request("ping"))["version"] == 1


@pytest.mark.rule("WIRE-2")
async def test_there_is_no_second_try_on_a_connection(served_space: ServedSpace) -> None:
    client = served_space.client()
    await client.greet()
    await client.send(client.opening(signature=bytes(64)))
    await client.send(client.opening())
    assert (await client.farewell()).farewell["code"] == "unauthenticated"
    assert "sync" not in client.heard


@pytest.mark.rule("WIRE-2")
async def test_keys_of_small_order_are_no_identities(served_space: ServedSpace) -> None:
    vectors = json.loads((ROOT / "tests/vectors/signatures.json").read_text())
    for forged in vectors["forged"]:
        gone = await not_let_in(
            served_space.client(), principal=forged["did"], signature=bytes.fromhex(forged["signature_hex"])
        )
        assert gone.farewell["code"] in ("invalid_did", "malformed", "unauthenticated")
        assert gone.close_code in (1008, 1002)


@pytest.mark.rule("WIRE-2")
async def test_the_space_of_the_opening_is_the_one_of_the_path(served_space: ServedSpace, text: bool) -> None:
    gone = await not_let_in(served_space.client(text=text), space=new_key().did)
    assert gone.farewell["code"] in ("unauthenticated", "malformed", "out_of_order", "unknown_space")


@pytest.mark.rule("WIRE-2")
async def test_nothing_is_taken_before_a_session_is_open(served_space: ServedSpace, text: bool) -> None:
    for message in ({"type": "ping", "id": 1}, {"type": "query", "id": 1, "query": query_of("*")}):
        client = served_space.client(text=text)
        await client.greet()
        await client.send(message)
        gone = await client.farewell()
        assert (gone.farewell["code"], gone.close_code) == ("out_of_order", 1002)
        assert client.heard == ["hello", "goodbye"]


@pytest.mark.rule("WIRE-2")
async def test_an_opening_larger_than_a_schema_may_be_is_refused(served_space: ServedSpace) -> None:
    client = served_space.client()
    await client.greet()
    large = [
        {"watch": 1, "query": query_of({"id": "*", "schema": {"title": "x" * client.limits["schema_bytes_max"]}})}
    ]
    await client.send(client.opening(watches=large))
    gone = await client.farewell()
    assert gone.farewell["code"] == "limit_exceeded"
    assert gone.farewell["details"]["bound"] == "schema_bytes_max"


@pytest.mark.rule("WIRE-4")
async def test_a_second_opening_ends_the_connection(served_space: ServedSpace, text: bool) -> None:
    client = await served_space.enter(text=text)
    await client.send(client.opening())
    gone = await client.farewell()
    assert (gone.farewell["code"], gone.close_code) == ("out_of_order", 1002)


@pytest.mark.rule("WIRE-4")
async def test_the_other_kind_of_message_ends_the_connection(served_space: ServedSpace, text: bool) -> None:
    client = await served_space.enter(text=text)
    await client.send_raw(b"\x80" if text else "{}")
    gone = await client.farewell()
    assert gone.close_code in (1002, 1003)


@pytest.mark.rule("WIRE-3")
async def test_a_new_connection_takes_a_session_over_and_the_old_one_is_told(
    served_space: ServedSpace, text: bool
) -> None:
    old = await served_space.enter(text=text)
    await old.write_now(set_("urn:a:1", 1))
    new = served_space.client(session=old.holding.session, text=text)
    await new.open()
    gone = await old.farewell()
    assert (gone.farewell["code"], gone.close_code) == ("taken_over", 4001)
    verdict = await new.verdict(await new.commit(set_("urn:a:1", 2), local=2))
    assert verdict["verdict"] == "accepted"


@pytest.mark.rule("WIRE-3")
async def test_of_many_connections_that_open_one_session_at_once_one_is_left(served_space: ServedSpace) -> None:
    session = secrets.token_bytes(16)
    clients = [served_space.client(session=session) for _ in range(8)]
    for client in clients:
        await client.greet()
    await asyncio.gather(*[client.send(client.opening()) for client in clients])
    first = [await said_after_ping(client) for client in clients]
    assert set(first) <= {"", "taken_over"}
    second = [await said_after_ping(client) for client in clients]
    assert sorted(second) == ["", *["taken_over"] * 7]


async def said_after_ping(client: PlainClient) -> str:
    """Nothing if the connection lives, else why it does not."""
    try:
        await client.request("ping")
    except Gone as gone:
        return str(gone.farewell["code"])
    return ""


@pytest.mark.rule("WIRE-3")
async def test_a_session_belongs_to_its_principal(served_space: ServedSpace) -> None:
    writer = await served_space.let_in("write")
    mine = await served_space.enter()
    theirs = await served_space.enter(writer, session=mine.holding.session)
    first = await mine.write_now(set_("urn:a:1", "mine"))
    second = await theirs.write_now(set_("urn:a:1", "theirs"))
    assert second["version"] == first["version"] + 1


@pytest.mark.rule("WIRE-4")
@pytest.mark.parametrize(
    ("message", "code"),
    [
        ({"type": "nonsense", "id": 7}, "unknown_message"),
        ({"type": "ok", "id": 7, "result": {}}, "unknown_message"),
        ({"type": "ping", "id": 7, "more": 1}, "malformed"),
        ({"type": "ping", "id": 7, "channel": 1}, "malformed"),
        ({"type": "query", "id": 7}, "malformed"),
        ({"type": "query", "id": 7, "query": {"roots": 1}}, "malformed"),
        ({"type": "history", "id": 7, "entity": "no id"}, "invalid_id"),
        ({"type": "history", "id": 7, "entity": "urn:a", "branch": "no name"}, "invalid_name"),
        ({"type": "history", "id": 7, "entity": "urn:a", "limit": 0}, "malformed"),
        ({"type": "blame", "id": 7, "entity": "urn:a", "path": "no pointer"}, "invalid_pointer"),
        ({"type": "query", "id": 7, "query": {"roots": [{"id": "*", "schema": {"if": 1}}]}}, "invalid_schema"),
        ({"type": "query", "id": 7, "query": {"roots": [], "version": 1, "time": 1}}, "invalid_query"),
        ({"type": "unwatch", "id": 7, "watch": 0}, "malformed"),
    ],
    ids=lambda given: given if isinstance(given, str) else None,
)
async def test_a_message_that_cannot_be_read_is_answered_and_the_session_goes_on(
    served_space: ServedSpace, text: bool, message: dict[str, Any], code: str
) -> None:
    client = await served_space.enter(text=text)
    await client.send(message)
    error = await client.receive()
    assert error["type"] == "error"
    assert error["id"] == 7
    assert error["code"] == code
    assert error["message"]
    assert await client.request("ping") == {"version": 1}


@pytest.mark.rule("WIRE-4")
@pytest.mark.parametrize("junk", [b"", b"\xc1", b"\x80", pack([1]), pack({"type": 5}), b"\x81\xa4type"], ids=repr)
async def test_bytes_that_are_no_message_are_answered_without_a_number(
    served_space: ServedSpace, junk: bytes
) -> None:
    client = await served_space.enter()
    await client.send_raw(junk)
    error = await client.receive()
    assert error["type"] == "error"
    assert error["code"] in ("malformed", "unknown_message")
    assert "id" not in error
    assert await client.request("ping") == {"version": 1}


@pytest.mark.rule("WIRE-1", "WIRE-4")
@pytest.mark.parametrize(
    "junk",
    [
        "",
        "{",
        "[]",
        '{"type": "ping", "id": 1, "id": 2}',
        '{"type": "ping", "id": 2.0}',
        '{"type": "ping", "id": 1e400}',
    ],
)
async def test_text_that_is_no_message_is_answered_too(served_space: ServedSpace, junk: str) -> None:
    client = await served_space.enter(text=True)
    await client.send_raw(junk)
    error = await client.receive()
    assert (error["type"], error["code"]) == ("error", "malformed")
    assert await client.request("ping") == {"version": 1}


@pytest.mark.rule("WIRE-4")
async def test_a_commit_whose_content_cannot_be_read_is_told_by_its_local(served_space: ServedSpace) -> None:
    client = await served_space.enter()
    await client.send(
        {"type": "commit", "local": 4, "nonce": secrets.token_bytes(16), "content": pack({"reads": []})}
    )
    error = await client.receive()
    assert (error["type"], error["code"], error["local"]) == ("error", "malformed", 4)
    assert (await client.write_now(set_("urn:a:1", 1), local=5))["version"] == 2


@pytest.mark.rule("WIRE-4")
async def test_the_number_of_a_request_that_still_waits_ends_the_connection(served_space: ServedSpace) -> None:
    client = await served_space.enter()
    twice = {"type": "query", "id": 7, "query": query_of("*")}
    await asyncio.gather(client.send(twice), client.send(twice))
    client._waiting.add(7)
    gone = await client.farewell()
    assert (gone.farewell["code"], gone.close_code) == ("out_of_order", 1002)


@pytest.mark.rule("WIRE-4")
async def test_many_requests_at_once_get_one_answer_each(served_space: ServedSpace, text: bool) -> None:
    client = await served_space.enter(text=text)
    await client.write_now(set_("urn:a:1", 1))
    numbers = [await client.ask("query", query=query_of("urn:a:*")) for _ in range(50)]
    numbers += [await client.ask("history", entity="urn:a:1") for _ in range(50)]
    answers = [await client.answer(number) for number in reversed(numbers)]
    assert all(answer["version"] == 2 for answer in answers)
    assert client.heard.count("ok") == 100


@pytest.mark.rule("WIRE-1")
async def test_a_space_that_is_not_there_can_only_be_founded(served_space: ServedSpace) -> None:
    nowhere = ServedSpace(served_space.address)
    assert await said_to_a_stranger(nowhere) in ("unknown_space", "forbidden")
    await nowhere.found()
    owner = await nowhere.enter()
    assert await owner.request("ping") == {"version": 1}
    await nowhere.close()


async def said_to_a_stranger(served_space: ServedSpace) -> str:
    """The code with which somebody who does not belong is not let in, or may not write."""
    stranger = served_space.client(new_key())
    try:
        await stranger.open()
    except Gone as gone:
        return str(gone.farewell["code"])
    return str((await stranger.rejected(set_("urn:a:1", 1)))["code"])
