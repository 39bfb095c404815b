"""Measures agent memory as a client sees it: the start, writes and searches over MCP on stdio, and over HTTP.

    python examples/memory/latency.py --memories 10000

Makes a data directory of its own and starts a memory server there, with a cooldown of 0. Prints p50 and p99.
"""

from __future__ import annotations

import argparse
import asyncio
import http.client
import json
import os
import random
import signal
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from mcp_clients import AgentClient, agent_client, check, memory_server, new_secret
from scale import Words, show

NS = "custom:latency"
PORT = 9_199
AT_ONCE = 50


async def timed(work: Callable[[int], Awaitable[object]], times: int) -> list[float]:
    spent = []
    for number in range(times):
        began = time.perf_counter()
        await work(number)
        spent.append((time.perf_counter() - began) * 1_000)
    return sorted(spent)


class HttpClient:
    """One connection that is kept open."""

    def __init__(self) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", PORT)

    def ask(self, method: str, path: str, body: object) -> Any:
        self._connection.request(method, path, json.dumps(body), {"Content-Type": "application/json"})
        answer = self._connection.getresponse()
        content = answer.read()
        if answer.status >= 300:
            check(False, f"{method} {path}: {answer.status} {content!r}")
        return json.loads(content)


async def fill(client: AgentClient, words: Words, count: int) -> None:
    for start in range(0, count, AT_ONCE):
        said = [_said(words, f"target {number}") for number in range(start, min(count, start + AT_ONCE))]
        await asyncio.gather(*(client.call("record_decision", **one) for one in said))


def _said(words: Words, target: str) -> dict[str, Any]:
    return {"title": words.text(4), "target": target, "rationale": words.text()}


async def start_times(secret: str, data: Path) -> None:
    """From the start of `stemmadb mcp` to its first answer."""

    async def started(_number: int) -> None:
        async with agent_client(secret, NS):
            pass

    show("stemmadb mcp, a memory server is running", await timed(started, 5))
    cold = []
    for _ in range(3):
        os.kill(json.loads((data / "server.json").read_text())["pid"], signal.SIGTERM)
        while (data / "server.json").exists():
            await asyncio.sleep(0.02)
        cold += await timed(started, 1)
    show("stemmadb mcp, none is running", sorted(cold))


async def main(count: int, data: Path) -> None:
    words, chance = Words(seed=7), random.Random(7)  # noqa: S311
    async with memory_server(data, "--cooldown", "0", "--http", f"127.0.0.1:{PORT}"):
        secret = await new_secret("agent")
        async with agent_client(secret, NS) as client:
            await fill(client, words, count)
            print(f"{count} decisions", flush=True)

            async def write(number: int) -> None:
                done = await client.call("record_decision", **_said(words, f"new {number}"))
                if done["status"] != "success":
                    check(False, done["message"])

            async def search(_number: int) -> None:
                await client.call("search_decisions", query=words.rare(2))

            show("write over MCP, stdio", await timed(write, 300))
            show("search_decisions over MCP, stdio", await timed(search, 300))
            show("tools/list over MCP, stdio", await timed(lambda _: client.ask("tools/list", {}), 100))
            began = time.perf_counter()
            done = await asyncio.gather(
                *(client.call("record_decision", **_said(words, f"parallel {n}")) for n in range(50))
            )
            kept = sum(one["status"] == "success" for one in done)
            print(f"{'50 parallel writes':<44} {kept} kept in {(time.perf_counter() - began) * 1_000:.0f} ms")
            plugin = HttpClient()
            plugin.ask("PUT", "/v1/namespaces/org:latency", {"kind": "org"})
            for number in range(200):
                plugin.ask("POST", "/v1/namespaces/org:latency/memories", _fact(words, number))

            async def post(number: int) -> None:
                plugin.ask("POST", "/v1/namespaces/org:latency/memories", _fact(words, number))

            async def find(_number: int) -> None:
                names = [NS, "org:latency"]
                plugin.ask("POST", "/v1/search", {"namespaces": names, "query": words.rare(chance.choice((2, 3)))})

            show("write over HTTP", await timed(post, 300))
            show("search over HTTP", await timed(find, 300))
        await start_times(secret, data)
        os.kill(json.loads((data / "server.json").read_text())["pid"], signal.SIGTERM)


def _fact(words: Words, number: int) -> dict[str, Any]:
    return {"content": f"{number} {words.text()}", "kind": "fact", "source": "agent"}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--memories", type=int, default=10_000)
    with tempfile.TemporaryDirectory() as directory:
        asyncio.run(main(parser.parse_args().memories, Path(directory) / "data"))
