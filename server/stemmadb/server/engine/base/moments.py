"""Moments: which spans of the log a branch at a version, at a time or at the head sees (QUERY-1, HISTORY-2)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec

from stemmadb.protocol.errors import Compacted, FutureVersion, UnknownBranch
from stemmadb.protocol.model.log import branch_spans
from stemmadb.protocol.model.log.branch_spans import Span
from stemmadb.protocol.model.log.state import BranchState
from stemmadb.protocol.model.values.ids import MAIN, BranchName, TimeMs, Version
from stemmadb.server.storage.port import LogReader


class ReadMoment(msgspec.Struct, frozen=True):
    """What a reader asks for: a branch at a version, at a time, or, with neither, at the head."""

    branch: BranchName = MAIN
    version: Version | None = None
    time: TimeMs | None = None


class ResolvedMoment(msgspec.Struct, frozen=True):
    """A moment that was found: the version it is as of, and the spans it sees, newest first."""

    branch: BranchName
    version: Version
    spans: tuple[Span, ...]


class BranchLookup(Mapping[BranchName, BranchState]):
    """The branches of a read view, looked up one at a time: a lineage needs few of them, however many there are."""

    def __init__(self, reader: LogReader, known: Mapping[str, BranchState] | None = None) -> None:
        self._reader = reader
        self._found: dict[str, BranchState | None] = dict(known or {})

    def __getitem__(self, name: BranchName) -> BranchState:
        if name not in self._found:
            self._found[name] = self._reader.branch(name)
        state = self._found[name]
        if state is None:
            raise KeyError(name)
        return state

    def __iter__(self) -> Iterator[BranchName]:
        return (state.name for state in self._reader.branches())

    def __len__(self) -> int:
        return len(self._reader.branches())


def resolve(reader: LogReader, moment: ReadMoment) -> ResolvedMoment:
    """Resolves a moment; `UnknownBranch`, `FutureVersion` or `Compacted` if it cannot be read (HISTORY-2)."""
    branches = BranchLookup(reader)
    state = branches.get(moment.branch)
    if state is None:
        raise UnknownBranch(branch=moment.branch)
    head = reader.tip().version
    version = _version(reader, moment, head)
    if version > head:
        raise FutureVersion(version=version, head=head)
    _check_retained(reader, state, version)
    return ResolvedMoment(moment.branch, version, branch_spans.lineage(branches, moment.branch, version))


def _version(reader: LogReader, moment: ReadMoment, head: Version) -> Version:
    if moment.version is not None:
        return moment.version
    return head if moment.time is None else reader.version_at(moment.time)


def _check_retained(reader: LogReader, state: BranchState, version: Version) -> None:
    """What lies below the floor can be read only where a tag keeps it (COMPACT-1).

    A branch that was deleted ends there, so that its last state can be below the floor however late it is read.
    """
    floor = reader.floor()
    seen = version if state.deleted is None else min(version, state.deleted)
    if seen < floor and not any(tag.branch == state.name and tag.version == version for tag in reader.tags()):
        raise Compacted(version=version, oldest=floor)
