"""How long a space cannot be written after its owner has ended, or its database, and an export that stays open."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from benchmarks.load.websocket import Gone
from benchmarks.ours.database import Fleet, Pair
from benchmarks.ours.sessions import Space
from stemmadb.protocol.model.commit.request import Operation
from stemmadb.protocol.model.values.body import encode
from stemmadb.protocol.model.values.ids import EntityId

PAUSE_SECONDS = 0.01
CHUNK_BYTES = 1 << 16


def after_end(fleet: Fleet, how: signal.Signals) -> float:
    """Seconds from the signal to the owner until its space is written through the other node."""
    owner, other = fleet.nodes
    space = Space.made(owner.port)
    _write(space)
    space.at(other.port)
    began = time.perf_counter()
    fleet.end(owner, how)
    _until_written(space)
    took = time.perf_counter() - began
    fleet.replace_dead()
    return took


def after_promotion(fleet: Fleet, pair: Pair) -> float:
    """Seconds from the end of the primary, whose standby is promoted at once, until a space is written."""
    space = Space.made(fleet.nodes[0].port)
    _write(space)
    began = time.perf_counter()
    pair.fail_over()
    _until_written(space)
    return time.perf_counter() - began


def _until_written(space: Space) -> None:
    while not _is_written(space):
        time.sleep(PAUSE_SECONDS)


def _is_written(space: Space) -> bool:
    with suppress(Gone, OSError, RuntimeError):
        _write(space)
        return True
    return False


def _write(space: Space) -> None:
    session = space.session()
    try:
        session.commit([Operation(op="set", id=EntityId("urn:todo:1"), body=encode({"at": time.time()}), blind=True)])
    finally:
        session.link.close()


@contextmanager
def exported(url: str, space: Space, *, bytes_per_second: float) -> Iterator[list[int]]:
    """`stemmadb export` that is read so fast, again and again; what was read of each, in bytes."""
    command = [sys.executable, "-m", "stemmadb.client.cli", "export", "-", "--storage", url, "--space", space.did]
    read: list[int] = []
    is_over = threading.Event()

    def run() -> None:
        while not is_over.is_set():
            process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)  # noqa: S603
            assert process.stdout is not None
            read.append(0)
            while (chunk := process.stdout.read(CHUNK_BYTES)) and not is_over.wait(CHUNK_BYTES / bytes_per_second):
                read[-1] += len(chunk)
            process.kill()
            process.wait()
            process.stdout.close()

    thread = threading.Thread(target=run)
    thread.start()
    try:
        while not (read and read[0]):
            time.sleep(PAUSE_SECONDS)
        yield read
    finally:
        is_over.set()
        thread.join()
