"""MCP over streamable HTTP: the client of the `mcp` package, secrets in the header, and who is refused."""

from __future__ import annotations

import json
import re
import time
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx2
import pytest
from mcp import Client, MCPError
from mcp.client.streamable_http import streamable_http_client

from memory_agents import NS, SAID, Agents, agents_in
from stemmadb.memory.interfaces.mcp.tool_schemas import CONTRACTS
from stemmadb.memory.process.audit_file import read_audit


@pytest.fixture
def agents(tmp_path: Path) -> Iterator[Agents]:
    with agents_in(tmp_path) as made:
        yield made


def served(agents: Agents, *words: str) -> str:
    agents.serve("--mcp", "127.0.0.1:0", "--ns", NS, "--cooldown", "0", *words)
    (url,) = json.loads(agents.note.read_text())["companions"]["memory"]["mcp"]
    assert re.fullmatch(r"http://127\.0\.0\.1:\d+/mcp", url)
    return str(url)


@asynccontextmanager
async def client(url: str, secret: str | None) -> AsyncIterator[Client]:
    headers = {} if secret is None else {"Authorization": f"Bearer {secret}"}
    async with (
        httpx2.AsyncClient(headers=headers) as connections,
        Client(streamable_http_client(url, http_client=connections)) as made,
    ):
        yield made


@pytest.mark.rule("MCP-12")
@pytest.mark.rule("MCP-13")
async def test_a_client_over_http_has_the_role_of_its_secret(agents: Agents) -> None:
    url = served(agents)
    async with client(url, agents.agent) as agent:
        assert {one.name for one in (await agent.list_tools()).tools} == set(CONTRACTS)
        said = SAID | {"target": "a b/c"}
        made = (await agent.call_tool("record_decision", said)).structured_content
        assert made is not None
        assert made["status"] == "success"
        listed = [one.uri for one in (await agent.list_resources()).resources]
        assert listed == ["memory://tasks", "memory://decisions/a%20b%2Fc"]
        (content,) = (await agent.read_resource(listed[1])).contents
        shown = json.loads(content.text)  # type: ignore[union-attr]
        assert (shown["active"], shown["decisions"][0]["authority"]) == (made["decision_id"], "agent")
        (plan,) = (await agent.read_resource("memory://tasks")).contents
        assert json.loads(plan.text) == {"ns": NS, "tasks": {}}  # type: ignore[union-attr]
        with pytest.raises(MCPError, match="no resource"):
            await agent.read_resource("memory://secrets")
    for secret in (None, "wrong"):
        async with client(url, secret) as viewer:
            denied = (await viewer.call_tool("record_decision", SAID)).structured_content
            assert denied is not None
            assert denied["message"].startswith("Permission Denied")
            found = (await viewer.call_tool("search_decisions", {"query": "sqlite"})).structured_content
            assert found is not None
            assert [one["id"] for one in found["results"]] == [made["decision_id"]]
    async with client(f"{url}?ns=custom:other", None) as elsewhere:
        found = (await elsewhere.call_tool("search_decisions", {"query": "sqlite"})).structured_content
        assert found is not None
        assert found["results"] == []
    tools = [one.get("tool") for one in read_audit(agents.data) if "tool" in one]
    assert tools.count("record_decision") == 3
    assert "resources/read" in tools


@pytest.mark.rule("MCP-12")
def test_who_is_refused_over_http(agents: Agents) -> None:
    url = served(agents, "--origins", "https://app.example")
    asked = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "ping"}).encode()
    headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
    cases: list[tuple[str, dict[str, str], int]] = [
        ("POST", {"Host": "evil.example"}, 403),
        ("POST", {"Origin": "http://evil.example"}, 403),
        ("POST", {"Origin": "https://app.example"}, 200),
        ("POST", {"Content-Type": "text/plain"}, 400),
        ("OPTIONS", {}, 405),
    ]
    initialize = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "0"}}
    hello = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": initialize}).encode()
    for method, more, status in cases:
        body = hello if status == 200 else asked
        request = urllib.request.Request(url, body, headers | more, method=method)  # noqa: S310
        assert answered(request) == status, (method, more)
    assert answered(urllib.request.Request(url.replace("/mcp", "/other"))) == 404  # noqa: S310
    began = time.monotonic()
    agents.stop()
    assert time.monotonic() - began < 15


def answered(request: urllib.request.Request) -> int:
    try:
        with urllib.request.urlopen(request, timeout=20) as answer:  # noqa: S310
            return int(answer.status)
    except urllib.error.HTTPError as refused:
        with refused:
            return refused.code
