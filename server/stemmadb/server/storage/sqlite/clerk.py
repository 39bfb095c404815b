"""The clerk of a daybook: a thread that makes it once it is worth it, posts in quiet moments, settles volumes."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

from stemmadb.server.storage.port import StorageFailed
from stemmadb.server.storage.sqlite import daybook_files as files
from stemmadb.server.storage.sqlite.daybook import Carrier, Daybook
from stemmadb.server.storage.sqlite.daybook_files import VOLUME_BYTES_MAX
from stemmadb.server.storage.sqlite.daybook_pages import KEY_BYTES

WORTH_IT: Final = 16
"""Batches that come before a daybook is made: a few are written without."""
PAUSE_SECONDS: Final = 0.05
"""Between two looks, while there is something to post; nothing that came since the last one is a quiet moment."""
LOOKS_MAX: Final = 20
"""After so many looks all is posted although there was no quiet moment: readers of other processes wait for it."""
LOGS_IN_TIME: Final = 64
"""So many logs are posted as often. Each is a transaction: more of them are posted less often, in larger ones."""
LOOKS_MAX_OF_MANY: Final = 100
ROOM_BYTES_MIN: Final = 64 * 1024 * 1024
"""With less room on the disk nothing is taken: what is in the daybook must fit into the files, or nobody can read."""


class Clerk:
    def __init__(self, directory: Path, vfs: str | None, carrier: Carrier, logs: Callable[[], int]) -> None:
        """`logs` tells how many are open."""
        self._logs = logs
        self._directory = directory
        self._vfs = vfs
        self._carrier = carrier
        self._wake = threading.Event()
        self._thread: threading.Thread | None = None
        self._asked = 0
        self._seen = 0
        self._looks = 0
        self._is_closed = False
        self.book: Daybook | None = None

    def ask(self) -> Daybook | None:
        """The daybook, if there is one; it is made after it was asked for often enough."""
        if self.book is None and not self._is_closed:
            self._asked += 1
            if self._asked == WORTH_IT and self._thread is None:
                self.start()
        return self.book

    def start(self) -> None:
        self._thread = threading.Thread(target=self._serve, name="stemmadb-clerk", daemon=True)
        self._thread.start()

    def make(self) -> bool:
        """Whether there is a daybook now; there is none while the disk has little room."""
        if self.book is None and self._has_room():
            size = files.size_for(self._logs() if self._has_room(beside=2 * VOLUME_BYTES_MAX) else 1)
            with suppress(StorageFailed):
                volumes, key = files.make(self._directory, self._vfs, size), os.urandom(KEY_BYTES)
                self.book = Daybook(self._carrier, volumes, size, key, self._wake.set)
        return self.book is not None

    def _serve(self) -> None:
        while not self.make():
            self._pause(LOOKS_MAX * PAUSE_SECONDS)
            if self._is_closed:
                return
        while not self._is_closed:
            self._pause(PAUSE_SECONDS if self.look() else None)

    def _pause(self, seconds: float | None) -> None:
        self._wake.wait(seconds)
        self._wake.clear()

    def look(self) -> bool:
        """Whether there is something to come back for; if not, the next batch that is taken wakes the thread."""
        book = self.book
        assert book is not None, "there is a daybook to look into"
        book.has_room = self._has_room()
        with suppress(StorageFailed):  # those who use the space meet it, and open its log again
            book.settle_full(may_grow=self._has_room(beside=2 * VOLUME_BYTES_MAX))
        self._looks += 1
        taken = book.taken
        if taken != self._seen and self._looks < _looks_max(book.logs):
            self._seen = taken
            return True
        self._looks = 0
        return not book.post(taken)

    def _has_room(self, beside: int = 0) -> bool:
        try:
            found = os.statvfs(self._directory)
        except OSError:
            return False
        return found.f_bavail * found.f_frsize >= ROOM_BYTES_MIN + beside

    def close(self, *, is_settled: bool) -> None:
        """`is_settled` says whether all spaces are closed and have all of theirs: then the volumes go."""
        self._is_closed = True
        self._wake.set()
        if self._thread is not None:
            self._thread.join()
        try:
            if self.book is not None:
                self.book.close()
                if is_settled:
                    files.remove(self._directory)
        finally:
            self._carrier.close()


def _looks_max(logs: int) -> int:
    return min(max(LOOKS_MAX, LOOKS_MAX * logs // LOGS_IN_TIME), LOOKS_MAX_OF_MANY)
