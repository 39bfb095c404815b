"""Servers and apps in processes of their own, which can be stopped, killed and started again."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, Final

import msgspec

from command_line import MODULE

APP: Final = Path(__file__).with_name("client_app.py")
PATIENCE_SECONDS: Final = 60.0
"""After so long something is stuck, also on a machine that does much else."""


async def until(condition: Callable[[], object]) -> None:
    """Returns once it holds."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not condition():
            await asyncio.sleep(0.005)


class Server:
    """`stemmadb serve` on one directory and one port, over any number of lives."""

    def __init__(self, directory: Path, *, workers: int = 1, accept_only: int | None = None) -> None:
        self.workers = workers
        self.accept_only = accept_only
        self.data = directory / "data"
        self.url = ""
        self._port = 0
        self._home = directory / "home"
        self._errors = directory / "server.log"
        self._process: Process | None = None

    async def start(self) -> None:
        """Returns once it listens; the port of its first life is its port."""
        words = ["serve", "--port", str(self._port), "--data", str(self.data)]
        if self.workers > 1:
            words += ["--workers", str(self.workers)]
        if self.accept_only is not None:
            words += ["--accept-only", str(self.accept_only)]
        with self._errors.open("ab") as errors:
            self._process = await asyncio.create_subprocess_exec(
                *MODULE, *words, stdin=DEVNULL, stdout=PIPE, stderr=errors, env=_environment(HOME=str(self._home))
            )
        async with asyncio.timeout(PATIENCE_SECONDS):
            async for line in _lines(self._process):
                if found := re.search(r"ws://[\w.]+:(\d+)", line):
                    self.url, self._port = found[0], int(found[1])
                    return
        raise AssertionError(f"the server did not start: {self._errors.read_text()}")

    @property
    def address(self) -> tuple[str, int]:
        return "127.0.0.1", self._port

    async def kill(self) -> None:
        """Kill -9, without a word."""
        await self._end(signal.SIGKILL)

    async def stop(self) -> int:
        """Asks it to stop; its exit code."""
        return await self._end(signal.SIGTERM)

    def worker(self, number: int) -> int:
        """The process of a worker that runs now."""
        return int(json.loads((self.data / "server.json").read_text())["workers"][str(number)])

    def kill_worker(self, number: int) -> None:
        """Kill -9 of one worker; it may have died by itself, or be about to start."""
        with suppress(ProcessLookupError):
            os.kill(self.worker(number), signal.SIGKILL)

    def freeze(self) -> None:
        """It is there, and does nothing."""
        self._running.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self._running.send_signal(signal.SIGCONT)

    async def close(self) -> None:
        """Ends it if it runs; none of its lives had an internal error."""
        if self._process is not None:
            await self.kill()
        assert "Traceback" not in self._errors.read_text(), self._errors.read_text()

    @property
    def _running(self) -> Process:
        assert self._process is not None, "it runs"
        return self._process

    async def _end(self, how: signal.Signals) -> int:
        process, self._process = self._running, None
        process.send_signal(how)
        async with asyncio.timeout(PATIENCE_SECONDS):
            await process.communicate()
        assert process.returncode is not None
        return process.returncode


@asynccontextmanager
async def running(directory: Path, *, workers: int = 1, accept_only: int | None = None) -> AsyncIterator[Server]:
    """A server process on a fresh directory, until the block ends."""
    server = Server(directory, workers=workers, accept_only=accept_only)
    await server.start()
    try:
        yield server
    finally:
        await server.close()


class Heard:
    """What the apps of a test have said, in all their lives."""

    def __init__(self) -> None:
        self.kept: set[str] = set()
        self.confirmed: dict[str, int] = {}
        self.refused: Counter[str] = Counter()
        """How many, by code."""

    def take(self, said: dict[str, Any]) -> None:
        if said["event"] == "kept":
            self.kept.add(said["mark"])
        elif said["event"] == "confirmed":
            known = self.confirmed.setdefault(said["mark"], said["version"])
            assert known == said["version"], f"{said['mark']} was confirmed twice"
        elif said["event"] == "refused":
            self.refused[said["code"]] += 1


