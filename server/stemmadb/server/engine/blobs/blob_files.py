"""Large blobs as files: kept by fsync and rename, read in parts, every byte that is handed out verified (BLOB-1).

A file is named by its blob's reference. It is there and durable before its row is, and goes after its row is gone, so
no row lacks its file; a file without a row is harmless and is swept.

A part of a file is verified without hashing all of it each time: the first look hashes the whole and remembers the
hash of each segment, and later parts are compared with those.
"""

from __future__ import annotations

import errno
import os
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Lock
from typing import BinaryIO, Final

import msgspec
from blake3 import blake3

from stemmadb.protocol.errors import BlobMismatch, InvalidReference, StorageFull, Unavailable
from stemmadb.protocol.model.values import reference
from stemmadb.protocol.model.values.ids import Hash

FOLDER: Final = "blobs"
SEGMENT_BYTES: Final = 256 * 1024
CHECKED_MAX: Final = 64  # files whose segments are remembered: 128 KiB for one of 1 GiB
_NO_ROOM: Final = frozenset({errno.ENOSPC, errno.EDQUOT})

Stamp = tuple[int, int, int]


class Checked(msgspec.Struct, frozen=True):
    """A file whose bytes gave its name: what it looked like then, and the hash of each of its segments."""

    stamp: Stamp
    segments: tuple[bytes, ...]


@contextmanager
def as_stemma_errors() -> Iterator[None]:
    """An error of a file, as the caller may know it: no room, or try again."""
    try:
        yield
    except OSError as error:
        if error.errno in _NO_ROOM:
            raise StorageFull from error
        raise Unavailable from error


def blob_path(directory: Path, hash_: Hash) -> Path:
    """Where a blob that is not in the database is, in the directory of its space."""
    return directory / FOLDER / reference.write(hash_)


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


def named_in(folder: Path) -> list[Hash]:
    """The blobs that files of a folder are named after, in order; none if there is no such folder."""
    names = sorted(os.listdir(folder)) if folder.is_dir() else []
    return [hash_ for hash_ in map(_read_name, names) if hash_ is not None]


def sync_directory(directory: Path) -> None:
    """Makes names in a directory durable."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class BlobFiles:
    """The blob files of a space. Calls block; any thread may make them."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._checked: OrderedDict[Hash, Checked] = OrderedDict()
        self._lock = Lock()
        self._has_folder = False

    def adopt(self, source: Path, hash_: Hash) -> None:
        """Takes over a file that was verified and synced; returns once its name is durable."""
        with as_stemma_errors():
            target = blob_path(self._directory, hash_)
            self._make_folder(target.parent)
            os.replace(source, target)
            sync_directory(target.parent)

    def check(self, hash_: Hash, size: int) -> None:
        """`BlobMismatch` unless the file is there and its bytes give its name."""
        with self._opened(hash_) as file:
            self._segments(file, hash_, size)

    def part(self, hash_: Hash, size: int, *, offset: int, length: int) -> bytes:
        """Bytes of a blob, each of them verified; `BlobMismatch` if they are not the blob's."""
        first, last = offset // SEGMENT_BYTES, (offset + length - 1) // SEGMENT_BYTES
        with self._opened(hash_) as file:
            segments = self._segments(file, hash_, size)[first : last + 1]
            file.seek(first * SEGMENT_BYTES)
            data = file.read((last + 1 - first) * SEGMENT_BYTES)
        if _segments_of(data) != segments:
            self._forget(hash_)
            raise BlobMismatch(blob=reference.write(hash_), why="its file was changed")
        begin = offset - first * SEGMENT_BYTES
        return data[begin : begin + length]

    def remove(self, hashes: Iterable[Hash]) -> int:
        """Removes files whose rows are gone, for good; how many there were."""
        removed = 0
        with as_stemma_errors():
            for hash_ in hashes:
                self._forget(hash_)
                try:
                    blob_path(self._directory, hash_).unlink()
                except FileNotFoundError:
                    continue
                removed += 1
            if removed:
                sync_directory(self._directory / FOLDER)
        return removed

    def names(self) -> list[Hash]:
        """The blobs there are files for."""
        with as_stemma_errors():
            return named_in(self._directory / FOLDER)

    def _make_folder(self, folder: Path) -> None:
        """Whoever made the folder, its name may not be durable: a sync that failed is all we would know of it."""
        if not self._has_folder:
            folder.mkdir(mode=0o700, exist_ok=True)
            sync_directory(self._directory)
            self._has_folder = True

    @contextmanager
    def _opened(self, hash_: Hash) -> Iterator[BinaryIO]:
        with as_stemma_errors():
            try:
                file = blob_path(self._directory, hash_).open("rb")
            except FileNotFoundError:
                raise BlobMismatch(blob=reference.write(hash_), why="its file is missing") from None
            with file:
                yield file

    def _segments(self, file: BinaryIO, hash_: Hash, size: int) -> tuple[bytes, ...]:
        """The hash of each segment, from a look at the whole file unless it is as it was at the last one."""
        found = os.fstat(file.fileno())
        stamp = (found.st_ino, found.st_size, found.st_mtime_ns)
        with self._lock:
            known = self._checked.get(hash_)
            if known is not None and known.stamp == stamp:
                self._checked.move_to_end(hash_)
                return known.segments
        if found.st_size != size:
            raise BlobMismatch(blob=reference.write(hash_), why=f"its file has {found.st_size} of {size} bytes")
        return self._look(file, hash_, stamp)

    def _look(self, file: BinaryIO, hash_: Hash, stamp: Stamp) -> tuple[bytes, ...]:
        segments: list[bytes] = []
        whole = blake3()
        for block in blocks(file):
            whole.update(block)
            segments.append(blake3(block).digest())
        if whole.digest() != hash_:
            raise BlobMismatch(blob=reference.write(hash_), why="its file was changed")
        with self._lock:
            self._checked[hash_] = Checked(stamp, tuple(segments))
            while len(self._checked) > CHECKED_MAX:
                self._checked.popitem(last=False)
        return tuple(segments)

    def _forget(self, hash_: Hash) -> None:
        with self._lock:
            self._checked.pop(hash_, None)


def _segments_of(data: bytes) -> tuple[bytes, ...]:
    return tuple(blake3(data[at : at + SEGMENT_BYTES]).digest() for at in range(0, len(data), SEGMENT_BYTES))


def _read_name(name: str) -> Hash | None:
    """A file that is not named by a reference is none of ours."""
    try:
        return reference.read(name)
    except InvalidReference:
        return None
