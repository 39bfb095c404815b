"""A data directory with secrets, and MCP clients on stdio that use it, each a process as a client starts it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from command_line import here
from stemmadb.memory.process.secret_file import SecretFile

COMMAND = (sys.executable, "-m", "stemmadb.client.cli")
NS = "custom:acme.api"
INITIALIZE = {
    "protocolVersion": "2025-06-18",
    "capabilities": {},
    "clientInfo": {"name": "test", "version": "0"},
}
SAID = {"title": "Use SQLite", "target": "database", "rationale": "It needs no server"}


@contextmanager
def agents_in(path: Path) -> Iterator[Agents]:
    """Ends every process that was started."""
    made = Agents(path)
    try:
        yield made
    finally:
        for one in made.clients:
            one.process.kill()
            one.process.communicate()
        made.stop()


class Agents:
    """A data directory, and the MCP clients that use it."""

    def __init__(self, path: Path) -> None:
        self.data = path / "data"
        self.data.mkdir(mode=0o700)
        (path / "run").mkdir(mode=0o700)
        self.environment = {**os.environ, "HOME": str(path), "XDG_RUNTIME_DIR": str(path / "run")}
        self.environment |= {"STEMMADB_MEMORY": str(self.data)}
        for name in ("STEMMADB_HOME", "AGENT_MEMORY_SECRET"):
            self.environment.pop(name, None)
        self.agent = SecretFile(self.data).make("agent", "ada", None)
        self.admin = SecretFile(self.data).make("admin", "root", None)
        self.clients: list[StdioClient] = []
        self.servers: list[subprocess.Popen[bytes]] = []

    def client(self, secret: str | None = None, *words: str) -> StdioClient:
        more = {} if secret is None else {"AGENT_MEMORY_SECRET": secret}
        self.clients.append(StdioClient([*COMMAND, "mcp", "--ns", NS, *words], self.environment | more))
        return self.clients[-1]

    def serve(self, *words: str) -> None:
        """A memory server that outlives its clients, until the test ends."""
        self.start("memory", "serve", *words)

    def start(self, *words: str) -> None:
        """The same by this command."""
        started = subprocess.Popen(  # noqa: S603
            [*COMMAND, *words], env=self.environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        self.servers.append(started)
        until = time.monotonic() + 60
        while not self.note.exists():
            assert time.monotonic() < until
            time.sleep(0.02)

    def run(self, *words: str, secret: str | None = None) -> tuple[int, dict[str, Any]]:
        """A command, in this process."""
        with pytest.MonkeyPatch.context() as patch:
            for name in ("HOME", "XDG_RUNTIME_DIR", "STEMMADB_MEMORY"):
                patch.setenv(name, self.environment[name])
            patch.delenv("STEMMADB_HOME", raising=False)
            patch.setenv("AGENT_MEMORY_SECRET", secret or "")
            done = here("memory", *words, "--json")
        return done.code, done.json

    @property
    def note(self) -> Path:
        return self.data / "server.json"

    def stop(self, sent: signal.Signals = signal.SIGTERM) -> None:
        if self.note.exists():
            os.kill(json.loads(self.note.read_text())["pid"], sent)
        if sent == signal.SIGTERM:
            for server in self.servers:
                server.wait(timeout=20)


class StdioClient:
    """Writes lines and reads lines."""

    def __init__(self, command: list[str], environment: dict[str, str]) -> None:
        self.process = subprocess.Popen(  # noqa: S603
            command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        self.number = 0
        self.ask("initialize", INITIALIZE)
        self.send({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def send(self, message: object) -> None:
        self.line(json.dumps(message).encode())

    def line(self, line: bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(line + b"\n")
        self.process.stdin.flush()

    def read(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, self.process.stderr and self.process.stderr.read()
        answer = json.loads(line)
        assert answer["jsonrpc"] == "2.0"
        return dict(answer)

    def ask(self, method: str, params: object = None) -> dict[str, Any]:
        self.number += 1
        message = {"jsonrpc": "2.0", "id": self.number, "method": method}
        self.send(message if params is None else message | {"params": params})
        answer = self.read()
        assert answer["id"] == self.number
        return answer

    def call(self, tool: str, **arguments: object) -> dict[str, Any]:
        result = self.ask("tools/call", {"name": tool, "arguments": arguments})["result"]
        assert json.loads(result["content"][0]["text"]) == result["structuredContent"]
        return {"isError": result["isError"], **result["structuredContent"]}

    def close(self) -> bytes:
        """What else it wrote."""
        out, _ = self.process.communicate(timeout=20)
        return out
