"""Blobs of an import: chunks are put together, must give their name, and are kept as an upload would be (BLOB-1)."""

from __future__ import annotations

import os
from collections.abc import Iterator

from blake3 import blake3

from stemmadb.protocol.errors import InvalidReference
from stemmadb.protocol.model.values import reference
from stemmadb.protocol.model.values.ids import Hash, TimeMs
from stemmadb.protocol.model.values.json_values import INT_MAX
from stemmadb.server.engine.blobs.blobs import CONTENT_TYPE_MAX, INLINE_BYTES_MAX
from stemmadb.server.maintenance.stream import BlobLine, ChunkLine, LineReader
from stemmadb.server.storage.blob_directory import ARRIVING
from stemmadb.server.storage.port import SpaceLog, StoredBlob


class ArrivingBlobs:
    """Takes blob after blob into a log that has none of them."""

    def __init__(self, lines: LineReader, log: SpaceLog) -> None:
        self._lines = lines
        self._log = log
        self.count = 0

    def take(self, line: BlobLine) -> None:
        """Reads the chunks of a blob; it is durable when this returns."""
        blob = self._described(line)
        with self._log.reader() as reader:
            if reader.blob(blob.hash) is not None:
                self._lines.fail("the blob was here before")
        if blob.in_file:
            self._to_file(blob)
            data = None
        else:
            data = b"".join(self._chunks(blob))
        self._log.put_blob(blob, data)
        self.count += 1

    def _described(self, line: BlobLine) -> StoredBlob:
        try:
            hash_ = reference.read(line.hash)
        except InvalidReference as wrong:
            self._lines.fail(wrong.message)
        if not (0 <= line.size <= INT_MAX and 0 <= line.created <= INT_MAX):
            self._lines.fail("a size and a time are 0 or more and fit in 64 bits")
        if len(line.content_type) > CONTENT_TYPE_MAX or not line.content_type.isprintable():
            self._lines.fail(f"a content type is printable text of at most {CONTENT_TYPE_MAX} characters")
        in_file = self._log.large_blobs is not None and line.size > INLINE_BYTES_MAX
        if not in_file and self._log.blob_data_max is not None and line.size > self._log.blob_data_max:
            self._lines.fail(
                f"the blob has {line.size} bytes, and the database takes {self._log.blob_data_max}; "
                "--blobs names a directory for larger ones"
            )
        return StoredBlob(hash_, line.size, line.content_type, TimeMs(line.created), in_file)

    def _chunks(self, blob: StoredBlob) -> Iterator[bytes]:
        """The bytes, chunk by chunk; the last of them only once all have given the name."""
        hasher, at = blake3(), 0
        while at < blob.size:
            chunk = self._lines.next()
            if not isinstance(chunk, ChunkLine) or chunk.at != at or not chunk.data:
                self._lines.fail(f"the bytes of the blob from {at} on are missing")
            at += len(chunk.data)
            hasher.update(chunk.data)
            if at >= blob.size:
                self._check(blob, at, Hash(hasher.digest()))
            yield chunk.data
        if blob.size == 0:
            self._check(blob, 0, Hash(hasher.digest()))

    def _check(self, blob: StoredBlob, size: int, hash_: Hash) -> None:
        if (size, hash_) != (blob.size, blob.hash):
            self._lines.fail("the bytes of the blob do not give its name and its size")

    def _to_file(self, blob: StoredBlob) -> None:
        directory, large = self._log.directory, self._log.large_blobs
        assert directory is not None, "files wait in a directory"
        assert large is not None, "they are put where large blobs are"
        directory.mkdir(mode=0o700, exist_ok=True)
        path = directory / f"{ARRIVING}{reference.write(blob.hash)}"
        try:
            with path.open("wb") as file:
                for chunk in self._chunks(blob):
                    file.write(chunk)
                file.flush()
                os.fsync(file.fileno())
            large.put(blob.hash, path)
        finally:
            path.unlink(missing_ok=True)
