"""Gathering: what a batch needs and memory lacks, read from one read view of the log in one executor call.

Runs in a worker thread and touches nothing but its arguments.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final, TypeAlias

import msgspec

from stemmadb.protocol.model.log import branch_spans, changes
from stemmadb.protocol.model.log.branch_spans import Span
from stemmadb.protocol.model.log.changes import Changes
from stemmadb.protocol.model.log.commit_record import Identity
from stemmadb.protocol.model.log.state import BranchState, EntityState, KnownCommit, Missing, empty_state
from stemmadb.protocol.model.values import body
from stemmadb.protocol.model.values.ids import BranchName, Did, EntityId, Hash, Local, Version
from stemmadb.server.engine.base import states
from stemmadb.server.engine.base.head_cache import Key
from stemmadb.server.engine.base.moments import BranchLookup
from stemmadb.server.engine.write.needs import UNREAD, Prefix
from stemmadb.server.storage.port import FactPosition, LogReader, Recorded, Replay, SpaceLog, Tip

Session: TypeAlias = tuple[Did, bytes]

PAGE_FACTS: Final = 16
"""Facts of one entity that are in memory together while they are only counted."""


class ReadsNeeded(msgspec.Struct):
    """What to read; `heads` name for each entity the version from which its changes must be known."""

    tip: bool = False
    heads: dict[BranchName, dict[EntityId, Version]] = {}
    prefixes: dict[Prefix, int] = {}
    branches: list[str] = []
    tags: list[str] = []
    delegations: list[Hash] = []
    sessions: set[Session] = set()
    identities: list[Identity] = []
    needs_durable: bool = False
    """Whether it can be read only once nothing decided is in flight."""

    def __bool__(self) -> bool:
        named = self.branches or self.tags or self.delegations or self.sessions or self.identities
        return self.tip or bool(self.heads or self.prefixes or named)


class ChangedIds(msgspec.Struct, frozen=True):
    """Entities that changed under a prefix; there may be more unless it is whole."""

    ids: list[EntityId]
    is_whole: bool


class Gathered(msgspec.Struct):
    """What was read, all of it as of one version; None stands for what does not exist."""

    tip: Tip
    heads: dict[Key, EntityState]
    listed: dict[Prefix, ChangedIds]
    branches: dict[str, BranchState | None]
    tags: dict[str, Version | None]
    revoked: Collection[Hash]
    highest: dict[Session, Local]
    accepted: dict[Identity, KnownCommit]


def gather(log: SpaceLog, wanted: ReadsNeeded, scan_facts_max: int) -> Gathered:
    """All that is wanted, on one read view."""
    with log.reader() as reader:
        gathering = _Gathering(reader, scan_facts_max, wanted)
        return Gathered(
            tip=gathering.tip,
            listed=(listed := gathering.listed(wanted.prefixes)),
            heads=gathering.heads(_with_listed(wanted.heads, listed)),
            branches={name: gathering.branches.get(name) for name in wanted.branches},
            tags=_tags(reader, wanted.tags),
            revoked=reader.revoked(wanted.delegations) if wanted.delegations else (),
            highest=reader.highest_locals(wanted.sessions) if wanted.sessions else {},
            accepted=reader.accepted(wanted.identities) if wanted.identities else {},
        )


def _with_listed(
    heads: Mapping[BranchName, Mapping[EntityId, Version]], listed: Mapping[Prefix, ChangedIds]
) -> dict[BranchName, dict[EntityId, Version]]:
    """The heads wanted by name and those that a prefix led to."""
    all_ = {name: dict(ids) for name, ids in heads.items()}
    for prefix, found in listed.items():
        ids = all_.setdefault(prefix.branch, {})
        for id_ in found.ids:
            ids[id_] = min(prefix.after, ids.get(id_, UNREAD))
    return all_


def _tags(reader: LogReader, names: Sequence[str]) -> dict[str, Version | None]:
    if not names:
        return {}
    there = {tag.name: tag.version for tag in reader.tags()}
    return {name: there.get(name) for name in names}


class _Gathering:
    """Reads from one read view, branch by branch."""

    def __init__(self, reader: LogReader, scan_facts_max: int, wanted: ReadsNeeded) -> None:
        self._reader = reader
        named = {*wanted.branches, *wanted.heads, *(prefix.branch for prefix in wanted.prefixes)}
        self.branches = reader.branch_states(named) if named else {}
        self._branches = BranchLookup(reader, self.branches)
        self._scan_facts_max = scan_facts_max
        self.tip = reader.tip()

    def listed(self, prefixes: Mapping[Prefix, int]) -> dict[Prefix, ChangedIds]:
        """What lies beyond `scan_facts_max` need not be found: it counts as overlap (COMMIT-2)."""
        listed = {}
        for prefix, wanted in prefixes.items():
            limit = max(1, min(wanted, self._scan_facts_max))
            ids = self._reader.changed_after(self._spans(prefix.branch), prefix.prefix, prefix.after, limit)
            listed[prefix] = ChangedIds(ids, is_whole=len(ids) < limit)
        return listed

    def heads(self, wanted: Mapping[BranchName, Mapping[EntityId, Version]]) -> dict[Key, EntityState]:
        """The heads on each branch that there is; those of a branch there is not are never looked at."""
        found: dict[tuple[Key, Version], Replay] = {}
        heads: dict[Key, EntityState] = {}
        for name, ids in wanted.items():
            if name in self._branches:
                since = self._since(name, ids)
                replays = self._reader.replays(self._spans(name), ids, since)
                for id_ in ids:
                    if id_ in replays:
                        found[(name, id_), since.get(id_, UNREAD)] = replays[id_]
                    else:
                        heads[name, id_] = empty_state(id_)
        authors = self._reader.authors({fact.version for one in found.values() for fact in one.facts})
        for (key, after), replayed in found.items():
            heads[key] = head_of(replayed, after, authors, self._scan_facts_max)
        return heads

    def _spans(self, name: BranchName) -> tuple[Span, ...]:
        return branch_spans.lineage(self._branches, name, self.tip.version) if name in self._branches else ()

    def _since(self, name: BranchName, ids: Mapping[EntityId, Version]) -> dict[EntityId, Version]:
        """From which version on the changes are wanted, where they are; never more than are scanned (COMMIT-2)."""
        oldest = self.tip.version - self._scan_facts_max
        return {
            id_: version if version >= oldest else self._bounded(name, id_, version)
            for id_, version in ids.items()
            if version != UNREAD
        }

    def _bounded(self, name: BranchName, id_: EntityId, version: Version) -> Version:
        """That version, or a later one if there are more facts in between than are ever scanned."""
        spans = [
            Span(span.branch, max(span.after, version), span.upto)
            for span in self._spans(name)
            if span.upto > version
        ]
        left, last = self._scan_facts_max + 1, None
        while left > 0:
            # Few at a time: they come with their bodies, of which nothing is wanted.
            asked = min(left, PAGE_FACTS)
            facts = self._reader.facts_of(id_, spans, order="newest", after=last, limit=asked)
            if len(facts) < asked:
                return version
            last = FactPosition(facts[-1].version, facts[-1].index)
            left -= asked
        assert last is not None, "more than none are scanned"
        return last.version


def head_of(replayed: Replay, after: Version, authors: Mapping[Version, Did], keep: int) -> EntityState:
    """The head that a replay leads to, with the changes after that version, or since its first fact."""
    loaded = states.fold(replayed)
    facts = replayed.facts
    recent, seen_after = _changes(facts, min(after, facts[0].version), authors, keep)
    value = loaded.value
    size = 0 if isinstance(value, Missing) else len(body.encode(value))
    return EntityState(
        loaded.id,
        loaded.version,
        loaded.hash,
        value,
        size,
        recent,
        seen_after,
        loaded.place.version,
        loaded.patches,
        loaded.patch_bytes,
    )


def _changes(
    facts: Sequence[Recorded], seen_after: Version, authors: Mapping[Version, Did], keep: int
) -> tuple[Changes | None, Version]:
    recent: Changes | None = None
    for fact in facts:
        # It looks at version, kind and body, and those a recorded fact has.
        change = changes.of_fact(fact, authors[fact.version])
        if change is not None:
            recent, seen_after = changes.push(recent, seen_after, change, keep)
    return recent, seen_after