class Spares:
    """Processes of the app that have loaded all they need and wait for their life; one more is always made ready.

    `spawn` starts the app. Use it with `async with`.
    """

    def __init__(self, spawn: Callable[[], Awaitable[Process]] | None = None) -> None:
        self._spawn = spawn or _spawn_app
        self._next: Process | None = None

    async def __aenter__(self) -> Spares:
        self._next = await self._spawn()
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._next is not None:
            self._next.kill()
            await self._next.communicate()

    async def take(self) -> Process:
        assert self._next is not None
        taken, self._next = self._next, await self._spawn()
        return taken


class AppProcess:
    """One life of the app (`client_app`, or another that speaks as it does).

    Use it with `async with`: it does not outlive the block.
    """

    def __init__(self, given: msgspec.Struct, heard: Heard, spares: Spares) -> None:
        self._given = given
        self.heard = heard
        self._spares = spares
        self.said: list[dict[str, Any]] = []
        """What it has said in this life."""
        self._process: Process | None = None
        self._listening: asyncio.Task[None] | None = None

    async def __aenter__(self) -> AppProcess:
        self._process = await self._spares.take()
        self._listening = asyncio.create_task(self._listen(self._process))
        self._write(msgspec.json.encode(self._given))
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._process is not None:
            await self.kill()

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def tell(self, *words: str | int) -> None:
        """Tells it what to do."""
        self._write(json.dumps(words).encode())

    def _write(self, line: bytes) -> None:
        assert self._process is not None
        assert self._process.stdin is not None
        self._process.stdin.write(line + b"\n")

    async def says(self, event: str, *, count: int = 1) -> dict[str, Any]:
        """Waits until it has said this so often; what it said the last time."""
        assert self._listening is not None
        listening = self._listening
        await until(lambda: self._count(event) >= count or listening.done())
        found = [said for said in self.said if said["event"] == event]
        assert len(found) >= count, f"it ended before it said {event!r}: {self.said[-3:]}"
        return found[-1]

    async def kill(self) -> None:
        """Kill -9; what it said before is heard, but for a line that was torn."""
        assert self._process is not None
        self._process.kill()
        await self._ended()

    async def died(self) -> None:
        """Waits until it was killed, by itself."""
        assert await self._ended() == -signal.SIGKILL

    async def close(self) -> None:
        """Lets it end by itself, with all that is pending decided or kept."""
        assert self._process is not None
        assert self._process.stdin is not None
        self._process.stdin.close()
        assert await self._ended() == 0

    async def settled(self) -> list[str]:
        """Lets it decide everything; the marks of its rejected commits."""
        before = self._count("settled")
        self.tell("settle")
        rejected: list[str] = (await self.says("settled", count=before + 1))["rejected"]
        return rejected

    async def _ended(self) -> int:
        assert self._process is not None
        assert self._listening is not None
        async with asyncio.timeout(PATIENCE_SECONDS):
            await self._listening
            code = await self._process.wait()
        self._process = None
        return code

    def _count(self, event: str) -> int:
        return sum(said["event"] == event for said in self.said)

    async def _listen(self, process: Process) -> None:
        async for line in _lines(process):
            if line.endswith("\n"):
                said = json.loads(line)
                self.said.append(said)
                self.heard.take(said)


async def _spawn_app() -> Process:
    paths = os.pathsep.join([str(APP.parent), *sys.path])
    return await asyncio.create_subprocess_exec(
        sys.executable, str(APP), stdin=PIPE, stdout=PIPE, env=_environment(PYTHONPATH=paths)
    )


async def _lines(process: Process) -> AsyncIterator[str]:
    assert process.stdout is not None
    async for line in process.stdout:
        yield line.decode()


def _environment(**more: str) -> dict[str, str]:
    """Ours, without what would lead to the settings of whoever runs the tests."""
    ours = {key: value for key, value in os.environ.items() if not key.startswith(("STEMMA", "XDG_"))}
    return ours | more
