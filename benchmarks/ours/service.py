"""A real `stemmadb serve` in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.load.processes import DIRECTORY

WIDE = ("commits-per-second", "requests-per-second", "connections-per-principal-max")
"""Bounds on one principal, which here stands for many."""


class Server:
    """One server process on a data directory."""

    def __init__(self, process: subprocess.Popen[str], answer: dict[str, Any]) -> None:
        self.process, self.pid, self.port = process, process.pid, int(answer["port"])

    def stop(self) -> None:
        self.process.terminate()
        if status := self.ended():
            print(f"the server ended with {status}", file=sys.stderr)

    def ended(self) -> int:
        """Waits for its end, and gives how it ended."""
        status = self.process.wait(30)
        assert self.process.stdout is not None
        self.process.stdout.close()
        return status


COMMAND = "from stemmadb.client.cli import main; main()"
WITHOUT_HTTP = f"import sys; sys.modules['aiohttp'] = None; {COMMAND}"
"""As in an environment that has no aiohttp."""


def start(data: Path, program: str = COMMAND, /, **settings: int | str) -> Server:
    """Neither variables nor a file of settings that happen to be here reach it."""
    flags = [f"--{name}=1000000000" for name in WIDE]
    flags += [f"--{name.replace('_', '-')}={value}" for name, value in settings.items()]
    command = [sys.executable, "-c", program, "serve", "--json", "--port", "0", "--data", str(data)]
    alone = {name: value for name, value in os.environ.items() if not name.startswith("STEMMADB_")}
    process = subprocess.Popen(  # noqa: S603
        [*command, "--log-level=warning", *flags], stdout=subprocess.PIPE, text=True, env=alone, cwd=data
    )
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith("{") and "port" in (answer := json.loads(line)):
            return Server(process, answer)
    raise RuntimeError(f"the server did not start: {process.wait()}")


@contextmanager
def served(program: str = COMMAND, /, **settings: int | str) -> Iterator[Server]:
    with tempfile.TemporaryDirectory(prefix="stemmadb-bench-", dir=DIRECTORY) as name:
        server = start(Path(name), program, **settings)
        try:
            yield server
        finally:
            server.stop()
