"""Every route gives what the same question gives on the WebSocket, and errors have one form (HTTP-5, HTTP-12)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from graphs import link
from http_questions import COMMITS, QUESTIONS
from http_worlds import HttpWorld, http_world
from json_socket import JsonSocket
from stemmadb.protocol import errors
from stemmadb.protocol.errors import StemmaError
from stemmadb.server.http.base import error_table
from stemmadb.server.http.description import openapi

ROOT = Path(__file__).parents[2]


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[HttpWorld]:
    async with http_world(tmp_path) as it:
        for number in range(5):
            assert (await it.put(f"urn:a:{number}", {"n": number, "next": link(f"urn:a:{number + 1}")})).status == 200
        await it.put("urn:b:1", "other")
        await it.ask("POST", "/branch?name=..", {})
        await it.ask("PUT", "/entity?id=urn:a:1&branch=..&blind=true", {"n": 100})
        await it.ask("POST", "/tag?name=v1", {"version": 3})
        yield it


@pytest.mark.rule("HTTP-5", "HTTP-6")
@pytest.mark.parametrize("role", ["read", "write"])
@pytest.mark.parametrize("prefix", ["", "urn:a:"])
async def test_every_route_answers_as_the_websocket_does(world: HttpWorld, role: str, prefix: str) -> None:
    """The token's rights are those of a session with an equal delegation."""
    token = world.token_of(world.db.identity, role=role, prefixes=(prefix,))
    async with JsonSocket.open(world, role=role, prefix=prefix) as socket:
        for method, path, body, message in QUESTIONS:
            http = await world.ask(method, path, body, token=token)
            wire = await socket.ask(message)
            if wire["type"] == "ok":
                assert http.status == 200, (path, http.body)
                assert _same(http.json(), role, prefix) == _same(wire["result"], role, prefix), path
            else:
                assert (http.code, http.json()["detail"]) == (wire["code"], wire["message"]), path
                assert http.json()["details"] == wire.get("details", {})


@pytest.mark.rule("HTTP-5", "HTTP-6")
@pytest.mark.parametrize("role", ["read", "write"])
@pytest.mark.parametrize("prefix", ["", "urn:a:"])
async def test_every_write_is_decided_as_on_the_websocket(world: HttpWorld, role: str, prefix: str) -> None:
    token = world.token_of(world.db.identity, role=role, prefixes=(prefix,))
    verdicts = list[tuple[str, str]]()
    async with JsonSocket.open(world, role=role, prefix=prefix) as socket:
        for content in COMMITS:
            answer = await world.ask("POST", "/commits", content, token=token)
            wire = await socket.commit(content)
            verdicts.append(("accepted" if answer.status == 201 else answer.code, wire))
    assert [http for http, _ in verdicts] == [wire for _, wire in verdicts]
    accepted = [http for http, _ in verdicts].count("accepted")
    assert accepted == (0 if role == "read" else 4 if prefix == "" else 2)


def _same(answer: Any, role: str, prefix: str) -> Any:
    """Cursors belong to one request each."""
    return {name: value for name, value in answer.items() if name != "next"}


@pytest.mark.rule("HTTP-12")
def test_every_code_has_a_status_or_is_never_sent() -> None:
    codes = {one.code for one in _leaves(StemmaError) if one.__module__ == errors.__name__}
    assert codes - error_table.STATUSES.keys() - error_table.NEVER == set()
    assert not error_table.STATUSES.keys() & error_table.NEVER


def _leaves(root: type[StemmaError]) -> list[type[StemmaError]]:
    return [leaf for child in root.__subclasses__() for leaf in _leaves(child)] or [root]


