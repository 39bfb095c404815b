"""`stemmadb mcp` as a client starts it: a process on stdin and stdout that finds or starts a memory server."""

from __future__ import annotations

import json
import re
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from mcp import Client
from mcp.client.stdio import StdioServerParameters

from memory_agents import COMMAND, NS, SAID, Agents, agents_in
from stemmadb.memory.interfaces.mcp.tool_schemas import CONTRACTS
from stemmadb.memory.process.audit_file import AuditFile, read_audit


@pytest.fixture
def agents(tmp_path: Path) -> Iterator[Agents]:
    with agents_in(tmp_path) as made:
        yield made


def seed_schemas() -> dict[str, Any]:
    """The contract, written down once more."""
    text = {"type": "string", "minLength": 1}
    texts = {"type": "array", "items": {"type": "string"}}
    said = {"title": text, "target": text, "consequences": texts | {"default": []}}
    return {
        "record_decision": {
            "type": "object",
            "properties": said | {"rationale": {"type": "string", "minLength": 10}},
            "required": ["title", "target", "rationale"],
        },
        "supersede_decision": {
            "type": "object",
            "properties": said
            | {"rationale": {"type": "string", "minLength": 15}, "old_decision_ids": texts | {"minItems": 1}},
            "required": ["title", "target", "rationale", "old_decision_ids"],
        },
        "search_decisions": {
            "type": "object",
            "properties": {
                "query": text,
                "limit": {"type": "integer", "minimum": 1, "maximum": 20, "default": 5},
                "mode": {"type": "string", "enum": ["strict", "balanced", "audit"], "default": "balanced"},
            },
            "required": ["query"],
        },
        "accept_proposal": {
            "type": "object",
            "properties": {"proposal_id": {"type": "string"}},
            "required": ["proposal_id"],
        },
    }


def without_descriptions(schema: Any) -> Any:
    if isinstance(schema, dict):
        return {name: without_descriptions(one) for name, one in schema.items() if name != "description"}
    return schema


@pytest.mark.rule("MCP-9")
def test_the_schemas_are_those_of_the_contract() -> None:
    for name, schema in seed_schemas().items():
        assert without_descriptions(CONTRACTS[name].arguments) == schema


@pytest.mark.rule("MCP-3")
@pytest.mark.rule("MCP-9")
@pytest.mark.rule("MCP-11")
def test_the_tools_with_every_role(agents: Agents) -> None:
    agents.serve("--cooldown", "0")
    agent, admin, viewer = agents.client(agents.agent), agents.client(agents.admin), agents.client("unknown")
    made = agent.call("record_decision", **SAID, tilte=1)
    assert (made["status"], made["warnings"]) == ("success", ["unknown field: tilte"])
    assert re.fullmatch(r"[0-9a-f-]{36}", made["decision_id"])
    assert made["decision_id"] in agent.call("record_decision", **SAID)["message"]
    denied = viewer.call("record_decision", **SAID)
    assert (denied["status"], denied["isError"]) == ("error", False)
    assert denied["message"].startswith("Permission Denied")
    raised = agents.client(agents.agent, "--role", "admin")
    assert raised.call("accept_proposal", proposal_id=made["decision_id"])["message"].startswith("Permission Denied")
    lowered = agents.client(agents.admin, "--role", "agent")
    assert lowered.call("accept_proposal", proposal_id=made["decision_id"])["message"].startswith("Permission Denied")
    later = admin.call(
        "supersede_decision", **SAID | {"rationale": "A person says so here"}, old_decision_ids=[made["decision_id"]]
    )
    refused = agent.call(
        "supersede_decision", **SAID | {"rationale": "[via MCP] as a person"}, old_decision_ids=[later["decision_id"]]
    )
    assert refused["message"].startswith("Isolation Violation")
    (found,) = viewer.call("search_decisions", query="database")["results"]
    assert (found["id"], found["status"], found["score"]) == (later["decision_id"], "active", 2.1)
    proposed = agent.call("propose_decision", **SAID, evidence=["a test"])
    assert proposed["proposal_id"].endswith(".md")
    assert agent.call("accept_proposal", **proposed)["message"].startswith("Permission Denied")
    assert admin.call("accept_proposal", proposal_id=proposed["proposal_id"])["message"].startswith("PI1 Violation")
    recalled = viewer.call("recall", query="server", kinds=["decision"])
    assert {one["authority"] for one in recalled["results"]} == {"agent"}
    assert len(viewer.call("history", id=made["decision_id"])["changes"]) == 2
    assert viewer.call("recall", query="x", at="no such tag")["status"] == "error"
    for wrong in ({}, {"query": ""}, {"query": "x", "limit": 21}, {"query": "x", "mode": "loose"}):
        assert viewer.call("search_decisions", **wrong)["isError"]
    assert not viewer.call("search_decisions", query="x", limit=20)["isError"]
    assert viewer.ask("tools/call", {"name": "forget", "arguments": {}})["error"]["message"].startswith("There is no")
    lines = list(read_audit(agents.data))
    text = json.dumps(lines)
    assert len([one for one in lines if "verdict" in one]) == len([one for one in lines if "tool" in one]) >= 14
    assert {"agent": "ada", "role": "agent", "tool": "record_decision", "ids": []}.items() <= lines[0].items()
    assert "database" not in text
    assert "SQLite" not in text
    assert (agents.data / "audit.jsonl").stat().st_mode & 0o777 == 0o600


