"""A view: confirmed with the pending layers on top, as it was when it was captured (NURSERY-2)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from stemmadb.client.nursery.confirmed import WatchCoverage
from stemmadb.client.nursery.entities import ABSENT, UNKNOWN, Absent, Key, Nothing
from stemmadb.client.nursery.layers import EntityLayer
from stemmadb.client.nursery.operations import DoesNotApply, after
from stemmadb.client.nursery.shown import Shown, ShownLayer, ShownLayers
from stemmadb.protocol.model.values.ids import BranchName, EntityId, Version
from stemmadb.protocol.model.values.json_values import Value


class ViewSource(Protocol):
    """Where a view reads entities that have not changed since it was captured."""

    def present(self, key: Key, to: Version) -> Shown | None:
        """The entity as it is now, if it is held, doubtful or written; what is watched has this version beneath."""
        ...

    def shown_layers(self, key: Key) -> tuple[EntityLayer, ...]:
        """The layers that are shown now."""
        ...

    def ids_under(self, branch: BranchName, prefix: str) -> Iterable[EntityId]:
        """Entities under the prefix that are watched or written by pending commits, now."""
        ...


class NurseryView:
    """Immutable and free to create: an entity is retained for the view just before it changes."""

    def __init__(self, source: ViewSource, *, branch: BranchName, to: Version, coverage: WatchCoverage) -> None:
        self.branch = branch
        self.to = to
        self._source = source
        self._coverage = coverage
        self._retained: dict[EntityId, tuple[Shown | None, tuple[EntityLayer, ...]]] = {}

    def shown(self, id_: EntityId) -> Shown | None:
        """The entity as it was; None if it is not in the view: neither held, nor written, nor known to be absent."""
        if id_ in self._retained:
            return self._retained[id_][0]
        now = self._source.present((self.branch, id_), self.to)
        if now is None:
            return Shown(ABSENT, self.to) if self._coverage.has(id_) else None
        return None if now.value is UNKNOWN and not now.layers else now

    def listing(self, prefix: str) -> dict[EntityId, Shown] | None:
        """Everything under the prefix; None unless a filled watch without a schema covers all of it."""
        if not prefix.startswith(self._coverage.prefixes):
            return None
        found: dict[EntityId, Shown] = {}
        for id_ in self._ids(prefix):
            shown = self.shown(id_)
            if shown is None or shown.value is UNKNOWN:
                return None
            if shown.value is not ABSENT:
                found[id_] = shown
        return found

    def layers_under(self, prefix: str) -> dict[EntityId, ShownLayers]:
        """The entities under the prefix that pending commits wrote when the view was captured."""
        found = {id_: self.shown(id_) for id_ in self._ids(prefix)}
        return {id_: shown.layers for id_, shown in found.items() if shown is not None and shown.layers}

    def replayed(self, id_: EntityId, base: Value | Absent) -> Shown:
        """What the view would show if the confirmed value at its version were this one."""
        value: Value | Nothing = base
        layers: list[ShownLayer] = []
        for layer in self._layers_of(id_):
            try:
                value = after(value, layer.writes)
            except DoesNotApply:
                continue
            layers.append(ShownLayer(layer.pending.name, layer.paths, value))
        return Shown(value, self.to, ShownLayers.of(layers))

    def _layers_of(self, id_: EntityId) -> tuple[EntityLayer, ...]:
        return self._retained[id_][1] if id_ in self._retained else self._source.shown_layers((self.branch, id_))

    def _ids(self, prefix: str) -> list[EntityId]:
        ids = set(self._source.ids_under(self.branch, prefix))
        ids.update(id_ for id_ in self._retained if id_.startswith(prefix))
        return sorted(ids)

    def retain(self, id_: EntityId) -> None:
        """Called before the entity changes: retains what the view shows of it."""
        if id_ not in self._retained:
            self._retained[id_] = (self.shown(id_), self._layers_of(id_))