BAD: list[tuple[str, str, Any, dict[str, str], int]] = [
    ("GET", "/entity?id=urn:a:1&id=urn:a:2", None, {}, 400),
    ("GET", "/entity?id=urn:a:1&ids=2", None, {}, 400),
    ("GET", "/entity", None, {}, 400),
    ("GET", "/entity?id=urn:a:1&version=x", None, {}, 400),
    ("GET", "/entity?id=urn:a:1&version=2&tag=v1", None, {}, 400),
    ("GET", "/entity?id=urn:a:1&access_token=x", None, {}, 400),
    ("GET", "/entity?id=stk1.AAAA", None, {}, 400),
    ("GET", "/entity?id=urn:a:1&path=n", None, {}, 400),
    ("GET", "/entity?id=urn:a:1&path=/none", None, {}, 404),
    ("GET", "/entity?id=urn:a:1&tag=none", None, {}, 404),
    ("GET", "/entity?id=urn:a:1&version=99", None, {}, 404),
    ("GET", "/entity?id=%zz", None, {}, 400),
    ("GET", "/entity?id=a%00b", None, {}, 400),
    ("GET", "/entity?id=%ED%A0%80", None, {}, 400),
    ("GET", "/entity?" + "&".join(f"p{number}=1" for number in range(65)), None, {}, 400),
    ("GET", "/entity?id=urn:a:1&version=9999999999999999999", None, {}, 400),
    ("GET", "/entity?id=urn:a:1&time=-5", None, {}, 400),
    ("GET", "/entity?id=urn:a:1&time=2030-01-01T00:00:00", None, {}, 400),
    ("GET", "/entity?id=urn:a:1&time=2030-13-01T00:00:00Z", None, {}, 400),
    ("GET", "/entity?id=urn:a:1&time=1&version=2", None, {}, 400),
    ("GET", "/entities?version=-9999999999999999999", None, {}, 400),
    ("GET", "/entities?version=9999999999999999999", None, {}, 400),
    ("GET", "/entities?limit=0", None, {}, 400),
    ("GET", "/entities?limit=-1&limit=1", None, {}, 400),
    ("GET", "/entities?after=x", None, {}, 400),
    ("GET", "/log?order=sideways", None, {}, 400),
    ("GET", "/log?with_facts=yes", None, {}, 400),
    ("GET", "/log?kinds=none", None, {}, 400),
    ("GET", "/diff?left=main@&right=main", None, {}, 400),
    ("GET", "/watch?select=urn:a:*&wait=61", None, {}, 400),
    ("GET", "/watch?select=urn:a:*&wait=-1", None, {}, 400),
    ("GET", "/watch?select=urn:a:*&wait=1&wait=1", None, {}, 400),
    ("GET", "/watch?wait=1", None, {}, 400),
    ("GET", "/watch?select=urn:a:*&wait=0&since=1", None, {}, 400),
    ("GET", "/watch?select=urn:a:*&wait=0&schema=" + "%5B" * 3_000, None, {}, 400),
    ("GET", "/blobs/b3:x", None, {}, 400),
    ("GET", "/blobs/b3:" + "a" * 52, None, {}, 404),
    ("GET", "/elsewhere", None, {}, 404),
    ("PUT", "/log", {}, {}, 405),
    ("PUT", "/entity?id=urn:a:1", {}, {}, 428),
    ("PUT", "/entity?id=urn:a:1", {}, {"If_Match": "*"}, 400),
    ("PUT", "/entity?id=urn:a:1", {}, {"If_Match": 'W/"2.aaaaaaaaaaaa"'}, 400),
    ("PUT", "/entity?id=urn:a:1", {}, {"If_Match": '"2.aaaaaaaaaaaa", "3.aaaaaaaaaaaa"'}, 400),
    ("PUT", "/entity?id=urn:a:1", {}, {"If_Match": '"2.aaaaaaaaaaaa"', "If_None_Match": "*"}, 400),
    ("PUT", "/entity?id=urn:a:1", {}, {"If_Match": ""}, 400),
    ("PUT", "/entity?id=urn:a:1", {}, {"If_Match": '"2"'}, 400),
    ("PUT", "/entity?id=urn:a:1", {}, {"If_Match": '"-2.aaaaaaaaaaaa"'}, 400),
    ("PUT", "/entity?id=urn:a:1", {}, {"If_Match": "2.aaaaaaaaaaaa"}, 400),
    ("PUT", "/entity?id=urn:a:1", {}, {"If_Match": '"9999999999999999999.aaaaaaaaaaaa"'}, 412),
    ("PUT", "/entity?id=urn:a:1", {}, {"If_Match": '"0.aaaaaaaaaaaa"'}, 412),
    ("PUT", "/entity?id=urn:none", {}, {"If_Match": '"0.aaaaaaaaaaaa"'}, 412),
    ("PUT", "/entity?id=urn:a:1", {}, {"If_Match": '"2.aaaaaaaaaaaa"'}, 412),
    ("PUT", "/entity?id=urn:a:1", {}, {"If_None_Match": '"2.aaaaaaaaaaaa"'}, 400),
    ("PUT", "/entity?id=urn:a:1", {}, {"If_None_Match": "*"}, 412),
    ("PUT", "/entity?id=urn:a:9&blind=true", b'{"a":1,"a":2}', {}, 400),
    ("PUT", "/entity?id=urn:a:9&blind=true", b"{", {}, 400),
    ("PUT", "/entity?id=urn:a:9&blind=true", b"NaN", {}, 400),
    ("PUT", "/entity?id=urn:a:9&blind=true", b"\xff", {}, 400),
    ("PUT", "/entity?id=urn:a:9&blind=true", b"[" * 65 + b"]" * 65, {}, 400),
    ("PUT", "/entity?id=urn:a:9&blind=true", b"[" * 20_000, {}, 400),
    ("PUT", "/entity?id=urn:a:9&blind=true", b"\xef\xbb\xbf5", {}, 400),
    ("PUT", "/entity?id=urn:a:9&blind=true", b"9" * 40, {}, 400),
    ("PUT", "/entity?id=urn:a:9&blind=true", b"1e999", {}, 400),
    ("PUT", "/entity?id=urn:a:9&blind=true", b'"\\ud800"', {}, 400),
    ("PUT", "/entity?id=urn:a:9&blind=true", b"", {}, 400),
    ("PUT", "/entity?id=urn:a:9&blind=maybe", {}, {}, 400),
    ("DELETE", "/entity?id=urn:a:1&blind=true", {}, {}, 400),
    ("PUT", "/entity?id=urn:a:9&blind=true", {}, {"Content_Encoding": "gzip"}, 415),
    ("PUT", "/entity?id=urn:a:9&blind=true", {}, {"Idempotency_Key": "x" * 129}, 400),
    ("PUT", "/entity?id=urn:a:9&blind=true", {}, {"Content_Type": "text/plain"}, 415),
    ("PUT", "/entity?id=urn:a:9&blind=true", {}, {"Idempotency_Key": "a b"}, 400),
    ("PUT", "/entity?id=not an id&blind=true".replace(" ", "%20"), {}, {}, 400),
    ("PATCH", "/entity?id=urn:a:1&blind=true", [], {}, 415),
    ("GET", "/entity?id=urn:a:1", None, {"Accept": "text/html"}, 406),
    ("POST", "/commits", {"operations": []}, {}, 400),
    ("POST", "/commits", {"operations": [{"op": "set", "id": "urn:a:1", "body": 1}]}, {}, 422),
    ("POST", "/commits", {"operations": []}, {"If_Match": '"2.aaaaaaaaaaaa"'}, 400),
    ("DELETE", "/branch?name=..", None, {"If_Match": '"2.aaaaaaaaaaaa"'}, 400),
    ("POST", "/merges", {"source": "..", "operation": "x"}, {}, 400),
    ("GET", "//v1/spaces/did:key:z6Mk/log", None, {}, 400),
    ("GET", "//v1/openapi.json", None, {"Host": "evil.example"}, 421),
    ("GET", "/log", None, {"Origin": "http://localhost:3000"}, 403),
    ("GET", "/log", None, {"Origin": "https://evil.example"}, 403),
]  # fmt: skip


