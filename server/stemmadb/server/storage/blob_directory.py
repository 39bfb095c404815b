"""Large blobs as files of a directory, each named by its blob's reference: kept by sync and rename.

    DIRECTORY/blobs/<reference>

A file is there and durable before its row is, and goes after its row is gone, so no row lacks its file; a file
without a row is harmless and is swept. With SQLite the directory is that of the space, beside its file. With
PostgreSQL it is one of a directory that all nodes share.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from stemmadb.protocol.errors import BlobMismatch, InvalidReference, StorageFull, Unavailable
from stemmadb.protocol.model.values import reference
from stemmadb.protocol.model.values.ids import Hash, TimeMs
from stemmadb.server.storage.port import BlobName, OpenedBlob

FOLDER: Final = "blobs"
MARKER: Final = "stemmadb-blobs"
"""The file with the id of a directory that nodes share, in the directory itself."""
ARRIVING: Final = "arriving-"
"""How the file of a blob begins that an import is still reading, beside FOLDER."""
_NO_ROOM: Final = frozenset({errno.ENOSPC, errno.EDQUOT})
_NS_PER_MS: Final = 1_000_000


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


class BlobDirectory:
    """Implements `port.LargeBlobs`. Calls block; any thread may make them."""

    def __init__(self, directory: Path, *, marker: Path | None = None) -> None:
        """`marker` is a file that is there as long as a directory that several processes share is mounted."""
        self._directory = directory
        self._marker = marker
        self._has_folder = False
        self.is_shared: Final = marker is not None

    def put(self, hash_: Hash, file: Path) -> None:
        """Takes over a file that was verified and synced; returns once its name is durable."""
        with as_stemma_errors():
            self._check_mounted()
            target = blob_path(self._directory, hash_)
            self._make_folder(target.parent)
            os.replace(file, target)
            sync_directory(target.parent)

    @contextmanager
    def open(self, hash_: Hash, offset: int = 0) -> Iterator[OpenedBlob]:
        """The bytes from an offset on; `BlobMismatch` if there are none."""
        with as_stemma_errors():
            try:
                file = blob_path(self._directory, hash_).open("rb")
            except FileNotFoundError:
                self._check_mounted()
                raise BlobMismatch(blob=reference.write(hash_), why="its file is missing") from None
            with file:
                found = os.fstat(file.fileno())
                file.seek(offset)
                yield OpenedBlob(file, found.st_size, (found.st_ino, found.st_size, found.st_mtime_ns))

    def remove(self, hashes: Iterable[Hash]) -> int:
        """Removes files whose rows are gone, for good; how many there were."""
        removed = 0
        with as_stemma_errors():
            for hash_ in hashes:
                try:
                    blob_path(self._directory, hash_).unlink()
                except FileNotFoundError:
                    continue
                removed += 1
            if removed:
                sync_directory(self._directory / FOLDER)
        return removed

    def names(self, after: Hash | None = None) -> list[BlobName]:
        """The blobs there are files for, in order, from those after one on."""
        with as_stemma_errors():
            found = named_in(self._directory / FOLDER)
            first = None if after is None else reference.write(after)
            return list(self._aged(hash_ for hash_ in found if first is None or reference.write(hash_) > first))

    def _aged(self, hashes: Iterable[Hash]) -> Iterator[BlobName]:
        for hash_ in hashes:
            try:
                changed = blob_path(self._directory, hash_).stat().st_mtime_ns
            except FileNotFoundError:  # it went meanwhile
                continue
            yield BlobName(hash_, TimeMs(changed // _NS_PER_MS))

    def _check_mounted(self) -> None:
        """What is put into a mount point after the mount has gone would be lost, and nothing there is missing."""
        if self._marker is not None and not self._marker.is_file():
            raise Unavailable(
                f"The directory of large blobs is not there any more: {str(self._marker)!r} is missing."
            )

    def _make_folder(self, folder: Path) -> None:
        """Whoever made the folder, its name may not be durable: a sync that failed is all we would know of it."""
        if self._has_folder:
            return
        if self.is_shared:
            self._directory.mkdir(mode=0o700, exist_ok=True)
            sync_directory(self._directory.parent)
        folder.mkdir(mode=0o700, exist_ok=True)
        sync_directory(self._directory)
        self._has_folder = True


def _read_name(name: str) -> Hash | None:
    """A file that is not named by a reference is none of ours."""
    try:
        return reference.read(name)
    except InvalidReference:
        return None
