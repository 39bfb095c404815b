"""The daybook of a data directory: batches of all spaces in the order they come, many made durable by one sync.

In bookkeeping, what comes is noted in a daybook and posted to its account later. Here an account is the file of a
space. A batch of plain commits is acknowledged once the daybook has it durably; it is posted with many others when
somebody reads the file, when nothing comes for a moment, or when a volume is full (docs/decisions/0012).

There are two volumes. One is written page by page; when it is full the other goes on, and the clerk settles what is
in the first. A batch that finds no room is appended to its file like any other.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Final, NamedTuple, Protocol

from stemmadb.server.storage.port import StorageFailed, StorageFull, Told
from stemmadb.server.storage.sqlite import daybook_files as files
from stemmadb.server.storage.sqlite import daybook_pages as pages
from stemmadb.server.storage.sqlite.daybook_files import VolumeFile
from stemmadb.server.storage.sqlite.daybook_pages import Record
from stemmadb.server.storage.sqlite.posting import Posting

RECORD_BYTES_MAX: Final = 256 * 1024
"""A larger batch is worth a sync of its own, and would be written twice."""
DRAIN_SECONDS_MAX: Final = 10.0


class Carrier(Protocol):
    """Carries a page to the disk, one at a time."""

    def carry(self, file: VolumeFile, page: bytes, at: int, told: Told) -> None:
        """Returns at once; `told` is called later, on the event loop, once the page is durable or has failed."""
        ...

    def close(self) -> None: ...


class Waiting(NamedTuple):
    posting: Posting
    record: bytes
    told: Told


class Volume:
    """A file, how far it is written, and the logs with records in it that are not settled."""

    def __init__(self, file: VolumeFile, size: int) -> None:
        self.file: Final = file
        self.size = size
        self.at = 0
        self.high = 0
        """How far it was ever written since it was cleared."""
        self.postings: set[Posting] = set()
        self.is_full = False
        """Whether it waits to be settled before it begins anew."""

    def settle(self) -> None:
        """All that is in it is in the files of its spaces, durably."""
        for posting in list(self.postings):
            posting.settle()
        self.postings.clear()

    def begin(self) -> None:
        self.at, self.is_full = 0, False

    def lengthen(self, size: int) -> None:
        with files.disk_failures():
            files.clear(self.file, size - self.size, at=self.size)
        self.size = size


class Failed(NamedTuple):
    """A page of which nobody knows whether it is there."""

    volume: Volume
    at: int
    size: int
    number: int


def _tell(carried: list[Waiting], failure: StorageFailed | None) -> None:
    """All of them, whatever one does with it."""
    mistakes: list[Exception] = []
    for one in carried:
        try:
            one.told(failure)
        except Exception as mistake:
            mistakes.append(mistake)
    if mistakes:
        raise mistakes[0]


class Daybook:
    """Used from one event loop, but for what is marked."""

    def __init__(
        self, carrier: Carrier, volumes: list[VolumeFile], size: int, key: bytes, wake: Callable[[], None]
    ) -> None:
        """`size` is that of each volume.

        `wake` is called when a volume waits for the clerk, and when something comes after all was posted.
        """
        self._key = key
        self._carrier = carrier
        self._volumes = [Volume(file, size) for file in volumes]
        self._wake = wake
        self._number = 1
        self._waiting: list[Waiting] = []
        self._waiting_bytes = 0
        self._is_under_way = False
        self._is_open = True
        self._door = threading.RLock()
        """Of what the event loop and others change."""
        self._turn = threading.Lock()
        """Of those who settle, mend and start over."""
        self.taken = 0
        """How many batches there were: the clerk sees by it whether any come."""
        self.has_room = True
        """Whether the disk has room to post what is taken; the clerk looks."""
        self._is_quiet = True
        """Whether all is posted, and the clerk sleeps."""
        self._failed: Failed | None = None

    @property
    def logs(self) -> int:
        """How many have something in the volume that is written now."""
        return len(self._volumes[0].postings)

    @property
    def is_broken(self) -> bool:
        """Whether a page has failed: nothing is taken before it is mended."""
        return self._failed is not None

    def take(self, posting: Posting, record: Record, told: Told) -> bool:
        """Whether the batch is on its way; `told` is called once it is durable and to be posted, or has failed."""
        with self._door:
            if not self._is_open or not self.has_room:
                return False
            encoded = pages.encode(record)
            size = self._waiting_bytes + len(encoded)
            if len(encoded) > RECORD_BYTES_MAX or not self._fits(size):
                return False
            self._waiting.append(Waiting(posting, encoded, told))
            self._waiting_bytes = size
            self.taken += 1
            if not self._is_under_way:
                self._write()
        if self._is_quiet:
            self._is_quiet = False
            self._wake()
        return True

    def _fits(self, records_bytes: int) -> bool:
        size = pages.size_of(records_bytes)
        now, after = self._volumes
        return now.at + size <= now.size or (not after.is_full and size <= after.size)

    def _write(self) -> None:
        """All that waits, as one page."""
        waiting, self._waiting, self._waiting_bytes = self._waiting, [], 0
        page = pages.page(self._key, self._number, [one.record for one in waiting])
        if self._volumes[0].at + len(page) > self._volumes[0].size:
            self._turn_over()
        volume = self._volumes[0]
        volume.postings.update(one.posting for one in waiting)
        this = Failed(volume, volume.at, len(page), self._number)  # if it fails
        self._number += 1
        self._is_under_way = True
        volume.at += len(page)
        volume.high = max(volume.high, volume.at)
        self._carrier.carry(volume.file, page, this.at, partial(self._carried, waiting, this))

    def _turn_over(self) -> None:
        full, after = self._volumes
        assert not after.is_full, "what does not fit is not taken"
        self._volumes = [after, full]
        full.is_full = True
        self._wake()

    def _carried(self, carried: list[Waiting], this: Failed, failure: StorageFailed | None) -> None:
        """The next page takes off before anybody is told of this one, and after all of this one is to be posted.

        Otherwise the clerk could settle a volume that is full then, and that would be written over, without it.
        """
        with self._door:
            self._is_under_way = False
            if failure is not None:
                self._is_open, self._failed = False, this
                carried, self._waiting, self._waiting_bytes = carried + self._waiting, [], 0
            else:
                for one in carried:
                    one.posting.add(one.record)
                if self._waiting:
                    self._write()
        _tell(carried, failure)

    # ------------------------------------------------------------ by other threads

    def post(self, taken: int) -> bool:
        """By the clerk: posts all that is durable; True if no more has come than the batches it knows of."""
        is_busy = self._is_under_way  # what lands meanwhile may be of a log that was looked at before
        for volume in self._volumes:
            is_busy = is_busy or volume.is_full
            for posting in list(volume.postings):
                with suppress(StorageFailed):  # those who use the space meet it
                    posting.post()
        self._is_quiet = not (is_busy or self._is_under_way)
        if self.taken != taken:  # one may have come before the clerk was quiet, and not have woken it
            self._is_quiet = False
        return self._is_quiet

    def settle_full(self, *, may_grow: bool) -> None:
        """By the clerk: settles the volume that is full, which can then be written again, longer if need be."""
        with self._turn:
            for volume in [one for one in self._volumes if one.is_full]:
                wanted = files.size_for(len(volume.postings))
                volume.settle()
                if may_grow and wanted > volume.size:
                    with suppress(StorageFull):
                        volume.lengthen(wanted)
                with self._door:
                    volume.begin()

    def mend(self) -> None:
        """Makes sure that a page that failed is not there: nobody was told of it. Batches are taken again then."""
        with self._turn:
            if self._failed is None:
                return
            volume, at, size, number = self._failed
            with files.disk_failures():
                files.clear(volume.file, size, at)
            with self._door:
                volume.at, self._number = at, number
                self._failed, self._is_open = None, True

    def start_over(self) -> None:
        """Settles all there is and leaves no trace of it in the volumes, which begin anew (ERASE-1).

        Batches go straight to their files meanwhile.
        """
        self.mend()
        with self._turn:
            try:
                self._shut()
                if self.is_broken:
                    raise StorageFailed("a page has failed meanwhile")
                for volume in self._volumes:
                    volume.settle()
                    volume.begin()  # whatever becomes of the rest: what was in it is not needed any more
                    with files.disk_failures():
                        files.clear(volume.file, volume.high)
                    volume.high = 0
            finally:
                self._is_open = not self.is_broken

    def _shut(self) -> None:
        """Nothing is taken any more, and nothing is under way when this returns."""
        end = time.monotonic() + DRAIN_SECONDS_MAX
        while True:
            with self._door:
                self._is_open = False
                if not self._is_under_way:
                    return
            if time.monotonic() > end:
                raise StorageFailed("the daybook does not come to its end")
            time.sleep(0.001)

    def close(self) -> None:
        """The carrier is somebody else's to close."""
        self._shut()
        for volume in self._volumes:
            volume.file.close()
