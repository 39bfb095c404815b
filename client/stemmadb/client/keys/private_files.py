"""Small files that only the user may read, written whole or not at all."""

from __future__ import annotations

import os
import shlex
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from stemmadb.protocol.errors import Forbidden, Malformed

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

LOCK: Final = "lock"
OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO
HAS_MODES: Final = os.name != "nt"
"""Windows gives the user's own directory to nobody else, and its modes say nothing."""


def make_directory(directory: Path) -> None:
    """The directory, for the user alone if it is made now."""
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)


@contextmanager
def locked(directory: Path) -> Iterator[None]:
    """One at a time may change what is in the directory, which is made if it is not there; others wait their turn."""
    make_directory(directory)
    descriptor = os.open(directory / LOCK, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        if sys.platform == "win32":
            msvcrt.locking(descriptor, msvcrt.LK_LOCK, 1)
        else:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def write(file: Path, content: bytes) -> None:
    """Durable under its name once this returns; until then the name means what it meant before. Needs the lock."""
    waiting = file.with_name(f"{file.name}.new")
    waiting.unlink(missing_ok=True)  # left by a crash, perhaps with other permissions
    descriptor = os.open(waiting, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with open(descriptor, "wb") as stream:
        stream.write(content)
        stream.flush()
        os.fsync(descriptor)
    os.replace(waiting, file)
    _sync(file.parent)


def read(file: Path, *, bytes_max: int, is_secret: bool) -> bytes:
    """What is in the file. `Forbidden` says what to run if a secret can be read by others."""
    with file.open("rb") as stream:
        mode = os.fstat(stream.fileno()).st_mode
        if is_secret and HAS_MODES and mode & OTHERS:
            raise _shared(file, mode)
        content = stream.read(bytes_max + 1)
    if len(content) > bytes_max:
        why = f"it has more than {bytes_max} bytes"
        raise Malformed(f"{str(file)!r} is not what it should be: {why}. Move it away.", path=str(file), why=why)
    return content


def _shared(file: Path, mode: int) -> Forbidden:
    run = f"chmod 600 {shlex.quote(str(file))}"
    why = f"others may use it too (mode {stat.S_IMODE(mode):04o})"
    return Forbidden(f"The key {str(file)!r} is not used: {why}. Run: {run}", file=str(file), run=run)


def _sync(directory: Path) -> None:
    if not HAS_MODES:
        return  # nor can a directory be opened there
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
