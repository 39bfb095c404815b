"""The ledger of the cache: which watches it has, and the step that brings it to the confirmed values (CACHE-1, 2, 5).

An example, with watches 1 and 2 that both hold `urn:a`:

    frame at 7: watch 1 filled with a, b      step: watch 1, members a b, entities a b
    frame at 8: watch 2 filled with a         step: watch 2, member a                    (a is stored once)
    frame at 9: b changed                     step: entity b
    watch 1 evicted                           step: end 1, remove b                      (a stays: watch 2 holds it)
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from stemmadb.client.cache.records import CacheEntity, CacheHead, CacheState, CacheStep, CacheWatch
from stemmadb.client.nursery.changes import ConfirmedChanges
from stemmadb.client.nursery.confirmed import Confirmed
from stemmadb.client.nursery.entities import Key, Nothing
from stemmadb.protocol.model.values import body
from stemmadb.protocol.model.values.ids import BranchName, EntityId, TimeMs

UNUSED_MS: Final = 30 * 24 * 3600 * 1000
"""A watch that no app had open for so long is the first to go when the cache is full (CACHE-5)."""


class LedgerWatch:
    """A watch that may be cached; `ids` are the members that the cache has, None while it has none of it."""

    __slots__ = ("branch", "ids", "is_stored", "is_whole", "query", "used")

    def __init__(self, query: str, branch: BranchName, used: TimeMs) -> None:
        self.query = query
        self.branch = branch
        self.used = used
        self.ids: set[EntityId] | None = None
        self.is_whole = True
        self.is_stored = False
        """Whether a step has written it."""


class LedgerStep(NamedTuple):
    """What to write, if anything, and the watches that were evicted for want of room."""

    step: CacheStep | None
    evicted: tuple[int, ...] = ()


class CacheLedger:
    """Pure. `register` says which watches to cache; `step` what to write, given what changed."""

    def __init__(self, *, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self.bytes = 0
        """The bytes of the cached bodies."""
        self._watches: dict[int, LedgerWatch] = {}
        self._due: set[int] = set()
        """Watches whose row must be written, or looked at for the first time."""
        self._ended: list[int] = []
        """Stored watches that go with the next step."""
        self._touched: set[Key] = set()
        """Entities that a watch has begun or ceased to hold since the last step."""
        self._holders: dict[Key, int] = {}
        """How many cached watches hold each entity."""
        self._stored: dict[Key, int] = {}
        """The entities that the cache has, and the bytes of each body."""
        self._head: CacheHead | None = None

    # ------------------------------------------------------------ which watches

    def restore(self, state: CacheState) -> None:
        """The cache as it was loaded."""
        self._head = state.head
        for one in state.watches:
            watch = self._watches[one.number] = LedgerWatch(one.query, state.branches[one.number], one.used)
            watch.ids, watch.is_whole, watch.is_stored = set(state.members[one.number]), one.is_whole, True
            self._hold(watch, watch.ids)
        self._stored = {key: len(entity.body) for key, entity in state.entities.items()}
        self.bytes = sum(self._stored.values())
        self._touched = set()

    def register(self, number: int, query: str, branch: BranchName, *, now: TimeMs) -> None:
        """The watch is cached once it is filled."""
        self._watches[number] = LedgerWatch(query, branch, now)
        self._due.add(number)

    def touch(self, number: int, *, now: TimeMs) -> None:
        """An app opens the watch, or closes it."""
        if number in self._watches:
            self._watches[number].used = now
            self._due.add(number)

    def unregister(self, number: int) -> None:
        """The watch is not cached any more."""
        watch = self._watches.pop(number, None)
        self._due.discard(number)
        if watch is not None:
            self._empty(number, watch)

    def has(self, number: int) -> bool:
        """Whether the watch is cached, or will be once it is filled."""
        return number in self._watches

    def used(self, number: int) -> TimeMs:
        """When an app had it open last."""
        return self._watches[number].used

    def cleared(self) -> None:
        """Everything was taken from the cache; watches that are filled come back with the next step."""
        self._head, self._ended, self.bytes = None, [], 0
        self._holders, self._stored, self._touched = {}, {}, set()
        for watch in self._watches.values():
            watch.ids, watch.is_stored = None, False
        self._due = set(self._watches)

    # ------------------------------------------------------------ a step

    @property
    def is_empty(self) -> bool:
        """Whether nothing is cached, and nothing is to be."""
        return not self._watches and not self._ended and self._head is None

    @property
    def is_due(self) -> bool:
        """Whether a step would write more than where the cache stands."""
        return bool(self._due or self._ended or self._touched)

    def step(
        self, confirmed: Confirmed, changes: ConfirmedChanges, head: CacheHead, in_use: Iterable[int] = ()
    ) -> LedgerStep:
        """The step to the confirmed values of now; None if the cache has them and stands there."""
        if changes.has_started_over:
            self.cleared()
        enter: list[tuple[int, EntityId]] = []
        leave: list[tuple[int, EntityId]] = []
        for number in sorted(changes.watches | self._due):
            enter += self._fill_or_empty(number, confirmed)
        for number, ids in changes.members.items():
            self._move(number, ids, confirmed, enter, leave)
        self._judge(confirmed)
        entities = self._encoded(confirmed, changes)
        evicted = self._evict(entities, changes.entities, head.time, frozenset(in_use))
        cached = {number for number, watch in self._watches.items() if watch.ids is not None}
        before, self._head = self._head, head if cached else None
        step = CacheStep(
            clear=changes.has_started_over,
            head=self._head,
            end=tuple(self._ended),
            leave=tuple(one for one in leave if one[0] in cached),
            remove=self._removed(entities, changes.entities),
            watches=tuple(self._row(number) for number in sorted(self._due & cached)),
            enter=tuple(one for one in enter if one[0] in cached),
            put=self._put(entities),
        )
        self._ended, self._due, self._touched = [], set(), set()
        is_news = before != self._head or step != CacheStep(head=self._head)
        return LedgerStep(step if is_news else None, evicted)

    def _fill_or_empty(self, number: int, confirmed: Confirmed) -> list[tuple[int, EntityId]]:
        """A watch that is filled begins to be cached, one that is not ceases to be; gives its new members."""
        watch, membership = self._watches.get(number), confirmed.watches.get(number)
        if watch is None:
            return []
        if membership is None or not membership.is_filled:
            self._empty(number, watch)
        elif watch.ids is None:
            watch.ids = set(membership.ids)
            self._hold(watch, watch.ids)
            self._due.add(number)
            return [(number, id_) for id_ in sorted(watch.ids)]
        return []

    def _empty(self, number: int, watch: LedgerWatch) -> None:
        if watch.ids is not None:
            self._release(watch, watch.ids)
            watch.ids = None
        if watch.is_stored:
            self._ended.append(number)
            watch.is_stored = False

    def _move(
        self,
        number: int,
        ids: set[EntityId],
        confirmed: Confirmed,
        enter: list[tuple[int, EntityId]],
        leave: list[tuple[int, EntityId]],
    ) -> None:
        """What a cached watch began or ceased to hold."""
        watch = self._watches.get(number)
        if watch is None or watch.ids is None:
            return
        now = confirmed.members(number)
        entered, left = (ids & now) - watch.ids, (ids - now) & watch.ids
        watch.ids |= entered
        watch.ids -= left
        self._hold(watch, entered)
        self._release(watch, left)
        enter += [(number, id_) for id_ in sorted(entered)]
        leave += [(number, id_) for id_ in sorted(left)]

    def _judge(self, confirmed: Confirmed) -> None:
        """A watch that holds an entity nobody knows now is not whole (SYNC-4)."""
        doubtful = tuple(confirmed.doubtful())
        for number, watch in self._watches.items():
            if watch.ids is not None:
                is_whole = not any(on == watch.branch and id_ in watch.ids for on, id_ in doubtful)
                if is_whole is not watch.is_whole:
                    watch.is_whole = is_whole
                    self._due.add(number)

    # ------------------------------------------------------------ entities

    def _hold(self, watch: LedgerWatch, ids: Iterable[EntityId]) -> None:
        for id_ in ids:
            key = (watch.branch, id_)
            self._holders[key] = self._holders.get(key, 0) + 1
            self._touched.add(key)

    def _release(self, watch: LedgerWatch, ids: Iterable[EntityId]) -> None:
        for id_ in ids:
            key = (watch.branch, id_)
            self._holders[key] -= 1
            if not self._holders[key]:
                del self._holders[key]
            self._touched.add(key)

    def _encoded(self, confirmed: Confirmed, changes: ConfirmedChanges) -> dict[Key, CacheEntity]:
        """The entities to write: known, held by a cached watch, and changed or not stored yet."""
        entities: dict[Key, CacheEntity] = {}
        changed, bodies = changes.entities, changes.bodies
        self._touched |= changed
        for key in self._touched:
            is_news = key in self._holders and (key in changed or key not in self._stored)
            cached = confirmed.get(key) if is_news else None
            if cached is not None and not isinstance(cached.value, Nothing):
                encoded = bodies.get(key) or body.encode(cached.value)
                entities[key] = CacheEntity(key[0], key[1], cached.version, cached.hash, encoded)
        return entities

    def _removed(self, entities: dict[Key, CacheEntity], changed: set[Key]) -> tuple[Key, ...]:
        """What no cached watch holds any more, and what nobody knows now."""
        removed = [key for key in self._touched if key in self._stored and self._is_going(key, entities, changed)]
        for key in removed:
            self.bytes -= self._stored.pop(key)
        return tuple(sorted(removed))

    def _is_going(self, key: Key, entities: dict[Key, CacheEntity], changed: set[Key]) -> bool:
        return key not in self._holders or (key in changed and key not in entities)

    def _put(self, entities: dict[Key, CacheEntity]) -> tuple[CacheEntity, ...]:
        put = tuple(entities[key] for key in sorted(entities) if key in self._holders)
        for one in put:
            self.bytes += len(one.body) - self._stored.get(one.key, 0)
            self._stored[one.key] = len(one.body)
        return put

    def _row(self, number: int) -> CacheWatch:
        watch = self._watches[number]
        watch.is_stored = True
        return CacheWatch(number, watch.query, watch.used, watch.is_whole)

    # ------------------------------------------------------------ bounds

    def _evict(
        self, entities: dict[Key, CacheEntity], changed: set[Key], now: TimeMs, in_use: frozenset[int]
    ) -> tuple[int, ...]:
        """Watches go whole until the rest fits: unused for long, then the least recently used, then those in use."""
        evicted: list[int] = []
        total = self.bytes + sum(len(one.body) - self._stored.get(key, 0) for key, one in entities.items())
        going = {key for key in self._touched if key in self._stored and self._is_going(key, entities, changed)}
        total -= sum(self._stored[key] for key in going)
        while total > self._bytes_max:
            cached = [number for number, watch in self._watches.items() if watch.ids is not None]
            victim = min(cached, key=lambda number: self._priority(number, now, in_use))
            ids, branch = self._watches[victim].ids or set(), self._watches[victim].branch
            self.unregister(victim)
            evicted.append(victim)
            for key in ((branch, id_) for id_ in ids):
                if key not in self._holders and key not in going:
                    total -= len(entities[key].body) if key in entities else self._stored.get(key, 0)
        return tuple(evicted)

    def _priority(self, number: int, now: TimeMs, in_use: frozenset[int]) -> tuple[bool, bool, TimeMs, int]:
        """The lowest goes first."""
        used = self._watches[number].used
        return now - used <= UNUSED_MS or number in in_use, number in in_use, used, number
