"""Applying a frame to what is confirmed, step by step as docs/spec/04-protocol.md has it (SYNC-1..4)."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

from stemmadb.client.nursery.confirmed import Confirmed
from stemmadb.client.nursery.entities import ABSENT, UNKNOWN, Absent, CachedEntity, Key, Nothing
from stemmadb.client.nursery.operations import DoesNotApply, after
from stemmadb.client.nursery.pending import Pending
from stemmadb.client.nursery.plans import CommitWrite
from stemmadb.protocol.model.log import facts
from stemmadb.protocol.model.log.facts import Fact
from stemmadb.protocol.model.values import body
from stemmadb.protocol.model.values.ids import EntityId, Hash, Version
from stemmadb.protocol.model.values.json_values import Value
from stemmadb.protocol.wire import records
from stemmadb.protocol.wire.messages.commit import AcceptedVerdict
from stemmadb.protocol.wire.messages.sync import Sync


class AcceptedOwn(NamedTuple):
    """An own commit that was accepted, and what the verdict says of its facts."""

    pending: Pending
    verdict: AcceptedVerdict


class LayerLookup(Protocol):
    """The pending layers, as far as a frame needs them."""

    def shown_on(self, pending: Pending, key: Key, value: Value | Nothing) -> Value | Nothing | None:
        """What the commit's layer shows, if it was applied to this very value: then it need not be applied again."""
        ...


