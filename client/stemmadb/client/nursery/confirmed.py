"""Confirmed values by branch and entity, as the server sent them; watched ones are true at `to` (NURSERY-1)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from stemmadb.client.nursery.changes import ConfirmedChanges
from stemmadb.client.nursery.entities import ABSENT, UNKNOWN, CachedEntity, Key, Nothing
from stemmadb.protocol.model.values.ids import EMPTY_SPACE, BranchName, EntityId, Hash, Version
from stemmadb.protocol.model.values.json_values import Value

NO_MEMBERS: frozenset[EntityId] = frozenset()


class Membership:
    """What one watch holds, as the server tells it; `plain` names what it would hold if it were there.

    A root without a schema and without a path holds every entity it names: what it names and does not hold is
    known not to be there, once the watch is filled.
    """

    __slots__ = ("branch", "ids", "is_filled", "names", "prefixes")

    def __init__(self, branch: BranchName, *, names: Iterable[str] = (), prefixes: Iterable[str] = ()) -> None:
        self.branch = branch
        self.names = frozenset(names)
        self.prefixes = tuple(prefixes)
        self.ids: set[EntityId] = set()
        self.is_filled = False


class WatchCoverage(NamedTuple):
    """What the filled watches of a branch name: of these it is known whether they are there."""

    names: frozenset[str]
    prefixes: tuple[str, ...]

    def has(self, id_: str) -> bool:
        return id_ in self.names or id_.startswith(self.prefixes)


class Confirmed:
    """Values by branch and id, and which watches hold them. Changed by frames, answers and the end of watches."""

    def __init__(self) -> None:
        self.to = EMPTY_SPACE
        self.hash: Hash | None = None
        self.watches: dict[int, Membership] = {}
        self._coverage: dict[BranchName, WatchCoverage] = {}
        """Made when it is asked for, and again after a watch was filled or emptied."""
        self._cached: dict[Key, CachedEntity] = {}
        self._holders: dict[Key, int] = {}
        self._doubtful: dict[Key, Version] = {}
        """Watched entities whose cached value is wrong, to be fetched again; with the version of their last fact."""
        self.changes: ConfirmedChanges | None = None
        """What changed since it was last taken; None unless somebody wants to know (CACHE-2)."""

    # ------------------------------------------------------------ looking

    def get(self, key: Key) -> CachedEntity | None:
        return self._cached.get(key)

    def value(self, key: Key) -> Value | Nothing:
        """The confirmed value; ABSENT where a filled watch would hold it, UNKNOWN where nobody can tell."""
        cached = self._cached.get(key)
        if cached is not None:
            return cached.value
        return ABSENT if key not in self._doubtful and self.covered(key) else UNKNOWN

    def covered(self, key: Key) -> bool:
        """Whether a filled watch names it, so that it is there only if it is cached."""
        known = self._coverage.get(key[0]) or self.coverage(key[0])
        return key[1] in known.names or key[1].startswith(known.prefixes)

    def coverage(self, branch: BranchName) -> WatchCoverage:
        """What the filled watches of a branch name."""
        known = self._coverage.get(branch)
        if known is None:
            filled = [one for one in self.watches.values() if one.is_filled and one.branch == branch]
            names = frozenset[str]().union(*(one.names for one in filled))
            prefixes = tuple(prefix for one in filled for prefix in one.prefixes)
            known = self._coverage[branch] = WatchCoverage(names, prefixes)
        return known

    def is_watched(self, key: Key) -> bool:
        return key in self._holders

    def is_doubtful(self, key: Key) -> bool:
        return key in self._doubtful

    def doubtful(self) -> Iterable[Key]:
        """Watched entities whose value is asked for (SYNC-4)."""
        return self._doubtful.keys()

    def watched(self, branch: BranchName) -> Iterator[EntityId]:
        """The entities on a branch that some watch holds."""
        for on, id_ in self._holders:
            if on == branch:
                yield id_

    # ------------------------------------------------------------ changing

    def put(self, key: Key, cached: CachedEntity, body: bytes | None = None) -> None:
        """This is the value now; `body` is how it came, if it came whole."""
        self._cached[key] = cached
        self._doubtful.pop(key, None)
        if self.changes is not None:
            self.changes.changed(key, body)

    def doubt(self, key: Key, version: Version) -> None:
        """What is cached is not right, or something is missing: nobody is shown a guess (SYNC-4)."""
        self._cached.pop(key, None)
        if key in self._holders:
            self._doubtful[key] = version
        if self.changes is not None:
            self.changes.changed(key)

    def last_version_of(self, key: Key) -> Version:
        """The last version at which the server sent a fact of a doubtful entity."""
        return self._doubtful.get(key, EMPTY_SPACE)

    def forget(self, key: Key) -> None:
        """Nobody needs it any more."""
        self._cached.pop(key, None)
        self._doubtful.pop(key, None)
        if self.changes is not None:
            self.changes.changed(key)

    def enter(self, watch: int, id_: EntityId) -> bool:
        """The watch holds it now; whether it did not before."""
        membership = self.watches[watch]
        if id_ in membership.ids:
            return False
        membership.ids.add(id_)
        key = (membership.branch, id_)
        self._holders[key] = self._holders.get(key, 0) + 1
        if self.changes is not None:
            self.changes.moved(watch, id_)
        return True

    def leave(self, watch: int, id_: EntityId) -> Key | None:
        """The watch holds it no longer; gives the key if no watch does now."""
        membership = self.watches[watch]
        if id_ not in membership.ids:
            return None
        membership.ids.remove(id_)
        key = (membership.branch, id_)
        self._holders[key] -= 1
        if self.changes is not None:
            self.changes.moved(watch, id_)
        if self._holders[key]:
            return None
        del self._holders[key]
        return key

    def holders(self, key: Key) -> int:
        """How many watches hold it."""
        return self._holders.get(key, 0)

    def members(self, watch: int) -> set[EntityId] | frozenset[EntityId]:
        membership = self.watches.get(watch)
        return NO_MEMBERS if membership is None else membership.ids

    def fill(self, watch: int) -> None:
        """All of it has come."""
        self.watches[watch].is_filled = True
        self._coverage.clear()
        if self.changes is not None:
            self.changes.watches.add(watch)

    def empty(self, watch: int) -> list[Key]:
        """Takes the watch from all its entities, and says which no watch holds now."""
        membership = self.watches[watch]
        membership.is_filled = False
        self._coverage.clear()
        if self.changes is not None:
            self.changes.watches.add(watch)
        orphans = [self.leave(watch, id_) for id_ in tuple(membership.ids)]
        return [key for key in orphans if key is not None]

    def start_over(self) -> set[Key]:
        """Forgets everything that was told, but not which watches there are (RESUME-1, RESUME-4)."""
        forgotten = self._cached.keys() | self._doubtful.keys()
        self._cached, self._holders, self._doubtful = {}, {}, {}
        for membership in self.watches.values():
            membership.ids, membership.is_filled = set(), False
        self._coverage.clear()
        self.to, self.hash = EMPTY_SPACE, None
        if self.changes is not None:
            self.changes.start_over()
        return set(forgotten)

    def restore(self, entities: Mapping[Key, CachedEntity], members: Mapping[int, set[EntityId]]) -> None:
        """What an earlier run of the app held at `to`: its watches are filled (CACHE-3)."""
        self._cached.update(entities)
        for watch, ids in members.items():
            membership = self.watches[watch]
            membership.ids, membership.is_filled = ids, True
            for id_ in ids:
                key = (membership.branch, id_)
                self._holders[key] = self._holders.get(key, 0) + 1
        self._coverage.clear()
