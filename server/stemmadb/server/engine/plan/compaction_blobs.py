"""Blobs that nothing refers to: found by the text of their references, dropped in the writer's turn (BLOB-2)."""

from __future__ import annotations

import re
from collections.abc import Set as AbstractSet
from functools import partial
from typing import Final

from stemmadb.protocol.model.values import reference
from stemmadb.protocol.model.values.ids import Hash, TimeMs, Version
from stemmadb.server.engine.base.space_port import SpaceApi
from stemmadb.server.engine.write.scrub import remove_files, scrub
from stemmadb.server.storage.port import LogFilter, LogReader, SpaceLog, StoredBlob

UPLOAD_SAFE_MS: Final = 24 * 60 * 60 * 1000
NOTES_PAGE: Final = 1_000
_REFERENCE: Final = re.compile(rb"b3:[a-z2-7]{51}[aq]")


def named_in(data: bytes | None) -> set[Hash]:
    """The blobs that bytes name. A text stands in msgpack as it is, so no body needs to be decoded."""
    return {reference.read(found.decode()) for found in _REFERENCE.findall(data)} if data else set()


def removable(reader: LogReader, now: TimeMs) -> set[Hash]:
    """The blobs that are old enough to go."""
    return {blob.hash for blob in reader.blobs() if _is_old(blob, now)}


def size_of(reader: LogReader, hashes: AbstractSet[Hash]) -> int:
    """How many bytes the blobs have together."""
    return sum(blob.size for hash_ in hashes if (blob := reader.blob(hash_)) is not None)


def named_in_notes(reader: LogReader) -> set[Hash]:
    """The blobs that messages and metadata name."""
    named: set[Hash] = set()
    after = Version(0)
    while page := reader.log(LogFilter(order="oldest", after=after), NOTES_PAGE):
        named.update(*(named_in(commit.note) for commit in page))
        after = page[-1].version
    return named


async def drop(space: SpaceApi, hashes: AbstractSet[Hash], *, after: Version, now: TimeMs) -> tuple[int, int]:
    """Drops those that nothing has named since a version; how many, and their bytes.

    Most of what was written since is looked through before the writer's turn, the last of it within: then nothing is
    written meanwhile.
    """
    if not hashes:
        return 0, 0
    named, upto = await space.read(partial(_named_since, after=after))
    return await space.in_turn(partial(_drop, hashes=hashes - named, after=upto, now=now))


def _drop(log: SpaceLog, *, hashes: AbstractSet[Hash], after: Version, now: TimeMs) -> tuple[int, int]:
    with log.reader() as reader:
        named, _ = _named_since(reader, after=after)
        found = [blob for hash_ in hashes - named if (blob := reader.blob(hash_)) is not None and _is_old(blob, now)]
    dropped = [blob.hash for blob in found]
    log.drop_blobs(dropped)
    remove_files(log, dropped)
    if not all(blob.in_file for blob in found):
        scrub(log)  # the compaction has scrubbed before these went
    return len(dropped), sum(blob.size for blob in found)


def _named_since(reader: LogReader, *, after: Version) -> tuple[set[Hash], Version]:
    named: set[Hash] = set()
    for commit, facts in reader.history(after):
        named.update(named_in(commit.note), *(named_in(fact.body) for fact in facts))
    return named, reader.tip().version


def _is_old(blob: StoredBlob, now: TimeMs) -> bool:
    return blob.created <= now - UPLOAD_SAFE_MS
