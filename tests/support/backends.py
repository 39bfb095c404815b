"""The backends that the conformance suite runs on, each behind the port and nothing else."""

from __future__ import annotations

from pathlib import Path

from space import SPACE
from stemmadb.protocol.model.values.ids import Did
from stemmadb.server.storage.memory import MemoryStorage
from stemmadb.server.storage.port import SpaceLog, Storage, Worker
from stemmadb.server.storage.sqlite import SqliteStorage

BACKENDS = ("memory", "sqlite")


class Backend:
    """A backend with the logs that were opened on it, so that all of it can be closed and opened again."""

    def __init__(self, kind: str, directory: Path) -> None:
        self.kind = kind
        self._directory = directory
        self._in_memory = MemoryStorage()
        self._logs: list[SpaceLog] = []
        self.storage = self._made()

    def open(self, space: Did = SPACE, *, create: bool = True, workers: Worker | None = None) -> SpaceLog:
        log = self.storage.open(space, create=create, workers=workers)
        self._logs.append(log)
        return log

    def reopen(self, space: Did = SPACE) -> SpaceLog:
        """What a restart does: everything is closed, and the space is opened from what was kept."""
        self.close()
        self.storage = self._made()
        return self.open(space, create=False)

    def close(self) -> None:
        for log in self._logs:
            log.close()
        self._logs.clear()
        self.storage.close()

    def _made(self) -> Storage:
        return self._in_memory if self.kind == "memory" else SqliteStorage(self._directory)
