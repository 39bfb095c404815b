"""Access tokens: who may ask, what a token narrows, and what a stranger learns (TOKEN-1..4, HTTP-13)."""

from __future__ import annotations

import asyncio
import base64
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from http_worlds import HttpWorld, http_world
from json_socket import JsonSocket, text
from stemmadb.client import Identity, connect
from stemmadb.protocol.errors import Forbidden, Unauthenticated
from stemmadb.protocol.model.access import access_token, delegation, text_form
from stemmadb.protocol.model.access.delegation import Delegation
from stemmadb.protocol.model.values import reference
from stemmadb.protocol.model.values.body import encode
from stemmadb.protocol.model.values.ids import TimeMs

DELETE = {"op": "delete", "id": "urn:a:1", "blind": True}
NOW = int(time.time() * 1_000)


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[HttpWorld]:
    async with http_world(tmp_path) as it:
        await it.put("urn:a:1", 1)
        await it.put("urn:b:1", 2)
        yield it


@pytest.mark.rule("TOKEN-1")
@pytest.mark.parametrize(
    "how",
    [
        {"role": "none"},
        {"prefixes": ()},
        {"prefixes": ("urn:a:",) * 65},
        {"nonce": b"short"},
        {"expires": TimeMs(NOW + 25 * 3_600_000)},
        {"role": "own"},
        {"space": None},
        {"expires": TimeMs(0)},
        {"server": "did:key:z6Mk"},
    ],
)
async def test_a_token_that_no_server_takes_is_not_made(world: HttpWorld, how: dict[str, Any]) -> None:
    with pytest.raises(Unauthenticated):
        world.token_of(world.db.identity, **how)


@pytest.mark.rule("TOKEN-1", "TOKEN-2")
async def test_wrong_tokens_are_401_and_the_answer_says_why(world: HttpWorld) -> None:
    me, other = world.db.identity, Identity.make()
    now = int(time.time() * 1_000)
    data = world.token_bytes(me)
    payload, signature = msgspec.msgpack.decode(data)
    long_form = b"\xdd\x00\x00\x00\x02" + encode((payload, signature))[1:]
    wrong = {
        "nothing": "stk1.",
        "no token": "abc",
        "another server": world.token_of(me, server=other.did),
        "another space": world.token_of(me, space=other.did),
        "a server token": world.token_of(me, space=None, expires=TimeMs(int(time.time() * 1_000) + 600_000)),
        "expired": world.token_of(me, not_before=TimeMs(now - 10_000), expires=TimeMs(now - 5_000)),
        "not yet": world.token_of(me, not_before=TimeMs(now + 600_000), expires=TimeMs(now + 900_000)),
        "another signer": access_token.write_text(encode((payload, other.sign(payload)))),
        "not the shortest form": access_token.write_text(long_form),
        "padded": access_token.PREFIX + base64.urlsafe_b64encode(data).decode() + "=",
        "a delegation": f"stk1.{text_form.write(_delegation(world, other))}",
        "a changed byte": access_token.write_text(data[:-1] + bytes([data[-1] ^ 1])),
    }
    wrong["revoked"] = world.token_of(me)
    await world.space.revoke(wrong["revoked"])
    kept = await world.peer()
    for name, token in wrong.items():
        answer = await world.get("/log", token=token)
        assert (answer.status, answer.code) == (401, "unauthenticated"), name
        assert answer.headers["www-authenticate"].startswith("Bearer error=")
        kept.write(world.request("GET", "/log") + world.request("GET", "/log", token=token))
        assert (await kept.answer()).status == 200
        again = await kept.answer()
        assert (again.status, again.body) == (401, answer.body), f"{name}: no request has the token of another one"
    kept.write(world.request("GET", "/log") + world.request("GET", "/log", token=""))
    assert [(await kept.answer()).status for _ in range(2)] == [200, 401], "nor has one without any"
    assert (await world.get("/log", token="")).status == 401
    assert (await world.get("/log", Authorization=f"Basic {world.token}")).status == 401
    soon = world.token_of(me, not_before=TimeMs(int(time.time() * 1_000) + 30_000))
    assert (await world.get("/log", token=soon)).status == 200, "a minute of clock difference is forgiven"


@pytest.mark.rule("TOKEN-2", "HTTP-6")
async def test_a_token_never_gives_more_than_it_says(world: HttpWorld) -> None:
    me = world.db.identity
    before = (await world.get("")).json()["version"]
    reader = world.token_of(me, role="read")
    assert (await world.get("/entity?id=urn:a:1", token=reader)).json() == 1
    refused = [
        await world.put("urn:a:1", 5, token=reader),
        await world.ask(
            "POST", "/commits", {"operations": [{"op": "delete", "id": "urn:a:1", "blind": True}]}, token=reader
        ),
        await world.ask("POST", "/merges", {"source": "main"}, token=reader),
        await world.ask("POST", "/branch?name=x", {}, token=reader),
    ]
    narrow = world.token_of(me, prefixes=("urn:a:",))
    refused += [
        await world.put("urn:b:1", 5, token=narrow),
        await world.ask("POST", "/tag?name=x", {}, token=narrow),
        await world.ask("PUT", f"/entity?id={world.did}&blind=true", {me.did: "own"}, token=world.token),
    ]
    assert [(one.status, one.code) for one in refused] == [(403, "forbidden")] * len(refused)
    assert (await world.get("")).json()["version"] == before
    assert (await world.get("/entity?id=urn:b:1", token=narrow)).status == 404
    assert [one["id"] for one in (await world.get("/entities", token=narrow)).json()["entities"]] == ["urn:a:1"]
    soon = TimeMs(int(time.time() * 1_000) + 600_000)
    owner = world.token_of(me, role="own", expires=soon)
    roles = {me.did: "own", Identity.make().did: "read"}
    assert (await world.ask("PUT", f"/entity?id={world.did}&blind=true", roles, token=owner)).status == 200