@pytest.mark.rule("HTTP-12")
async def test_bad_input_gets_one_clear_error(world: HttpWorld) -> None:
    """Each on a connection of its own, and all one after the other on a connection that is kept alive."""
    before = (await world.get("")).json()["version"]
    kept = await world.peer()
    for method, path, body, how, status in BAD:
        answer = await world.ask(method, path, body, **how)
        assert answer.status == status, (method, path, how, answer.body)
        assert answer.headers["content-type"] == "application/problem+json"
        assert answer.json().keys() >= {"type", "title", "status", "detail", "code", "details", "retriable"}
        kept.write(world.request(method, path, body, **how))
        again = await kept.answer()
        assert (again.status, again.body) == (answer.status, answer.body), (method, path, how)
        if again.headers.get("connection") == "close":
            kept = await world.peer()
    assert (await world.get("")).json()["version"] == before


@pytest.mark.rule("HTTP-12")
@pytest.mark.parametrize("name", ["Idempotency-Key", "Last-Event-ID", "Range", "If-Match", "If-None-Match"])
async def test_a_header_that_means_nothing_twice_is_refused(world: HttpWorld, name: str) -> None:
    values = {"If-Match": '"2.aaaaaaaaaaaa"', "If-None-Match": "*", "Range": "bytes=0-1"}
    is_read = name in ("Last-Event-ID", "Range")
    twice = f"{name}: {values.get(name, 'a')}\r\n".encode() * 2
    path = "/watch?select=urn:a:*&wait=0" if is_read else "/entity?id=urn:a:9"
    sent = world.request("GET" if is_read else "PUT", path, None if is_read else 1)
    peer = await world.peer()
    for _ in range(2):
        peer.write(sent.replace(b"\r\n", b"\r\n" + twice, 1))
        answer = await peer.answer()
        assert (answer.status, answer.code) == (400, "malformed")
    assert (await world.get("/entity?id=urn:a:9")).status == 404


