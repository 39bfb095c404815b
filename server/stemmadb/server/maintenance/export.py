"""Export: writes a space with its whole history as a stream of lines, as of one read view, in bounded memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec

from stemmadb.protocol.errors import BrokenChain
from stemmadb.protocol.model.values import reference
from stemmadb.protocol.model.values.ids import Did, Hash, Version
from stemmadb.server.maintenance import check_blobs, records
from stemmadb.server.maintenance.check_blobs import BlobMissing
from stemmadb.server.maintenance.progress import Counter, OnProgress, quiet
from stemmadb.server.maintenance.stream import CHUNK_BYTES, FORMAT, BlobLine, ChunkLine, EndLine, Header, LineWriter
from stemmadb.server.storage.port import LogReader, SpaceLog, StoredBlob


class Exported(msgspec.Struct, frozen=True, kw_only=True):
    """What a stream holds: of which space, up to which commit, and how much."""

    space: Did
    version: Version
    hash: Hash
    facts: int
    blobs: int
    bytes: int


def export(log: SpaceLog, write: Callable[[bytes], object], *, on_progress: OnProgress = quiet) -> Exported:
    """Writes the stream of a space, as it is at one read view, while the space may go on.

    A blob that a compaction or an erasure takes away meanwhile is left out, as if it had been earlier.
    """
    lines = LineWriter(write)
    with log.reader() as reader:
        tip = reader.tip()
        hash_ = reference.write(tip.hash)
        lines.put(Header(format=FORMAT, space=log.space, version=tip.version, hash=hash_))
        facts = _put_commits(reader, lines, on_progress)
        blobs = _put_blobs(log, reader, lines, on_progress)
    lines.put(
        EndLine(end=True, commits=tip.version, facts=facts, blobs=blobs, hash=hash_, stream=lines.hash()),
    )
    return Exported(
        space=log.space, version=tip.version, hash=tip.hash, facts=facts, blobs=blobs, bytes=lines.bytes_written
    )


def _put_commits(reader: LogReader, lines: LineWriter, on_progress: OnProgress) -> int:
    counter = Counter(on_progress, "writing commits", reader.tip().version)
    facts = 0
    for commit, its_facts in reader.history():
        for line in records.lines_of(commit, its_facts):
            lines.put(line)
        facts += len(its_facts)
        counter.add()
    counter.finish()
    return facts


def _put_blobs(log: SpaceLog, reader: LogReader, lines: LineWriter, on_progress: OnProgress) -> int:
    counter = Counter(on_progress, "writing blobs", every=100)
    for blob in reader.blobs():
        try:
            _put_blob(reader, log.directory, blob, lines)
        except BlobMissing:
            if check_blobs.is_there(log, blob.hash):
                why = "there is a row for it, and its bytes are gone"
                place = f"blob {reference.write(blob.hash)}"
                raise BrokenChain(version=reader.tip().version, place=place, why=why) from None
        else:
            counter.add()
    counter.finish()
    return counter.done


def _put_blob(reader: LogReader, directory: Path | None, blob: StoredBlob, lines: LineWriter) -> None:
    parts = chunks(check_blobs.read(reader, directory, blob))
    first = next(parts, b"")  # before the line of the blob: it may be gone
    lines.put(
        BlobLine(
            hash=reference.write(blob.hash), size=blob.size, content_type=blob.content_type, created=blob.created
        )
    )
    at = 0
    while first:
        lines.put(ChunkLine(at=at, data=first))
        at += len(first)
        first = next(parts, b"")


def chunks(blocks: Iterator[bytes]) -> Iterator[bytes]:
    """The same bytes, cut so that each piece fits in a line."""
    waiting = bytearray()
    for block in blocks:
        waiting += block
        while len(waiting) >= CHUNK_BYTES:
            yield bytes(waiting[:CHUNK_BYTES])
            del waiting[:CHUNK_BYTES]
    if waiting:
        yield bytes(waiting)
