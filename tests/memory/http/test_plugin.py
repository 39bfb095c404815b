"""The plugin interface over a real socket: every row of its table, and input that is wrong in every way."""

from __future__ import annotations

import asyncio
import io
import socket
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, NamedTuple

import aiohttp
import pytest
import pytest_asyncio

from memory_worlds import PLUGIN, bytes_under, fact, memory_world
from stemmadb.memory.interfaces.http import openapi
from stemmadb.memory.interfaces.http.guards import BODY_BYTES_MAX, HostGuard
from stemmadb.memory.interfaces.http.plugin import make_app
from stemmadb.memory.operations import memories
from stemmadb.memory.process.http_listener import ListenAddress, listening, read_address
from stemmadb.memory.process.opened_memory import OpenedMemory
from stemmadb.memory.process.places import SOCKET_BYTES_MAX
from stemmadb.protocol.errors import Malformed, Unavailable

NS = "/v1/namespaces/workspace:1"
WRITE: dict[str, Any] = {"content": "zebras are striped", "kind": "fact", "source": "runtime"}


class Plugin(NamedTuple):
    """A served plugin interface and a client of it."""

    opened: OpenedMemory
    session: aiohttp.ClientSession
    url: str

    async def ask(self, method: str, path: str, body: Any = None, **given: Any) -> tuple[int, Any]:
        if body is not None:
            given["json"] = body
        async with self.session.request(method, path, **given) as answer:
            status, text = answer.status, await answer.read()
            if status == 204:
                assert text == b""
                return status, dict(answer.headers)
            found = await answer.json()
            if status >= 300:
                assert found["code"] in openapi.ERROR_CODES
                assert isinstance(found["message"], str)
            return status, found

    async def status(self, method: str, path: str, body: Any = None, **given: Any) -> int:
        return (await self.ask(method, path, body, **given))[0]

    async def write(self, **fields: Any) -> str:
        status, found = await self.ask("POST", f"{NS}/memories", WRITE | fields)
        assert status == 201, found
        return str(found["id"])

    async def found(self, **fields: Any) -> list[dict[str, Any]]:
        status, answer = await self.ask("POST", "/v1/search", {"namespaces": ["workspace:1"]} | fields)
        assert status == 200, answer
        memories: list[dict[str, Any]] = answer["memories"]
        return memories


@pytest_asyncio.fixture
async def plugin(tmp_path: Path) -> AsyncIterator[Plugin]:
    async with memory_world(tmp_path / "data") as opened:

        def app(guard: HostGuard) -> aiohttp.web.Application:
            return make_app(opened.memory, opened.job, guard, lambda: None)

        async with listening(ListenAddress(host="127.0.0.1"), app) as url, aiohttp.ClientSession(url) as session:
            made = Plugin(opened, session, url)
            assert await made.status("PUT", NS, {"kind": "workspace"}) == 200
            yield made


async def test_health_says_what_it_can_do(plugin: Plugin) -> None:
    status, found = await plugin.ask("GET", "/v1/health")
    assert (status, found) == (
        200,
        {"status": "ok", "version": "1.0.0", "capabilities": ["embedding", "fts", "ttl", "pin", "propagation"]},
    )
    plugin.opened.memory.clock.shift = 1_000
    assert (await plugin.ask("GET", "/v1/health"))[1] == found | {"test_clock_ms": 1_000}


@pytest.mark.rule("PLUG-1")
async def test_namespaces_are_made_changed_and_deleted(plugin: Plugin) -> None:
    status, first = await plugin.ask("PUT", NS, {"kind": "workspace", "metadata": {"a": [1, {"b": None}]}, "x": 1})
    assert (status, first["name"], first["metadata"]) == (200, "workspace:1", {"a": [1, {"b": None}]})
    status, changed = await plugin.ask("PATCH", NS, {"expires_at": "2999-01-01T00:00:00+01:00"})
    assert (status, changed["expires_at"]) == (200, "2998-12-31T23:00:00.000Z")
    assert changed["metadata"] == first["metadata"]
    status, cleared = await plugin.ask("PATCH", NS, {"expires_at": None, "metadata": None})
    assert (status, set(cleared)) == (200, {"name", "kind", "created_at"})
    assert cleared["created_at"] == first["created_at"]
    assert await plugin.status("PATCH", "/v1/namespaces/org:none", {"metadata": {}}) == 404
    assert await plugin.status("DELETE", "/v1/namespaces/org:none") == 404
    assert await plugin.status("DELETE", NS) == 204
    assert await plugin.status("DELETE", NS) == 404
    assert await plugin.status("POST", f"{NS}/memories", WRITE) == 404


