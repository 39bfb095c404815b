"""MCP clients on stdio for the examples beside it: each is a `stemmadb mcp` process, as a program starts one."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

INITIALIZE = {
    "protocolVersion": "2025-06-18",
    "capabilities": {},
    "clientInfo": {"name": "example", "version": "1"},
}
LINE_BYTES_MAX = 16 * 1024 * 1024


def command(*words: str) -> list[str]:
    """`stemmadb ...`: the command beside this interpreter, else that of the path."""
    beside = os.path.join(os.path.dirname(sys.executable), "stemmadb")
    found = beside if os.access(beside, os.X_OK) else shutil.which("stemmadb")
    if found is None:
        sys.exit('stemmadb is not installed: pip install "stemmadb[memory]"')
    return [found, *words]


class AgentClient:
    """Calls tools; many calls may be under way at once."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._process, self._stdin, self._stdout = process, process.stdin, process.stdout
        self._waiting: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._number = 0
        self._reading = asyncio.create_task(self._read())

    async def ask(self, method: str, params: Mapping[str, object]) -> dict[str, Any]:
        self._number += 1
        number = self._number
        self._waiting[number] = asyncio.get_running_loop().create_future()
        self._send({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
        return await self._waiting[number]

    async def call(self, tool: str, **arguments: object) -> dict[str, Any]:
        """The structured answer of a tool."""
        answer = await self.ask("tools/call", {"name": tool, "arguments": arguments})
        if "error" in answer:
            sys.exit(f"{tool}: {answer['error']['message']}")
        result: dict[str, Any] = answer["result"]["structuredContent"]
        return result

    async def initialize(self) -> None:
        await self.ask("initialize", INITIALIZE)
        self._send({"jsonrpc": "2.0", "method": "notifications/initialized"})

    async def close(self) -> None:
        self._stdin.close()
        await self._process.wait()
        await self._reading

    def _send(self, message: Mapping[str, object]) -> None:
        self._stdin.write(json.dumps(message).encode() + b"\n")

    async def _read(self) -> None:
        while line := await self._stdout.readline():
            answer = json.loads(line)
            waiting = self._waiting.pop(answer.get("id"), None)
            if waiting is not None:
                waiting.set_result(answer)
        for one in self._waiting.values():
            one.set_exception(ConnectionError("stemmadb mcp ended"))


@asynccontextmanager
async def agent_client(secret: str | None, ns: str) -> AsyncIterator[AgentClient]:
    """A client with this secret, in this namespace."""
    environment = {name: value for name, value in os.environ.items() if name != "AGENT_MEMORY_SECRET"}
    environment |= {} if secret is None else {"AGENT_MEMORY_SECRET": secret}
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        *command("mcp", "--ns", ns), stdin=pipe, stdout=pipe, env=environment, limit=LINE_BYTES_MAX
    )
    client = AgentClient(process)
    await client.initialize()
    try:
        yield client
    finally:
        await client.close()


async def run(*words: str, secret: str | None = None, is_refused: bool = False) -> dict[str, Any]:
    """The JSON answer of a command; ends the program if the command fails and should not."""
    environment = os.environ | ({} if secret is None else {"AGENT_MEMORY_SECRET": secret})
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        *command(*words, "--json"), stdout=pipe, stderr=pipe, env=environment
    )
    out, err = await process.communicate()
    if (process.returncode == 0) == is_refused:
        sys.exit(f"stemmadb {' '.join(words)}: exit {process.returncode}\n{out.decode()}{err.decode()}")
    found: dict[str, Any] = json.loads(out or err)
    return found


@asynccontextmanager
async def memory_server(data: Path, *words: str) -> AsyncIterator[None]:
    """A memory server of this directory, which commands and clients use while the block runs."""
    os.environ["STEMMADB_MEMORY"] = str(data)
    quiet = asyncio.subprocess.DEVNULL
    process = await asyncio.create_subprocess_exec(*command("memory", "serve", *words), stdout=quiet, stderr=quiet)
    try:
        while not (data / "server.json").exists():
            if process.returncode is not None:
                sys.exit("the memory server ended at once")
            await asyncio.sleep(0.05)
        yield
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()


async def new_secret(role: str) -> str:
    return str((await run("memory", "secret", "new", role))["secret"])


def check(is_true: bool, what: str) -> None:
    """Says what was checked; ends the program if it is not so."""
    print(f"{'ok ' if is_true else 'NOT'} {what}", flush=True)
    if not is_true:
        sys.exit(1)
