"""Carrying pages of the daybook to the disk for an event loop: by a thread, which sleeps while there are none."""

from __future__ import annotations

import asyncio
from functools import partial

from stemmadb.server.engine.threads import Threads
from stemmadb.server.storage.port import StorageFailed, Told
from stemmadb.server.storage.sqlite.daybook import Carrier
from stemmadb.server.storage.sqlite.daybook_files import VolumeFile, disk_failures


class ThreadCarrier:
    """Implements `daybook.Carrier`."""

    def __init__(self) -> None:
        self._threads = Threads(1, "stemmadb-carrier")

    def carry(self, file: VolumeFile, page: bytes, at: int, told: Told) -> None:
        self._threads.run(partial(_write, file, page, at)).add_done_callback(partial(_tell, told))

    def close(self) -> None:
        self._threads.close()


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
    return ThreadCarrier()
