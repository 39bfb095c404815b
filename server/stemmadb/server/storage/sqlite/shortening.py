"""Shortening: keeps the write-ahead log bounded although readers overlap for ever.

SQLite begins the log anew only at a moment when no reader looks into it, and where short readers overlap there is
none. So once the log is long the writer waits for those who look into it: readers that begin meanwhile find all
of it in the database and are not waited for.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import Final

import apsw

from stemmadb.server.storage.port import StorageFull
from stemmadb.server.storage.sqlite.connection import BUSY_MS, WAL_BYTES_MAX, checkpoint

LONG_BYTES: Final = 4 * WAL_BYTES_MAX
SHORTEN_WAIT_MS: Final = 500
"""How long a write waits for readers that keep the log long."""


class Shortening:
    """Belongs to the connection that writes."""

    def __init__(self, connection: apsw.Connection, *, long_bytes: int, wait_ms: int) -> None:
        self._connection = connection
        self._long_bytes = long_bytes
        self._wait_ms = wait_ms
        self._next_bytes = long_bytes

    def shorten(self) -> None:
        """After a write. Where a reader stays for long it is tried again only once as much again was written.

        So a reader that never ends costs writes a bounded time for each byte. A full disk keeps nothing from being
        written that fits: the log stays where it is.
        """
        size = self._size()
        if size < self._next_bytes:
            return
        is_short = False
        self._connection.set_busy_timeout(self._wait_ms)
        with suppress(StorageFull):
            is_short = checkpoint(self._connection, "TRUNCATE")
        self._connection.set_busy_timeout(BUSY_MS)
        self._next_bytes = self._long_bytes if is_short else size + self._long_bytes

    def _size(self) -> int:
        return os.stat(self._connection.filename_wal).st_size