@pytest.mark.rule("PLUG-1")
async def test_a_memory_comes_back_as_it_was_written(plugin: Plugin) -> None:
    given = {
        "content": 'zebra\u0000 "quoted" \U0001f993',
        "kind": "summary",
        "source": "user",
        "pin": True,
        "propagation": {"to": ["team:1"]},
        "expires_at": "2999-01-01T00:00:00Z",
        "embedding": [0.5, 1],
        "id": "550e8400-e29b-41d4-a716-446655440000",
    }
    uuid = await plugin.write(**given)
    assert uuid != given["id"]
    (found,) = await plugin.found(query="zebra")
    assert found.pop("score") > 0
    assert found.pop("created_at")
    expected = {name: given[name] for name in ("content", "kind", "source", "pin", "propagation")}
    assert found == expected | {"id": uuid, "namespace": "workspace:1", "expires_at": "2999-01-01T00:00:00.000Z"}
    (plain,) = await plugin.found()
    assert "score" not in plain


@pytest.mark.rule("PLUG-1")
async def test_search_by_words_substring_embedding_and_nothing(plugin: Plugin) -> None:
    old = await plugin.write(content="the old zebra", pin=True)
    new = await plugin.write(content="a lion, 5 %", kind="checkpoint", embedding=[1, 0])
    assert [one["id"] for one in await plugin.found(query="zebras")] == [old]
    assert [one["id"] for one in await plugin.found(query="%")] == [new]
    assert [one["id"] for one in await plugin.found()] == [old, new], "pinned first, then the newest"
    assert [one["id"] for one in await plugin.found(embedding=[2, 0])] == [new]
    assert [one["id"] for one in await plugin.found(embedding=[1, 2, 3], query="zebra")] == [old]
    assert [one["id"] for one in await plugin.found(kinds=["fact"])] == [old]
    assert await plugin.found(namespaces=["org:none"]) == []
    assert len(await plugin.found(limit=1)) == 1
    assert len(await plugin.found(limit=2.0)) == 2


async def test_other_kinds_show_as_facts_and_cannot_be_deleted_here(plugin: Plugin) -> None:
    record = fact("workspace:1", "a decision", kind="decision", via="mcp", authority="human")
    uuid = await memories.write_memory(plugin.opened.memory, PLUGIN, record)
    (found,) = await plugin.found(kinds=["fact"])
    assert (found["kind"], found["source"]) == ("fact", "user")
    forget = {"requested_by_namespace": "workspace:1"}
    assert await plugin.status("DELETE", f"/v1/memories/{uuid}", forget) == 403


@pytest.mark.rule("PLUG-2")
async def test_deleting_a_memory_checks_the_namespace_and_destroys_its_bytes(plugin: Plugin, tmp_path: Path) -> None:
    uuid = await plugin.write(content="ZEBRA-4711")
    assert await plugin.status("DELETE", f"/v1/memories/{uuid}", {"requested_by_namespace": "org:other"}) == 403
    assert await plugin.status("DELETE", f"/v1/memories/{uuid}", {}) == 400
    status, headers = await plugin.ask("DELETE", f"/v1/memories/{uuid}", {"requested_by_namespace": "workspace:1"})
    assert status == 204
    if "Stemma-Erased" in headers:  # a slow machine
        await plugin.opened.job.erased(None, within=20)
    assert await plugin.found() == []
    assert await plugin.status("DELETE", f"/v1/memories/{uuid}", {"requested_by_namespace": "workspace:1"}) == 404
    async with asyncio.timeout(20):
        while plugin.opened.job.oldest is not None:
            await asyncio.sleep(0.01)
    assert b"ZEBRA-4711" not in bytes_under(tmp_path / "data")


@pytest.mark.rule("PLUG-5")
async def test_a_namespace_with_a_decision_of_a_person_is_not_deleted_here(plugin: Plugin) -> None:
    record = fact("workspace:1", "a decision", kind="decision", via="mcp", authority="human")
    await memories.write_memory(plugin.opened.memory, PLUGIN, record)
    past = {"kind": "workspace", "expires_at": "2020-01-01T00:00:00Z"}
    for method, body in (("DELETE", None), ("PUT", past), ("PATCH", {"expires_at": past["expires_at"]})):
        status, refused = await plugin.ask(method, NS, body)
        assert (status, refused["code"]) == (403, "forbidden"), method
    assert len(await plugin.found()) == 1


