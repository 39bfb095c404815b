"""The layers of pending commits: what each entity looks like with them on top (NURSERY-1, NURSERY-3).

Each entity that pending commits write has a list of layers over its confirmed value, the oldest first. A commit is
shown whole or not at all: if one of its operations does not apply, or a commit it builds on is not shown, all its
layers are skipped until that changes.

Example: `x` is confirmed as 1, and two pending commits increment it.

    push(A), push(B)     x: 1 | A shows 2 | B shows 3
    A is confirmed       x: 2 | B shows 3             A is removed, B is applied to the new confirmed value
    B is rejected        x: 2                         B is removed; commits that read through B leave with it
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Container, Iterable, Iterator
from heapq import heappop, heappush
from typing import Final, TypeAlias

from stemmadb.client.nursery.dependents import Dependents
from stemmadb.client.nursery.entities import CommitName, Key, Nothing
from stemmadb.client.nursery.operations import DoesNotApply, after
from stemmadb.client.nursery.pending import Pending
from stemmadb.client.nursery.plans import CommitWrite
from stemmadb.client.nursery.shown import NO_LAYERS, ShownLayer, ShownLayers
from stemmadb.protocol.model.values.ids import BranchName
from stemmadb.protocol.model.values.json_values import Value

Base: TypeAlias = Callable[[Key], Value | Nothing]
"""The confirmed value beneath the layers of an entity."""
AboutToChange: TypeAlias = Callable[[Key], None]
"""Called before what is shown of an entity changes, so that open views can keep it."""
_NOWHERE: Final = object()


class EntityLayer:
    """One pending commit's writes to one entity, the value beneath them, and the value shown with them applied."""

    __slots__ = ("_before", "_shown", "applies", "paths", "pending", "shows", "writes")

    def __init__(self, pending: Pending, writes: tuple[CommitWrite, ...]) -> None:
        self.pending = pending
        self.writes = writes
        self.paths = _paths(writes)
        """What it writes, each path once; None for the whole entity."""
        self.applies = True
        self.shows: Value | Nothing
        self._before: object = _NOWHERE
        self._shown: ShownLayer | None = None

    def is_applied_to(self, value: Value | Nothing) -> bool:
        """True if it was applied to this very value: values never change, so what it shows is still right."""
        return self._before is value

    def invalidate(self) -> None:
        """Forces it to be applied again, whatever is beneath."""
        self._before = _NOWHERE

    def apply(self, value: Value | Nothing) -> None:
        """Applies the writes to this value; shows it unchanged if they do not apply or the commit is not shown."""
        self._before, self._shown = value, None
        try:
            over = after(value, self.writes)
            self.applies = True
        except DoesNotApply:
            over, self.applies = value, False
        self.shows = over if self.pending.is_shown else value

    def shown(self) -> ShownLayer:
        """The layer as views show it; built once for all of them."""
        if self._shown is None:
            self._shown = ShownLayer(self.pending.name, self.paths, self.shows)
        return self._shown


def _paths(writes: tuple[CommitWrite, ...]) -> tuple[str, ...] | None:
    if len(writes) == 1:
        return writes[0].paths
    paths: dict[str, None] = {}
    for write in writes:
        if write.paths is None:
            return None
        paths.update(dict.fromkeys(write.paths))
    return tuple(paths)