@pytest.mark.rule("TOKEN-2")
async def test_delegations_beside_a_token_are_narrowed_by_it(world: HttpWorld) -> None:
    guest = Identity.make()
    link = _delegation(world, guest)
    stranger = await world.get("/entity?id=urn:a:1", token=world.token_of(guest))
    assert (stranger.status, stranger.code) == (404, "unknown_space")
    writer = world.token_of(guest, delegations=[link])
    assert (await world.put("urn:a:1", 7, token=writer)).status == 200
    assert (await world.put("urn:b:1", 7, token=writer)).status == 403
    reader = world.token_of(guest, role="read", delegations=[link])
    assert (await world.get("/entity?id=urn:a:1", token=reader)).json() == 7
    assert (await world.put("urn:a:1", 8, token=reader)).status == 403
    nothing = world.token_of(guest, prefixes=("urn:b:",), delegations=[link])
    assert (await world.get("/entity?id=urn:a:1", token=nothing)).status in (403, 404)
    foreign = await world.get("/log", token=world.token_of(world.db.identity, delegations=[link]))
    assert (foreign.status, foreign.code) == (401, "invalid_delegation")


@pytest.mark.rule("TOKEN-3", "TOKEN-4")
async def test_a_revoked_token_ends_with_the_next_request(world: HttpWorld) -> None:
    data = world.token_bytes(world.db.identity, role="read")
    token = access_token.write_text(data)
    assert (await world.get("/log", token=token)).status == 200
    await world.space.revoke(token)
    answer = await world.get("/log", token=token)
    assert (answer.status, "revoked" in answer.json()["detail"]) == (401, True)
    assert (await world.get("/log")).status == 200


@pytest.mark.rule("TOKEN-4")
async def test_a_principal_takes_back_its_own_token_and_nobody_elses(world: HttpWorld) -> None:
    guest, owner = Identity.make(), world.db.identity
    await world.space.acl.set(guest.did, "read")
    token, other = world.token_of(guest), world.token_of(owner, role="read")
    async with connect(world.url, identity=guest) as db:
        space = await db.space(world.did)
        with pytest.raises(Forbidden):
            await space.revoke(other)
        await space.revoke(token)
    assert (await world.get("/log", token=token)).status == 401
    assert (await world.get("/log", token=other)).status == 200


@pytest.mark.rule("TOKEN-4")
async def test_an_own_token_is_shown_whole_and_must_be_alive(world: HttpWorld) -> None:
    """The caller is the owner under a delegation to read `urn:a:` alone: no `own`."""
    owner, guest = world.db.identity, Identity.make()
    mine, past = world.token_bytes(owner), TimeMs(int(time.time() * 1_000) - 1_000)
    async with JsonSocket.open(world, role="read", prefix="urn:a:") as socket:

        async def revoked(token: bytes | None, name: bytes) -> str:
            said = {"type": "revoke", "delegation": reference.write(access_token.name_of(name))}
            answer = await socket.ask(said | ({} if token is None else {"token": text(token)}))
            return str(answer.get("code", answer["type"]))

        others = world.token_bytes(guest)
        expired = world.token_bytes(owner, not_before=TimeMs(past - 1_000), expires=past)
        elsewhere = world.token_bytes(owner, space=guest.did)
        assert await revoked(None, mine) == "forbidden"
        assert await revoked(others, others) == "forbidden"
        assert await revoked(mine, others) == "malformed"
        for wrong in (expired, elsewhere, mine[:-1], b""):
            assert await revoked(wrong, wrong) == "malformed"
        assert (await world.get("/log", token=access_token.write_text(mine))).status == 200
        assert await revoked(mine, mine) == "ok"
    assert (await world.get("/log", token=access_token.write_text(mine))).status == 401


@pytest.mark.rule("TOKEN-3")
async def test_rights_that_were_taken_end_a_token_at_once(world: HttpWorld) -> None:
    guest = Identity.make()
    await world.space.acl.set(guest.did, "write")
    token = world.token_of(guest)
    assert (await world.put("urn:g:1", 1, token=token)).status == 200
    await world.space.acl.remove(guest.did)
    assert (await world.put("urn:g:1", 2, token=token)).status == 403
    assert (await world.get("/entity?id=urn:g:1", token=token)).status == 403, "it wrote here, so it knows the space"


