"""Which watchers a change concerns: found by its id and by the beginnings of its id, however many watch (WATCH-2)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Generic, TypeVar

from stemmadb.protocol.model.values.ids import BranchName, EntityId

T = TypeVar("T")
K = TypeVar("K")


class _OnBranch(Generic[T]):
    """Watchers of one branch: by the ids they depend on, and by prefixes, which are probed by their length."""

    __slots__ = ("by_id", "by_length", "watchers")

    def __init__(self) -> None:
        self.watchers = 0
        self.by_id: dict[EntityId, dict[T, None]] = {}
        self.by_length: dict[int, dict[str, dict[T, None]]] = {}


class _Watched:
    """What is known of one watcher, so that it can be dropped whatever has become of it."""

    __slots__ = ("branch", "ids", "prefixes")

    def __init__(self, branch: BranchName, prefixes: tuple[str, ...]) -> None:
        self.branch = branch
        self.ids: set[EntityId] = set()
        self.prefixes = prefixes


class WatchIndex(Generic[T]):
    """A look-up for each changed id, and one for each length of a watched prefix; nothing else is looked at."""

    def __init__(self) -> None:
        self._branches: dict[BranchName, _OnBranch[T]] = {}
        self._watched: dict[T, _Watched] = {}

    def __len__(self) -> int:
        return len(self._watched)

    def find(self, changes: Mapping[BranchName, Iterable[EntityId]]) -> dict[T, list[EntityId]]:
        """The watchers that changes concern, each with the ids that do."""
        found: dict[T, list[EntityId]] = {}
        for branch, ids in changes.items():
            place = self._branches.get(branch)
            if place is not None:
                for id_ in ids:
                    for watcher in _concerned(place, id_):
                        found.setdefault(watcher, []).append(id_)
        return found

    def watching(self, branch: BranchName) -> list[T]:
        """All watchers of a branch."""
        return [watcher for watcher, watched in self._watched.items() if watched.branch == branch]

    def concerns(self, watcher: T, ids: Iterable[EntityId]) -> list[EntityId]:
        """Those of the ids that concern one watcher."""
        watched = self._watched[watcher]
        return [id_ for id_ in ids if id_ in watched.ids or id_.startswith(watched.prefixes)]

    def add(self, watcher: T, branch: BranchName, *, ids: Iterable[EntityId], prefixes: tuple[str, ...]) -> None:
        """A new watcher of one branch."""
        assert watcher not in self._watched, "a watcher is added once"
        self._watched[watcher] = _Watched(branch, prefixes)
        place = self._branches.setdefault(branch, _OnBranch())
        place.watchers += 1
        for prefix in prefixes:
            place.by_length.setdefault(len(prefix), {}).setdefault(prefix, {})[watcher] = None
        self.change(watcher, watched=ids, unwatched=())

    def change(self, watcher: T, *, watched: Iterable[EntityId], unwatched: Iterable[EntityId]) -> None:
        """It begins to depend on some ids, and ceases to depend on others."""
        known = self._watched[watcher]
        by_id = self._branches[known.branch].by_id
        for id_ in watched:
            known.ids.add(id_)
            by_id.setdefault(id_, {})[watcher] = None
        for id_ in unwatched:
            known.ids.remove(id_)
            _take(by_id, id_, watcher)

    def drop(self, watcher: T) -> None:
        """Nothing concerns it any more; one that was not added, or was dropped before, is fine."""
        known = self._watched.get(watcher)
        if known is None:
            return
        self.change(watcher, watched=(), unwatched=tuple(known.ids))
        place = self._branches[known.branch]
        for prefix in known.prefixes:
            of_length = place.by_length[len(prefix)]
            _take(of_length, prefix, watcher)
            if not of_length:
                del place.by_length[len(prefix)]
        place.watchers -= 1
        if not place.watchers:
            del self._branches[known.branch]
        del self._watched[watcher]


def narrowed_ids(ids: Iterable[EntityId], scope: tuple[str, ...]) -> list[EntityId]:
    """Those of the ids that begin with one of the scope's prefixes."""
    return [id_ for id_ in ids if id_.startswith(scope)]


def narrowed_prefixes(prefixes: Iterable[str], scope: tuple[str, ...]) -> tuple[str, ...]:
    """What begins with one of the prefixes and with one of the scope's: the longer of the two, where one covers."""
    both = {
        max(one, other, key=len)
        for one in prefixes
        for other in scope
        if one.startswith(other) or other.startswith(one)
    }
    return tuple(sorted(both))


def _concerned(place: _OnBranch[T], id_: EntityId) -> Iterable[T]:
    """Each once, whether it is concerned by the id, by a prefix or by both."""
    watchers = place.by_id.get(id_)
    for length, of_length in place.by_length.items():
        more = of_length.get(id_[:length])
        if more is not None:
            watchers = more if watchers is None else {**watchers, **more}
    return watchers or ()


def _take(table: dict[K, dict[T, None]], key: K, watcher: T) -> None:
    watchers = table[key]
    del watchers[watcher]
    if not watchers:
        del table[key]