@pytest.mark.rule("HTTP-13")
async def test_head_is_get_without_the_body_on_a_connection_that_goes_on(world: HttpWorld) -> None:
    peer = await world.peer()
    paths = [path for method, path, _, _ in QUESTIONS if method == "GET"]
    for path in ["", "/entity?id=urn:a:1", "/entity?id=urn:none", *paths, "//v1/openapi.json"]:
        peer.write(world.request("HEAD", path))
        head = await peer.answer(is_head=True)
        peer.write(world.request("GET", path))
        whole = await peer.answer()
        assert head.status == whole.status, path
        assert {**head.headers, "date": ""} == {**whole.headers, "date": ""}, path


@pytest.mark.rule("HTTP-3", "HTTP-4")
async def test_pages_of_own_and_listed_origins_may_ask(tmp_path: Path) -> None:
    async with http_world(tmp_path, origins=("https://app.example",), public=("https://db.example",)) as it:
        own = f"http://127.0.0.1:{it.port}"
        for origin, host, policy in (
            (own, f"127.0.0.1:{it.port}", "same-origin"),
            ("https://db.example", "db.example", "same-origin"),
            ("https://app.example", "db.example", "cross-origin"),
        ):
            answer = await it.get("", Origin=origin, Host=host)
            assert answer.status == 200
            assert answer.headers["access-control-allow-origin"] == origin
            assert answer.headers["cross-origin-resource-policy"] == policy
            assert "access-control-allow-credentials" not in answer.headers
        preflight = await it.ask("OPTIONS", "/entity?x=y", token="", Origin="https://app.example")
        assert preflight.status == 204
        assert "PATCH" in preflight.headers["access-control-allow-methods"]
        assert (await it.get("//v1/openapi.json", token="", Host="db.example")).status == 200