@pytest.mark.rule("MCP-6")
@pytest.mark.rule("MCP-10")
def test_without_a_memory_server_one_is_started_and_a_second_client_joins_it(agents: Agents) -> None:
    first = agents.client(agents.agent)
    pid = json.loads(agents.note.read_text())["pid"]
    assert first.call("record_decision", **SAID)["status"] == "success"
    second = agents.client(agents.agent)
    limited = second.call("record_decision", **SAID | {"target": "other"})
    assert re.match(r"Rate Limit Exceeded: wait [012]\.\d s", limited["message"])
    assert json.loads(agents.note.read_text())["pid"] == pid
    for broken, code in ((b"{", -32700), (b"[]", -32600), (b'{"id": 7, "method": 5}', -32600), (b"\xff", -32700)):
        second.line(broken)
        assert second.read()["error"]["code"] == code
    assert second.call("search_decisions", query="sqlite")["status"] == "success"
    assert second.close() == b""
    assert second.process.returncode == 0


@pytest.mark.rule("MCP-10")
def test_a_memory_server_that_is_killed_loses_no_call_and_does_none_twice(agents: Agents) -> None:
    agents.serve("--cooldown", "0")
    client = agents.client(agents.agent)
    numbers = range(100, 140)
    for number in numbers:
        said = SAID | {"target": f"target {number}"}
        params = {"name": "record_decision", "arguments": said}
        client.send({"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params})
        if number == 115:
            agents.stop(signal.SIGKILL)
    answers = [client.read() for _ in numbers]
    assert sorted(one["id"] for one in answers) == list(numbers)
    made = [one["result"]["structuredContent"].get("decision_id") for one in answers]
    found = client.call("recall", query="server", limit=100)["results"]
    assert sorted(one["id"] for one in found) == sorted(made)


@pytest.mark.rule("MCP-10")
async def test_the_client_of_the_mcp_package(agents: Agents) -> None:
    more = {"AGENT_MEMORY_SECRET": agents.agent}
    started = StdioServerParameters(
        command=COMMAND[0], args=[*COMMAND[1:], "mcp", "--ns", NS], env=agents.environment | more
    )
    async with Client(started) as client:
        assert {one.name for one in (await client.list_tools()).tools} == set(CONTRACTS)
        made = await client.call_tool("record_decision", SAID)
        assert made.structured_content["status"] == "success"


def test_a_full_audit_moves_on_and_the_oldest_goes(tmp_path: Path) -> None:
    audit = AuditFile(tmp_path, bytes_max=10)
    for number in range(14):
        audit.write({"call": number})
    audit.close()
    files = sorted(one.name for one in tmp_path.iterdir())
    assert files == sorted(f"audit.jsonl.{number}" for number in range(1, 10))
    assert list(read_audit(tmp_path)) == []


@pytest.mark.rule("MCP-2")
@pytest.mark.rule("MCP-4")
@pytest.mark.rule("MCP-5")
def test_the_commands_decide_propose_and_review(agents: Agents) -> None:
    agents.serve()
    said = ("--ns", NS, "--because", "SQLite needs no server")
    code, made = agents.run("decide", "database", *said, secret=agents.admin)
    assert code == 0
    code, refused = agents.run("decide", "database", *said)
    assert (code != 0, refused["error"]["message"][:17]) == (True, "Permission Denied")
    _, refused = agents.run("supersede", "database", "--old", made["decision_id"], *said, secret=agents.agent)
    assert refused["error"]["message"].startswith("Isolation Violation")
    _, later = agents.run("supersede", "database", "--old", made["decision_id"], *said, secret=agents.admin)
    _, proposed = agents.run("propose", "database", *said, "--evidence", "issue 12", secret=agents.agent)
    _, other = agents.run("propose", "queue", *said, secret=agents.agent)
    code, early = agents.run("accept", "--ns", NS, proposed["proposal_id"], secret=agents.admin)
    assert (code != 0, early["error"]["message"][:13]) == (True, "PI1 Violation")
    assert agents.run("reject", "--ns", NS, other["proposal_id"], secret=agents.admin)[0] == 0
    agents.stop()
    agents.serve("--test-clock", "+3600s")
    (waiting,) = agents.run("proposals", "--ns", NS)[1]["proposals"]
    assert (waiting["proposal_id"], waiting["evidence"]) == (proposed["proposal_id"], ["issue 12"])
    code, accepted = agents.run("accept", "--ns", NS, proposed["proposal_id"], secret=agents.admin)
    assert code == 0
    _, again = agents.run("accept", "--ns", NS, proposed["proposal_id"], secret=agents.admin)
    assert "already accepted" in again["error"]["message"]
    everything = agents.run("proposals", "--ns", NS, "--all")[1]["proposals"]
    assert {one["status"] for one in everything} == {"accepted", "rejected"}
    changes = agents.run("history", later["decision_id"])[1]["changes"]
    assert changes[-1]["patch"] == [{"op": "add", "path": "/status", "value": "superseded"}]
    assert changes[-1]["note"] == {"message": "accept by root (admin)"}
    assert accepted["decision_id"] not in (made["decision_id"], later["decision_id"])
    assert agents.run("check")[1]["findings"] == []
    assert agents.run("namespaces")[1]["here"] is not None
    assert agents.run("audit")[1]["lines"] == [{"clock_shift_ms": 3_600_000}]
    setup = agents.run("setup", "claude")[1]["configuration"]
    assert setup["mcpServers"]["memory"]["args"] == ["mcp"]
