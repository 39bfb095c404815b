"""Holding a journal: one at a time, in whichever process, may use it."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from stemmadb.protocol.errors import DirectoryHeld

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl


class JournalLock:
    """The lock is ours until this is closed, or the process ends."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor: int | None = descriptor

    def close(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def hold(lock: Path) -> JournalLock:
    """Takes the lock, whose file is made if it is not there; `DirectoryHeld` names the process that has it.

    The file is never removed: a process that opened it before would hold a lock that no other process sees.
    """
    descriptor = os.open(lock, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        if not _try(descriptor):
            raise DirectoryHeld(directory=str(lock.parent), holder=_holder(lock))
        os.ftruncate(descriptor, 0)
        os.write(descriptor, f"{os.getpid()}\n".encode())
    except BaseException:
        os.close(descriptor)
        raise
    return JournalLock(descriptor)


def _try(descriptor: int) -> bool:
    try:
        if sys.platform == "win32":
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        else:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):
        return False
    return True


def _holder(lock: Path) -> str:
    try:
        written = lock.read_text(errors="replace").strip()
    except OSError:
        written = ""  # Windows lets nobody read what is locked
    if not written.isdigit():
        return "another process"
    return "this process" if int(written) == os.getpid() else f"process {written}"
