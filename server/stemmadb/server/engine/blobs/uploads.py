"""Uploads that are not complete: bytes that wait for more, across restarts too, until they give their name (BLOB-1).

An upload belongs to its uploader: others that know its hash can neither block nor spoil it, and each uploader has a
bound of its own. With a directory they are files `uploads/<uploader>/<reference>`: after a crash an upload goes on
where its file ends, and what is in the file is verified at the end like anything else. Without one they are in RAM.
Two clients of one uploader work on the same bytes. Calls block; any thread may make them, since every upload has its
own lock.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Lock
from typing import Final, NamedTuple, Protocol

import msgspec

from stemmadb.protocol.errors import BlobMismatch, LimitExceeded, Malformed
from stemmadb.protocol.model.values import reference
from stemmadb.protocol.model.values.ids import Hash, TimeMs
from stemmadb.server.engine.blobs.blob_files import blocks, hash_of
from stemmadb.server.storage.blob_directory import as_stemma_errors, named_in

FOLDER: Final = "uploads"
NOBODY: Final = ""
"""The uploader inside the server's own process, whose files are in the folder itself."""
_NS_PER_MS: Final = 1_000_000


class UploadKey(NamedTuple):
    """Whose upload of which blob."""

    hash: Hash
    uploader: str = NOBODY


class Whole(msgspec.Struct, frozen=True):
    """An upload whose bytes gave its name; the bytes too if they go into the database."""

    hash: Hash
    size: int
    content_type: str
    data: bytes | None


class UploadBytes(Protocol):
    """The bytes of an upload so far."""

    def size(self) -> int: ...

    def touched(self) -> TimeMs: ...

    def append(self, data: bytes, now: TimeMs) -> None: ...

    def clear(self) -> None: ...

    def blocks(self) -> Iterator[bytes]: ...

    def sync(self) -> None: ...

    def drop(self) -> None: ...


