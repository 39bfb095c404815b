"""The read-only connections of a log: as many as are reading, a few of which are kept open for the next."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Final

import apsw

from stemmadb.server.storage.sqlite.connection import close, open_reader

IDLE_MAX: Final = 4


class Pool:
    """Connections are taken and given back from any thread."""

    def __init__(self, file: Path, vfs: str | None) -> None:
        self._file = file
        self._vfs = vfs
        self._lock = threading.Lock()
        self._idle: list[apsw.Connection] = []
        self._is_closed = False

    def take(self) -> apsw.Connection:
        with self._lock:
            assert not self._is_closed, "the log is closed"
            if self._idle:
                return self._idle.pop()
        return open_reader(self._file, self._vfs)

    def give_back(self, connection: apsw.Connection, *, is_sound: bool = True) -> None:
        """One that met an error is not used again, nor one that comes back after the log was closed."""
        with self._lock:
            if is_sound and not self._is_closed and len(self._idle) < IDLE_MAX:
                self._idle.append(connection)
                return
        close(connection)

    def close(self) -> None:
        with self._lock:
            self._is_closed = True
            idle, self._idle = self._idle, []
        for connection in idle:
            close(connection)
