"""Counters: numbers that both sides only incremented since the base (MERGE-3).

Equal results of increments are not the same change: 1 -> 2 on both sides is two increments, and makes 3. That a
number was only incremented is seen by its stamps: if the last assignment has the same origin at the base and at both
sides, whatever lies between is increments, and each side's sum is its difference from the base.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeGuard

from stemmadb.protocol.model import stamps
from stemmadb.protocol.model.difference import Content, item
from stemmadb.protocol.model.merge.sides import Candidate
from stemmadb.protocol.model.patch.apply import increased
from stemmadb.protocol.model.patch.operation import Fault

Path = tuple[str, ...]


def both_counted(entity: Candidate, path: Path, base: Content, source: Content, target: Content) -> bool:
    """Whether both sides, which are known to have changed it, only incremented the number at the path."""
    if not (_is_number(base) and _is_number(source) and _is_number(target)):
        return False
    return _only_incremented(entity, path)


def _only_incremented(entity: Candidate, path: Path) -> bool:
    first, *others = [stamps.at(stamp, path) for stamp in entity.base_stamps]
    # Several bases count as one only if the same increments made them, since a sum says nothing about its parts.
    if any((other.version, other.assigned) != (first.version, first.assigned) for other in others):
        return False
    sides = stamps.at(entity.source_stamp, path), stamps.at(entity.target_stamp, path)
    return all(side.assigned == first.assigned for side in sides)


def total(base: Content, source: Content, target: Content) -> int | float | None:
    """The base with the increments of both sides; None if no number can hold it."""
    assert _is_number(base)
    assert _is_number(source)
    assert _is_number(target)
    try:
        return increased(target, source - base)
    except Fault:
        return None


def hidden_in(entity: Candidate) -> bool:
    """Whether sides with equal results still made different changes: somewhere both counted."""
    found = _numbers_changed(entity.base_content, entity.source.content, ())
    return any(_only_incremented(entity, path) for path in found)


def _numbers_changed(base: Content, side: Content, path: Path) -> Iterator[Path]:
    if isinstance(base, dict) and isinstance(side, dict):
        for key in base:
            yield from _numbers_changed(base[key], item(side, key), (*path, key))
    elif _is_number(base) and _is_number(side) and base != side:
        yield path


def _is_number(content: Content) -> TypeGuard[int | float]:
    return type(content) is int or type(content) is float
