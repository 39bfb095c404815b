"""What is shown: confirmed values with the pending layers on top, the views of it, and its watchers."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Protocol
from weakref import WeakSet

from stemmadb.client.nursery.confirmed import Confirmed, Membership
from stemmadb.client.nursery.entities import UNKNOWN, CachedEntity, Key, Nothing
from stemmadb.client.nursery.layers import EntityLayer, PendingLayers
from stemmadb.client.nursery.pending import Pending
from stemmadb.client.nursery.shown import Shown
from stemmadb.client.nursery.view import NurseryView
from stemmadb.protocol.errors import StemmaError
from stemmadb.protocol.model.values.ids import BranchName, EntityId, Hash, Version
from stemmadb.protocol.model.values.json_values import Value


class Watched(Protocol):
    """A watcher, as far as the nursery is concerned."""

    @property
    def branch(self) -> BranchName: ...

    def mark(self, ids: Iterable[EntityId]) -> None:
        """These may look different now, or the watch may hold them no longer."""
        ...

    def fill(self) -> None:
        """All of it has come."""
        ...

    def unfill(self) -> None:
        """It will come whole once more."""
        ...

    def end(self, error: StemmaError) -> None:
        """It is over."""
        ...


class Overlay:
    """Everything that can be looked at without a server. Changed by the nursery only."""

    def __init__(self) -> None:
        self._confirmed = Confirmed()
        self._layers = PendingLayers(self._confirmed.value, self._about_to_change)
        self._views: WeakSet[NurseryView] = WeakSet()
        self._watchers: dict[int, Watched] = {}
        self._unknown: set[Key] = set()
        """What pending work writes and nobody can show, since what is beneath is not cached."""

    # ------------------------------------------------------------ where it stands

    @property
    def to(self) -> Version:
        """The version up to which everything watched is true."""
        return self._confirmed.to

    @property
    def hash(self) -> Hash | None:
        return self._confirmed.hash

    @property
    def confirmed(self) -> Confirmed:
        """The confirmed values, to look at: only the nursery changes them."""
        return self._confirmed

    def wanted(self) -> frozenset[Key]:
        """What must be asked for: watched entities that do not fit, and those beneath pending work (SYNC-4)."""
        return frozenset(self._unknown.union(self._confirmed.doubtful()))

    def is_wanted(self, key: Key) -> bool:
        return key in self._unknown or self._confirmed.is_doubtful(key)

    # ------------------------------------------------------------ what is shown

    def value(self, branch: BranchName, id_: EntityId) -> Value | Nothing:
        """What is shown of an entity: ABSENT if it is known not to be there, UNKNOWN if nobody can tell."""
        return self._layers.shown((branch, id_))

    def is_local(self, branch: BranchName, id_: EntityId) -> bool:
        """Whether a read of it needs no server: a watch holds it, or would if it were there, and it is in order."""
        key = (branch, id_)
        return not self._confirmed.is_doubtful(key) and (
            self._confirmed.is_watched(key) or self._confirmed.covered(key)
        )

    def view(self, branch: BranchName) -> NurseryView:
        """Captures what is shown now, until it is released (NURSERY-2)."""
        view = NurseryView(self, branch=branch, to=self.to, coverage=self._confirmed.coverage(branch))
        self._views.add(view)
        return view

    def release(self, view: NurseryView) -> None:
        """Ends a view: nothing is retained for it any more."""
        self._views.discard(view)

    def present(self, key: Key, to: Version) -> Shown | None:
        """The entity as it is now (`view.Source`)."""
        cached = self._confirmed.get(key)
        basis = to if cached is None or cached.as_of is None else cached.as_of
        if self._layers.has(key):
            return Shown(self._layers.shown(key), basis, self._layers.seen_through(key))
        if cached is not None:
            return Shown(cached.value, basis)
        return Shown(UNKNOWN, to) if self._confirmed.is_doubtful(key) else None

    def beneath(self, key: Key, pending: Pending) -> CachedEntity | None:
        """The cached entity, if this commit is its lowest layer."""
        cached = self._confirmed.get(key)
        return cached if cached is not None and self._layers.is_lowest(pending, key) else None

    def shown_layers(self, key: Key) -> tuple[EntityLayer, ...]:
        return self._layers.shown_layers(key)

    def ids_under(self, branch: BranchName, prefix: str) -> set[EntityId]:
        """Entities under the prefix that are watched or written by pending commits."""
        written = {id_ for id_ in self.layered(branch) if id_.startswith(prefix)}
        return written.union(id_ for id_ in self._confirmed.watched(branch) if id_.startswith(prefix))

    # ------------------------------------------------------------ for watchers and server reads

    def members(self, watch: int) -> set[EntityId] | frozenset[EntityId]:
        """What the server says a watch holds."""
        return self._confirmed.members(watch)

    def under(self, branch: BranchName, prefix: str) -> Iterable[EntityId]:
        """Entities whose value is known here: watched ones, and those that pending commits write."""
        return (id_ for id_ in self.ids_under(branch, prefix) if not isinstance(self.value(branch, id_), Nothing))

    def is_layered(self, branch: BranchName) -> bool:
        """Whether pending commits write on this branch."""
        return self._layers.branches[branch] > 0

    def layered(self, branch: BranchName) -> frozenset[EntityId]:
        """The entities that pending commits write on a branch."""
        return frozenset(id_ for on, id_ in self._layers.keys() if on == branch)  # noqa: SIM118

    def over(self, branch: BranchName, id_: EntityId, value: Value | Nothing) -> Value | Nothing:
        """What is shown where the confirmed value is this one."""
        return self._layers.over((branch, id_), value)

    # ------------------------------------------------------------ watches

    def watch(self, number: int, membership: Membership, watcher: Watched) -> None:
        """A watch begins: it holds nothing until frames tell."""
        self._confirmed.watches[number] = membership
        self._watchers[number] = watcher

    def rewatch(self, number: int, watcher: Watched) -> None:
        """Another watcher takes the watch over, with all that it holds (CACHE-3)."""
        self._watchers[number] = watcher
        if self.is_filled(number):
            watcher.fill()

    def unwatch(self, number: int) -> None:
        """A watch is over: what no watch holds is kept only beneath pending work, as of now."""
        if number in self._confirmed.watches:
            self.unfill(number)
            del self._confirmed.watches[number], self._watchers[number]

    def keep_watches(self, numbers: Collection[int]) -> None:
        """Ends all others: the server was never told, or has forgotten, that they are over."""
        for number in [one for one in self._confirmed.watches if one not in numbers]:
            self.unwatch(number)

    def unfill(self, number: int) -> None:
        """The watch will come whole on the next connection: takes it from all its entities first (RESUME-1)."""
        membership = self._confirmed.watches[number]
        keys = {(membership.branch, id_) for id_ in membership.ids}
        self._beneath(keys | self._uncached(), lambda: self._let_go(self._confirmed.empty(number)))
        self._watchers[number].unfill()

    def is_filled(self, number: int) -> bool:
        """Whether all of it has come; False for a watch that is over."""
        membership = self._confirmed.watches.get(number)
        return membership is not None and membership.is_filled

    def _let_go(self, orphans: Iterable[Key]) -> None:
        """An entity that left its last watch is true as of now, and stays cached only beneath pending layers."""
        for key in orphans:
            cached = self._confirmed.get(key)
            if cached is not None and self._layers.has(key):
                self._confirmed.put(key, cached._replace(as_of=self.to))
            else:
                self._confirmed.forget(key)

    def _uncached(self) -> set[Key]:
        """What pending work writes and nobody holds: whether it is known to be absent depends on the watches."""
        return {key for key in self._layers.keys() if self._confirmed.get(key) is None}  # noqa: SIM118

    # ------------------------------------------------------------ changing it

    def _beneath(self, keys: Iterable[Key], change: Callable[[], object]) -> None:
        """Changes the confirmed values of these entities, then applies their layers again."""
        keys = set(keys)
        for key in keys:
            self._about_to_change(key)
        change()
        self._changed(self._layers.replay(keys))

    def _about_to_change(self, key: Key) -> None:
        if not self._views:
            return  # nearly always, and asking is quicker than going through none
        for view in self._views:
            if view.branch == key[0]:
                view.retain(key[1])

    def _changed(self, keys: Iterable[Key]) -> None:
        """These may look different now: notes what cannot be shown, and marks them at the watchers."""
        by_branch: dict[BranchName, list[EntityId]] = {}
        for key in keys:
            if self._layers.has(key) and self._layers.shown(key) is UNKNOWN:
                self._unknown.add(key)
            else:
                self._unknown.discard(key)
            by_branch.setdefault(key[0], []).append(key[1])
        for watcher in self._watchers.values():
            if watcher.branch in by_branch:
                watcher.mark(by_branch[watcher.branch])