@pytest.mark.rule("MEM-4")
async def test_the_same_key_twice_at_once_gets_the_same_answer(plugin: Plugin) -> None:
    headers = {"Idempotency-Key": "one"}
    asked = [plugin.ask("POST", f"{NS}/memories", WRITE, headers=headers) for _ in range(2)]
    first, second = await asyncio.gather(*asked)
    assert first == second
    assert first[0] == 201
    assert len(await plugin.found()) == 1
    assert await plugin.status("POST", f"{NS}/memories", WRITE | {"pin": True}, headers=headers) == 400
    assert await plugin.status("POST", f"{NS}/memories", WRITE, headers={"Idempotency-Key": "x" * 256}) == 400


EMBEDDINGS: list[Any] = [[], ["1"], [True], "12", [1e300], {}]
WRONG: list[tuple[str, str, Any]] = [
    ("PUT", "/v1/namespaces/" + "w:" + "a" * 255, {"kind": "org"}),
    ("PUT", "/v1/namespaces/Upper:a", {"kind": "org"}),
    ("PUT", "/v1/namespaces/nocolon", {"kind": "org"}),
    ("PUT", "/v1/namespaces/a:b%20c", {"kind": "org"}),
    ("PUT", NS, {}),
    ("PUT", NS, {"kind": "other"}),
    ("PUT", NS, {"kind": ["org"]}),
    ("PUT", NS, {"kind": "org", "metadata": []}),
    ("PUT", NS, {"kind": "org", "expires_at": "tomorrow"}),
    ("PUT", NS, {"kind": "org", "expires_at": 5}),
    ("PATCH", NS, {}),
    ("PATCH", NS, {"kind": "org"}),
    ("PATCH", NS, {"metadata": "x"}),
    ("POST", f"{NS}/memories", {}),
    *[("POST", f"{NS}/memories", WRITE | {"content": text}) for text in ("", " \n\t", "\u00a0", None, 5)],
    *[("POST", f"{NS}/memories", WRITE | {"kind": kind}) for kind in ("decision", "", None, ["fact"])],
    ("POST", f"{NS}/memories", WRITE | {"source": "web"}),
    ("POST", f"{NS}/memories", WRITE | {"pin": "yes"}),
    ("POST", f"{NS}/memories", WRITE | {"propagation": 5}),
    *[("POST", f"{NS}/memories", WRITE | {"embedding": given}) for given in EMBEDDINGS],
    ("POST", "/v1/search", {}),
    ("POST", "/v1/search", {"namespaces": []}),
    ("POST", "/v1/search", {"namespaces": "workspace:1"}),
    ("POST", "/v1/search", {"namespaces": ["BAD"]}),
    *[
        ("POST", "/v1/search", {"namespaces": ["a:b"], "limit": limit})
        for limit in (0, 101, -1, True, "5", 1.5, None)
    ],
    ("POST", "/v1/search", {"namespaces": ["a:b"], "kinds": ["decision"]}),
    ("POST", "/v1/search", {"namespaces": ["a:b"], "kinds": "fact"}),
    ("POST", "/v1/search", {"namespaces": ["a:b"], "query": 5}),
    ("POST", "/v1/search", {"namespaces": ["a:b"], "embedding": []}),
    ("DELETE", "/v1/memories/not-a-uuid", {"requested_by_namespace": "a:b"}),
]


@pytest.mark.rule("PLUG-3")
async def test_what_is_wrong_is_refused_with_one_clear_error_and_changes_nothing(plugin: Plugin) -> None:
    head = plugin.opened.memory.index.head
    for method, path, body in WRONG:
        status, found = await plugin.ask(method, path, body)
        assert (status, found["code"]) == (400, "bad_request"), (method, path, body, found)
    assert plugin.opened.memory.index.head == head
    assert await plugin.status("PUT", "/v1/namespaces/w:" + "a" * 254, {"kind": "org"}) == 200


@pytest.mark.rule("PLUG-3")
@pytest.mark.parametrize(
    "text",
    [b"", b"{", b"[]", b'"x"', b"\xff\xfe", b'{"kind": NaN}', b'{"content": "\\ud800", "kind": "fact"}', b"[" * 5000],
)
async def test_a_body_that_is_no_json_object_is_refused(plugin: Plugin, text: bytes) -> None:
    given = {"data": text, "headers": {"Content-Type": "application/json"}}
    assert await plugin.status("POST", f"{NS}/memories", **given) == 400


