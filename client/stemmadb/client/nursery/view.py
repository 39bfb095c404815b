"""A view: confirmed with the pending layers on top, as it was when it was captured (NURSERY-2)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from stemmadb.client.nursery.applying import DoesNotApply, after
from stemmadb.client.nursery.confirmed import Coverage
from stemmadb.client.nursery.held import ABSENT, UNKNOWN, Absent, Key, Layer, Nothing, Shown
from stemmadb.client.nursery.stack import Sheet
from stemmadb.protocol.model.ids import BranchName, EntityId, Version
from stemmadb.protocol.model.values import Value


class Source(Protocol):
    """What a view looks at, as far as nothing was kept from before a change."""

    def present(self, key: Key, to: Version) -> Shown | None:
        """The entity as it is now, if it is held, doubtful or written; what is watched has this version beneath."""
        ...

    def pile(self, key: Key) -> tuple[Sheet, ...]:
        """The layers that are shown now."""
        ...

    def ids_under(self, branch: BranchName, prefix: str) -> Iterable[EntityId]:
        """Entities under the prefix that are watched or written by pending commits, now."""
        ...


class View:
    """Immutable. It costs nothing to make: what changes later is kept for it just before."""

    def __init__(self, source: Source, *, branch: BranchName, to: Version, coverage: Coverage) -> None:
        self.branch = branch
        self.to = to
        self._source = source
        self._coverage = coverage
        self._kept: dict[EntityId, tuple[Shown | None, tuple[Sheet, ...]]] = {}

    def shown(self, id_: EntityId) -> Shown | None:
        """The entity as it was; None if it is not in the view: neither held, nor written, nor known to be absent."""
        if id_ in self._kept:
            return self._kept[id_][0]
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

    def layers_under(self, prefix: str) -> dict[EntityId, tuple[Layer, ...]]:
        """The entities under the prefix that pending commits wrote when the view was captured."""
        piles = {id_: self.shown(id_) for id_ in self._ids(prefix)}
        return {id_: shown.layers for id_, shown in piles.items() if shown is not None and shown.layers}

    def replayed(self, id_: EntityId, base: Value | Absent) -> Shown:
        """What the view would show if the confirmed value at its version were this one."""
        value: Value | Nothing = base
        layers: list[Layer] = []
        for sheet in self._pile(id_):
            try:
                value = after(value, sheet.writes)
            except DoesNotApply:
                continue
            layers.append(Layer(sheet.pending.name, sheet.paths, value))
        return Shown(value, self.to, tuple(layers))

    def _pile(self, id_: EntityId) -> tuple[Sheet, ...]:
        return self._kept[id_][1] if id_ in self._kept else self._source.pile((self.branch, id_))

    def _ids(self, prefix: str) -> list[EntityId]:
        ids = set(self._source.ids_under(self.branch, prefix))
        ids.update(id_ for id_ in self._kept if id_.startswith(prefix))
        return sorted(ids)

    def keep(self, id_: EntityId) -> None:
        """It is about to change: as it is now is as it was."""
        if id_ not in self._kept:
            self._kept[id_] = (self.shown(id_), self._pile(id_))
