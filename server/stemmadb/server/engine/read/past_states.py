"""Past states kept in memory: what was read at an old version is the same for ever, and need not be read again.

Kept by entity: for each of its facts that was read, the versions between which it is known to be the last one.
Bounded in bytes for all spaces of a store together. Beside them the leaves of the one value that was blamed last are
kept, so that the further pages of a blame cost what they return. Whatever could change an answer about the past (an
erasure, a compaction, any change of branches and tags) forgets all that is kept of its space (HISTORY-2).
"""

from __future__ import annotations

import itertools
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Sequence
from typing import Final, NamedTuple, TypeAlias

from stemmadb.protocol.model.values.ids import BranchName, EntityId, Hash, Version
from stemmadb.server.engine.read.blame import Leaf

STATE_BYTES: Final = 300
"""What a state takes beside its body, about."""
HISTORY_BYTES: Final = 700
"""What an entity takes beside its states and its id, about."""
SHARE_MAX: Final = 4
"""One entity may have a fourth of the room."""

LEAVES_MAX: Final = 200_000
"""A blame of more is not kept: this is some 30 MB."""

Key: TypeAlias = tuple[BranchName, EntityId]


class PastState(NamedTuple):
    """An entity as it was: the version and the hash of its last fact, and its value encoded."""

    version: Version
    hash: Hash
    body: bytes


class BlameKey(NamedTuple):
    """What was blamed: the part of an entity at a path, as of a version of a branch."""

    branch: BranchName
    id: EntityId
    version: Version
    path: str


class _History:
    """The states of one entity that are known, by the version of their facts."""

    __slots__ = ("bytes", "spans", "states", "versions")

    def __init__(self, id_: EntityId) -> None:
        self.versions: list[Version] = []
        self.states: list[PastState] = []
        self.spans: list[tuple[Version, Version]] = []
        """The least and the greatest version at which each state is known to have held."""
        self.bytes = HISTORY_BYTES + len(id_)

    def find(self, version: Version) -> PastState | None:
        at = bisect_right(self.versions, version) - 1
        if at < 0:
            return None
        low, high = self.spans[at]
        return self.states[at] if low <= version <= high else None

    def keep(self, state: PastState, low: Version, high: Version) -> None:
        at = bisect_right(self.versions, state.version) - 1
        if at >= 0 and self.versions[at] == state.version:
            known = self.spans[at]
            self.spans[at] = (min(low, known[0]), max(high, known[1]))
            return
        self.versions.insert(at + 1, state.version)
        self.states.insert(at + 1, state)
        self.spans.insert(at + 1, (low, high))
        self.bytes += STATE_BYTES + len(state.body)


class PastCache:
    """Past states of many spaces under one bound; those of entities that were read longest ago go first."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._histories: OrderedDict[tuple[int, Key], _History] = OrderedDict()
        self._owned: dict[int, set[Key]] = {}
        self._owners = itertools.count(1)
        self._blamed: tuple[int, BlameKey, Sequence[Leaf]] | None = None
        self.bytes = 0

    def share(self) -> PastStates:
        """What one space has of it."""
        return PastStates(self, next(self._owners))

    def find(self, owner: int, key: Key, version: Version) -> PastState | None:
        history = self._histories.get((owner, key))
        if history is None:
            return None
        self._histories.move_to_end((owner, key))
        return history.find(version)

    def keep(self, owner: int, key: Key, state: PastState, low: Version, high: Version) -> None:
        place = (owner, key)
        history = self._histories.get(place)
        if history is None:
            history = self._histories[place] = _History(key[1])
            self._owned.setdefault(owner, set()).add(key)
            self.bytes += history.bytes
        before = history.bytes
        history.keep(state, low, high)
        self.bytes += history.bytes - before
        if history.bytes * SHARE_MAX > self._bytes_max:
            self._drop(place)
        while self.bytes > self._bytes_max:
            self._drop(next(iter(self._histories)))

    def blamed(self, owner: int, key: BlameKey) -> Sequence[Leaf] | None:
        last = self._blamed
        return last[2] if last is not None and last[:2] == (owner, key) else None

    def keep_blamed(self, owner: int, key: BlameKey, leaves: Sequence[Leaf]) -> None:
        if len(leaves) <= LEAVES_MAX:
            self._blamed = owner, key, leaves

    def drop(self, owner: int) -> None:
        if self._blamed is not None and self._blamed[0] == owner:
            self._blamed = None
        for key in tuple(self._owned.get(owner, ())):
            self._drop((owner, key))

    def _drop(self, place: tuple[int, Key]) -> None:
        owner, key = place
        self.bytes -= self._histories.pop(place).bytes
        owned = self._owned[owner]
        owned.discard(key)
        if not owned:
            del self._owned[owner]


class PastStates:
    """The past states of one space, used from its event loop."""

    def __init__(self, cache: PastCache, owner: int) -> None:
        self._cache = cache
        self._owner = owner
        self.generation = 0
        """Counts how often all was forgotten: what was read before that is not to be kept after it."""

    def find(self, branch: BranchName, id_: EntityId, version: Version) -> PastState | None:
        return self._cache.find(self._owner, (branch, id_), version)

    def keep(
        self, branch: BranchName, id_: EntityId, state: PastState, *, asked: Version, floor: Version, generation: int
    ) -> None:
        """What was read at the version that was asked for, in a generation, with nothing older than the floor kept.

        Between its fact and the version that was asked for nothing else was written. Below the floor a tag keeps one
        version and none beside it (COMPACT-1), so that nothing is kept of what lies there.
        """
        if generation == self.generation and asked >= floor:
            self._cache.keep(self._owner, (branch, id_), state, max(state.version, floor), asked)

    def blamed(self, key: BlameKey) -> Sequence[Leaf] | None:
        """The leaves, if this was blamed last."""
        return self._cache.blamed(self._owner, key)

    def keep_blamed(self, key: BlameKey, leaves: Sequence[Leaf], *, generation: int) -> None:
        """What was read in a generation."""
        if generation == self.generation:
            self._cache.keep_blamed(self._owner, key, leaves)

    def forget(self) -> None:
        self.generation += 1
        self._cache.drop(self._owner)
