"""Export: writes a space with its whole history as a stream of lines, as of one version, in bounded memory."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import Final

import msgspec

from stemmadb.protocol.errors import BrokenChain, Unavailable
from stemmadb.protocol.model.log.commit_record import Commit, Compact, Erase
from stemmadb.protocol.model.log.erased_bodies import ErasedBodies
from stemmadb.protocol.model.log.facts import NO_BODY, Fact
from stemmadb.protocol.model.values import reference
from stemmadb.protocol.model.values.ids import EMPTY_SPACE, Did, Hash, Version
from stemmadb.server.maintenance import check_blobs, records
from stemmadb.server.maintenance.check_blobs import BlobMissing
from stemmadb.server.maintenance.progress import Counter, OnProgress, quiet
from stemmadb.server.maintenance.stream import CHUNK_BYTES, FORMAT, BlobLine, ChunkLine, EndLine, Header, LineWriter
from stemmadb.server.storage.port import LargeBlobs, LogFilter, LogReader, SpaceLog, StoredBlob

STRUCTURAL_PAGE: Final = 1_000


class Exported(msgspec.Struct, frozen=True, kw_only=True):
    """What a stream holds: of which space, up to which commit, and how much."""

    space: Did
    version: Version
    hash: Hash
    facts: int
    blobs: int
    bytes: int


def export(
    log: SpaceLog,
    write: Callable[[bytes], object],
    *,
    after: Version = EMPTY_SPACE,
    without: Collection[Hash] = (),
    on_progress: OnProgress = quiet,
) -> Exported:
    """Writes the stream of a space, as it is at one version, while the space may go on.

    `after` leaves out the commits up to a version, and `without` blobs, which streams before this one have.

    A blob that a compaction or an erasure takes away meanwhile is left out, as if it had been earlier. `Unavailable`
    if one took away what the stream has no record of: a later export has it.
    """
    lines = LineWriter(write)
    with log.reader() as reader:
        tip = reader.tip()
        hash_ = reference.write(tip.hash)
        lines.put(Header(format=FORMAT, space=log.space, version=tip.version, hash=hash_, after=after))
        facts = _put_commits(log, reader, after, lines, on_progress)
        blobs = _put_blobs(log, reader, frozenset(without), lines, on_progress)
    commits = tip.version - after
    lines.put(EndLine(end=True, commits=commits, facts=facts, blobs=blobs, hash=hash_, stream=lines.hash()))
    return Exported(
        space=log.space, version=tip.version, hash=tip.hash, facts=facts, blobs=blobs, bytes=lines.bytes_written
    )


def has_destroyed(reader: LogReader, after: Version) -> bool:
    """Whether something was erased or compacted after a version."""
    while page := reader.log(LogFilter(order="oldest", after=after, structural=True), STRUCTURAL_PAGE):
        if any(isinstance(commit.details, Erase | Compact) for commit in page):
            return True
        after = page[-1].version
    return False


def _put_commits(log: SpaceLog, reader: LogReader, after: Version, lines: LineWriter, on_progress: OnProgress) -> int:
    tip = reader.tip().version
    counter = Counter(on_progress, "writing commits", tip - after)
    gone = ErasedBodies()
    facts = 0
    for commit, its_facts in reader.history(after):
        for line in records.lines_of(commit, its_facts):
            lines.put(line)
        _note_gone(gone, commit, its_facts)
        facts += len(its_facts)
        counter.add()
    counter.finish()
    if lost := gone.first():
        with log.reader() as now:
            if has_destroyed(now, tip):
                raise Unavailable(f"Something of {log.space} was erased or compacted meanwhile. Try again.")
        why = "its body is gone, and no erasure or compaction explains it"
        raise BrokenChain(version=lost[0], place=lost[1], why=why)
    return facts


def _note_gone(gone: ErasedBodies, commit: Commit, its_facts: tuple[Fact, ...]) -> None:
    """What is gone must be explained by a later commit of the stream: whoever reads it wants to know (FACT-2)."""
    if commit.note is None and commit.note_digest != NO_BODY:
        gone.add(commit.version, "commit", None)
    for index, fact in enumerate(its_facts):
        if fact.is_gone:
            gone.add(commit.version, f"fact {index} ({fact.id})", fact.id)
    details = commit.details
    if isinstance(details, Erase):
        gone.erased(details)
    elif isinstance(details, Compact):
        gone.compacted(details)


def _put_blobs(
    log: SpaceLog, reader: LogReader, without: Collection[Hash], lines: LineWriter, on_progress: OnProgress
) -> int:
    counter = Counter(on_progress, "writing blobs", every=100)
    for blob in reader.blobs():
        if blob.hash in without:
            continue
        try:
            _put_blob(reader, log.large_blobs, blob, lines)
        except BlobMissing:
            if check_blobs.is_there(log, blob.hash):
                why = "there is a row for it, and its bytes are gone"
                place = f"blob {reference.write(blob.hash)}"
                raise BrokenChain(version=reader.tip().version, place=place, why=why) from None
        else:
            counter.add()
    counter.finish()
    return counter.done


def _put_blob(reader: LogReader, large: LargeBlobs | None, blob: StoredBlob, lines: LineWriter) -> None:
    parts = chunks(check_blobs.read(reader, large, blob))
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