@pytest.mark.rule("HTTP-7", "HTTP-8")
async def test_tags_name_a_state_and_a_write_replaces_exactly_that(world: HttpWorld) -> None:
    first = await world.get("/entity?id=urn:a:1")
    tag = first.headers["etag"]
    assert first.headers["cache-control"] == "private, no-cache"
    assert (await world.get("/entity?id=urn:a:1", If_None_Match=f'"1.aaaaaaaaaaaa", {tag}')).status == 304
    assert (await world.ask("HEAD", "/entity?id=urn:a:1")).headers["etag"] == tag
    done = await world.put("urn:a:1", 7, If_Match=tag)
    assert done.status == 200
    assert (await world.get("/entity?id=urn:a:1")).headers["etag"] == done.headers["etag"]
    late = await world.put("urn:a:1", 8, If_Match=tag)
    assert (late.status, late.code) == (412, "conflict")
    assert late.json()["current"][0]["body"] == 7
    unknown = await world.put("urn:a:1", 8, If_Match=f'"{tag.split(".")[0][1:]}.aaaaaaaaaaaa"')
    assert (unknown.status, unknown.code) == (412, "conflict")
    assert unknown.json()["current"] == late.json()["current"]
    (stale,) = unknown.json()["stale"]
    assert (stale["id"], stale["head"]) == ("urn:a:1", done.json()["version"])
    patch = b'[{"op":"increment","path":"/n","by":5}]'
    kind = {"Content_Type": "application/json-patch+json"}
    assert (await world.ask("PATCH", "/entity?id=urn:a:2", patch, **kind)).status == 200
    assert (await world.get("/entity?id=urn:a:2&path=/n")).json() == 7
    assert (await world.ask("DELETE", "/entity?id=urn:a:1", If_Match=done.headers["etag"])).status == 200
    assert (await world.get("/entity?id=urn:a:1")).status == 404
    assert (await world.get("/entity?id=urn:a:1&tag=v1")).json()["n"] == 1
    again = await world.put("urn:a:1", 9, If_None_Match="*", Idempotency_Key="over-the-tombstone")
    repeat = await world.put("urn:a:1", 9, If_None_Match="*", Idempotency_Key="over-the-tombstone")
    assert (repeat.status, repeat.body, repeat.headers["etag"]) == (200, again.body, again.headers["etag"])


@pytest.mark.rule("HTTP-7")
async def test_an_erased_value_is_410_also_to_a_reader_that_has_it(world: HttpWorld) -> None:
    tag = (await world.get("/entity?id=urn:b:1")).headers["etag"]
    version = int(tag.strip('"').split(".")[0])
    await world.put("urn:b:1", "new")
    await world.space.erase("urn:b:1", versions=[version])
    answer = await world.get(f"/entity?id=urn:b:1&version={version}", If_None_Match=tag)
    assert (answer.status, answer.code) == (410, "erased")


@pytest.mark.rule("HTTP-9")
async def test_a_key_writes_once_and_another_request_under_it_is_refused(world: HttpWorld) -> None:
    body = {"operations": [{"op": "set", "id": "urn:k:1", "body": 1, "blind": True}]}
    answers = await asyncio.gather(*(world.ask("POST", "/commits", body, Idempotency_Key="k1") for _ in range(5)))
    assert {one.status for one in answers} == {201}
    assert len({one.body for one in answers}) == 1
    body["operations"][0]["body"] = 2
    clash = await world.ask("POST", "/commits", body, Idempotency_Key="k1")
    assert (clash.status, clash.code, clash.json()["details"]) == (409, "identity_clash", {})
    branch = [await world.ask("POST", "/branch?name=once", {}, Idempotency_Key="k2") for _ in range(2)]
    assert branch[0].body == branch[1].body
    assert (await world.ask("POST", "/branch?name=other", {}, Idempotency_Key="k2")).code == "identity_clash"
    refused = await world.put("urn:k:1", 5, If_None_Match="*", Idempotency_Key="k3")
    assert refused.code == "already_exists"
    assert (await world.put("urn:k:2", 5, If_None_Match="*", Idempotency_Key="k3")).status == 200


