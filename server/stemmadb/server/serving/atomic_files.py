"""Small files written whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path


def write(file: Path, content: bytes, *, mode: int = 0o600) -> None:
    """Durable under its name once this returns; until then the name means what it meant before."""
    waiting = file.with_name(f"{file.name}.new")
    waiting.unlink(missing_ok=True)  # left by a crash, perhaps with other permissions
    descriptor = os.open(waiting, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    with open(descriptor, "wb") as stream:
        stream.write(content)
        stream.flush()
        os.fsync(descriptor)
    os.replace(waiting, file)
    _sync_directory(file.parent)


def _sync_directory(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
