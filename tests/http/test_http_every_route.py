"""Every route of the table answers as the WebSocket does, for each role and prefix of a token (HTTP-5, HTTP-6).

`test_http_routes` compares those whose answer is a message. Here are the others: what HTTP puts together, and writes.
"""

from __future__ import annotations

import asyncio
import base64
import os
from collections.abc import AsyncIterator, Iterable
from pathlib import Path
from typing import Any, Final

import pytest
from blake3 import blake3

from graphs import link
from http_questions import COMMITS, QUESTIONS
from http_worlds import Answer, HttpWorld, http_world
from json_socket import JsonSocket, text
from stemmadb.protocol.model.values import reference
from stemmadb.protocol.model.values.ids import Hash
from stemmadb.server.http.routes.route_table import routes
from stemmadb.server.http.writes.commits import CommitWriter
from stemmadb.server.http.writes.identities import OwnSessions

SCHEMA: Final = {"properties": {"next": {"$ref": "#"}}}
IDS: Final = ("urn:a:0", "urn:a:1", "urn:b:1", "urn:none", "not-an-id")
BLOBS: Final = {"urn:a:5": b"a blob of a", "urn:b:5": b"a blob of b"}
NAMES: Final = tuple(reference.write(Hash(blake3(data).digest())) for data in (*BLOBS.values(), b"no blob"))
PUTS_TOGETHER: Final = {
    ("GET", ""), ("GET", "/entity"), ("GET", "/branch"), ("GET", "/tag"), ("POST", "/query"), ("GET", "/watch"),
    ("GET", "/blobs/{blob}"),
}  # fmt: skip
WRITES: Final = {
    ("PUT", "/entity"), ("PATCH", "/entity"), ("DELETE", "/entity"), ("POST", "/branch"), ("DELETE", "/branch"),
    ("POST", "/tag"), ("DELETE", "/tag"), ("POST", "/merges"), ("POST", "/reverts"), ("POST", "/blobs"),
    ("PUT", "/blobs/{blob}"),
}  # fmt: skip
RIGHTS: Final = [(role, prefix) for role in ("read", "write") for prefix in ("", "urn:a:")]
PATCH: Final = [{"op": "replace", "path": "/n", "value": 9}]


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[HttpWorld]:
    async with http_world(tmp_path) as it:
        await it.put("urn:a:0", {"n": 0, "next": link("urn:a:1")})
        await it.put("urn:a:1", {"n": 1, "next": link("urn:b:1")})
        await it.put("urn:b:1", {"n": 2})
        for (id_, data), name in zip(BLOBS.items(), NAMES, strict=False):
            assert (await it.ask("POST", "/blobs", data)).json()["blob"] == name
            await it.put(id_, {"blob": name})
        for one in ("here", "there"):
            await it.ask("POST", f"/branch?name={one}", {})
            await it.ask("PUT", f"/entity?id=urn:a:1&branch={one}&blind=true", {"n": 100})
            await it.ask("POST", f"/tag?name=v-{one}", {"version": 3})
        yield it


def test_every_route_is_compared() -> None:
    compared = {(method, path.partition("?")[0]) for method, path, _, _ in QUESTIONS}
    compared |= PUTS_TOGETHER | WRITES | {("POST", "/commits")}
    assert COMMITS
    assert compared == {(one.method, one.path) for one in routes(CommitWriter(OwnSessions(os.urandom)))}


def code_of(answer: Answer) -> str:
    return "ok" if answer.status < 300 else answer.code


def code_in(answer: dict[str, Any]) -> str:
    return str(answer.get("code", "ok"))


@pytest.mark.rule("HTTP-5", "HTTP-6", "HTTP-7")
@pytest.mark.parametrize(("role", "prefix"), RIGHTS)
async def test_what_http_puts_together_is_what_the_websocket_tells(world: HttpWorld, role: str, prefix: str) -> None:
    token = world.token_of(world.db.identity, role=role, prefixes=(prefix,))
    async with JsonSocket.open(world, role=role, prefix=prefix) as socket:

        async def queried(id_: str, **how: Any) -> dict[str, Any]:
            return await socket.ask({"type": "query", "query": {"roots": [{"id": id_} | how]}})

        said = (await world.get("", token=token)).json()
        everything = (await queried("*"))["result"]
        assert said == {"space": world.did, "version": everything["version"], "role": role, "prefixes": [prefix]}
        for id_ in IDS:
            got, told = await world.get(f"/entity?id={id_}", token=token), await queried(id_)
            if told["type"] == "error":
                assert (got.code, got.json()["detail"]) == (told["code"], told["message"]), id_
            elif not told["result"].get("entities"):
                assert (got.status, got.code) == (404, "not_found"), id_
            else:
                (one,) = told["result"]["entities"]
                assert got.json() == one["body"]
                tag = got.headers["etag"].strip('"').split(".")
                assert (int(tag[0]), one["hash"][3:15]) == (one["version"], tag[1])
        for kind, listed in (("branch", "branches"), ("tag", "tags")):
            told = (await socket.ask({"type": f"{kind}.list"}))["result"]
            for one in told[listed]:
                assert (await world.get(f"/{kind}?name={one['name']}", token=token)).json() == one
            assert (await world.get(f"/{kind}?name=none", token=token)).code == f"unknown_{kind}"
        await check_walks(world, token, everything, await queried("urn:a:0", schema=SCHEMA))
        await check_blobs(world, token, socket)