class PendingLayers:
    """Pending commits in order, and their layers by entity."""

    def __init__(self, base: Base, about_to_change: AboutToChange) -> None:
        self._base = base
        self._about_to_change = about_to_change
        self._commits: dict[CommitName, Pending] = {}
        self._order: dict[CommitName, int] = {}
        self._count = 0
        self._by_commit: dict[CommitName, dict[Key, EntityLayer]] = {}
        self._by_entity: dict[Key, list[EntityLayer]] = {}
        self._seen_through: dict[Key, ShownLayers] = {}
        """The shown layers as views keep them: made when asked for, dropped when a layer below the top changes."""
        self._hidden: dict[CommitName, Pending] = {}
        """The commits that are not shown; nearly always there are none."""
        self._dependents = Dependents()
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
        return self._by_entity.keys()

    def has(self, key: Key) -> bool:
        return key in self._by_entity

    def dependents(self, name: CommitName, *, beside: Container[CommitName] = ()) -> list[CommitName]:
        """The pending commits that were read through this one, in order, without those that are given."""
        found = {one for one in self._dependents.of(name) if one not in beside}
        return sorted(found, key=self._order.__getitem__)

    def hidden_above(self, names: Collection[CommitName]) -> set[CommitName]:
        """The hidden commits that were read through one of these."""
        return {one.name for one in self._hidden.values() if any(one.depends.among(names))}

    # ------------------------------------------------------------ what is shown

    def shown(self, key: Key) -> Value | Nothing:
        """The value with every layer on top; the confirmed one where there are none."""
        layers = self._by_entity.get(key)
        return layers[-1].shows if layers else self._base(key)

    def shown_layers(self, key: Key) -> tuple[EntityLayer, ...]:
        """The layers that are shown, the lowest first."""
        return tuple(one for one in self._by_entity.get(key, ()) if one.pending.is_shown)

    def seen_through(self, key: Key) -> ShownLayers:
        """The same for views, which keep them."""
        if key not in self._by_entity:
            return NO_LAYERS
        found = self._seen_through.get(key)
        if found is None:
            found = ShownLayers.of(layer.shown() for layer in self.shown_layers(key))
            self._seen_through[key] = found
        return found

    def shown_on(self, pending: Pending, key: Key, value: Value | Nothing) -> Value | Nothing | None:
        """What the commit's layer shows, if it is shown and was applied to this very value; None otherwise."""
        layer = self._by_commit[pending.name][key]
        return layer.shows if pending.is_shown and layer.is_applied_to(value) else None

    def is_lowest(self, pending: Pending, key: Key) -> bool:
        """True if no other commit is between this one and the confirmed value."""
        return self._by_entity[key][0].pending is pending

    def over(self, key: Key, value: Value | Nothing) -> Value | Nothing:
        """What would be shown if the confirmed value were this one."""
        for layer in self._by_entity.get(key, ()):
            if layer.pending.is_shown:
                try:
                    value = after(value, layer.writes)
                except DoesNotApply:
                    continue
        return value

    # ------------------------------------------------------------ changing it

    def push(self, pending: Pending) -> None:
        """Adds a commit on top. Costs what it writes and the runs of commits it was read through."""
        name = pending.name
        self._count += 1
        self._commits[name], self._order[name] = pending, self._count
        if pending.depends.runs:
            self._dependents.add(name, pending.depends)
        self.branches[pending.branch] += 1
        own = self._by_commit[name] = {}
        for key in pending.keys:
            self._about_to_change(key)
            layer = EntityLayer(pending, tuple([pending.writes[index] for index in pending.by_id[key[1]]]))
            layer.apply(self.shown(key))
            self._by_entity.setdefault(key, []).append(layer)
            own[key] = layer
        if self._may_show(pending):
            for key, layer in own.items():
                seen = self._seen_through.get(key)
                if seen is not None:
                    self._seen_through[key] = seen.under(layer.shown())
        else:
            self._flip(pending)
            self.replay(pending.keys)

    def remove(self, decided: Iterable[Pending]) -> None:
        """Removes commits. Call `replay` for their entities next."""
        names = {one.name for one in decided}
        keys = {key for name in names for key in self._commits[name].keys}
        for key in keys:
            self._about_to_change(key)
            self._seen_through.pop(key, None)
            left = [layer for layer in self._by_entity[key] if layer.pending.name not in names]
            if left:
                self._by_entity[key] = left
            else:
                del self._by_entity[key]
        for name in names:
            pending = self._commits.pop(name)
            self.branches[pending.branch] -= 1
            if pending.depends.runs:
                self._dependents.discard(name, pending.depends)
            self._hidden.pop(name, None)
            del self._order[name], self._by_commit[name]

    def replay(self, keys: Iterable[Key], suspects: Iterable[CommitName] = ()) -> set[Key]:
        """Applies the layers of these entities anew; returns the entities whose shown value may have changed.

        Whether a commit is shown depends only on the confirmed values and the commits before it. So the commits whose
        layers were applied are judged from the oldest up; one that changes has the layers above it applied again.
        """
        touched = set(keys)
        judged: list[tuple[int, CommitName]] = []
        for name in suspects:
            heappush(judged, (self._order[name], name))
        for key in touched:
            self._apply_layers(key, judged)
        while judged:
            _, name = heappop(judged)
            pending = self._commits[name]
            if self._may_show(pending) is pending.is_shown:
                continue
            self._flip(pending)
            for key in pending.keys:
                touched.add(key)
                self._apply_layers(key, judged)
            for above in self.dependents(name):
                heappush(judged, (self._order[above], above))
        return touched

    def _apply_layers(self, key: Key, met: list[tuple[int, CommitName]]) -> None:
        """Applies the layers of an entity from below where something changed, and notes their commits."""
        value = self._base(key)
        for layer in self._by_entity.get(key, ()):
            if not layer.is_applied_to(value):
                self._about_to_change(key)
                self._seen_through.pop(key, None)
                layer.apply(value)
                name = layer.pending.name
                heappush(met, (self._order[name], name))
            value = layer.shows

    def _may_show(self, pending: Pending) -> bool:
        """True if all its layers apply and every commit it builds on is shown or confirmed."""
        if pending.is_integrated:
            return False
        for layer in self._by_commit[pending.name].values():
            if not layer.applies:
                return False
        hidden = self._hidden
        return not hidden or all(hidden[name].is_integrated for name in pending.depends.among(hidden))

    def _flip(self, pending: Pending) -> None:
        for key in pending.keys:
            self._about_to_change(key)
            self._seen_through.pop(key, None)
        pending.is_shown = not pending.is_shown
        if pending.is_shown:
            del self._hidden[pending.name]
        else:
            self._hidden[pending.name] = pending
        for layer in self._by_commit[pending.name].values():
            layer.invalidate()
