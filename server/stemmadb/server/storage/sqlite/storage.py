"""The spaces of a data directory: a directory for each, with its file in it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from stemmadb.protocol import identity
from stemmadb.protocol.errors import InvalidDid, UnknownSpace
from stemmadb.protocol.model.ids import Did
from stemmadb.server.storage.port import StorageFailed, StorageFull
from stemmadb.server.storage.sqlite.connection import is_no_room
from stemmadb.server.storage.sqlite.log import SCRUB_WAIT_MS, SqliteLog

SPACES: Final = "spaces"
FILE: Final = "space.db"


class SqliteStorage:
    """Implements `port.Storage`.

    Whoever writes holds the directory (`directory.hold`), so that no second process does. A read-only storage needs
    no hold and can be used beside a writer: it changes no file's content.
    """

    def __init__(
        self,
        directory: Path,
        *,
        vfs: str | None = None,
        read_only: bool = False,
        scrub_wait_ms: int = SCRUB_WAIT_MS,
    ) -> None:
        self._directory = directory
        self._vfs = vfs
        self._read_only = read_only
        self._scrub_wait_ms = scrub_wait_ms
        self._logs: list[SqliteLog] = []

    def spaces(self) -> list[Did]:
        """The spaces there are files of, by name."""
        found = (self._directory / SPACES).glob(f"*/{FILE}")
        return sorted(Did(file.parent.name) for file in found if _is_did(file.parent.name))

    def open(self, space: Did, *, create: bool = False) -> SqliteLog:
        """The log of a space; `UnknownSpace` if there is none and it is not to be made."""
        identity.public_key(space)  # a DID is safe as a name of a directory, and anything else is refused
        self._forget_closed()
        is_writing = not self._read_only
        assert not (is_writing and any(log.space == space for log in self._logs)), f"{space} is open already"
        file = self._directory / SPACES / space / FILE
        if not file.exists():
            if not (create and is_writing):
                raise UnknownSpace(space=space)
            _make_directory(file.parent)
        log = SqliteLog(
            file,
            space,
            vfs=self._vfs,
            read_only=self._read_only,
            create=create,
            scrub_wait_ms=self._scrub_wait_ms,
        )
        self._logs.append(log)
        return log

    def _forget_closed(self) -> None:
        self._logs = [log for log in self._logs if not log.is_closed]

    def close(self) -> None:
        for log in self._logs:
            log.close()
        self._logs.clear()


def _is_did(name: str) -> bool:
    try:
        identity.public_key(name)
    except InvalidDid:
        return False
    return True


def _make_directory(directory: Path) -> None:
    """Makes the directory of a space, so that it is there after a power failure as well."""
    try:
        for step in (directory.parent.parent, directory.parent, directory):
            step.mkdir(mode=0o700, parents=True, exist_ok=True)
            _sync(step.parent)
    except OSError as error:
        failed = StorageFull if is_no_room(error.errno) else StorageFailed
        raise failed(str(error)) from error


def _sync(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
