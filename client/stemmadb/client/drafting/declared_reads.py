"""The declared reads of a draft: each place once, as few as claim the same (COMMIT-2, COMMIT-4)."""

from __future__ import annotations

from typing import Final, TypeAlias

from stemmadb.client.nursery.commit_names import CommitNames
from stemmadb.client.nursery.plans import PlannedRead
from stemmadb.client.nursery.shown import Shown, ShownLayers
from stemmadb.protocol.errors import LimitExceeded
from stemmadb.protocol.model.values import pointer
from stemmadb.protocol.model.values.ids import EntityId, Version
from stemmadb.protocol.model.values.limits import Limits

PATHS_MAX: Final = 32
"""The most paths that one patch declares; one that touches more declares the whole entity."""

_Places: TypeAlias = dict[str, Shown]


class Reads:
    """What was read, and as it was shown then. The reads themselves are made at the end, once it is known which."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._places: dict[EntityId, _Places] = {}
        self._prefixes: dict[str, PlannedRead] = {}
        self._count = 0

    def declare(self, id_: EntityId, path: str, shown: Shown) -> None:
        """A read of a path. Of two at different versions the older is kept: it claims more."""
        places = self._places.setdefault(id_, {})
        before = places.get(path)
        if before is None:
            self._add()
        elif before.basis <= shown.basis:
            return
        places[path] = shown

    def declare_prefix(self, prefix: str, version: Version, layers: dict[EntityId, ShownLayers]) -> None:
        """A read of all that is under a prefix, through every commit that is pending there."""
        if prefix in self._prefixes:
            return
        self._add()
        names = {layer.name for shown_layers in layers.values() for layer in shown_layers}
        in_order = CommitNames.of(sorted(names, key=lambda name: (name.local, name.session)))
        self._prefixes[prefix] = PlannedRead(version, prefix=prefix, through=in_order)

    def planned(self) -> tuple[PlannedRead, ...]:
        """The reads to declare, without those that a wider one of the same entity covers."""
        reads = [*self._prefixes.values(), *self._narrowest()]
        for read in reads:
            if read.through.runs and len(read.through) > self._limits.locals_max:
                actual = len(read.through)
                raise LimitExceeded(bound="locals_max", maximum=self._limits.locals_max, actual=actual)
        return tuple(reads)

    def _narrowest(self) -> list[PlannedRead]:
        return [
            PlannedRead(shown.basis, id_, None, path, shown.layers.through(path))
            for id_, places in self._places.items()
            for path, shown in places.items()
            if len(places) == 1 or not _is_covered(path, shown, places)
        ]

    def _add(self) -> None:
        """One more; only where they seem too many are they counted as they will be sent."""
        self._count += 1
        if self._count > self._limits.reads_max:
            self._drop_covered()
            self._count = 1 + len(self._prefixes) + sum(map(len, self._places.values()))
            if self._count > self._limits.reads_max:
                raise LimitExceeded(bound="reads_max", maximum=self._limits.reads_max, actual=self._count)

    def _drop_covered(self) -> None:
        for places in self._places.values():
            for path in [path for path, shown in places.items() if _is_covered(path, shown, places)]:
                del places[path]


def _is_covered(path: str, shown: Shown, places: _Places) -> bool:
    """Whether a wider read claims as much: at the same version, and through at least the same commits."""
    while path:
        path = pointer.parent(path)
        wider = places.get(path)
        if wider is not None and (wider is shown or _claims_the_same(wider, shown)):
            return True
    return False


def _claims_the_same(one: Shown, other: Shown) -> bool:
    return one.basis == other.basis and one.layers.names == other.layers.names
