"""Large blobs, read in parts, every byte that is handed out verified (BLOB-1).

A part is verified without hashing all of the blob each time: the first look hashes the whole and remembers the hash
of each segment, and later parts are compared with those.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator
from pathlib import Path
from threading import Lock
from typing import BinaryIO, Final

import msgspec
from blake3 import blake3

from stemmadb.protocol.errors import BlobMismatch
from stemmadb.protocol.model.values import reference
from stemmadb.protocol.model.values.ids import Hash
from stemmadb.server.storage.port import BlobName, LargeBlobs, OpenedBlob

SEGMENT_BYTES: Final = 256 * 1024
CHECKED_MAX: Final = 64  # blobs whose segments are remembered: 128 KiB for one of 1 GiB


class Checked(msgspec.Struct, frozen=True):
    """A blob whose bytes gave its name: what it looked like then, and the hash of each of its segments."""

    stamp: tuple[int, ...]
    segments: tuple[bytes, ...]


def blocks(file: BinaryIO) -> Iterator[bytes]:
    """The bytes of a file from where it stands, a segment at a time."""
    while block := file.read(SEGMENT_BYTES):
        yield block


def hash_of(parts: Iterable[bytes]) -> Hash:
    """The name of a blob, never with all of it in memory."""
    hasher = blake3()
    for part in parts:
        hasher.update(part)
    return Hash(hasher.digest())


class BlobFiles:
    """The large blobs of a space. Calls block; any thread may make them."""

    def __init__(self, store: LargeBlobs) -> None:
        self._store = store
        self._checked: OrderedDict[Hash, Checked] = OrderedDict()
        self._lock = Lock()

    def adopt(self, source: Path, hash_: Hash) -> None:
        """Takes over a file that was verified and synced; returns once its name is durable."""
        self._store.put(hash_, source)

    def check(self, hash_: Hash, size: int) -> None:
        """`BlobMismatch` unless the blob is there and its bytes give its name."""
        with self._store.open(hash_) as opened:
            self._segments(opened, hash_, size)

    def part(self, hash_: Hash, size: int, *, offset: int, length: int) -> bytes:
        """Bytes of a blob, each of them verified; `BlobMismatch` if they are not the blob's."""
        first, last = offset // SEGMENT_BYTES, (offset + length - 1) // SEGMENT_BYTES
        with self._store.open(hash_, first * SEGMENT_BYTES) as opened:
            segments = self._known(opened, hash_)
            data = opened.stream.read((last + 1 - first) * SEGMENT_BYTES)
        if segments is None:
            with self._store.open(hash_) as opened:
                segments = self._segments(opened, hash_, size)
        if _segments_of(data) != segments[first : last + 1]:
            self._forget(hash_)
            raise BlobMismatch(blob=reference.write(hash_), why="its file was changed")
        begin = offset - first * SEGMENT_BYTES
        return data[begin : begin + length]

    def remove(self, hashes: Iterable[Hash]) -> int:
        """Removes blobs whose rows are gone, for good; how many there were."""
        removed = list(hashes)
        for hash_ in removed:
            self._forget(hash_)
        return self._store.remove(removed)

    @property
    def is_shared(self) -> bool:
        return self._store.is_shared

    def names(self) -> list[BlobName]:
        """All of them, in order."""
        return list(self._store.names())

    def _segments(self, opened: OpenedBlob, hash_: Hash, size: int) -> tuple[bytes, ...]:
        """The hash of each segment, from a look at the whole blob unless it is as it was at the last one."""
        known = self._known(opened, hash_)
        if known is not None:
            return known
        if opened.size != size:
            raise BlobMismatch(blob=reference.write(hash_), why=f"its file has {opened.size} of {size} bytes")
        return self._look(opened, hash_)

    def _known(self, opened: OpenedBlob, hash_: Hash) -> tuple[bytes, ...] | None:
        with self._lock:
            known = self._checked.get(hash_)
            if known is None or known.stamp != opened.stamp:
                return None
            self._checked.move_to_end(hash_)
            return known.segments

    def _look(self, opened: OpenedBlob, hash_: Hash) -> tuple[bytes, ...]:
        segments: list[bytes] = []
        whole = blake3()
        for block in blocks(opened.stream):
            whole.update(block)
            segments.append(blake3(block).digest())
        if whole.digest() != hash_:
            raise BlobMismatch(blob=reference.write(hash_), why="its file was changed")
        with self._lock:
            self._checked[hash_] = Checked(opened.stamp, tuple(segments))
            while len(self._checked) > CHECKED_MAX:
                self._checked.popitem(last=False)
        return tuple(segments)

    def _forget(self, hash_: Hash) -> None:
        with self._lock:
            self._checked.pop(hash_, None)


def _segments_of(data: bytes) -> tuple[bytes, ...]:
    return tuple(blake3(data[at : at + SEGMENT_BYTES]).digest() for at in range(0, len(data), SEGMENT_BYTES))
