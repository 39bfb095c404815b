"""A server in this process, or in one of its own that can be killed."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from stemmadb.server.serving import app, build, parent
from stemmadb.server.serving.settings.config import Config

START_SECONDS = 20.0
WORKERS = int(os.environ.get("TEST_WORKERS", "1"))
"""How many workers the servers of system tests have. Then worker 0 alone accepts, and spaces are those of others."""


def config_of(data: Path, **settings: Any) -> Config:
    return Config(data=data, port=0, **settings)


@asynccontextmanager
async def served(config: Config) -> AsyncIterator[str]:
    """The address of a server that runs on this event loop until the block ends; then it stops gracefully."""
    loop = asyncio.get_running_loop()
    handler = loop.get_exception_handler()
    ready: asyncio.Future[str] = loop.create_future()
    stop = asyncio.Event()
    task = asyncio.create_task(_serve(config, lambda serving: ready.set_result(serving.url), stop))
    either: list[asyncio.Future[Any]] = [task, ready]
    await asyncio.wait(either, timeout=START_SECONDS, return_when=asyncio.FIRST_COMPLETED)
    if task.done():
        task.result()
    try:
        yield await ready
    finally:
        stop.set()
        await task
        loop.set_exception_handler(handler)


async def _serve(config: Config, ready: Callable[[app.Serving], None], stop: asyncio.Event) -> None:
    if config.workers > 1:
        await parent.serve_with_workers(config, ready=ready, stop=stop)
        return
    await app.serve(
        config,
        make_service=build.make_service,
        make_listener=build.make_listener,
        make_web=build.make_web,
        ready=ready,
        stop=stop,
    )


class Process:
    """`stemmadb serve` in a process of its own, which can be killed and started again on the same data."""

    def __init__(self, data: Path, *flags: str, log: Path | None = None) -> None:
        """`flags` are added to the command; what it logs goes to the file `log`, or nowhere."""
        self.data, self.address = data, ""
        self._flags, self._log = flags, log
        self._process: subprocess.Popen[str] | None = None

    def start(self, port: int = 0) -> None:
        flags = ["--port", str(port), "--data", str(self.data), *self._flags]
        command = [sys.executable, "-m", "stemmadb.client.cli", "serve", *flags]
        with (self._log or Path(os.devnull)).open("ab") as log:
            self._process = subprocess.Popen(  # noqa: S603
                command, stdout=subprocess.PIPE, stderr=log, text=True, env={**os.environ}
            )
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if found := re.search(r"wss?://[\w.:\[\]]+", line):
                self.address = found[0]
                return
        raise AssertionError(f"the server did not start: {self._process.wait()}")

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def resident_bytes(self) -> int:
        """The memory it takes."""
        status = Path(f"/proc/{self.pid}/status").read_text()
        return int(status.split("VmRSS:")[1].split()[0]) * 1_024

    def kill(self) -> None:
        """Kill -9, without a word."""
        self._end(signal.SIGKILL)

    def stop(self) -> int:
        """Asks it to stop; what it answers."""
        return self._end(signal.SIGTERM)

    def _end(self, how: signal.Signals) -> int:
        if self._process is None:
            return 0
        assert self._process.stdout is not None
        self._process.send_signal(how)
        status = self._process.wait(START_SECONDS)
        self._process.stdout.close()
        self._process = None
        return status
