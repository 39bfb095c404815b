"""Where spaces are made before anybody can see them, and how they become visible: here in a data directory."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Protocol

from stemmadb.protocol.errors import NotEmpty
from stemmadb.protocol.model.values.ids import Did
from stemmadb.server.storage.blob_directory import sync_directory
from stemmadb.server.storage.directory import hold
from stemmadb.server.storage.port import SpaceLog
from stemmadb.server.storage.sqlite import SqliteStorage

PREFIX: Final = ".incoming-"
SPACES: Final = "spaces"


class IncomingSpaces(Protocol):
    """A place for new spaces in a directory or a database."""

    def check_empty(self) -> None:
        """`NotEmpty` if there are spaces already."""
        ...

    def open(self, space: Did) -> SpaceLog:
        """The log of a new space, empty, which the caller closes; `NotEmpty` if there is one already."""
        ...

    def publish(self) -> None:
        """Shows all spaces that were opened and closed, or none and raises."""
        ...


class DirectorySpaces:
    """Implements `IncomingSpaces`."""

    def __init__(self, place: Path, directory: Path) -> None:
        self._place = place
        self._directory = directory
        self._storage = SqliteStorage(place)

    def check_empty(self) -> None:
        if any(self._directory.glob(f"{SPACES}/*")):
            raise NotEmpty(directory=str(self._directory))

    def open(self, space: Did) -> SpaceLog:
        if (self._directory / SPACES / space).exists():
            raise NotEmpty(directory=str(self._directory / SPACES / space))
        return self._storage.open(space, create=True)

    def publish(self) -> None:
        self._storage.close()
        publish(self._place, self._directory)

    def close(self) -> None:
        self._storage.close()


@contextmanager
def incoming_spaces(directory: Path) -> Iterator[DirectorySpaces]:
    """In a data directory that nobody holds; at the end what was not shown is gone."""
    with hold(directory), incoming(directory) as place:
        SqliteStorage(directory).close()  # recovers a group WAL for the spaces that exist, and removes it
        spaces = DirectorySpaces(place, directory)
        try:
            yield spaces
        finally:
            spaces.close()


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