@pytest.mark.rule("PLUG-3")
async def test_queries_with_operators_and_quotes_find_by_words(plugin: Plugin) -> None:
    await plugin.write(content="a zebra NEAR the lion")
    for query in ('"', "*", "-", "zebra NEAR lion", '"zebra', "zebra*", "-zebra", "zebra AND (", "ns:n1 zebra"):
        assert len(await plugin.found(query=query)) == int("zebra" in query), query


@pytest.mark.rule("PLUG-3")
async def test_a_body_that_is_too_large_or_cut_short(plugin: Plugin) -> None:
    json = {"Content-Type": "application/json"}
    status, found = await plugin.ask("POST", "/v1/search", data=io.BytesIO(b" " * (BODY_BYTES_MAX + 1)), headers=json)
    assert (status, found["code"]) == (413, "bad_request")
    host, port = plugin.url.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(
        f"POST /v1/search HTTP/1.1\r\nHost: {host}:{port}\r\nContent-Type: application/json\r\n"
        'Content-Length: 100\r\n\r\n{"namespaces"'.encode()
    )
    writer.write_eof()
    answer = await reader.read()
    assert answer == b"" or b" 400 " in answer.splitlines()[0]
    writer.close()
    assert await plugin.status("GET", "/v1/health") == 200


@pytest.mark.rule("PLUG-4")
async def test_browsers_and_foreign_hosts_are_refused(plugin: Plugin) -> None:
    for headers in ({"Host": "evil.example"}, {"Host": "127.0.0.1:1"}, {"Origin": "http://evil.example"}):
        status, found = await plugin.ask("GET", "/v1/health", headers=headers)
        assert (status, found["code"]) == (403, "forbidden"), headers
    plain = {"Content-Type": "text/plain"}
    assert await plugin.status("POST", "/v1/search", data=b'{"namespaces":["a:b"]}', headers=plain) == 400
    assert await plugin.status("OPTIONS", "/v1/search") == 405
    status, found = await plugin.ask("GET", "/v1/nothing")
    assert (status, found["code"]) == (404, "not_found")
    async with plugin.session.get("/v1/health") as answer:
        assert not [name for name in answer.headers if name.lower().startswith("access-control")]


@pytest.mark.rule("PLUG-4")
async def test_a_unix_socket_is_for_its_owner_alone_and_checks_no_host(tmp_path: Path) -> None:
    path = tmp_path / "run" / "m.sock"
    async with memory_world(tmp_path / "data") as opened:

        def app(guard: HostGuard) -> aiohttp.web.Application:
            return make_app(opened.memory, opened.job, guard, lambda: None)

        dead = socket.socket(socket.AF_UNIX)
        path.parent.mkdir(mode=0o700)
        dead.bind(str(path))
        dead.close()
        async with listening(ListenAddress(path=path), app) as url:
            assert url == f"unix:{path}"
            assert path.stat().st_mode & 0o777 == 0o600
            connector = aiohttp.UnixConnector(str(path))
            async with (
                aiohttp.ClientSession("http://anything", connector=connector) as session,
                session.get("/v1/health") as answer,
            ):
                assert answer.status == 200
            with pytest.raises(Unavailable, match="Another program"):
                async with listening(ListenAddress(path=path), app):
                    pass
        assert not path.exists()


def test_addresses_are_loopback_or_a_short_path() -> None:
    assert read_address("127.0.0.1:9100") == (None, "127.0.0.1", 9100)
    assert read_address("[::1]:0").host == "::1"
    assert read_address("0.0.0.0:1", unsafe=True).host == "0.0.0.0"  # noqa: S104
    for wrong in ("0.0.0.0:9100", "example.com:80", "9100", "127.0.0.1:", "127.0.0.1:99999", "unix:relative", ""):
        with pytest.raises(Malformed):
            read_address(wrong)
    longest = "/" + "a" * (SOCKET_BYTES_MAX - 1)
    assert read_address(f"unix:{longest}").path == Path(longest)
    with pytest.raises(Unavailable, match="108 bytes"):
        read_address(f"unix:{longest}a")


def test_the_plain_document_has_no_additions_to_the_schemas() -> None:
    full, plain = openapi.document(), openapi.document(plain=True)
    assert full["paths"] == plain["paths"]
    assert "pattern" not in plain["components"]["schemas"]["MemoryWrite"]["properties"]["content"]
    assert "minProperties" not in plain["components"]["schemas"]["NamespacePatch"]
    assert full["components"]["schemas"]["NamespacePatch"]["minProperties"] == 1
    assert openapi.document(plain=True) == plain, "building the full one changes nothing"