async def check_walks(world: HttpWorld, token: str, everything: dict[str, Any], walked: dict[str, Any]) -> None:
    """A nested answer and the map of a stream, beside the flat answer of the WebSocket."""
    found = {one["id"]: one["body"] for one in walked["result"]["entities"]}
    assert len(found) >= 2, "a link is followed"
    body = {"roots": [{"id": "urn:a:0", "schema": SCHEMA}]}
    nested = (await world.ask("POST", "/query?nested=true", body, token=token)).json()["results"]
    assert nested == [put_in("urn:a:0", found)]
    events = (await world.get("/watch?select=*&wait=0", token=token)).json()["events"]
    entered = {one["id"]: one["value"] for event in events for one in event["data"].get("entered", ())}
    assert entered == {one["id"]: one["body"] for one in everything["entities"]}


def put_in(id_: str, found: dict[str, Any]) -> Any:
    """Its value with links replaced by what they lead to; a link that leads to nothing stays."""
    value = found[id_]
    to = value.get("next", {}).get("/", {}).get("link@1", {}).get("id")
    return value if to not in found else value | {"next": put_in(to, found)}


async def check_blobs(world: HttpWorld, token: str, socket: JsonSocket) -> None:
    for name in NAMES:
        got, told = (
            await world.get(f"/blobs/{name}", token=token),
            await socket.ask({"type": "blob.read", "blob": name}),
        )
        assert code_of(got) == code_in(told), name
        if told["type"] == "ok":
            assert got.body == base64.b64decode(told["result"]["data"])


def entity_writes(id_: str) -> Iterable[tuple[str, Any, dict[str, Any]]]:
    """Method and body of a request, and the operation that a session commits."""
    yield "PUT", {"n": 5}, {"op": "set", "id": id_, "body": {"n": 5}, "blind": True}
    yield "PATCH", PATCH, {"op": "patch", "id": id_, "body": PATCH, "blind": True}
    yield "DELETE", None, {"op": "delete", "id": id_, "blind": True}
    yield "PATCH", PATCH, {"op": "patch", "id": id_, "body": PATCH, "blind": True}


@pytest.mark.rule("HTTP-5", "HTTP-6", "HTTP-8")
@pytest.mark.parametrize(("role", "prefix"), RIGHTS)
async def test_every_route_that_writes_decides_as_the_websocket_does(
    world: HttpWorld, role: str, prefix: str
) -> None:
    """HTTP writes to one branch and a session to its twin, so that each finds the same state."""
    token = world.token_of(world.db.identity, role=role, prefixes=(prefix,))
    codes = list[str]()
    async with JsonSocket.open(world, role=role, prefix=prefix) as socket:
        for id_ in IDS[:-1]:
            for method, body, operation in entity_writes(id_):
                how = {"Content_Type": "application/json-patch+json"} if method == "PATCH" else {}
                path = f"/entity?id={id_}&branch=here&blind=true"
                http = await world.ask(method, path, body, token=token, **how)
                wire = await socket.commit({"operations": [operation], "branch": "there"})
                codes.append("accepted" if http.status == 200 else http.code)
                assert codes[-1] == wire, (method, id_)
        for method, path, body, message in structure_writes():
            http = await world.ask(method, path.format(one="here"), formatted(body, "here"), token=token)
            wire = code_in(await socket.ask(formatted(message, "there")))
            codes.append(code_of(http))
            assert codes[-1] == wire, path
        for data in (*BLOBS.values(), b"a new one"):
            name = reference.write(Hash(blake3(data).digest()))
            put = await world.ask("PUT", f"/blobs/{name}", data, token=token)
            post = await world.ask("POST", "/blobs", data, token=token)
            wire = await sent_by(socket, name, data)
            assert [code_of(put), code_of(post)] == [wire, wire], name
            codes.append(wire)
    done = sum(one in ("ok", "accepted") for one in codes)
    assert done == 0 if role == "read" else 0 < done < len(codes), codes


def structure_writes() -> Iterable[tuple[str, str, Any, dict[str, Any]]]:
    merge = {"source": "{one}", "into": "main"}
    yield "POST", "/merges", merge | {"dry_run": True}, {"type": "merge", "dry_run": True} | merge
    yield (
        "POST",
        "/reverts",
        {"versions": [2], "branch": "{one}"},
        {"type": "revert", "versions": [2], "branch": "{one}"},
    )
    yield "POST", "/branch?name=new-{one}", {}, {"type": "branch.create", "name": "new-{one}"}
    yield "POST", "/branch?name=new-{one}", {}, {"type": "branch.create", "name": "new-{one}"}
    yield "POST", "/tag?name=w-{one}", {"version": 4}, {"type": "tag.create", "name": "w-{one}", "version": 4}
    yield "DELETE", "/tag?name=v-{one}", None, {"type": "tag.delete", "name": "v-{one}"}
    yield "DELETE", "/branch?name=new-{one}", None, {"type": "branch.delete", "name": "new-{one}"}
    yield "DELETE", "/branch?name=none-{one}", None, {"type": "branch.delete", "name": "none-{one}"}


def formatted(value: Any, one: str) -> Any:
    if isinstance(value, dict):
        return {name: formatted(member, one) for name, member in value.items()}
    return value.format(one=one) if isinstance(value, str) else value


async def sent_by(socket: JsonSocket, name: str, data: bytes) -> str:
    """What becomes of a blob that a session sends."""
    chunk = {"type": "blob.chunk", "blob": name, "offset": 0, "data": text(data)}
    for message in (
        {"type": "blob.begin", "blob": name, "size": len(data)},
        chunk,
        {"type": "blob.end", "blob": name},
    ):
        answer = await socket.ask(message)
        if answer["type"] == "error":
            return code_in(answer)
        await asyncio.sleep(0)
    return "ok"
