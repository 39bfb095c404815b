"""The backends that the conformance suite runs on, each behind the port and nothing else."""

from __future__ import annotations

from pathlib import Path

import postgres_server
from space import SPACE
from stemmadb.protocol.model.values.ids import Did
from stemmadb.server.storage.memory import MemoryStorage
from stemmadb.server.storage.port import SpaceLog, Storage, Worker
from stemmadb.server.storage.postgres import PostgresStorage
from stemmadb.server.storage.sqlite import SqliteStorage

BACKENDS = ("memory", "sqlite", "postgres")


class Backend:
    """A backend with the logs that were opened on it, so that all of it can be closed and opened again."""

    def __init__(self, kind: str, directory: Path) -> None:
        self.kind = kind
        self._directory = directory
        self._in_memory = MemoryStorage()
        if kind == "postgres":
            postgres_server.need()
            self._url = postgres_server.empty_database()
        self._logs: list[SpaceLog] = []
        self._is_closed = False
        self.storage = self._made()

    def open(self, space: Did = SPACE, *, create: bool = True, workers: Worker | None = None) -> SpaceLog:
        if self._is_closed:
            self.storage, self._is_closed = self._made(), False
        log = self.storage.open(space, create=create, workers=workers)
        self._logs.append(log)
        return log

    def reopen(self, space: Did = SPACE) -> SpaceLog:
        """What a restart does: everything is closed, and the space is opened from what was kept."""
        self.close()
        return self.open(space, create=False)

    def close(self) -> None:
        for log in self._logs:
            log.close()
        self._logs.clear()
        if not self._is_closed:
            self.storage.close()
        self._is_closed = True

    def _made(self) -> Storage:
        if self.kind == "postgres":
            return PostgresStorage(self._url, read_view_ms_max=120_000)  # tests of the bound set it
        return self._in_memory if self.kind == "memory" else SqliteStorage(self._directory)