class FrameApplier:
    """Applies one frame. `touched` are the entities whose confirmed value, basis or membership changed."""

    def __init__(self, confirmed: Confirmed, frame: Sync, *, about_to_change: Callable[[Key], None]) -> None:
        self._confirmed = confirmed
        self._frame = frame
        self._about_to_change = about_to_change
        self.touched: set[Key] = set()
        self.moved: set[Key] = set()
        """Entities that a watch began or ceased to hold."""
        self._bodies = {(one.branch, one.id) for one in frame.entered if one.body is not None}
        self._named = {(one.branch, one.id) for one in frame.entered}
        self._leaving = self._ceasing() if frame.left or frame.ended else set()

    def _ceasing(self) -> set[Key]:
        """What no watch holds after this frame: the facts of others before an own one are then not sent."""
        confirmed, leaving = self._confirmed, dict[Key, int]()
        for left in self._frame.left:
            if left.id in confirmed.members(left.watch):
                key = (left.branch, left.id)
                leaving[key] = leaving.get(key, 0) + 1
        for ended in self._frame.ended:
            if ended.watch in confirmed.watches:
                branch = confirmed.watches[ended.watch].branch
                for id_ in confirmed.members(ended.watch):
                    leaving[branch, id_] = leaving.get((branch, id_), 0) + 1
        return {key for key, count in leaving.items() if count >= confirmed.holders(key)} - self._named

    # ------------------------------------------------------------ facts, by version

    def apply_facts(self, own: dict[Version, AcceptedOwn], layers: LayerLookup) -> None:
        """Goes through the commits and the own accepted ones together, by version."""
        commits = {item.version: item for item in self._frame.commits}
        for version in sorted(own.keys() | commits.keys()):
            if version in commits:
                item = commits[version]
                for fact in item.facts:
                    self._apply_fact(records.fact_of(fact, version, item.branch))
            if version in own:
                is_news = version > self._frame.from_ and version not in commits
                self._apply_own(own[version], layers, is_news=is_news)

    def _is_passed_over(self, key: Key) -> bool:
        return key in self._bodies or key in self._leaving

    def _apply_fact(self, fact: Fact) -> None:
        key = (fact.branch, fact.id)
        confirmed = self._confirmed
        if not confirmed.is_watched(key) or self._is_passed_over(key):
            return
        cached = confirmed.get(key)
        if cached is None or cached.hash != fact.parent or fact.is_gone:
            self._doubt(key, fact.version)
            return
        try:
            value = after(cached.value, (_meaning(fact),))
        except DoesNotApply:
            self._doubt(key, fact.version)
            return
        self._put(key, _cached(value, fact.version, fact.hash))

    def _apply_own(self, own: AcceptedOwn, layers: LayerLookup, *, is_news: bool) -> None:
        """The facts are the operations that were sent; the verdict's hashes say whether what is cached is beneath.

        What is watched has them already unless they are news. What is only cached has them if it was read later.
        """
        for id_, indexes in own.pending.by_id.items():
            key = (own.pending.branch, id_)
            cached, is_watched = self._confirmed.get(key), self._confirmed.is_watched(key)
            if is_watched and (not is_news or self._is_passed_over(key)):
                continue
            if cached is None:
                if not self._has_passed(key, own):
                    self._begin(key, own, indexes)
            elif cached.as_of is None or cached.as_of < own.verdict.version:
                self._continue(key, cached, own, indexes, layers.shown_on(own.pending, key, cached.value))

    def _has_passed(self, key: Key, own: AcceptedOwn) -> bool:
        """True if the commit's facts are no longer current: it was integrated before, or a filled watch covers the
        entity and does not hold it after this frame, because others removed it since."""
        return own.pending.is_integrated or (key not in self._named and self._confirmed.covered(key))

    def _begin(self, key: Key, own: AcceptedOwn, indexes: list[int]) -> None:
        """Nothing was cached: a `set` or `delete` among the operations says what is there all the same."""
        version = own.verdict.version
        value = after(UNKNOWN, (own.pending.writes[index] for index in indexes))
        if value is UNKNOWN or self._confirmed.is_watched(key):
            self._doubt(key, version)
        else:
            self._put(key, _cached(value, version, own.verdict.hashes[indexes[-1]], version))

    def _continue(
        self, key: Key, cached: CachedEntity, own: AcceptedOwn, indexes: list[int], shown: Value | Nothing | None
    ) -> None:
        """What was shown becomes confirmed if the hashes agree: then nothing came in between."""
        version = own.verdict.version
        hash_ = _chained(cached.hash, own, indexes)
        if hash_ != own.verdict.hashes[indexes[-1]]:
            self._doubt(key, version)
            return
        if shown is None:
            try:
                shown = after(cached.value, (own.pending.writes[index] for index in indexes))
            except DoesNotApply:
                self._doubt(key, version)
                return
        self._put(key, _cached(shown, version, hash_, None if cached.as_of is None else version))

    def _put(self, key: Key, cached: CachedEntity, encoded: bytes | None = None) -> None:
        self._change(key)
        self._confirmed.put(key, cached, encoded)

    def _doubt(self, key: Key, version: Version) -> None:
        self._change(key)
        self._confirmed.doubt(key, version)

    def _change(self, key: Key) -> None:
        self._about_to_change(key)
        self.touched.add(key)

    # ------------------------------------------------------------ what enters and leaves

    def enter(self) -> None:
        """Takes the values first, whichever watch they came for; then which watches hold them."""
        for one in self._frame.entered:
            if one.body is not None:
                value = body.read_stored(one.body)
                self._put((one.branch, one.id), CachedEntity(value, one.version, one.hash), one.body)
        for one in self._frame.entered:
            key = (one.branch, one.id)
            if one.watch not in self._confirmed.watches:
                self.moved.add(key)
                continue
            cached = self._confirmed.get(key)
            if self._confirmed.enter(one.watch, one.id):
                self.moved.add(key)
            if cached is None or cached.hash != one.hash:
                self._doubt(key, one.version)
            elif cached.as_of is not None:
                self._put(key, cached._replace(as_of=None))

    def leave(self) -> None:
        """`left` takes entities from watches, `ended` takes watches from all their entities."""
        for left in self._frame.left:
            if left.watch in self._confirmed.watches:
                self._about_to_change((left.branch, left.id))
                self._confirmed.leave(left.watch, left.id)
                self.moved.add((left.branch, left.id))

    def fill(self) -> None:
        for watch in self._frame.filled:
            if watch in self._confirmed.watches:
                self._confirmed.fill(watch)


def _cached(value: Value | Nothing, version: Version, hash_: Hash, as_of: Version | None = None) -> CachedEntity:
    assert value is ABSENT or not isinstance(value, Nothing), "a confirmed value is never unknown"
    known: Value | Absent = value
    return CachedEntity(known, version, hash_, as_of)


def _meaning(fact: Fact) -> CommitWrite:
    """A fact of anybody as the operation that it is; a checkpoint brings the value that is there."""
    value = None if fact.body is None else body.read_stored(fact.body)
    op = "set" if fact.kind == "checkpoint" else fact.kind
    return CommitWrite(op, fact.id, fact.body, value, None)


def _chained(parent: Hash, own: AcceptedOwn, indexes: list[int]) -> Hash:
    """The hash that the last of these operations has if they follow this parent (FACT-2)."""
    for index in indexes:
        write, salt = own.pending.writes[index], own.verdict.salts[index]
        digest = facts.NO_BODY if salt is None else facts.digest_of(salt, write.body or b"")
        parent = facts.hash_fact(write.op, EntityId(write.id), parent, digest)
    return parent
