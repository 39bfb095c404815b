"""WAL truncation: bounds SQLite's write-ahead log even if readers overlap for ever.

SQLite restarts the log only when no reader uses it, and where short reads overlap there is no such moment. So once
the log is long the writer waits for the readers that use it. Readers that begin meanwhile find everything in the
database and are not waited for.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import Final

import apsw

from stemmadb.server.storage.port import DiskFull
from stemmadb.server.storage.sqlite.connection import BUSY_MS, WAL_BYTES_MAX, checkpoint

LONG_BYTES: Final = 4 * WAL_BYTES_MAX
TRUNCATE_WAIT_MS: Final = 500
"""How long a write waits for readers that use the log."""


class WalTruncation:
    """Belongs to the connection that writes."""

    def __init__(self, connection: apsw.Connection, *, long_bytes: int, wait_ms: int) -> None:
        self._connection = connection
        self._long_bytes = long_bytes
        self._wait_ms = wait_ms
        self._next_bytes = long_bytes

    def truncate(self) -> None:
        """Called after a write. If a reader stays for long, it is tried again only after as much again was written.

        So a reader that never ends costs writes a bounded time for each byte. On a full disk the log stays as it is,
        and writes that fit go on.
        """
        size = self._size()
        if size < self._next_bytes:
            return
        is_short = False
        self._connection.set_busy_timeout(self._wait_ms)
        with suppress(DiskFull):
            is_short = checkpoint(self._connection, "TRUNCATE")
        self._connection.set_busy_timeout(BUSY_MS)
        self._next_bytes = self._long_bytes if is_short else size + self._long_bytes

    def _size(self) -> int:
        return os.stat(self._connection.filename_wal).st_size
