"""The stack of pending commits: what each entity looks like with them on top (NURSERY-1, NURSERY-3).

For each entity that pending commits write there is a pile of layers over its confirmed value. A commit is shown whole
or not at all: if one of its operations does not apply, or one it builds on is not shown, all its layers are passed
over until that changes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from heapq import heappop, heappush
from typing import Final, TypeAlias

from stemmadb.client.nursery.applying import DoesNotApply, after
from stemmadb.client.nursery.held import CommitName, Key, Layer, Nothing
from stemmadb.client.nursery.pending import Pending
from stemmadb.client.nursery.plans import Write
from stemmadb.protocol.model.ids import BranchName
from stemmadb.protocol.model.values import Value

Base: TypeAlias = Callable[[Key], Value | Nothing]
"""The confirmed value beneath the layers of an entity."""
AboutToChange: TypeAlias = Callable[[Key], None]
"""Called before what is shown of an entity changes, so that open views can keep it."""
_NOWHERE: Final = object()


class Sheet:
    """One layer of one pile: what a commit does to the entity, what it lies on, and what is shown with it on top."""

    __slots__ = ("_before", "_layer", "fits", "paths", "pending", "shows", "writes")

    def __init__(self, pending: Pending, writes: tuple[Write, ...]) -> None:
        self.pending = pending
        self.writes = writes
        self.paths = _paths(writes)
        """What it writes, each path once; None for the whole entity."""
        self.fits = True
        self.shows: Value | Nothing
        self._before: object = _NOWHERE
        self._layer: Layer | None = None

    def lies_on(self, value: Value | Nothing) -> bool:
        """Whether it lies on this very value: values never change, so that what it shows is still right."""
        return self._before is value

    def lift(self) -> None:
        """Must be laid again, whatever it lies on."""
        self._before = _NOWHERE

    def lay(self, value: Value | Nothing) -> None:
        """Lies on this value now; shows it unchanged if it does not fit or its commit is passed over."""
        self._before, self._layer = value, None
        try:
            over = after(value, self.writes)
            self.fits = True
        except DoesNotApply:
            over, self.fits = value, False
        self.shows = over if self.pending.is_shown else value

    def layer(self) -> Layer:
        """As views have it; made once for all of them."""
        if self._layer is None:
            self._layer = Layer(self.pending.name, self.paths, self.shows)
        return self._layer


def _paths(writes: tuple[Write, ...]) -> tuple[str, ...] | None:
    if len(writes) == 1:
        return writes[0].paths
    paths: dict[str, None] = {}
    for write in writes:
        if write.paths is None:
            return None
        paths.update(dict.fromkeys(write.paths))
    return tuple(paths)


class Stack:
    """Pending commits in order, and the piles they make."""

    def __init__(self, base: Base, about_to_change: AboutToChange) -> None:
        self._base = base
        self._about_to_change = about_to_change
        self._commits: dict[CommitName, Pending] = {}
        self._order: dict[CommitName, int] = {}
        self._count = 0
        self._sheets: dict[CommitName, dict[Key, Sheet]] = {}
        self._piles: dict[Key, list[Sheet]] = {}
        self._dependents: dict[CommitName, list[CommitName]] = {}
        self.branches: Counter[BranchName] = Counter()
        """How many pending commits write on each branch."""

    def __len__(self) -> int:
        return len(self._commits)

    def __iter__(self) -> Iterator[Pending]:
        return iter(self._commits.values())

    def find(self, name: CommitName) -> Pending | None:
        return self._commits.get(name)

    def keys(self) -> Iterable[Key]:
        """The entities that pending commits write."""
        return self._piles.keys()

    def has(self, key: Key) -> bool:
        return key in self._piles

    def dependents(self, name: CommitName) -> list[CommitName]:
        """The pending commits that were read through this one."""
        return [one for one in self._dependents.get(name, ()) if one in self._commits]

    # ------------------------------------------------------------ what is shown

    def shown(self, key: Key) -> Value | Nothing:
        """The value with every layer on top; the confirmed one where there are none."""
        pile = self._piles.get(key)
        return pile[-1].shows if pile else self._base(key)

    def pile(self, key: Key) -> tuple[Sheet, ...]:
        """The layers that are shown, the lowest first."""
        return tuple(one for one in self._piles.get(key, ()) if one.pending.is_shown)

    def shown_on(self, pending: Pending, key: Key, value: Value | Nothing) -> Value | Nothing | None:
        """What the commit's layer shows, if it is shown and lies on this very value; None otherwise."""
        sheet = self._sheets[pending.name][key]
        return sheet.shows if pending.is_shown and sheet.lies_on(value) else None

    def is_lowest(self, pending: Pending, key: Key) -> bool:
        """Whether no other commit lies between this one and the confirmed value."""
        return self._piles[key][0].pending is pending

    def over(self, key: Key, value: Value | Nothing) -> Value | Nothing:
        """What would be shown if the confirmed value were this one."""
        for sheet in self._piles.get(key, ()):
            if sheet.pending.is_shown:
                try:
                    value = after(value, sheet.writes)
                except DoesNotApply:
                    continue
        return value

    # ------------------------------------------------------------ changing it

    def push(self, pending: Pending) -> None:
        """On top of all others. Costs what the commit writes, however many lie beneath."""
        name = pending.name
        self._count += 1
        self._commits[name], self._order[name] = pending, self._count
        for below in pending.depends:
            self._dependents.setdefault(below, []).append(name)
        self.branches[pending.branch] += 1
        sheets = self._sheets[name] = {}
        for key in pending.written():
            self._about_to_change(key)
            sheet = Sheet(pending, tuple([pending.writes[index] for index in pending.by_id[key[1]]]))
            sheet.lay(self.shown(key))
            self._piles.setdefault(key, []).append(sheet)
            sheets[key] = sheet
        if not self._may_show(pending):
            self._flip(pending)
            self.replay(pending.written())

    def remove(self, gone: Iterable[Pending]) -> set[CommitName]:
        """Takes commits out, wherever they lie; gives those that were built on them. `replay` their entities next."""
        names = {one.name for one in gone}
        keys = {key for name in names for key in self._commits[name].written()}
        for key in keys:
            self._about_to_change(key)
            left = [sheet for sheet in self._piles[key] if sheet.pending.name not in names]
            if left:
                self._piles[key] = left
            else:
                del self._piles[key]
        built = {one for name in names for one in self._dependents.pop(name, ())}
        for name in names:
            self.branches[self._commits.pop(name).branch] -= 1
            del self._order[name], self._sheets[name]
        return {one for one in built if one in self._commits}

    def replay(self, keys: Iterable[Key], suspects: Iterable[CommitName] = ()) -> set[Key]:
        """Lays these piles on their confirmed values; gives them and those that commits took along.

        Whether a commit is shown depends only on the confirmed values and on those before it. So the commits that
        were met are judged from below, and one that changes has its piles laid again, for the ones above it.
        """
        touched = set(keys)
        judged: list[tuple[int, CommitName]] = []
        for name in suspects:
            heappush(judged, (self._order[name], name))
        for key in touched:
            self._lay(key, judged)
        while judged:
            _, name = heappop(judged)
            pending = self._commits[name]
            if self._may_show(pending) is pending.is_shown:
                continue
            self._flip(pending)
            for key in pending.written():
                touched.add(key)
                self._lay(key, judged)
            for above in self.dependents(name):
                heappush(judged, (self._order[above], above))
        return touched

    def _lay(self, key: Key, met: list[tuple[int, CommitName]]) -> None:
        """Lays a pile from below, as far as anything has changed, and notes the commits that were laid."""
        value = self._base(key)
        for sheet in self._piles.get(key, ()):
            if not sheet.lies_on(value):
                self._about_to_change(key)
                sheet.lay(value)
                name = sheet.pending.name
                heappush(met, (self._order[name], name))
            value = sheet.shows

    def _may_show(self, pending: Pending) -> bool:
        """Whether all of it fits, and all it builds on is there: shown, or confirmed already."""
        if pending.has_landed:
            return False
        for sheet in self._sheets[pending.name].values():
            if not sheet.fits:
                return False
        return all(map(self._carries, pending.depends))

    def _carries(self, below: CommitName) -> bool:
        pending = self._commits.get(below)
        return pending is None or pending.is_shown or pending.has_landed

    def _flip(self, pending: Pending) -> None:
        for key in pending.written():
            self._about_to_change(key)
        pending.is_shown = not pending.is_shown
        for sheet in self._sheets[pending.name].values():
            sheet.lift()