@pytest.mark.rule("TOKEN-3")
async def test_an_address_that_guesses_gets_429(world: HttpWorld) -> None:
    peer = await world.peer()
    statuses = []
    for number in range(80):
        peer.write(world.request("GET", "/log", token=f"stk1.{number}"))
        statuses.append((await peer.answer()).status)
    assert set(statuses) == {401, 429}


@pytest.mark.rule("HTTP-13")
async def test_a_stranger_learns_nothing_of_a_space(world: HttpWorld) -> None:
    stranger, other = Identity.make(), Identity.make()
    blob = reference.write(bytes(32))
    questions: list[tuple[str, str, Any, dict[str, str]]] = [
        ("GET", "", None, {}),
        ("HEAD", "/entity?id=urn:a:1", None, {}),
        ("GET", "/entity?id=urn:a:1", None, {"If_None_Match": '"2.aaaaaaaaaaaa"'}),
        ("PUT", "/entity?id=urn:a:1", 5, {"If_Match": '"2.aaaaaaaaaaaa"'}),
        ("PUT", "/entity?id=urn:a:1&blind=true", 5, {"Idempotency_Key": "k"}),
        ("PUT", "/entity?id=urn:a:1", 5, {}),
        ("OPTIONS", "/entity?id=urn:a:1", None, {}),
        ("GET", f"/blobs/{blob}", None, {"Range": "bytes=0-1"}),
        ("PUT", f"/blobs/{blob}", b"x", {}),
        ("GET", "/log", None, {}),
        ("POST", "/merges", {"source": "x"}, {}),
        ("GET", "/acl", None, {}),
        ("GET", "/watch?select=urn:a:*", None, {}),
        ("HEAD", "/watch?select=urn:a:*", None, {}),
        ("GET", "/watch?select=urn:a:*&wait=0", None, {"Last_Event_ID": "2.aaaaaaaaaaaa"}),
        ("POST", "/commits", {"operations": [DELETE]}, {}),
        ("POST", "/query?nested=true", {"roots": [{"id": "*"}]}, {}),
        ("POST", "/blobs", b"x", {}),
        ("DELETE", "/branch?name=main", None, {}),
    ]  # fmt: skip
    for method, path, body, how in questions:
        answers = []
        for space in (world.did, other.did):
            token = world.token_of(stranger, space=space)
            got = await world.ask(method, f"//v1/spaces/{space}{path}", body, token=token, **how)
            answers.append(got._replace(headers={n: v for n, v in got.headers.items() if n != "date"}))
        assert answers[0] == answers[1], (method, path)
        assert answers[0].status in (204, 404), (method, path)


@pytest.mark.rule("HTTP-13")
async def test_a_body_is_wanted_only_after_the_token(world: HttpWorld) -> None:
    peer = await world.peer()
    how = {"token": f"{world.token}A", "Expect": "100-continue"}
    request = world.request("PUT", "/entity?id=urn:a:9&blind=true", {"a": 1}, **how)
    head, _, body = request.partition(b"\r\n\r\n")
    peer.write(head + b"\r\n\r\n")
    answer = await peer.answer()
    assert (answer.status, answer.headers["connection"]) == (401, "close")
    good = await world.peer()
    good.write(world.request("PUT", "/entity?id=urn:a:9&blind=true", {"a": 1}, Expect="100-continue")[: -len(body)])
    assert (await good.answer()).status == 100
    good.write(body)
    assert (await good.answer()).status == 200


@pytest.mark.rule("TOKEN-1")
async def test_a_server_token_lists_the_callers_spaces(world: HttpWorld) -> None:
    me = world.db.identity
    soon = TimeMs(int(time.time() * 1_000) + 600_000)
    token = world.token_of(me, space=None, expires=soon)
    assert (await world.get("//v1/spaces", token=token)).json() == {"spaces": [{"space": world.did, "role": "own"}]}
    said = (await world.get("//v1/me", token=token)).json()
    assert (said["principal"], said["operator"]) == (me.did, False)
    nobody = Identity.make()
    assert (await world.get("//v1/spaces", token=world.token_of(nobody, space=None, expires=soon))).json() == {
        "spaces": []
    }
    assert (await world.get("//v1/spaces")).status == 401, "a token of a space is no server token"


@pytest.mark.rule("TOKEN-3")
async def test_no_part_of_a_token_is_logged(world: HttpWorld, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("DEBUG"):
        await world.get("/log")
        await world.get("/log", token=world.token[:-1] + "A")
        await world.get(f"/log?after={world.token}")
        await asyncio.sleep(0)
    assert world.token[5:25] not in caplog.text


def _delegation(world: HttpWorld, audience: Identity) -> bytes:
    owner = world.db.identity
    said = Delegation(
        issuer=owner.did,
        audience=audience.did,
        space=world.did,
        role="write",
        prefixes=("urn:a:",),
        not_before=TimeMs(NOW - 60_000),
        expires=TimeMs(NOW + 3_600_000),
        nonce=bytes(16),
    )
    return delegation.issue(said, owner.sign)
