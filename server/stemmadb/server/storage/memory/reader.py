"""One read view of a log in memory: every answer is a plain loop over what the log held when it was opened."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

from stemmadb.protocol.model.log import branch_spans as branches
from stemmadb.protocol.model.log import replay
from stemmadb.protocol.model.log.branch_spans import Span
from stemmadb.protocol.model.log.commit_record import NO_ARGUMENTS, Commit, Identity, LocalIdentity
from stemmadb.protocol.model.log.facts import Fact
from stemmadb.protocol.model.log.state import BranchState, KnownCommit
from stemmadb.protocol.model.values.ids import EMPTY_SPACE, BranchName, Did, EntityId, Hash, Local, TimeMs, Version
from stemmadb.server.storage import last_facts
from stemmadb.server.storage.memory.contents import MemoryContents
from stemmadb.server.storage.port import (
    BoundedReplays,
    FactPosition,
    LastFact,
    LogFilter,
    Order,
    Recorded,
    Replay,
    Snapshot,
    StoredBlob,
    StoredTag,
    Tip,
)

Item = TypeVar("Item")


class MemoryReader:
    """Implements `LogReader` on contents that never change."""

    def __init__(self, contents: MemoryContents) -> None:
        self._contents = contents

    # ------------------------------------------------------------ structure

    def tip(self) -> Tip:
        return self._contents.tip

    def branch(self, name: str) -> BranchState | None:
        return self._contents.branches.get(name)

    def branch_states(self, names: Iterable[str]) -> dict[str, BranchState]:
        branches = self._contents.branches
        return {name: branches[name] for name in names if name in branches}

    def branches(self) -> list[BranchState]:
        return sorted(self._contents.branches.values(), key=lambda state: state.name)

    def tags(self) -> list[StoredTag]:
        return sorted(self._contents.tags.values(), key=lambda tag: tag.name)

    def floor(self) -> Version:
        return self._contents.floor

    def last_write(self, branch: BranchName, upto: Version) -> Version:
        for commit in reversed(self._contents.commits):
            if commit.version <= upto and _is_on(commit, branch):
                return commit.version
        return EMPTY_SPACE

    def last_writes(self, asked: Iterable[tuple[BranchName, Version]]) -> dict[tuple[BranchName, Version], Version]:
        return {(branch, upto): self.last_write(branch, upto) for branch, upto in asked}

    def version_at(self, time: TimeMs) -> Version:
        for commit in reversed(self._contents.commits):
            if commit.time <= time:
                return commit.version
        return EMPTY_SPACE

    def versions_at(self, times: Sequence[TimeMs]) -> list[Version]:
        return [self.version_at(time) for time in times]

    # ------------------------------------------------------------ exactly once

    def accepted(self, identities: Iterable[Identity]) -> dict[Identity, KnownCommit]:
        known = self._contents.known
        return {identity: known[identity] for identity in identities if identity in known}

    def highest_locals(self, sessions: Iterable[tuple[Did, bytes]]) -> dict[tuple[Did, bytes], Local]:
        return {session: self._contents.highest.get(session, Local(0)) for session in sessions}

    # ------------------------------------------------------------ delegations

    def revoked(self, names: Iterable[Hash] | None = None) -> dict[Hash, Version]:
        revoked = self._contents.revoked
        return dict(revoked) if names is None else {name: revoked[name] for name in names if name in revoked}

    # ------------------------------------------------------------ entities

    def replays(
        self, spans: Sequence[Span], ids: Iterable[EntityId], since: Mapping[EntityId, Version] | None = None
    ) -> dict[EntityId, Replay]:
        found: dict[EntityId, Replay] = {}
        for id_ in ids:
            facts = self._seen(id_, spans)
            if facts:
                found[id_] = self._replay(facts, None if since is None else since.get(id_))
        return found

    def replays_upto(self, spans: Sequence[Span], ids: Iterable[EntityId], bytes_max: int) -> BoundedReplays:
        wanted, found, size = list(dict.fromkeys(ids)), dict[EntityId, Replay](), 0
        for count, id_ in enumerate(wanted):
            if count and size >= bytes_max:
                return BoundedReplays(found, tuple(wanted[count:]))
            found |= self.replays(spans, [id_])
            size += found[id_].weight if id_ in found else 0
        return BoundedReplays(found)

    def _replay(self, facts: Sequence[Fact], since: Version | None) -> Replay:
        start, snapshot = _beginning(facts, self._contents.snapshots)
        start = min(start, _last_change(facts))
        if since is not None:
            start = min(start, sum(fact.version <= since for fact in facts))
        return Replay(snapshot, tuple(map(_recorded, facts[start:])))

    def last_facts(self, spans: Sequence[Span], ids: Iterable[EntityId]) -> dict[EntityId, LastFact]:
        return last_facts.from_replays(self.replays(spans, ids))

    def ids(self, prefix: str, after: EntityId | None, limit: int) -> list[EntityId]:
        ids = [id_ for id_ in self._contents.places if id_.startswith(prefix)]
        ids.sort(key=str.encode)
        return [id_ for id_ in ids if after is None or id_.encode() > after.encode()][:limit]

    def changed(self, spans: Sequence[Span], prefix: str = "") -> Iterator[EntityId]:
        for id_ in self._contents.places:
            if id_.startswith(prefix) and self._seen(id_, spans):
                yield id_

    def changed_after(self, spans: Sequence[Span], prefix: str, after: Version, limit: int) -> list[EntityId]:
        later = [id_ for id_ in self.changed(spans, prefix) if self._seen(id_, spans)[-1].version > after]
        return later[:limit]

    def _seen(self, id_: EntityId, spans: Sequence[Span]) -> list[Fact]:
        """The facts of an entity that the spans see, oldest first."""
        facts = (self._contents.facts[place] for place in self._contents.places.get(id_, ()))
        return [fact for fact in facts if branches.visible(spans, fact.branch, fact.version)]

    # ------------------------------------------------------------ history

    def log(self, wanted: LogFilter, limit: int) -> list[Commit]:
        chosen = [commit for commit in self._contents.commits if self._passes(commit, wanted)]
        return _page(chosen, wanted.order, limit)

    def log_times(self, wanted: LogFilter, limit: int) -> list[tuple[Version, TimeMs]]:
        return [(commit.version, commit.time) for commit in self.log(wanted, limit)]

    def times(self, versions: Iterable[Version]) -> dict[Version, TimeMs]:
        return {version: commit.time for version, commit in self.commits(versions).items()}

    def hashes(self, versions: Iterable[Version]) -> dict[Version, Hash]:
        return {version: commit.hash for version, commit in self.commits(versions).items()}

    def _passes(self, commit: Commit, wanted: LogFilter) -> bool:
        return (
            (wanted.branch is None or _is_on(commit, wanted.branch))
            and (wanted.author is None or commit.author == wanted.author)
            and (wanted.session is None or _session(commit) == wanted.session)
            and (wanted.prefix is None or self._writes_under(commit, wanted.prefix))
            and (wanted.since is None or commit.time >= wanted.since)
            and (wanted.until is None or commit.time <= wanted.until)
            and (wanted.upto is None or commit.version <= wanted.upto)
            and (wanted.after is None or _follows(commit.version, wanted.after, wanted.order))
            and (not wanted.structural or commit.arguments != NO_ARGUMENTS)
            and (not wanted.ordinary or commit.arguments == NO_ARGUMENTS)
        )

    def _writes_under(self, commit: Commit, prefix: str) -> bool:
        return any(fact.id.startswith(prefix) for fact in self._contents.facts_at(commit.version))

    def facts(self, versions: Iterable[Version]) -> dict[Version, tuple[Fact, ...]]:
        with_facts = [version for version, commit in self.commits(versions).items() if commit.facts]
        return {version: self._contents.facts_at(version) for version in with_facts}

    def facts_of(
        self,
        id_: EntityId,
        spans: Sequence[Span] | None = None,
        *,
        order: Order = "oldest",
        after: FactPosition | None = None,
        limit: int | None = None,
    ) -> list[Fact]:
        places = self._contents.places.get(id_, ())
        facts = [self._contents.facts[place] for place in places if after is None or _follows(place, after, order)]
        seen = [fact for fact in facts if spans is None or branches.visible(spans, fact.branch, fact.version)]
        return _page(seen, order, limit)

    def authors(self, versions: Iterable[Version]) -> dict[Version, Did]:
        return {version: commit.author for version, commit in self.commits(versions).items()}

    def commits(self, versions: Iterable[Version]) -> dict[Version, Commit]:
        return {version: commit for version in versions if (commit := self._contents.commit(version)) is not None}

    def history(self, after: Version = EMPTY_SPACE) -> Iterator[tuple[Commit, tuple[Fact, ...]]]:
        for commit in self._contents.commits[after:]:
            yield commit, self._contents.facts_at(commit.version)

    # ------------------------------------------------------------ snapshots and blobs

    def snapshots(self) -> Iterator[Snapshot]:
        yield from self._contents.snapshots.values()

    def blob(self, hash_: Hash) -> StoredBlob | None:
        stored = self._contents.blobs.get(hash_)
        return None if stored is None else stored[0]

    def blob_data(self, hash_: Hash) -> bytes | None:
        stored = self._contents.blobs.get(hash_)
        return None if stored is None else stored[1]

    def blobs(self) -> Iterator[StoredBlob]:
        for blob, _ in self._contents.blobs.values():
            yield blob


def _is_on(commit: Commit, branch: BranchName) -> bool:
    """Whether it was made on the branch or, being space-wide, wrote a fact on it."""
    return commit.branch == branch or branch in commit.fact_branches


def _session(commit: Commit) -> bytes | None:
    return commit.identity.session if isinstance(commit.identity, LocalIdentity) else None


def _follows(one: Version | FactPosition, other: Version | FactPosition, order: Order) -> bool:
    """Whether it comes later in the order asked for; both are of one type."""
    return one > other if order == "oldest" else one < other  # type: ignore[operator]


def _page(oldest_first: list[Item], order: Order, limit: int | None) -> list[Item]:
    return (oldest_first if order == "oldest" else oldest_first[::-1])[:limit]


def _beginning(facts: Sequence[Fact], snapshots: Mapping[FactPosition, Snapshot]) -> tuple[int, Snapshot | None]:
    """The last fact with a whole value, its own or in a snapshot taken right after it; the first if there is none."""
    places = [FactPosition(fact.version, fact.index) for fact in facts]
    whole = [index for index, fact in enumerate(facts) if places[index] in snapshots or replay.begins_here(fact)]
    start = max(whole, default=0)
    return start, snapshots.get(places[start])


def _last_change(facts: Sequence[Fact]) -> int:
    """Where the last fact that is not a checkpoint is; nothing begins with a checkpoint (FACT-1)."""
    return max(index for index, fact in enumerate(facts) if fact.kind != "checkpoint")


def _recorded(fact: Fact) -> Recorded:
    return Recorded(fact.version, fact.index, fact.branch, fact.id, fact.kind, fact.hash, fact.body)
