"""The merges of a space, read from its log once: it only grows (MERGE-2)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Final

import msgspec

from stemmadb.protocol.model.log.ancestry import Last, MergeEdge
from stemmadb.protocol.model.log.commit_record import Commit, Compact, Merge
from stemmadb.protocol.model.values.ids import EMPTY_SPACE, BranchName, EntityId, Version
from stemmadb.server.storage.port import LogFilter, LogReader

PAGE: Final = 1_000
LOOKED_UP_MAX: Final = 65_536
_NO_RECORDS: Final[Mapping[Version, Merge]] = {}
_NO_RESOLUTIONS: Final[Mapping[EntityId, tuple[Version, ...]]] = {}


class Merges(msgspec.Struct, frozen=True):
    """All merges up to a version: as edges, oldest first, by their version, and by the entities they resolved.

    The records are without their conflicts, which nothing is decided on.
    """

    upto: Version = EMPTY_SPACE
    edges: tuple[MergeEdge, ...] = ()
    records: Mapping[Version, Merge] = _NO_RECORDS
    resolved: Mapping[EntityId, tuple[Version, ...]] = _NO_RESOLUTIONS
    compactions: frozenset[Version] = frozenset()

    def last_change(self, reader: LogReader) -> Last:
        """The last commit that changed a branch or merged into it: a checkpoint of a compaction changes nothing."""

        @lru_cache(maxsize=LOOKED_UP_MAX)
        def last(branch: BranchName, upto: Version) -> Version:
            version = reader.last_write(branch, upto)
            while version in self.compactions:
                version = reader.last_write(branch, Version(version - 1))
            return version

        return last


class KnownMerges:
    """What was read so far. A read view may find later merges in it; none that it sees is missing."""

    def __init__(self) -> None:
        self._known = Merges()

    def seen_by(self, reader: LogReader) -> Merges:
        """Reads on from where the last one ended. Two at a time do the same work; either result is right."""
        known, head = self._known, reader.tip().version
        if known.upto < head:
            known = _extended(known, reader, head)
            self._known = known
        return known


def _extended(known: Merges, reader: LogReader, head: Version) -> Merges:
    edges, records, resolved = list(known.edges), dict(known.records), dict(known.resolved)
    compactions = set(known.compactions)
    for commit in _structural(reader, known.upto):
        details = commit.details
        if isinstance(details, Compact):
            compactions.add(commit.version)
        elif isinstance(details, Merge):
            assert commit.branch is not None, "a merge has a target"
            version = commit.version
            edges.append(MergeEdge(commit.branch, version, details.source, details.source_version))
            records[version] = msgspec.structs.replace(details, conflicts=())
            for id_ in details.resolved:
                resolved[id_] = (*resolved.get(id_, ()), version)
    return Merges(head, tuple(edges), records, resolved, frozenset(compactions))


def _structural(reader: LogReader, after: Version) -> Iterator[Commit]:
    while page := reader.log(LogFilter(structural=True, order="oldest", after=after), PAGE):
        yield from page
        after = page[-1].version
