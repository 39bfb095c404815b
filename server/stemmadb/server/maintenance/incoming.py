"""A place in a data directory where spaces are made before anybody can see them, and how they become visible."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from stemmadb.server.engine.blobs.blob_files import sync_directory

PREFIX: Final = ".incoming-"
SPACES: Final = "spaces"


@contextmanager
def incoming(directory: Path) -> Iterator[Path]:
    """An empty place, gone afterwards with all that is still in it. The directory must be held.

    What a process that was killed has left there goes too: nobody else can be using it.
    """
    for left in directory.glob(f"{PREFIX}*"):
        shutil.rmtree(left)
    place = Path(tempfile.mkdtemp(prefix=PREFIX, dir=directory))
    try:
        yield place
    finally:
        shutil.rmtree(place, ignore_errors=True)


def publish(place: Path, directory: Path) -> None:
    """Moves finished spaces to where they are seen; each is durable before, so each is seen whole or not at all.

    If that is interrupted, those that were moved go back.
    """
    target = directory / SPACES
    target.mkdir(mode=0o700, exist_ok=True)
    moved: list[Path] = []
    try:
        for source in sorted((place / SPACES).iterdir()):
            _sync_tree(source)
            moved.append(source)
            os.rename(source, target / source.name)
        sync_directory(target)
        sync_directory(directory)
    except BaseException:
        for source in moved:
            if (target / source.name).exists() and not source.exists():
                os.rename(target / source.name, source)
        raise


def _sync_tree(directory: Path) -> None:
    for folder, _, _ in os.walk(directory):
        sync_directory(Path(folder))
