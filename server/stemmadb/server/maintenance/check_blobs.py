"""The bytes of stored blobs, from the database or from their files, and whether they give their names (BLOB-1)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

from stemmadb.protocol.errors import BlobMismatch, BrokenChain
from stemmadb.protocol.model.values import reference
from stemmadb.protocol.model.values.ids import Hash
from stemmadb.server.engine.blobs.blob_files import BlobFiles, blocks, hash_of
from stemmadb.server.maintenance.progress import Counter, OnProgress
from stemmadb.server.storage.port import LargeBlobs, LogReader, SpaceLog, StoredBlob


class BlobMissing(Exception):
    """There is a row for it, and no bytes."""


def check(log: SpaceLog, reader: LogReader, on_progress: OnProgress, large: LargeBlobs | None) -> int:
    """How many there are; `BrokenChain` if the bytes of one do not give its name, its size or its row's seal.

    Those in files are in the place given. One that is removed while this looks, by a server that goes on, is not
    missing.
    """
    counter = Counter(on_progress, "reading blobs", every=100)
    for blob in reader.blobs():
        why = _offence(reader, large, blob)
        if why is not None and is_there(log, blob.hash):
            place = f"blob {reference.write(blob.hash)}"
            raise BrokenChain(version=reader.tip().version, place=place, why=why)
        counter.add()
    counter.finish()
    return counter.done


def is_there(log: SpaceLog, hash_: Hash) -> bool:
    """Whether there is a row for it now."""
    with log.reader() as now:
        return now.blob(hash_) is not None


def _offence(reader: LogReader, large: LargeBlobs | None, blob: StoredBlob) -> str | None:
    if blob.in_file:
        if large is None:
            return "its bytes are said to be in a file, and there is no place for files"
        try:
            BlobFiles(large).check(blob.hash, blob.size)
        except BlobMismatch as wrong:
            return str(wrong.facts["why"])
        return None
    data = reader.blob_data(blob.hash)
    if data is None:
        return "its bytes are not there"
    if len(data) != blob.size or hash_of([data]) != blob.hash:
        return "its bytes do not give its name and its size"
    return None


def read(reader: LogReader, large: LargeBlobs | None, blob: StoredBlob) -> Iterator[bytes]:
    """The bytes of a blob a segment at a time; `BlobMissing` if there are none."""
    if not blob.in_file:
        data = reader.blob_data(blob.hash)
        if data is None:
            raise BlobMissing
        yield data
        return
    if large is None:
        raise BlobMissing
    with ExitStack() as stack:
        try:
            opened = stack.enter_context(large.open(blob.hash))
        except BlobMismatch:
            raise BlobMissing from None
        yield from blocks(opened.stream)
