"""The reader of a read view: the port's questions, each answered by the module that knows how."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from stemmadb.protocol.model.log.branch_spans import Span
from stemmadb.protocol.model.log.commit_record import Commit, Identity
from stemmadb.protocol.model.log.facts import Fact
from stemmadb.protocol.model.log.state import BranchState, KnownCommit
from stemmadb.protocol.model.values.ids import EMPTY_SPACE, BranchName, Did, EntityId, Hash, Local, TimeMs, Version
from stemmadb.server.storage import positions
from stemmadb.server.storage.port import (
    BoundedReplays,
    FactPosition,
    LastFact,
    LogFilter,
    Order,
    Replay,
    Snapshot,
    StoredBlob,
    StoredTag,
    Tip,
)
from stemmadb.server.storage.sqlite import blobs
from stemmadb.server.storage.sqlite.read import commit_filter, history, last_facts, listing, records, replay
from stemmadb.server.storage.sqlite.read import identities as known_identities
from stemmadb.server.storage.sqlite.read.read_view import ReadView
from stemmadb.server.storage.sqlite.read.stored_structure import KnownStructure, StoredStructure


class SqliteReader:
    """Implements `port.LogReader`."""

    def __init__(self, view: ReadView, space: Did, known: KnownStructure) -> None:
        self._view = view
        self._space = space
        self._structure = StoredStructure(view, known)

    # -- structure

    def tip(self) -> Tip:
        return self._view.tip

    def branch(self, name: str) -> BranchState | None:
        return self._structure.branch(name)

    def branch_states(self, names: Iterable[str]) -> dict[str, BranchState]:
        found = {name: self._structure.branch(name) for name in names}
        return {name: state for name, state in found.items() if state is not None}

    def branches(self) -> list[BranchState]:
        return self._structure.branches()

    def tags(self) -> list[StoredTag]:
        return self._structure.tags()

    def floor(self) -> Version:
        return self._structure.floor()

    def last_write(self, branch: BranchName, upto: Version) -> Version:
        return self._structure.last_write(branch, upto)

    def last_writes(self, asked: Iterable[tuple[BranchName, Version]]) -> dict[tuple[BranchName, Version], Version]:
        return {(branch, upto): self._structure.last_write(branch, upto) for branch, upto in asked}

    def version_at(self, time: TimeMs) -> Version:
        return self._view.version_at(time)

    def versions_at(self, times: Sequence[TimeMs]) -> list[Version]:
        return self._view.versions_at(times)

    # -- exactly once

    def accepted(self, identities: Iterable[Identity]) -> dict[Identity, KnownCommit]:
        return known_identities.accepted(self._view, identities)

    def highest_locals(self, sessions: Iterable[tuple[Did, bytes]]) -> dict[tuple[Did, bytes], Local]:
        return {session: known_identities.highest_local(self._view, *session) for session in sessions}

    # -- delegations

    def revoked(self, names: Iterable[Hash] | None = None) -> dict[Hash, Version]:
        return self._structure.revoked(names)

    # -- entities

    def replays(
        self, spans: Sequence[Span], ids: Iterable[EntityId], since: Mapping[EntityId, Version] | None = None
    ) -> dict[EntityId, Replay]:
        return replay.replays(self._view, self._structure, spans, list(ids), since).found

    def replays_upto(self, spans: Sequence[Span], ids: Iterable[EntityId], bytes_max: int) -> BoundedReplays:
        return replay.replays(self._view, self._structure, spans, list(ids), None, bytes_max)

    def last_facts(self, spans: Sequence[Span], ids: Iterable[EntityId]) -> dict[EntityId, LastFact]:
        return last_facts.last_facts(self._view, self._structure, spans, ids)

    def ids(self, prefix: str, after: EntityId | None, limit: int) -> list[EntityId]:
        return listing.ids(self._view, prefix, after, limit)

    def changed(self, spans: Sequence[Span], prefix: str = "") -> Iterator[EntityId]:
        return listing.changed(self._view, self._structure, spans, prefix)

    def changed_after(self, spans: Sequence[Span], prefix: str, after: Version, limit: int) -> list[EntityId]:
        return listing.changed_after(self._view, self._structure, spans, prefix, after, limit)

    # -- history

    def log(self, wanted: LogFilter, limit: int) -> list[Commit]:
        versions = commit_filter.versions(self._view, self._structure, wanted, limit)
        return list(records.commits_at(self._view, self._space, versions).values())

    def log_times(self, wanted: LogFilter, limit: int) -> list[tuple[Version, TimeMs]]:
        return commit_filter.times(self._view, self._structure, wanted, limit)

    def times(self, versions: Iterable[Version]) -> dict[Version, TimeMs]:
        return records.times(self._view, versions)

    def hashes(self, versions: Iterable[Version]) -> dict[Version, Hash]:
        return records.hashes(self._view, versions)

    def facts(self, versions: Iterable[Version]) -> dict[Version, tuple[Fact, ...]]:
        return records.facts_in(self._view, versions)

    def facts_of(
        self,
        id_: EntityId,
        spans: Sequence[Span] | None = None,
        *,
        order: Order = "oldest",
        after: FactPosition | None = None,
        limit: int | None = None,
    ) -> list[Fact]:
        return history.facts_of(self._view, self._structure, id_, spans, order=order, after=after, limit=limit)

    def authors(self, versions: Iterable[Version]) -> dict[Version, Did]:
        return records.authors(self._view, versions)

    def commits(self, versions: Iterable[Version]) -> dict[Version, Commit]:
        return records.commits_at(self._view, self._space, versions)

    def history(self, after: Version = EMPTY_SPACE) -> Iterator[tuple[Commit, tuple[Fact, ...]]]:
        return history.every(self._view, self._space, after)

    # -- snapshots and blobs

    def snapshots(self) -> Iterator[Snapshot]:
        sql = (
            "SELECT b.name, e.id, s.place, s.body FROM snapshot AS s CROSS JOIN branch AS b ON b.branch = s.branch "
            "CROSS JOIN entity AS e ON e.entity = s.entity ORDER BY s.place"
        )
        for branch, id_, number, body in self._view.stream(sql):
            yield Snapshot(branch, id_, positions.place_of(number), body)

    def blob(self, hash_: Hash) -> StoredBlob | None:
        return blobs.find(self._view, hash_)

    def blob_data(self, hash_: Hash) -> bytes | None:
        return blobs.data_of(self._view, hash_)

    def blobs(self) -> Iterator[StoredBlob]:
        return blobs.every(self._view)
