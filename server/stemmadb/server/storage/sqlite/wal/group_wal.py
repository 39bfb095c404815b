"""The group WAL of a data directory: batches of all spaces in order of arrival, many made durable by one sync.

A batch of ordinary commits is acknowledged once it is durable in the group WAL. It is applied to the file of its
space later, together with many others: before a reader opens the file, when no batch has come for a moment, or when a
segment is full (docs/decisions/0012).

There are two segments. One is written block by block; when it is full the GroupWal switches to the other, and the
checkpointer checkpoints the first. A batch that does not fit is appended to its file directly.

Example, with spaces A and B:

    append(A1)          block 1 [A1] is being written to segment 0
    append(B1), (A2)    wait for the next block
    block 1 is durable  A1 is acknowledged, and waits in A's Applier; block 2 [B1, A2] is being written
    reader of A opens   A's Applier applies A1 to A's file, without a sync
    block 2 is durable  B1 and A2 are acknowledged
    segment 0 is full   block 3 goes to segment 1; the checkpointer makes A1, B1 and A2 durable in their files,
                        and segment 0 can be overwritten
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Final, NamedTuple, Protocol

from stemmadb.server.storage.port import DiskFull, Done, StorageFailed
from stemmadb.server.storage.sqlite.wal import blocks, segments
from stemmadb.server.storage.sqlite.wal.apply import Applier
from stemmadb.server.storage.sqlite.wal.blocks import Record
from stemmadb.server.storage.sqlite.wal.segments import SegmentFile

RECORD_BYTES_MAX: Final = 256 * 1024
"""A larger batch is worth a sync of its own, and would be written twice."""
DRAIN_SECONDS_MAX: Final = 10.0


class WalWriter(Protocol):
    """Writes blocks to the disk, one at a time."""

    def write(self, file: SegmentFile, block: bytes, at: int, done: Done) -> None:
        """Returns at once; `done` is called later, on the event loop, once the block is durable or has failed."""
        ...

    def close(self) -> None: ...


class Waiting(NamedTuple):
    applier: Applier
    record: bytes
    done: Done


class Segment:
    """A file, how far it is written, and the appliers of logs with records in it that are not checkpointed."""

    def __init__(self, file: SegmentFile, size: int) -> None:
        self.file: Final = file
        self.size = size
        self.at = 0
        self.high = 0
        """The furthest it was written since it was cleared."""
        self.appliers: set[Applier] = set()
        self.is_full = False
        """True while it waits for a checkpoint; only then can it be overwritten."""

    def checkpoint(self) -> None:
        """Makes everything in this segment durable in the files of its spaces."""
        for applier in list(self.appliers):
            applier.checkpoint()
        self.appliers.clear()

    def begin(self) -> None:
        self.at, self.is_full = 0, False

    def lengthen(self, size: int) -> None:
        with segments.disk_failures():
            segments.clear(self.file, size - self.size, at=self.size)
        self.size = size


class WrittenBlock(NamedTuple):
    """Where a block is written. If the write fails, it is unknown whether the block is on the disk."""

    segment: Segment
    at: int
    size: int
    number: int


class GroupWal:
    """Used from one event loop, except for the methods marked as called by other threads."""

    def __init__(
        self, wal_writer: WalWriter, files: list[SegmentFile], size: int, key: bytes, wake: Callable[[], None]
    ) -> None:
        """`size` is the size of each segment.

        `wake` is called when a segment waits for the checkpointer, and when a batch comes after all were applied.
        """
        self._key = key
        self._wal_writer = wal_writer
        self._segments = [Segment(file, size) for file in files]
        self._wake = wake
        self._number = 1
        self._waiting: list[Waiting] = []
        self._waiting_bytes = 0
        self._is_writing = False
        self._is_open = True
        self._lock = threading.RLock()
        """Protects the state that the event loop and other threads change."""
        self._maintenance_lock = threading.Lock()
        """Held by a thread that checkpoints, repairs or resets."""
        self.taken = 0
        """How many batches were taken: the checkpointer sees by it whether any have come."""
        self.has_room = True
        """Whether the disk has room to apply what is taken; set by the checkpointer."""
        self._is_quiet = True
        """Whether all is applied, and the checkpointer sleeps."""
        self._failed: WrittenBlock | None = None

    @property
    def logs(self) -> int:
        """How many logs have records in the segment that is being written."""
        return len(self._segments[0].appliers)

    @property
    def is_broken(self) -> bool:
        """Whether a block has failed: no batch is taken before `repair`."""
        return self._failed is not None

    def append(self, applier: Applier, record: Record, done: Done) -> bool:
        """True if the batch was taken; `done` is called once it is durable and ready to be applied, or has failed."""
        with self._lock:
            if not self._is_open or not self.has_room:
                return False
            encoded = blocks.encode_record(record)
            size = self._waiting_bytes + len(encoded)
            if len(encoded) > RECORD_BYTES_MAX or not self._fits(size):
                return False
            self._waiting.append(Waiting(applier, encoded, done))
            self._waiting_bytes = size
            self.taken += 1
            if not self._is_writing:
                self._write()
        if self._is_quiet:
            self._is_quiet = False
            self._wake()
        return True

    def _fits(self, records_bytes: int) -> bool:
        size = blocks.size_of(records_bytes)
        now, after = self._segments
        return now.at + size <= now.size or (not after.is_full and size <= after.size)

    def _write(self) -> None:
        """Writes all waiting records as one block."""
        waiting, self._waiting, self._waiting_bytes = self._waiting, [], 0
        block = blocks.encode_block(self._key, self._number, [one.record for one in waiting])
        if self._segments[0].at + len(block) > self._segments[0].size:
            self._switch_segments()
        segment = self._segments[0]
        segment.appliers.update(one.applier for one in waiting)
        this = WrittenBlock(segment, segment.at, len(block), self._number)
        self._number += 1
        self._is_writing = True
        segment.at += len(block)
        segment.high = max(segment.high, segment.at)
        self._wal_writer.write(segment.file, block, this.at, partial(self._block_ended, waiting, this))

    def _switch_segments(self) -> None:
        full, after = self._segments
        assert not after.is_full, "what does not fit is not taken"
        self._segments = [after, full]
        full.is_full = True
        self._wake()

    def _block_ended(self, written: list[Waiting], this: WrittenBlock, failure: BaseException | None) -> None:
        """Starts the next block before callers are told of this one, but after adding this one to the appliers.

        Otherwise the checkpointer could checkpoint a segment that is full by then without the records of this block,
        and they would be overwritten. All callers are told, whatever one of them does.
        """
        with self._lock:
            self._is_writing = False
            if failure is not None:
                self._is_open, self._failed = False, this
                written, self._waiting, self._waiting_bytes = written + self._waiting, [], 0
                for one in written:
                    one.applier.must_be_opened_again = True
            else:
                for one in written:
                    one.applier.add(one.record)
                if self._waiting:
                    self._write()
        internal_errors: list[Exception] = []
        for one in written:
            try:
                one.done(failure)
            except Exception as error:
                internal_errors.append(error)
        if internal_errors:
            raise internal_errors[0]

    # ------------------------------------------------------------ called by other threads

    def apply(self, taken: int) -> bool:
        """Called by the checkpointer: applies all durable records; True if no batch came after the first `taken`."""
        is_busy = self._is_writing  # a block that ends meanwhile may have records of a log already visited
        for segment in self._segments:
            is_busy = is_busy or segment.is_full
            for applier in list(segment.appliers):
                with suppress(StorageFailed):  # users of the space get the error
                    applier.apply()
        self._is_quiet = not (is_busy or self._is_writing)
        if self.taken != taken:  # a batch that came before `_is_quiet` was set has woken nobody
            self._is_quiet = False
        return self._is_quiet

    def checkpoint_full(self, *, may_grow: bool) -> None:
        """Called by the checkpointer: checkpoints the full segment for reuse, and grows it if needed."""
        with self._maintenance_lock:
            for segment in [one for one in self._segments if one.is_full]:
                wanted = segments.size_for(len(segment.appliers))
                segment.checkpoint()
                if may_grow and wanted > segment.size:
                    with suppress(DiskFull):
                        segment.lengthen(wanted)
                with self._lock:
                    segment.begin()

    def repair(self) -> None:
        """Clears a block that failed, which no caller was told is durable; then batches are taken again."""
        with self._maintenance_lock:
            if self._failed is None:
                return
            segment, at, size, number = self._failed
            with segments.disk_failures():
                segments.clear(segment.file, size, at)
            with self._lock:
                segment.at, self._number = at, number
                self._failed, self._is_open = None, True

    def reset(self) -> None:
        """Checkpoints everything and clears the segments, leaving no trace of their records (ERASE-1).

        Meanwhile batches are appended to their files directly.
        """
        self.repair()
        with self._maintenance_lock:
            try:
                self._shut()
                if self.is_broken:
                    raise StorageFailed("a block has failed meanwhile")
                for segment in self._segments:
                    segment.checkpoint()
                    segment.begin()  # even if clearing fails: its records are not needed any more
                    with segments.disk_failures():
                        segments.clear(segment.file, segment.high)
                    segment.high = 0
            finally:
                self._is_open = not self.is_broken

    def _shut(self) -> None:
        """Stops taking batches, and waits for the block that is being written."""
        end = time.monotonic() + DRAIN_SECONDS_MAX
        while True:
            with self._lock:
                self._is_open = False
                if not self._is_writing:
                    return
            if time.monotonic() > end:
                raise StorageFailed("the last block of the group WAL is still being written")
            time.sleep(0.001)

    def close(self) -> None:
        """Closes the segments. The caller closes the WAL writer."""
        self._shut()
        for segment in self._segments:
            segment.file.close()