class UploadFile:
    """Bytes in a file; its time is the engine's, so that an abandoned upload is known after a restart too."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def size(self) -> int:
        return self.path.stat().st_size

    def touched(self) -> TimeMs:
        return TimeMs(self.path.stat().st_mtime_ns // _NS_PER_MS)

    def append(self, data: bytes, now: TimeMs) -> None:
        with self.path.open("ab", buffering=0) as file:
            rest = memoryview(data)
            while rest:
                rest = rest[file.write(rest) :]
        os.utime(self.path, ns=(now * _NS_PER_MS, now * _NS_PER_MS))

    def clear(self) -> None:
        os.truncate(self.path, 0)

    def blocks(self) -> Iterator[bytes]:
        with self.path.open("rb") as file:
            yield from blocks(file)

    def sync(self) -> None:
        with self.path.open("rb") as file:
            os.fsync(file.fileno())

    def drop(self) -> None:
        self.path.unlink(missing_ok=True)


class UploadMemory:
    """Bytes of a space that has no directory."""

    def __init__(self) -> None:
        self._data = bytearray()
        self._touched = TimeMs(0)

    def size(self) -> int:
        return len(self._data)

    def touched(self) -> TimeMs:
        return self._touched

    def append(self, data: bytes, now: TimeMs) -> None:
        self._data += data
        self._touched = now

    def clear(self) -> None:
        self._data.clear()

    def blocks(self) -> Iterator[bytes]:
        yield bytes(self._data)

    def sync(self) -> None:
        """There is nothing that could be more durable."""

    def drop(self) -> None:
        self._data.clear()


class Upload:
    """One upload. Whoever uses it holds its lock."""

    def __init__(self, key: UploadKey, held: UploadBytes) -> None:
        self.key = key
        self.hash = key.hash
        self.held = held
        self.lock = Lock()
        self.is_closed = False
        self.whole: Whole | None = None
        """Set while the bytes are as they were when they gave the name."""
        self._size: int | None = None
        """As it was announced; nobody knows of an upload from before a restart."""
        self._content_type = ""

    def begin(self, size: int, content_type: str, now: TimeMs) -> int:
        """Where to go on; `BlobMismatch` if bytes are here that were announced as part of another size.

        Of an upload from before a restart, more bytes than the blob has cannot be its own: then it begins anew.
        """
        at = self.held.size()
        if at and self._size not in (None, size):
            why = f"an upload of {self._size} bytes is under way, and this one has {size}"
            raise BlobMismatch(blob=reference.write(self.hash), why=why)
        if at > size:
            self.held.clear()
        if self._size != size:
            self.whole = None
        self._size, self._content_type = size, content_type
        self.held.append(b"", now)
        return self.held.size()

    def append(self, offset: int, data: bytes, now: TimeMs) -> int:
        """Takes bytes where the last ones ended; says where the next ones belong."""
        at, size = self.held.size(), self._announced()
        if offset != at:
            why = f"the upload is at byte {at} and this chunk begins at {offset}"
            raise Malformed(path="/offset", why=why, offset=at)
        if at + len(data) > size:
            why = f"{at + len(data)} bytes were sent and {size} announced"
            raise BlobMismatch(blob=reference.write(self.hash), why=why)
        self.held.append(data, now)
        return at + len(data)

    def verify(self, *, goes_to_file: Callable[[int], bool]) -> Whole:
        """The whole, if the bytes give the name; synced if they are to be a file. If they do not they are dropped."""
        if self.whole is not None:
            return self.whole
        at, size = self.held.size(), self._announced()
        if at != size:
            raise Malformed(path="/blob", why=f"{at} of {size} bytes were sent", offset=at)
        data = None if goes_to_file(at) else b"".join(self.held.blocks())
        if hash_of(self.held.blocks() if data is None else (data,)) != self.hash:
            self.close()
            raise BlobMismatch(blob=reference.write(self.hash), why="other bytes were sent")
        if data is None:
            self._sync()
        self.whole = Whole(self.hash, at, self._content_type, data)
        return self.whole

    def _announced(self) -> int:
        """Nothing, before it was begun again after a restart."""
        return 0 if self._size is None else self._size

    def _sync(self) -> None:
        """After a sync that failed nobody knows what of the file is on the disk: it is not tried again."""
        try:
            self.held.sync()
        except OSError:
            self.close()
            raise

    def close(self) -> None:
        """Ends the upload; what is left of its bytes goes."""
        self.is_closed = True
        self.held.drop()


class Uploads:
    """All uploads of a space."""

    def __init__(
        self,
        directory: Path | None,
        *,
        uploads_max: int,
        each_max: int | None = None,
        makes_directory: bool = False,
    ) -> None:
        """`each_max` is how many of them one uploader may have; as many as all together if it is not given."""
        self._folder = None if directory is None else directory / FOLDER
        self._made = [directory] if directory is not None and makes_directory else []
        self._uploads_max = uploads_max
        self._each_max = uploads_max if each_max is None else each_max
        self._open: dict[UploadKey, Upload] = {}
        self._lock = Lock()

    def path(self, key: UploadKey) -> Path:
        assert self._folder is not None, "an upload in memory has no path"
        return self._folder / key.uploader / reference.write(key.hash)

    @contextmanager
    def using(self, key: UploadKey) -> Iterator[Upload | None]:
        """An upload that was begun, alone; None if there is none, or it was closed meanwhile."""
        with self._lock:
            upload = self._open.get(key)
        if upload is None:
            yield None
            return
        with upload.lock, as_stemma_errors():
            try:
                yield None if upload.is_closed else upload
            except FileNotFoundError:
                upload.close()  # somebody removed its file, as an erasure does: it can only begin anew
                raise
            finally:
                if upload.is_closed:
                    self.forget(upload)

    @contextmanager
    def beginning(self, key: UploadKey) -> Iterator[Upload | None]:
        """The same for an upload that begins or goes on; `LimitExceeded` if there are too many."""
        with self._lock, as_stemma_errors():
            if key not in self._open:
                self._open[key] = Upload(key, self._make(key))
        with self.using(key) as upload:
            yield upload

    def drop(self, hashes: Iterable[Hash]) -> None:
        """Ends all uploads of these blobs, also those left from before a restart."""
        named = frozenset(hashes)
        self._end(key for key in self.under_way() if key.hash in named)

    def drop_of(self, uploaders: Collection[str]) -> None:
        """Ends all uploads of these uploaders."""
        self._end(key for key in self.under_way() if key.uploader in uploaders)

    def _end(self, keys: Iterable[UploadKey]) -> None:
        for key in list(keys):
            with self.beginning(key) as upload:
                if upload is not None:
                    upload.close()

    def sweep(self, untouched_since: TimeMs) -> int:
        """Ends the uploads that nobody went on with since a time; how many."""
        swept = 0
        for key in self.under_way():
            with self.beginning(key) as upload:
                if upload is not None and upload.held.touched() < untouched_since:
                    upload.close()
                    swept += 1
        return swept

    def forget(self, upload: Upload) -> None:
        """Once it is closed; another one of the same key that began since stays."""
        with self._lock:
            if self._open.get(upload.key) is upload:
                del self._open[upload.key]

    def _make(self, key: UploadKey) -> UploadBytes:
        """What is there from before a restart stays as it is, its time too."""
        keys = self.under_way()
        if key not in keys:
            own = sum(one.uploader == key.uploader for one in keys)
            _check_count("uploads_per_principal_max", self._each_max, own)
            _check_count("uploads_max", self._uploads_max, len(keys))
        if self._folder is None:
            return UploadMemory()
        if key not in keys:
            for folder in (*self._made, self._folder, self.path(key).parent):
                folder.mkdir(mode=0o700, exist_ok=True)
            self.path(key).touch(mode=0o600)
        return UploadFile(self.path(key))

    def names(self) -> list[Hash]:
        """The blobs that uploads are under way for."""
        return [key.hash for key in self.under_way()]

    def under_way(self) -> list[UploadKey]:
        with as_stemma_errors():
            return list(self._open) if self._folder is None else list(_in_files(self._folder))


def _in_files(folder: Path) -> Iterator[UploadKey]:
    yield from (UploadKey(hash_) for hash_ in named_in(folder))
    for path in sorted(folder.iterdir()) if folder.is_dir() else ():
        if path.is_dir() and not path.is_symlink():
            yield from (UploadKey(hash_, path.name) for hash_ in named_in(path))


def _check_count(bound: str, maximum: int, there: int) -> None:
    if there >= maximum:
        raise LimitExceeded(bound=bound, maximum=maximum, actual=there + 1)