@pytest.mark.rule("HTTP-9")
async def test_after_an_erasure_an_accepted_key_says_that_its_write_is_there(world: HttpWorld) -> None:
    first = await world.put("urn:k:1", "secret", Idempotency_Key="k1")
    version = first.json()["version"]
    await world.put("urn:k:1", "open")
    await world.space.erase("urn:k:1", versions=[version])
    again = await world.put("urn:k:1", "secret", Idempotency_Key="k1")
    assert (again.status, again.json()["details"]) == (409, {"accepted": True, "version": version})
    fresh = [await world.put("urn:k:2", 1, Idempotency_Key="k2") for _ in range(2)]
    assert fresh[0].body == fresh[1].body


@pytest.mark.rule("HTTP-9")
async def test_without_a_key_the_answer_says_what_the_commit_is_known_by(world: HttpWorld) -> None:
    done = await world.put("urn:k:1", 1)
    session, local = done.headers["stemma-identity"].split(".")
    entry = (await world.get("/log?limit=1")).json()["entries"][0]
    assert (entry["local"], len(session)) == (int(local), 32)


@pytest.mark.rule("HTTP-9", "ACL-2")
async def test_without_a_key_the_log_of_a_space_tells_nothing_of_other_spaces(world: HttpWorld) -> None:
    """A reader of one space must not count what its writers do elsewhere, nor recognise a session there."""
    other = (await world.db.space("other")).did
    token = world.token_of(world.db.identity, space=other)
    identities = []
    for value in range(3):
        here = await world.put("urn:k:1", value)
        path = f"//v1/spaces/{other}/entity?id=urn:k:1&blind=true"
        elsewhere = [await world.ask("PUT", path, value, token=token) for _ in range(value)]
        identities.append([one.headers["stemma-identity"].split(".") for one in (here, *elsewhere)])
    locals_ = [entry["local"] for entry in (await world.get("/log?limit=3")).json()["entries"]]
    assert sorted(locals_) == list(range(min(locals_), min(locals_) + 3))
    assert len({here[0] for here, *_ in identities}) == 1
    assert identities[0][0][0] not in {session for _, *there in identities for session, _ in there}
    assert [local for _, *there in identities for _, local in there] == ["1", "2", "3"]


@pytest.mark.rule("HTTP-11")
async def test_blobs_are_stored_by_name_read_in_ranges_and_never_run(world: HttpWorld) -> None:
    data = b"<script>alert(1)</script>" * 100_000
    stored = await world.ask("POST", "/blobs", data, Content_Type="text/html")
    name = stored.json()["blob"]
    again = await world.ask("PUT", f"/blobs/{name}", data, Content_Type="text/html")
    assert (stored.status, again.status, again.headers["etag"]) == (201, 200, f'"{name}"')
    whole = await world.get(f"/blobs/{name}")
    assert (whole.status, whole.body == data) == (200, True)
    assert whole.headers["content-disposition"] == "attachment"
    assert "sandbox" in whole.headers["content-security-policy"]
    part = await world.get(f"/blobs/{name}", Range="bytes=1000000-1000009")
    assert (part.status, part.body) == (206, data[1_000_000:1_000_010])
    assert part.headers["content-range"] == f"bytes 1000000-1000009/{len(data)}"
    assert (await world.get(f"/blobs/{name}", Range="bytes=-5")).body == data[-5:]
    over = await world.get(f"/blobs/{name}", Range=f"bytes={len(data)}-")
    assert (over.status, over.headers["content-range"]) == (416, f"bytes */{len(data)}")
    assert (await world.get(f"/blobs/{name}", If_None_Match=f'"{name}"')).status == 304
    assert (await world.get(f"/blobs/{name}", token="")).status == 401
    wrong = await world.ask("PUT", f"/blobs/{name[:-2]}aa", b"other bytes")
    assert (wrong.status, wrong.code) == (422, "blob_mismatch")


def test_the_description_under_version_control_is_current() -> None:
    assert (ROOT / "docs/reference/openapi.json").read_bytes() == openapi.encoded(), "run `make reference`"
