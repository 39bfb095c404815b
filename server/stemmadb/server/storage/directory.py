"""Holding a data directory: one process at a time may write in it, or the workers of one server.

The parent of workers holds `lock`, and worker i holds `workers/i/lock`. Whoever takes the directory takes all of
them: a worker whose parent was killed stops by itself, and is waited for.
"""

from __future__ import annotations

import fcntl
import os
import time
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Final

from stemmadb.protocol.errors import DirectoryHeld

LOCK: Final = "lock"
WORKERS: Final = "workers"
"""The directory with one directory for each worker, named by its number."""
WORKERS_SECONDS: Final = 5.0
"""How long workers whose parent is gone are waited for."""
WORKERS_PAUSE_SECONDS: Final = 0.02
ATTEMPTS_MAX: Final = 100
"""How often to try again while others only look whether the directory is held, which takes no time."""


class DirectoryLock:
    """The directory is ours until this is closed, or the process ends."""

    def __init__(self, directory: Path, descriptor: int, workers: list[DirectoryLock] | None = None) -> None:
        self.directory: Final = directory
        self._descriptor: int | None = descriptor
        self._workers = workers or []

    def release_workers(self) -> None:
        """Workers of this process may hold their own directories from now on."""
        for lock in self._workers:
            lock.close()
        self._workers.clear()

    def close(self) -> None:
        self.release_workers()
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def __enter__(self) -> DirectoryLock:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def hold(directory: Path) -> DirectoryLock:
    """Holds the directory, which is made if it is not there, with those of its workers.

    `DirectoryHeld` if another process holds it, or a worker still does after `WORKERS_SECONDS`.
    """
    lock = hold_alone(directory)
    try:
        end = time.monotonic() + WORKERS_SECONDS
        for place in worker_directories(directory):
            lock._workers.append(_hold_until(place, end))
    except BaseException:
        lock.close()
        raise
    return lock


def _hold_until(directory: Path, end: float) -> DirectoryLock:
    while time.monotonic() < end:
        with suppress(DirectoryHeld):
            return hold_alone(directory)
        time.sleep(WORKERS_PAUSE_SECONDS)
    return hold_alone(directory)


def worker_directories(directory: Path) -> list[Path]:
    """Those there are, by number."""
    found = [place for place in (directory / WORKERS).glob("*") if place.name.isdigit() and place.is_dir()]
    return sorted(found, key=lambda place: int(place.name))


def hold_alone(directory: Path) -> DirectoryLock:
    """Holds one directory, without those of its workers."""
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor = os.open(directory / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        if not _take(descriptor):
            raise DirectoryHeld(directory=str(directory), holder=_holder(descriptor))
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
    except BaseException:
        os.close(descriptor)
        raise
    return DirectoryLock(directory, descriptor)


def is_held(directory: Path) -> bool:
    """Whether some process, this one included, holds the directory; changes nothing."""
    try:
        descriptor = os.open(directory / LOCK, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        return not _try(descriptor, fcntl.LOCK_SH)
    finally:
        os.close(descriptor)


def _take(descriptor: int) -> bool:
    """`status` shares the lock for a moment: that is no server, and the lock is free a moment later."""
    for _ in range(ATTEMPTS_MAX):
        if _try(descriptor, fcntl.LOCK_EX):
            return True
        if not _try(descriptor, fcntl.LOCK_SH):
            return False
        fcntl.flock(descriptor, fcntl.LOCK_UN)
    return False


def _try(descriptor: int, kind: int) -> bool:
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _holder(descriptor: int) -> str:
    written = os.pread(descriptor, 32, 0).decode(errors="replace").strip()
    return f"process {written}" if written.isdigit() else "another process"
