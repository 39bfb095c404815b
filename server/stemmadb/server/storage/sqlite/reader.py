"""The reader of a cut: the port's questions, each answered by the module that knows how."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from stemmadb.protocol.model.branch import Span
from stemmadb.protocol.model.commit import Commit, Identity
from stemmadb.protocol.model.facts import Fact
from stemmadb.protocol.model.ids import EMPTY_SPACE, BranchName, Did, EntityId, Hash, Local, TimeMs, Version
from stemmadb.protocol.model.state import BranchState, Known
from stemmadb.server.storage.port import LogFilter, Order, Place, Replay, Snapshot, StoredBlob, Tag, Tip
from stemmadb.server.storage.sqlite import blobs, choosing, history, listing, places, records, replaying
from stemmadb.server.storage.sqlite import identities as known_identities
from stemmadb.server.storage.sqlite.cut import Cut
from stemmadb.server.storage.sqlite.structure import Structure


class SqliteReader:
    """Implements `port.LogReader`."""

    def __init__(self, cut: Cut, space: Did) -> None:
        self._cut = cut
        self._space = space
        self._structure = Structure(cut)

    # -- structure

    def tip(self) -> Tip:
        return self._cut.tip

    def branch(self, name: str) -> BranchState | None:
        return self._structure.branch(name)

    def branches(self) -> list[BranchState]:
        return self._structure.branches()

    def tags(self) -> list[Tag]:
        return self._structure.tags()

    def floor(self) -> Version:
        return self._structure.floor()

    def last_write(self, branch: BranchName, upto: Version) -> Version:
        return self._structure.last_write(branch, upto)

    def version_at(self, time: TimeMs) -> Version:
        return self._cut.version_at(time)

    # -- exactly once

    def accepted(self, identities: Iterable[Identity]) -> dict[Identity, Known]:
        return known_identities.accepted(self._cut, identities)

    def highest_local(self, principal: Did, session: bytes) -> Local:
        return known_identities.highest_local(self._cut, principal, session)

    # -- delegations

    def revoked(self, names: Iterable[Hash] | None = None) -> dict[Hash, Version]:
        return self._structure.revoked(names)

    # -- entities

    def replays(
        self, spans: Sequence[Span], ids: Iterable[EntityId], since: Mapping[EntityId, Version] | None = None
    ) -> dict[EntityId, Replay]:
        return replaying.replays(self._cut, self._structure, spans, ids, since)

    def ids(self, prefix: str, after: EntityId | None, limit: int) -> list[EntityId]:
        return listing.ids(self._cut, prefix, after, limit)

    def changed(self, spans: Sequence[Span], prefix: str = "") -> Iterator[EntityId]:
        return listing.changed(self._cut, self._structure, spans, prefix)

    def changed_after(self, spans: Sequence[Span], prefix: str, after: Version, limit: int) -> list[EntityId]:
        return listing.changed_after(self._cut, self._structure, spans, prefix, after, limit)

    # -- history

    def log(self, wanted: LogFilter, limit: int) -> list[Commit]:
        versions = choosing.versions(self._cut, self._structure, wanted, limit)
        return list(records.commits_at(self._cut, self._space, versions).values())

    def facts(self, versions: Iterable[Version]) -> dict[Version, tuple[Fact, ...]]:
        return records.facts_in(self._cut, versions)

    def facts_of(
        self,
        id_: EntityId,
        spans: Sequence[Span] | None = None,
        *,
        order: Order = "oldest",
        after: Place | None = None,
        limit: int | None = None,
    ) -> list[Fact]:
        return history.facts_of(self._cut, self._structure, id_, spans, order=order, after=after, limit=limit)

    def authors(self, versions: Iterable[Version]) -> dict[Version, Did]:
        return records.authors(self._cut, versions)

    def commits(self, versions: Iterable[Version]) -> dict[Version, Commit]:
        return records.commits_at(self._cut, self._space, versions)

    def history(self, after: Version = EMPTY_SPACE) -> Iterator[tuple[Commit, tuple[Fact, ...]]]:
        return history.every(self._cut, self._space, after)

    # -- snapshots and blobs

    def snapshots(self) -> Iterator[Snapshot]:
        sql = (
            "SELECT b.name, e.id, s.place, s.body FROM snapshot AS s CROSS JOIN branch AS b ON b.branch = s.branch "
            "CROSS JOIN entity AS e ON e.entity = s.entity ORDER BY s.place"
        )
        for branch, id_, number, body in self._cut.stream(sql):
            yield Snapshot(branch, id_, places.place_of(number), body)

    def blob(self, hash_: Hash) -> StoredBlob | None:
        return blobs.find(self._cut, hash_)

    def blob_data(self, hash_: Hash) -> bytes | None:
        return blobs.data_of(self._cut, hash_)

    def blobs(self) -> Iterator[StoredBlob]:
        return blobs.every(self._cut)
