"""The file `server.json` in the data directory: which server runs on it, for commands that look for it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import msgspec

from stemmadb.protocol.model.values.ids import Did, TimeMs
from stemmadb.server.serving import atomic_files
from stemmadb.server.storage.directory import LOCK, is_held

NAME: Final = "server.json"
NOTE_BYTES_MAX: Final = 65_536
ANYWHERE: Final = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104
"""Addresses that mean all of a machine, and how a program on the same machine reaches them."""


class Presence(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A server that is listening."""

    pid: int
    host: str
    port: int
    tls: bool
    did: Did
    started: TimeMs
    workers: dict[str, int] = msgspec.field(default_factory=dict)
    """The process of each worker, by its number; of a server without workers none."""
    companions: dict[str, Any] = msgspec.field(default_factory=dict)
    """What else runs in the process and how to reach it, by name."""

    @property
    def reached_at(self) -> str:
        """The address for a program on the same machine."""
        return ANYWHERE.get(self.host, self.host)


@contextmanager
def present(directory: Path, presence: Presence) -> Iterator[None]:
    """The note is there while the block runs; after a crash it stays, and `find` does not believe it."""
    write(directory, presence)
    try:
        yield
    finally:
        (directory / NAME).unlink(missing_ok=True)


def write(directory: Path, presence: Presence) -> None:
    """Replaces the note."""
    atomic_files.write(directory / NAME, msgspec.json.encode(presence))


def find(directory: Path) -> Presence | None:
    """The server that runs on a directory, if one does: the process that wrote the note holds the directory."""
    if not is_held(directory):
        return None
    try:
        with (directory / NAME).open("rb") as stream:
            presence = msgspec.json.decode(stream.read(NOTE_BYTES_MAX), type=Presence)
        holder = (directory / LOCK).read_text()
    except (OSError, ValueError):  # the server is about to write it, has just removed it, or is another program
        return None
    return presence if holder.strip() == str(presence.pid) else None
