"""The storage of a world: in memory, with hooks around each append, and copies that cost nothing."""

from __future__ import annotations

from typing import Protocol

from stemmadb.protocol.model.values.ids import Did, Version
from stemmadb.server.storage.memory import MemoryLog, MemoryStorage
from stemmadb.server.storage.memory.contents import MemoryContents
from stemmadb.server.storage.port import StorageFailed, Worker


class SyncFailed(StorageFailed):
    """An append whose sync failed: it is not there, and after a crash it is, unless another one came after it."""


class Watching(Protocol):
    """Who is asked around each append."""

    def before_append(self) -> None:
        """Nothing is written yet; may raise `StorageFailed`."""
        ...

    def after_append(self) -> None:
        """It is durable, and nobody was told; may raise `StorageFailed`, or `SyncFailed` if it is not durable."""
        ...


class Nobody:
    """Watches nothing."""

    def before_append(self) -> None: ...

    def after_append(self) -> None: ...


class Backup:
    """What a storage held at a moment. It never changes, and can be restored as often as wanted."""

    def __init__(self, contents: dict[Did, MemoryContents]) -> None:
        self._contents = contents

    def contents(self) -> dict[Did, MemoryContents]:
        return dict(self._contents)

    def versions(self) -> dict[Did, Version]:
        """How far each space had come."""
        return {did: held.tip.version for did, held in self._contents.items()}


class KitLog(MemoryLog):
    """Alone, as the log of the default storage is: only what writes something is appended."""

    is_alone = True

    def __init__(self, of: MemoryLog, storage: MemoryStorage) -> None:
        super().__init__(of._stored, storage, of._workers)


class KitStorage(MemoryStorage):
    """Holds what a backup held, and goes its own way from there."""

    def __init__(self, backup: Backup | None = None) -> None:
        super().__init__(self._operation)
        self.watching: Watching = Nobody()
        self._before = Backup({})
        self._unsynced: Backup | None = None
        for did, contents in (backup.contents() if backup is not None else {}).items():
            super().open(did, create=True)
            self._spaces[did].contents = contents

    def open(self, space: Did, *, create: bool = False, workers: Worker | None = None) -> KitLog:
        return KitLog(super().open(space, create=create, workers=workers), self)

    def backup(self) -> Backup:
        """A writer puts changed contents in the place of the old ones, so those can be kept as they are."""
        return Backup({did: stored.contents for did, stored in self._spaces.items()})

    def after_crash(self) -> Backup:
        """What a new start finds: what is durable, and what a failed sync left behind."""
        return self._unsynced or self.backup()

    def _operation(self, name: str) -> None:
        if name == "append":
            self.watching.before_append()
            self._before = self.backup()
        elif name == "appended":
            self._append()

    def _append(self) -> None:
        self._unsynced = None
        try:
            self.watching.after_append()
        except SyncFailed:
            self._unsynced = self.backup()
            for did, contents in self._before.contents().items():
                self._spaces[did].contents = contents
            raise
