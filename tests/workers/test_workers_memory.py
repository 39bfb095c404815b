"""Agent memory beside workers: each memory space is served by its worker, and is back when that was killed."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from command_line import run
from memory_agents import SAID, Agents, agents_in
from stemmadb.client import Identity
from stemmadb.client.keys.names import Names
from stemmadb.client.keys.ring import KeyRing
from stemmadb.memory.process import places
from stemmadb.memory.process.audit_file import AuditFile
from stemmadb.memory.process.division import MemoryBeside, shared
from stemmadb.memory.process.http_listener import ListenAddress
from stemmadb.memory.process.memory_server import HttpWish, McpWish, MemoryOptions
from stemmadb.protocol.errors import Unavailable
from stemmadb.protocol.model.values.ids import Did
from stemmadb.server.serving import server_identity
from stemmadb.server.serving.companions import DividedServer
from stemmadb.server.serving.local_dial import URL
from stemmadb.server.serving.ownership.worker_ownership import worker_of

pytestmark = pytest.mark.workers
WORKERS = 3
OWNERS = {"first": 1, "second": 2}
PATIENCE_SECONDS = 60.0


@pytest.fixture
def agents(short: Path) -> Iterator[Agents]:
    with agents_in(short) as made:
        yield made


def give_names(data: Path) -> None:
    """Memory spaces whose workers are known."""
    server = server_identity.keep(data).did
    for name, owner in OWNERS.items():
        key = Identity.make()
        while worker_of(key.did, WORKERS) != owner:
            key = Identity.make()
        KeyRing(data / "keys").keep_space_key(key)
        Names(data / "keys").remember(URL, server, name, key.did)


def note(agents: Agents) -> dict[str, Any]:
    return dict(json.loads(agents.note.read_text()))


def end_worker(agents: Agents, number: int, sent: signal.Signals) -> int:
    ended = int(note(agents)["workers"][str(number)])
    os.kill(ended, sent)
    return ended


async def asked(url: str, method: str, path: str, body: object = None) -> tuple[int, Any]:
    """On a connection of its own: a killed worker ends those that it has accepted."""
    connector = aiohttp.UnixConnector(url.removeprefix("unix:")) if url.startswith("unix:") else None
    address = "http://memory" if connector is not None else url
    timeout = aiohttp.ClientTimeout(PATIENCE_SECONDS)
    async with (
        aiohttp.ClientSession(connector=connector, timeout=timeout) as session,
        session.request(method, address + path, json=body) as answer,
    ):
        text = await answer.read()
        return answer.status, json.loads(text) if text else None


async def found(url: str) -> set[str]:
    status, answer = await asked(url, "POST", "/v1/search", {"namespaces": ["org:a"], "query": "zebra"})
    assert status == 200, answer
    return {one["content"] for one in answer["memories"]}


async def write(url: str, text: str) -> str:
    assert (await asked(url, "PUT", "/v1/namespaces/org:a", {"kind": "org"}))[0] == 200
    given = {"content": text, "kind": "fact", "source": "agent"}
    status, answer = await asked(url, "POST", "/v1/namespaces/org:a/memories", given)
    assert status == 201, answer
    return str(answer["id"])


@pytest.mark.rule("MEM-10", "MEM-11", "STORE-4")
async def test_memory_is_served_by_the_workers_of_its_spaces_and_is_back_after_a_kill(agents: Agents) -> None:
    give_names(agents.data)
    path = agents.data.parent / "run" / "plugin" / "s"
    spaces = [word for name in OWNERS for word in ("--memory", name)]
    addresses = ("first=127.0.0.1:0", f"first=unix:{path}", "second=127.0.0.1:0")
    listening = [word for address in addresses for word in ("--memory-http", address)]
    place = ("serve", "--data", str(agents.data), "--port", "0")
    await asyncio.to_thread(agents.start, *place, "--workers", str(WORKERS), *spaces, *listening)
    served = note(agents)["companions"]["memory"]
    assert {Path(at).name.partition("-")[2] for at in served["sockets"].values()} == {"1.sock", "2.sock"}
    first, by_path, second = served["http"]
    assert by_path == f"unix:{path}"
    made = await write(first, "a zebra in the first")
    await write(second, "a zebra in the second")
    assert await found(by_path) == {"a zebra in the first"}

    before = note(agents)["workers"]
    end_worker(agents, 1, signal.SIGKILL)
    assert await found(second) == {"a zebra in the second"}
    assert await found(first) == await found(by_path) == {"a zebra in the first"}  # it waits for the next worker
    after = note(agents)["workers"]
    assert [number for number in before if before[number] != after[number]] == ["1"]
    assert note(agents)["companions"]["memory"] == served
    await write(first, "another zebra in the first")

    def commands() -> None:
        assert len(agents.run("search", "zebra", "--space", "first")[1]["memories"]) == 2
        assert len(agents.run("search", "zebra", "--space", "second")[1]["memories"]) == 1
        code, answer = agents.run("search", "zebra")
        assert (code, "first, second" in answer["error"]["message"]) == (4, True)
        code, answer = agents.run("forget", made, "--space", "first")
        assert (code, answer["error"]["code"]) == (4, "forbidden")
        assert agents.run("forget", made, "--space", "second", secret=agents.agent)[0] == 1
        assert agents.run("forget", made, "--space", "first", secret=agents.agent)[0] == 0
        for words in (("memory", "serve", "--data", str(agents.data)), (*place, "--workers", "2", *spaces)):
            refused = run(*words, "--json")
            assert refused.code == 3
            assert f"process {note(agents)['pid']}" in refused.json["error"]["message"]

    await asyncio.to_thread(commands)
    await asyncio.to_thread(agents.stop)
    assert agents.servers.pop().returncode == 0
    assert not path.exists()
    assert not any(Path(at).exists() for at in served["sockets"].values())

    await asyncio.to_thread(agents.start, *place, *spaces, *listening)  # one process for all of it
    first, _, second = note(agents)["companions"]["memory"]["http"]
    assert await found(first) == {"another zebra in the first"}
    assert await found(second) == {"a zebra in the second"}


@pytest.mark.rule("MCP-10", "STORE-4")
def test_an_agent_on_stdio_goes_on_after_its_worker_was_stopped(agents: Agents) -> None:
    """The memory space is made at the first start. A worker that stops leaves the socket in its place."""
    agents.start("serve", "--data", str(agents.data), "--port", "0", "--workers", "2", "--memory", "memory")
    client = agents.client(agents.agent)
    recorded = client.call("record_decision", **SAID)
    assert recorded["status"] == "success"
    served = note(agents)["companions"]["memory"]
    number = int(Path(served["sockets"]["memory"]).stem.rpartition("-")[2])
    place = os.stat(served["sockets"]["memory"]).st_ino
    ended = end_worker(agents, number, signal.SIGTERM)
    answer = client.call("search_decisions", query="sqlite")
    assert [one["id"] for one in answer["results"]] == [recorded["decision_id"]]
    until = time.monotonic() + PATIENCE_SECONDS
    while note(agents)["workers"][str(number)] == ended:  # the parent writes it once the worker says that it serves
        assert time.monotonic() < until
        time.sleep(0.02)
    assert note(agents)["companions"]["memory"] == served
    assert os.stat(served["sockets"]["memory"]).st_ino == place


def options(short: Path) -> MemoryOptions:
    http = [HttpWish("b", ListenAddress(host="127.0.0.1")), HttpWish("a", ListenAddress(path=short / "p" / "s"))]
    return MemoryOptions(
        spaces=("a", "b", "c"), http=http, mcp=[McpWish("a", "custom:x", ListenAddress(host="127.0.0.1"))]
    )


@pytest.mark.rule("NAME-1")
def test_a_memory_server_is_divided_by_the_owners_of_its_spaces(short: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(short))
    data = short / "data"
    data.mkdir(mode=0o700)
    server, owners = server_identity.keep(data).did, iter((4, 7, 4))
    with MemoryBeside(options(short)).divided(DividedServer(data, server, lambda _: next(owners))) as shares:
        assert set(shares) == {4, 7}
        got = {number: shared(json.loads(json.dumps(share.arguments)), share.sockets).options
               for number, share in shares.items()}  # fmt: skip
        assert [wish.space for wish in got[4].http] == [wish.space for wish in got[4].mcp] == ["a"]
        assert got[4].spaces == got[7].spaces == ["a", "b", "c"]
        parts = {number: one.share for number, one in got.items() if one.share is not None}
        assert [(list(one.spaces), list(one.made)) for one in parts.values()] == [
            (["a", "c"], ["a", "c"]),
            (["b"], ["b"]),
        ]
        assert [one.path for one in parts.values()] == [str(places.control_socket(data, worker=n)) for n in (4, 7)]
        control, plugin = parts[4].listener, got[4].http[0].listener
        assert control is not None
        assert plugin is not None
        assert (control.getsockname(), plugin.getsockname()) == (parts[4].path, str(short / "p" / "s"))
        tcp, mcp = got[7].http[0].listener, got[4].mcp[0].listener
        assert tcp is not None
        assert mcp is not None
        assert (tcp.family, mcp.family) == (socket.AF_INET, socket.AF_INET)
        taken = ListenAddress(host="127.0.0.1", port=tcp.getsockname()[1])
        other = MemoryBeside(MemoryOptions(spaces=("a",), http=[HttpWish("a", taken)]))
        to = DividedServer(short / "other", server, lambda _: 0)
        with pytest.raises(Unavailable, match="another port"), other.divided(to):
            pass
    assert not any(Path(one.path).exists() for one in parts.values())
    # The names stay: the next start finds the same spaces, and nothing is made.
    seen: list[Did] = []

    def owner(space: Did) -> int:
        seen.append(space)
        return 0

    with MemoryBeside(MemoryOptions(spaces=("a", "b"))).divided(DividedServer(data, server, owner)) as one:
        again = shared(one[0].arguments, one[0].sockets).options.share
        assert again is not None
        assert list(again.made) == []
    assert seen == [Names(data / "keys").on(server, name) for name in ("a", "b")]
    # A space may be given by its DID too, as without workers.
    named = Names(data / "keys").on(server, "a")
    assert named is not None
    with MemoryBeside(MemoryOptions(spaces=(named,))).divided(DividedServer(data, server, owner)) as one:
        assert set(one) == {0}
    assert seen[2:] == [named]


def test_two_workers_write_one_audit(tmp_path: Path) -> None:
    one, two = (AuditFile(tmp_path, bytes_max=100) for _ in range(2))
    for number in range(30):
        (one if number % 3 else two).write({"number": number})
    one.close()
    two.close()
    lines = [json.loads(line) for file in tmp_path.glob("audit.jsonl*") for line in file.read_text().splitlines()]
    assert sorted(line["number"] for line in lines) == list(range(30))
    assert all(100 <= file.stat().st_size < 200 for file in tmp_path.glob("audit.jsonl.*"))
