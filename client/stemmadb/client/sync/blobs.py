"""Blobs for apps that block: bytes, files and iterables go up; bytes, files and iterators come down."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterable, Iterator
from pathlib import Path
from typing import BinaryIO, Final, TypeAlias, cast, overload

from stemmadb.client.reading import blobs
from stemmadb.client.reading.blob_sources import BlobData
from stemmadb.client.reading.blobs import BlobRef, Progress
from stemmadb.client.sync.calls import Errands
from stemmadb.client.sync.portal import Portal
from stemmadb.client.sync.streams import BlockingStream

Uploadable: TypeAlias = bytes | bytearray | memoryview | os.PathLike[str] | BinaryIO | Iterable[bytes]
"""What can be uploaded. A file object is read from where it stands."""

_END: Final = object()


class Blobs:
    """The blobs of a space. A progress callback is called on the thread that waits.

    ref = space.blobs.put(Path("photo.jpg"))
    tx.set("urn:photo:1", {"file": ref.hash})
    data = space.blobs.get(ref)
    space.blobs.get(ref, to=Path("copy.jpg"))
    """

    def __init__(self, blobs_: blobs.Blobs, portal: Portal) -> None:
        self._blobs = blobs_
        self._portal = portal

    def put(self, data: Uploadable, *, content_type: str | None = None, progress: Progress | None = None) -> BlobRef:
        """Uploads bytes, a file or a stream, and returns once it is durable.

        What the server has already is not sent again, and an upload that was cut off goes on where it stopped. The
        content type is guessed from the name of a file if it is not given.
        """
        return self._portal.converse(
            lambda errands: self._blobs.put(
                _source(data, errands), content_type=content_type, progress=_called_here(progress, errands)
            )
        )

    @overload
    def get(self, ref: BlobRef | str, *, to: None = None, progress: Progress | None = None) -> bytes: ...

    @overload
    def get(self, ref: BlobRef | str, *, to: os.PathLike[str], progress: Progress | None = None) -> Path: ...

    def get(
        self, ref: BlobRef | str, *, to: os.PathLike[str] | None = None, progress: Progress | None = None
    ) -> bytes | Path:
        """The bytes, verified; or, written to the file `to`, its path. A file appears whole or not at all."""

        async def got(errands: Errands) -> bytes | Path:
            reported = _called_here(progress, errands)
            if to is None:
                return await self._blobs.get(ref, progress=reported)
            return await self._blobs.get(ref, to=to, progress=reported)

        return self._portal.converse(got)

    def stream(self, ref: BlobRef | str, *, progress: Progress | None = None) -> Iterator[bytes]:
        """The bytes as they come. Only the end tells whether they are right: `BlobMismatch` if they are not."""
        reported: list[tuple[int, int]] = []
        pieces = self._blobs.stream(ref, progress=lambda done, total: reported.append((done, total)))
        with BlockingStream(self._portal, pieces) as stream:
            for piece in stream:
                if progress is not None:
                    progress(*reported[-1])
                yield piece

    def stat(self, ref: BlobRef | str) -> BlobRef:
        """Size and content type; `UnknownBlob` if it is not there."""
        return self._portal.call(self._blobs.stat, ref)


def _called_here(progress: Progress | None, errands: Errands) -> Progress | None:
    """The same callback, called on the thread of the app."""
    return None if progress is None else lambda done, total: errands.post(progress, done, total)


def _source(data: Uploadable, errands: Errands) -> BlobData:
    """What the client understands; an iterable of the app's is iterated on the thread of the app."""
    is_known = isinstance(data, bytes | bytearray | memoryview | os.PathLike | str) or hasattr(data, "read")
    if is_known or not isinstance(data, Iterable):
        return cast("BlobData", data)
    return _pieces(cast("Iterable[bytes]", data), errands)


async def _pieces(data: Iterable[bytes], errands: Errands) -> AsyncIterator[bytes]:
    items = await errands.run(iter, data)
    while (piece := await errands.run(next, items, _END)) is not _END:
        yield cast("bytes", piece)
