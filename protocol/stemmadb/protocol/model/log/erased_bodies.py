"""Bodies that are gone, and the erasures and compactions that explain them (ERASE-1, COMPACT-1)."""

from __future__ import annotations

from stemmadb.protocol.model.log.commit_record import Compact, Erase
from stemmadb.protocol.model.values.ids import EntityId, Version


class ErasedBodies:
    """Bodies that are gone and not yet explained: by version, the place and the entity (None for a note)."""

    def __init__(self) -> None:
        self._places: dict[Version, list[tuple[str, EntityId | None]]] = {}

    def add(self, version: Version, place: str, id_: EntityId | None) -> None:
        self._places.setdefault(version, []).append((place, id_))

    def erased(self, erase: Erase) -> None:
        """An erasure takes the bodies of its entities at their versions, and the notes there."""
        for entity in erase.every_entity():
            for version in entity.versions:
                left = [one for one in self._places.pop(version, []) if one[1] not in (entity.id, None)]
                if left:
                    self._places[version] = left

    def compacted(self, compact: Compact) -> None:
        """A compaction takes bodies below its floor, and no notes."""
        for version in [version for version in self._places if version < compact.floor]:
            left = [one for one in self._places.pop(version) if one[1] is None]
            if left:
                self._places[version] = left

    def first(self) -> tuple[Version, str] | None:
        version = min(self._places, default=None)
        return None if version is None else (version, self._places[version][0][0])
