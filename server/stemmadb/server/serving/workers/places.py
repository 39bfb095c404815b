"""Where the workers of a data directory keep what is theirs: `DATA/workers/<number>/`."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Final

from stemmadb.protocol.errors import Unavailable
from stemmadb.server.storage.directory import WORKERS, worker_directories

SOCKET: Final = "socket"
SOCKET_BYTES_MAX: Final = 107
"""A longer path does not fit into the address of a Unix socket."""


def place(data: Path, number: int) -> Path:
    return data / WORKERS / str(number)


def socket_of(data: Path, number: int) -> Path:
    return place(data, number) / SOCKET


def check(data: Path, workers: int) -> None:
    """`Unavailable` says what is wrong with the place for so many workers; it changes nothing."""
    longest = socket_of(data.absolute(), workers - 1)
    size = len(os.fsencode(longest))
    if size > SOCKET_BYTES_MAX:
        raise Unavailable(
            f"The path of the socket {longest} has {size} bytes, and at most {SOCKET_BYTES_MAX} are possible. "
            "Choose a data directory with a shorter path, or start with --workers 1."
        )
    at = data / WORKERS
    if at.exists() and at.stat().st_uid != os.geteuid():
        raise Unavailable(
            f"The directory {at} belongs to another user. Start the server as that user, or remove the directory "
            "once no server uses it."
        )


def make(data: Path, workers: int) -> None:
    """Makes the directories that are needed, for this user alone, and removes the others."""
    (data / WORKERS).mkdir(mode=0o700, exist_ok=True)
    (data / WORKERS).chmod(0o700)
    for number in range(workers):
        place(data, number).mkdir(mode=0o700, exist_ok=True)
    for other in worker_directories(data):
        if int(other.name) >= workers:
            shutil.rmtree(other)


def remove(data: Path) -> None:
    """Removes all of them: one process serves everything."""
    if (data / WORKERS).is_dir():
        shutil.rmtree(data / WORKERS)
