"""The checkpointer: a thread that creates the group WAL once it pays off, applies records when it is quiet, and
checkpoints full segments."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

from stemmadb.server.storage.port import StorageFailed
from stemmadb.server.storage.sqlite.wal import segments
from stemmadb.server.storage.sqlite.wal.blocks import KEY_BYTES
from stemmadb.server.storage.sqlite.wal.group_wal import GroupWal, WalWriter
from stemmadb.server.storage.sqlite.wal.segments import SEGMENT_BYTES_MAX

WORTH_IT: Final = 16
"""The number of batches before the group WAL is created: the first few are appended to their files directly."""
PAUSE_SECONDS: Final = 0.05
"""Between two ticks, while there are records to apply. It is quiet if no batch came since the last tick."""
TICKS_MAX: Final = 20
"""After so many ticks all records are applied even if it is never quiet: readers in other processes wait."""
LOGS_IN_TIME: Final = 64
"""Up to so many logs are applied at that rate. Each is a transaction: more logs take larger ones, less often."""
TICKS_MAX_OF_MANY: Final = 100
ROOM_BYTES_MIN: Final = 64 * 1024 * 1024
"""With less free disk space no batch is taken: records must fit into the files to be readable."""


class Checkpointer:
    def __init__(self, directory: Path, vfs: str | None, wal_writer: WalWriter, logs: Callable[[], int]) -> None:
        """`logs` returns how many logs are open."""
        self._logs = logs
        self._directory = directory
        self._vfs = vfs
        self._wal_writer = wal_writer
        self._wake = threading.Event()
        self._thread: threading.Thread | None = None
        self._asked = 0
        self._seen = 0
        self._ticks = 0
        self._is_closed = False
        self.wal: GroupWal | None = None

    def ask(self) -> GroupWal | None:
        """The group WAL, or None; it is created after it was asked for `WORTH_IT` times."""
        if self.wal is None and not self._is_closed:
            self._asked += 1
            if self._asked == WORTH_IT and self._thread is None:
                self.start()
        return self.wal

    def start(self) -> None:
        self._thread = threading.Thread(target=self._serve, name="stemmadb-checkpointer", daemon=True)
        self._thread.start()

    def make(self) -> bool:
        """Creates the group WAL; False if there is none because the disk has too little free space."""
        if self.wal is None and self._has_room():
            size = segments.size_for(self._logs() if self._has_room(beside=2 * SEGMENT_BYTES_MAX) else 1)
            with suppress(StorageFailed):
                files, key = segments.make(self._directory, self._vfs, size), os.urandom(KEY_BYTES)
                self.wal = GroupWal(self._wal_writer, files, size, key, self._wake.set)
        return self.wal is not None

    def _serve(self) -> None:
        while not self.make():
            self._pause(TICKS_MAX * PAUSE_SECONDS)
            if self._is_closed:
                return
        while not self._is_closed:
            self._pause(PAUSE_SECONDS if self.tick() else None)

    def _pause(self, seconds: float | None) -> None:
        self._wake.wait(seconds)
        self._wake.clear()

    def tick(self) -> bool:
        """True if another tick is needed; if not, the next batch that is taken wakes the thread."""
        wal = self.wal
        assert wal is not None, "there is a group WAL"
        wal.has_room = self._has_room()
        with suppress(StorageFailed):  # users of the space get the error, and open its log again
            wal.checkpoint_full(may_grow=self._has_room(beside=2 * SEGMENT_BYTES_MAX))
        self._ticks += 1
        taken = wal.taken
        if taken != self._seen and self._ticks < _ticks_max(wal.logs):
            self._seen = taken
            return True
        self._ticks = 0
        return not wal.apply(taken)

    def _has_room(self, beside: int = 0) -> bool:
        try:
            found = os.statvfs(self._directory)
        except OSError:
            return False
        return found.f_bavail * found.f_frsize >= ROOM_BYTES_MIN + beside

    def close(self, *, is_checkpointed: bool) -> None:
        """Removes the segments if `is_checkpointed`: all spaces are closed and their files have all records."""
        self._is_closed = True
        self._wake.set()
        if self._thread is not None:
            self._thread.join()
        try:
            if self.wal is not None:
                self.wal.close()
                if is_checkpointed:
                    segments.remove(self._directory)
        finally:
            self._wal_writer.close()


def _ticks_max(logs: int) -> int:
    return min(max(TICKS_MAX, TICKS_MAX * logs // LOGS_IN_TIME), TICKS_MAX_OF_MANY)
