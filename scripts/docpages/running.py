"""A page run from top to bottom: its files written, its commands typed, against a server of its own.

The reader's machine is an empty directory with an empty home, in which `stemmadb serve` runs with its data in ./data.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from scripts.docpages.blocks import Block, Step

ADDRESS: Final = "ws://127.0.0.1:8420"
COLUMNS: Final = "80"
SECONDS_MAX: Final = 60.0
POLL_SECONDS: Final = 0.02
STATE: Final = ".exported"
"""Where what a command exports is kept for the next one."""
SCRATCH: Final = ".tmp"
"""Where `mktemp` puts what a page leaves behind."""
SHELL: Final = f'[ -f {STATE} ] && . ./{STATE}; eval "$1"; code=$?; export -p > {STATE}; exit $code'


class Failed(Exception):
    """A page that does not do what it says."""


class Reader:
    """Somebody who types what the page says."""

    def __init__(self, place: Path) -> None:
        self._place = place
        self._address = ADDRESS
        self._live: tuple[Block, subprocess.Popen[str], Path] | None = None
        self.outputs: dict[int, list[Step]] = {}
        """What each block printed, by the line it begins at."""

    def follow(self, blocks: Sequence[Block], *, times: int = 1) -> None:
        """Types everything, so often; `outputs` are those of the first time. Later ones have to succeed."""
        (self._place / SCRATCH).mkdir()
        with _served(self._place, self._environment()) as self._address:
            self._follow(blocks)
            first = self.outputs
            for _ in range(1, times):
                self.outputs = {}
                self._follow(blocks)
            self.outputs = first

    def _follow(self, blocks: Sequence[Block]) -> None:
        for block in blocks:
            self._do(block)
        if self._live is not None:
            raise Failed("a command still runs, and there is no block after it that would end it")

    def _do(self, block: Block) -> None:
        if block.language == "py" and block.title is not None:
            text = "\n".join(block.text).replace(ADDRESS, self._address)
            (self._place / block.title).write_text(f"{text}\n")
        elif block.steps and not block.is_skipped:
            waiting, self._live = self._live, None
            self.outputs[block.start] = [
                self._run(block, step, is_last=step is block.steps[-1]) for step in block.steps
            ]
            if waiting is not None:
                self._end(*waiting)

    def _run(self, block: Block, step: Step, *, is_last: bool) -> Step:
        if is_last and block.live_until is not None:
            return self._start(block, step)
        done = subprocess.run(  # noqa: S603
            self._words(step),
            cwd=self._place,
            env=self._environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=SECONDS_MAX,
            check=False,
        )
        wanted = block.exit_code if is_last else 0
        if done.returncode != wanted:
            raise Failed(f"'{step.typed}' ended with {done.returncode} and not {wanted}:\n{done.stdout}")
        return Step(step.command, self._shown(done.stdout))

    def _start(self, block: Block, step: Step) -> Step:
        """A command that goes on: it has begun once it has printed something."""
        printed = self._place / ".live"
        with printed.open("w") as stream:
            process = subprocess.Popen(  # noqa: S603
                self._words(step),
                cwd=self._place,
                env=self._environment(),
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=subprocess.STDOUT,
                text=True,
                process_group=0,
            )
        self._live = (block, process, printed)
        _wait(printed, "")
        return step

    def _end(self, block: Block, process: subprocess.Popen[str], printed: Path) -> None:
        """Ctrl-C, once it has printed what the page waits for."""
        try:
            _wait(printed, block.live_until or "")
            before_the_end = printed.read_text()
        finally:
            os.killpg(process.pid, signal.SIGINT)
            process.wait(SECONDS_MAX)
        *earlier, last = self.outputs[block.start]
        self.outputs[block.start] = [*earlier, Step(last.command, self._shown(before_the_end))]

    def _words(self, step: Step) -> list[str]:
        typed = step.typed.replace(ADDRESS, self._address).replace(_plain(ADDRESS), _plain(self._address))
        return ["/bin/sh", "-c", SHELL, "sh", typed]

    def _shown(self, printed: str) -> tuple[str, ...]:
        """As a reader would see it, whose server listens where all do."""
        told = printed.replace(self._address, ADDRESS).replace(_plain(self._address), _plain(ADDRESS))
        told = told.replace(str(self._place), ".")
        told = re.sub(rf"\bport {self._address.rpartition(':')[2]}\b", f"port {ADDRESS.rpartition(':')[2]}", told)
        return tuple(line.rstrip() for line in told.splitlines())

    def _environment(self) -> dict[str, str]:
        kept = {name: os.environ[name] for name in ("LANG", "LC_ALL", "PYTHONPATH") if name in os.environ}
        path = os.pathsep.join((str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)))
        return (
            kept
            | {
                "PATH": path,
                "HOME": str(self._place / ".home"),
                "TMPDIR": str(self._place / SCRATCH),
                "COLUMNS": COLUMNS,
                "NO_COLOR": "1",
                "TZ": "UTC",
                "PYTHONUTF8": "1",
                "PYTHONDONTWRITEBYTECODE": "1",
            }
            | ({} if self._address == ADDRESS else {"STEMMADB_URL": self._address})
        )


def _plain(address: str) -> str:
    """The same server as curl reaches it."""
    return address.replace("ws", "http", 1)


@contextmanager
def _served(place: Path, environment: dict[str, str]) -> Iterator[str]:
    """The address of `stemmadb serve`, which is stopped at the end."""
    (place / ".home").mkdir()
    words = [sys.executable, "-m", "stemmadb.client.cli", "serve", "--port", "0"]
    process = subprocess.Popen(  # noqa: S603
        words, cwd=place, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    assert process.stdout is not None
    try:
        told = (re.search(r"wss?://[\w.:\[\]]+", line) for line in process.stdout)
        found = next((one for one in told if one), None)
        if found is None:
            raise Failed("the server did not start")
        yield found[0]
    finally:
        process.terminate()
        process.wait(SECONDS_MAX)
        process.stdout.close()


def _wait(printed: Path, text: str) -> None:
    """Until there is output, and this text in it."""
    until = time.monotonic() + SECONDS_MAX
    while not (shown := printed.read_text()) or text not in shown:
        if time.monotonic() > until:
            raise Failed(f"it never printed {text!r}, only:\n{shown}")
        time.sleep(POLL_SECONDS)
