"""How `stemmadb mcp` starts: from the configuration that is printed, with few modules, with its own secret only."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from memory_agents import COMMAND, NS, SAID, Agents, StdioClient, agents_in

HEAVY = ("mcp", "aiohttp", "apsw", "cryptography", "numpy", "prompt_toolkit", "pydantic", "rich", "websockets")
"""What makes a start slow, and a proxy does not need."""
MODULES = """
import io, json, sys
from stemmadb.client.cli import main
sys.argv = ["stemmadb", "mcp", "--ns", "custom:acme.api"]
sys.stdin = io.TextIOWrapper(io.BytesIO(b""))
try:
    main()
finally:
    print(json.dumps(sorted(sys.modules)))
"""


@pytest.fixture
def agents(tmp_path: Path) -> Iterator[Agents]:
    with agents_in(tmp_path) as made:
        yield made


@pytest.mark.rule("MCP-10")
@pytest.mark.rule("MEM-11")
def test_the_printed_configuration_starts_a_client_and_the_servers_own_secret_gives_nobody_a_role(
    agents: Agents,
) -> None:
    plain = dict(agents.environment)
    agents.environment["AGENT_MEMORY_SECRET"] = agents.admin  # of the memory server alone
    agents.serve("--cooldown", "0")
    agents.environment = plain
    made = subprocess.run(  # noqa: S603
        [*COMMAND, "memory", "secret", "new", "agent"], env=plain, capture_output=True, text=True, check=True
    )
    configured = json.loads(made.stderr)["mcpServers"]["memory"]
    assert configured["env"]["AGENT_MEMORY_SECRET"] == made.stdout.strip()
    scripts = str(Path(sys.executable).parent)
    path = {"PATH": f"{scripts}{os.pathsep}{plain['PATH']}"}
    started = StdioClient(
        [f"{scripts}/{configured['command']}", *configured["args"], "--ns", NS], plain | path | configured["env"]
    )
    agents.clients.append(started)
    assert started.call("record_decision", **SAID)["status"] == "success"
    denied = agents.client().call("record_decision", **SAID | {"target": "other"})
    assert denied["message"].startswith("Permission Denied")


@pytest.mark.rule("MCP-10")
def test_the_proxy_imports_neither_mcp_nor_the_sdk(agents: Agents) -> None:
    agents.serve()
    done = subprocess.run(  # noqa: S603
        [sys.executable, "-c", MODULES], env=agents.environment, capture_output=True, text=True, check=True
    )
    loaded = json.loads(done.stdout)
    assert not [name for name in loaded if name.split(".")[0] in HEAVY]
    assert not [name for name in loaded if name.startswith(("stemmadb.client.space", "stemmadb.memory.operations"))]
    assert len([name for name in loaded if name.startswith("stemmadb")]) < 60
