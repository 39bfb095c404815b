"""Blobs: bytes under the name of their hash, sent and fetched in chunks and verified at both ends (BLOB-1)."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, Final, TypeAlias, overload

from blake3 import blake3

from stemmadb.client.reading.blob_sources import BlobData, BlobSource, BlockingRunner, guessed_type, in_thread, opened
from stemmadb.client.requester import Requester
from stemmadb.protocol.errors import BlobMismatch, LimitExceeded, Malformed, UnknownBlob
from stemmadb.protocol.model.values import reference
from stemmadb.protocol.model.values.ids import Hash
from stemmadb.protocol.wire.messages.blobs import (
    BlobBegin,
    BlobChunk,
    BlobEnd,
    BlobOffset,
    BlobPart,
    BlobRead,
    BlobStored,
)

UPLOAD_TRIES_MAX: Final = 3
"""How often an upload is begun again without getting any farther."""
PART_NAME_BYTES: Final = 8

Progress: TypeAlias = Callable[[int, int], None]
"""Told how many bytes are done, and how many there are."""


@dataclass(frozen=True, slots=True)
class BlobRef:
    """A blob: its name `b3:...`, which is what a value holds to refer to it (BLOB-2), its size and content type."""

    hash: str
    size: int
    content_type: str

    def __str__(self) -> str:
        return self.hash


class Blobs:
    """The blobs of a space.

    ref = await space.blobs.put(Path("photo.jpg"))
    tx.set("urn:photo:1", {"file": ref.hash})
    data = await space.blobs.get(ref)
    await space.blobs.get(ref, to=Path("copy.jpg"))
    """

    def __init__(self, requester: Requester, *, run: BlockingRunner = in_thread) -> None:
        self._requester = requester
        self._run = run

    async def put(
        self, data: BlobData, *, content_type: str | None = None, progress: Progress | None = None
    ) -> BlobRef:
        """Uploads bytes, a file or a stream, and returns once it is durable.

        What the server has already is not sent again, and an upload that was cut off goes on where it stopped. The
        content type is guessed from the name of a file if it is not given.
        """
        async with opened(data, self._run) as source:
            maximum = self._requester.limits.blob_bytes_max
            if source.size > maximum:
                raise LimitExceeded(bound="blob_bytes_max", maximum=maximum, actual=source.size)
            upload = _Upload(self._requester, source, content_type or guessed_type(data), progress or _untold)
            return await upload.send()

    @overload
    async def get(self, ref: BlobRef | str, *, to: None = None, progress: Progress | None = None) -> bytes: ...

    @overload
    async def get(self, ref: BlobRef | str, *, to: os.PathLike[str], progress: Progress | None = None) -> Path: ...

    async def get(
        self, ref: BlobRef | str, *, to: os.PathLike[str] | None = None, progress: Progress | None = None
    ) -> bytes | Path:
        """The bytes, verified; or, written to the file `to`, its path. A file appears whole or not at all."""
        if to is not None:
            return await self._get_to(ref, Path(to), progress)
        return b"".join([piece async for piece in self.stream(ref, progress=progress)])

    async def stream(self, ref: BlobRef | str, *, progress: Progress | None = None) -> AsyncIterator[bytes]:
        """The bytes as they come. Only the end tells whether they are right: `BlobMismatch` if they are not."""
        blob = _hash_of(ref)
        hasher, at, is_over = blake3(), 0, False
        while not is_over:
            part = await self._part(blob, at)
            hasher.update(part.data)
            at += len(part.data)
            is_over = at == part.size
            (progress or _untold)(at, part.size)
            if is_over and hasher.digest() != blob:
                raise BlobMismatch(blob=reference.write(blob), why="other bytes came from the server")
            yield part.data

    async def stat(self, ref: BlobRef | str) -> BlobRef:
        """Size and content type; `UnknownBlob` if it is not there."""
        part = await self._requester.ask(BlobRead, BlobPart, blob=_hash_of(ref), length=0)
        return BlobRef(reference.write(part.blob), part.size, part.content_type)

    async def _part(self, blob: Hash, at: int) -> BlobPart:
        part = await self._requester.ask(BlobRead, BlobPart, blob=blob, offset=at)
        left = part.size - at
        if part.offset != at or len(part.data) > left or (left and not part.data):
            raise BlobMismatch(blob=reference.write(blob), why="the parts that came do not make a whole")
        return part

    async def _get_to(self, ref: BlobRef | str, to: Path, progress: Progress | None) -> Path:
        unfinished = to.with_name(f".{to.name}.{self._requester.random(PART_NAME_BYTES).hex()}.part")
        file: IO[bytes] = await self._run(lambda: unfinished.open("xb"))
        try:
            with file:
                async for piece in self.stream(ref, progress=progress):
                    await self._run(partial(file.write, piece))
            await self._run(partial(unfinished.replace, to))
        except BaseException:
            unfinished.unlink(missing_ok=True)
            raise
        return to


class _Upload:
    """One upload: `blob.begin` says where to go on, and after anything unexpected it is asked again."""

    def __init__(self, requester: Requester, source: BlobSource, content_type: str, progress: Progress) -> None:
        self._requester = requester
        self._source = source
        self._content_type = content_type
        self._progress = progress
        self._reached = -1
        limits = requester.limits
        self._chunk = min(limits.blob_chunk_bytes_max, limits.message_bytes_max // 2)  # in JSON bytes grow by a third

    async def send(self) -> BlobRef:
        tries = 0
        while True:
            before = self._reached
            try:
                return await self._once()
            except (Malformed, UnknownBlob, BlobMismatch) as error:
                tries = 1 if self._reached > before else tries + 1
                if tries > UPLOAD_TRIES_MAX or not await self._may_go_on(error):
                    raise

    async def _once(self) -> BlobRef:
        source = self._source
        at = await self._requester.ask(
            BlobBegin, BlobOffset, blob=source.hash, size=source.size, content_type=self._content_type
        )
        self._went_on(at)
        while at.offset < source.size:
            data = await source.read(at.offset, min(self._chunk, source.size - at.offset))
            if not data:
                raise BlobMismatch(blob=reference.write(source.hash), why="the file became shorter")
            at = await self._requester.ask(BlobChunk, BlobOffset, blob=source.hash, offset=at.offset, data=data)
            self._went_on(at)
        stored = await self._requester.ask(BlobEnd, BlobStored, blob=source.hash)
        return BlobRef(reference.write(stored.blob), stored.size, stored.content_type)

    def _went_on(self, at: BlobOffset) -> None:
        self._reached = max(self._reached, at.offset)
        self._progress(at.offset, self._source.size)

    async def _may_go_on(self, error: Exception) -> bool:
        """Whether beginning again can help.

        It does after a chunk that the server had already, sent again on a new connection, or after the upload was
        dropped; and where somebody else sent wrong bytes under this name, unless it was our file that changed.
        """
        if isinstance(error, BlobMismatch):
            return await self._source.measure() == (self._source.hash, self._source.size)
        return isinstance(error, UnknownBlob) or (isinstance(error, Malformed) and "offset" in error.facts)


def _hash_of(ref: BlobRef | str) -> Hash:
    return reference.read(ref.hash if isinstance(ref, BlobRef) else ref)


def _untold(done: int, total: int) -> None:
    """Nobody wants to know."""
