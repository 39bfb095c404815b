"""What a view shows of an entity, and the pending commits it is seen through, which reads name (COMMIT-4)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple, TypeAlias

from stemmadb.client.nursery.commit_names import NO_COMMITS, CommitNames
from stemmadb.client.nursery.entities import CommitName, Nothing
from stemmadb.protocol.model.log import changes
from stemmadb.protocol.model.values import pointer
from stemmadb.protocol.model.values.ids import Version
from stemmadb.protocol.model.values.json_values import Value

Paths: TypeAlias = tuple[str, ...] | None
"""What a commit writes of an entity, as JSON Pointers; None is the whole entity."""


class ShownLayer(NamedTuple):
    """What one pending commit does to one entity, as the view shows it."""

    name: CommitName
    paths: Paths
    value: Value | Nothing
    """What is shown with this layer on top."""


class ShownLayers:
    """Immutable, the lowest first. A layer on top of n others costs a copy of n references."""

    __slots__ = ("_by_paths", "_each", "names")

    def __init__(self, each: tuple[ShownLayer, ...], names: CommitNames, by_paths: Mapping[Paths, CommitNames]):
        self._each = each
        self.names = names
        """All of them."""
        self._by_paths = by_paths
        """Those that write the same places together: a read compares its path with each of them once."""

    @classmethod
    def of(cls, layers: Iterable[ShownLayer]) -> ShownLayers:
        each = tuple(layers)
        by_paths: dict[Paths, list[CommitName]] = {}
        for layer in each:
            by_paths.setdefault(layer.paths, []).append(layer.name)
        named = {paths: CommitNames.of(names) for paths, names in by_paths.items()}
        return cls(each, CommitNames.of([layer.name for layer in each]), named)

    def under(self, layer: ShownLayer) -> ShownLayers:
        """These with one more layer on top."""
        beside = self._by_paths.get(layer.paths, NO_COMMITS).followed_by(layer.name)
        return ShownLayers(
            (*self._each, layer), self.names.followed_by(layer.name), {**self._by_paths, layer.paths: beside}
        )

    def through(self, path: str) -> CommitNames:
        """The pending commits that a read of this path sees, in their order."""
        met = [paths for paths in self._by_paths if _is_met(paths, path)]
        if len(met) == len(self._by_paths):
            return self.names
        if len(met) == 1:
            return self._by_paths[met[0]]
        return CommitNames.of([layer.name for layer in self._each if layer.paths in met])

    def __iter__(self) -> Iterator[ShownLayer]:
        return iter(self._each)

    def __len__(self) -> int:
        return len(self._each)

    def __repr__(self) -> str:
        return f"ShownLayers{self._each}"


NO_LAYERS: Final = ShownLayers.of(())


class Shown(NamedTuple):
    """An entity in a view: its value, the confirmed version beneath, and the pending commits it is seen through.

    A layer that is skipped, since it no longer applies, is not among `layers`.
    """

    value: Value | Nothing
    basis: Version
    """The version to declare for a read of it: the view's own for what is watched, else the one it was read at."""
    layers: ShownLayers = NO_LAYERS


def _is_met(paths: Paths, path: str) -> bool:
    """A patch of very many paths counts as one of the whole entity when it is decided, so it is named as one."""
    if path == pointer.ROOT or paths is None or len(paths) > changes.PATHS_MAX:
        return True
    return any(pointer.overlaps(written, path) for written in paths)
