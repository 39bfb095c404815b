"""The strategy `fields`: three-way inside objects, arrays whole, increments of both sides added (MERGE-3)."""

from __future__ import annotations

from stemmadb.protocol.model.history import stamps
from stemmadb.protocol.model.history.difference import Content, item, keys, same
from stemmadb.protocol.model.history.stamps import Stamp
from stemmadb.protocol.model.log.state import Missing
from stemmadb.protocol.model.merge import counters, precedence
from stemmadb.protocol.model.merge.report import ContestedPath
from stemmadb.protocol.model.merge.sides import Candidate
from stemmadb.protocol.model.values.json_values import Value

Path = tuple[str, ...]


def merge_fields(entity: Candidate) -> tuple[Content, list[ContestedPath]]:
    """The merged content, and each place where both sides changed the same thing differently."""
    merge = _Merge(entity)
    content = merge.at((), entity.base_content, entity.source.content, entity.target.content)
    return content, merge.contested


class _Merge:
    def __init__(self, entity: Candidate) -> None:
        self._entity = entity
        self.contested: list[ContestedPath] = []

    def at(self, path: Path, base: Content, source: Content, target: Content) -> Content:
        """What the merge puts at a path, given what is there at the base, the source and the target."""
        if not self._entity.is_crossed:  # what bases made crosswise have in common is not seen by their values
            if same(source, base):
                return target
            if same(target, base):
                return source
        if isinstance(source, dict) and isinstance(target, dict):
            return self._object(path, base, source, target)
        added = counters.add(self._entity, path, base, source, target)
        if added is not None:
            return self._sum(path, added)
        if self._entity.is_crossed:
            if self._is_as_at_base(path, base, source, self._entity.source_stamp):
                return target
            if self._is_as_at_base(path, base, target, self._entity.target_stamp):
                return source
        if same(source, target) and not (counters.can_count(source) and not counters.are_equal(self._entity, path)):
            return target
        return self._later(path, base, source, target)

    def _is_as_at_base(self, path: Path, base: Content, side: Content, stamp: Stamp) -> bool:
        return same(side, base) and not counters.has_news(self._entity, stamp, path)

    def _sum(self, path: Path, added: counters.Sum) -> Content:
        if added.winner == "both":
            self.contested.append(ContestedPath(path, "both"))
        return added.value

    def _object(
        self, path: Path, base: Content, source: dict[str, Value], target: dict[str, Value]
    ) -> dict[str, Value]:
        merged: dict[str, Value] = {}
        for key in keys(target, source):
            content = self.at((*path, key), item(base, key), item(source, key), item(target, key))
            if not isinstance(content, Missing):
                merged[key] = content
        return merged

    def _later(self, path: Path, base: Content, source: Content, target: Content) -> Content:
        """The same leaf, or delete against edit: as `lww` on that leaf."""
        mine, theirs = stamps.at(self._entity.source_stamp, path), stamps.at(self._entity.target_stamp, path)
        is_common = self._entity.is_common
        if same(source, base) != same(target, base):
            # One side's increments came to nothing: no value tells of that change, only its origin does.
            wins = precedence.latest(mine, is_common) > precedence.latest(theirs, is_common)
        else:
            wins = precedence.source_is_later(base, source, target, mine, theirs, is_common)
        self.contested.append(ContestedPath(path, "source" if wins else "target"))
        return source if wins else target
