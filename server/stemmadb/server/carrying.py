"""Carrying pages of the daybook to the disk for an event loop: by a thread, which sleeps while there are none.

The compiled one (`native/carrier.c`) needs no interpreter, for which a thread of Python waits before and after its
write, as long as the loop is busy (docs/decisions/0012).
"""

from __future__ import annotations

import asyncio
import os
import sys
from contextlib import suppress
from functools import partial
from importlib import import_module
from typing import Protocol

from stemmadb.protocol.model.compiled import OFF
from stemmadb.server.engine.threads import Threads
from stemmadb.server.storage.port import StorageFailed, Told
from stemmadb.server.storage.sqlite.daybook import Carrier
from stemmadb.server.storage.sqlite.daybook_files import OsFile, VolumeFile, disk_failures, failed


class ThreadCarrier:
    """Implements `daybook.Carrier`."""

    def __init__(self) -> None:
        self._threads = Threads(1, "stemmadb-carrier")

    def carry(self, file: VolumeFile, page: bytes, at: int, told: Told) -> None:
        self._threads.run(partial(_write, file, page, at)).add_done_callback(partial(_tell, told))

    def close(self) -> None:
        self._threads.close()


class _Native(Protocol):
    def fileno(self) -> int: ...

    def carry(self, file: int, direct: int, page: bytes, at: int, /) -> None: ...

    def end(self) -> int | None: ...

    def close(self) -> None: ...


class NativeCarrier:
    """Implements `daybook.Carrier`."""

    def __init__(self, native: _Native) -> None:
        self._native = native
        self._told: Told | None = None
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(native.fileno(), self._heard)

    def carry(self, file: VolumeFile, page: bytes, at: int, told: Told) -> None:
        assert isinstance(file, OsFile), "it writes where the operating system says"
        self._told = told
        self._native.carry(file.descriptor, -1 if file.direct is None else file.direct, page, at)

    def _heard(self) -> None:
        error, told = self._native.end(), self._told
        if error is None or told is None:
            return
        self._told = None
        told(None if error == 0 else failed(OSError(error, os.strerror(error))))

    def close(self) -> None:
        self._loop.remove_reader(self._native.fileno())
        self._native.close()


def _write(file: VolumeFile, page: bytes, at: int) -> StorageFailed | None:
    try:
        with disk_failures():
            file.write(page, at)
            file.sync()
    except StorageFailed as failure:
        return failure
    return None


def _tell(told: Told, done: asyncio.Future[StorageFailed | None]) -> None:
    told(done.result())


def carrier() -> Carrier:
    """The compiled one if it was built, and nobody goes without (`compiled.OFF`)."""
    if OFF not in sys._xoptions:
        with suppress(ImportError):
            return NativeCarrier(import_module("stemmadb.server._native").Carrier())
    return ThreadCarrier()
