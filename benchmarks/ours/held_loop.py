"""A server that times each callback of its event loop, and says how long the longest held it.

It runs on asyncio's loop, whose callbacks Python can time; uvloop's go by in C. SIGUSR1 makes it write what it saw
since the last one into its data directory.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import time
from array import array
from pathlib import Path
from typing import Any, Final

from benchmarks.ours.service import Server

ROOT: Final = Path(__file__).parents[2]
PROGRAM: Final = f"import sys; sys.path[:0] = [{str(ROOT)!r}]; from benchmarks.ours.held_loop import main; main()"
SEEN: Final = "held.json"
PATIENCE_SECONDS: Final = 30.0


def main() -> None:
    """`stemmadb`, timed."""
    sys.modules["uvloop"] = None  # type: ignore[assignment]  # as where it is not installed
    walls, cpus = array("d"), array("d")
    run: Any = asyncio.Handle._run
    tells = 0

    def timed(handle: asyncio.Handle) -> None:
        told, began, used = tells, time.perf_counter(), time.thread_time()
        run(handle)
        if told == tells:  # else it was held by the telling
            cpus.append(time.thread_time() - used)
            walls.append(time.perf_counter() - began)

    def tell(*_: object) -> None:
        nonlocal tells
        tells += 1
        said = {"n": len(walls), "wall": sorted(walls)[-100:], "cpu": sorted(cpus)[-100:]}
        del walls[:], cpus[:]
        new = Path(f"{SEEN}.new")
        new.write_text(json.dumps(said))
        new.rename(SEEN)

    asyncio.Handle._run = timed  # type: ignore[assignment,method-assign]
    signal.signal(signal.SIGUSR1, tell)
    from stemmadb.client.cli import main as command  # noqa: PLC0415  after the loop is patched

    command()


def told(server: Server) -> dict[str, Any]:
    """Callbacks since it was asked last: how many, and the longest hundred in seconds, of the clock and of CPU."""
    file = Path(f"/proc/{server.pid}/cwd") / SEEN
    file.unlink(missing_ok=True)
    os.kill(server.pid, signal.SIGUSR1)
    end = time.monotonic() + PATIENCE_SECONDS
    while not file.exists():
        if time.monotonic() > end:
            raise TimeoutError("the server does not say how long its callbacks took")
        time.sleep(0.01)
    answer: dict[str, Any] = json.loads(file.read_text())
    return answer
