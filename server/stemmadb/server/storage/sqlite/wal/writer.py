"""WAL writers: a thread writes blocks of the group WAL to the disk and reports to the event loop.

The thread of the C extension (`native/src/wal_writer.c`) does not need the interpreter lock, for which a Python
thread waits before and after each write while the event loop is busy (docs/decisions/0012).
"""

from __future__ import annotations

import asyncio
import os
import sys
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from stemmadb.protocol.model.commit.native import OFF
from stemmadb.server.storage.port import Done, StorageFailed
from stemmadb.server.storage.sqlite.wal.group_wal import WalWriter
from stemmadb.server.storage.sqlite.wal.segments import OsFile, SegmentFile, disk_failures, failed
from stemmadb.server.thread_pool import Threads

if TYPE_CHECKING:
    from stemmadb import _native


class ThreadWalWriter:
    """Implements `group_wal.WalWriter`."""

    def __init__(self) -> None:
        self._threads = Threads(1, "stemmadb-wal-writer")

    def write(self, file: SegmentFile, block: bytes, at: int, done: Done) -> None:
        self._threads.run(partial(_write, file, block, at)).add_done_callback(partial(_block_written, done))

    def close(self) -> None:
        self._threads.close()


class NativeWalWriter:
    """Implements `group_wal.WalWriter`."""

    def __init__(self, native: _native.WalWriter) -> None:
        self._native = native
        self._done: Done | None = None
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(native.fileno(), self._block_written)

    def write(self, file: SegmentFile, block: bytes, at: int, done: Done) -> None:
        assert isinstance(file, OsFile), "the writer in C needs a file descriptor"
        self._done = done
        self._native.write(file.descriptor, -1 if file.direct is None else file.direct, block, at)

    def _block_written(self) -> None:
        """Called by the event loop when the thread has something to report."""
        error, done = self._native.result(), self._done
        if error is None or done is None:
            return
        self._done = None
        done(None if error == 0 else failed(OSError(error, os.strerror(error))))

    def close(self) -> None:
        self._loop.remove_reader(self._native.fileno())
        self._native.close()


def _write(file: SegmentFile, block: bytes, at: int) -> StorageFailed | None:
    try:
        with disk_failures():
            file.write(block, at)
            file.sync()
    except StorageFailed as failure:
        return failure
    return None


def _block_written(done: Done, written: asyncio.Future[StorageFailed | None]) -> None:
    done(written.result())


def make_wal_writer() -> WalWriter:
    """The writer of the extension if it was built and is not switched off (`python -X no-native`)."""
    if OFF not in sys._xoptions:
        with suppress(ImportError):
            from stemmadb import _native  # noqa: PLC0415

            return NativeWalWriter(_native.WalWriter())
    return ThreadWalWriter()
