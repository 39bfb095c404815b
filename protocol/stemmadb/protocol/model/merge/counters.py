"""Counters: which increments the sides of a merge hold, and what they add up to (MERGE-3).

Equal results of increments are not the same change: 1 -> 2 on both sides is two increments, and makes 3. A number is
what it was assigned, and each increment since. An increment counts if both sides hold it, or if one side does and no
base: so none counts twice, however often branches were merged crosswise.
"""

from __future__ import annotations

from collections.abc import Set
from typing import Literal

import msgspec

from stemmadb.protocol.model.history import stamps
from stemmadb.protocol.model.history.difference import Content, item, keys, same
from stemmadb.protocol.model.history.stamps import Stamp, is_number
from stemmadb.protocol.model.log.state import Missing
from stemmadb.protocol.model.merge.sides import Candidate
from stemmadb.protocol.model.values.ids import Version

Path = tuple[str, ...]


class Sum(msgspec.Struct, frozen=True):
    """A number that counts what both sides counted, and whose increments it took."""

    value: int | float
    winner: Literal["source", "target", "both"]


def add(entity: Candidate, path: Path, base: Content, source: Content, target: Content) -> Sum | None:
    """What the increments of both sides make; None where more than increments differs, or no number can hold it."""
    if not (is_number(source) and is_number(target)):
        return None
    theirs, mine = stamps.at(entity.source_stamp, path), stamps.at(entity.target_stamp, path)
    of_source, of_target = stamps.increments(theirs.count), stamps.increments(mine.count)
    known, shared = _known(entity, path), of_source.keys() & of_target.keys()
    if not _same_root(entity, path, source, target):
        if is_number(base) and shared <= known and _only_incremented(entity, path):
            return _sum(stamps.total((source, target, -base)))
        return None
    retained = shared | ((of_source.keys() | of_target.keys()) - known)
    if retained == of_target.keys():
        return Sum(target, "target")
    if retained == of_source.keys():
        return Sum(source, "source")
    return _sum(stamps.added((mine, target), (theirs, source), retained, entity.is_common))


def _sum(value: int | float | None) -> Sum | None:
    return None if value is None else Sum(value, "both")


def _only_incremented(entity: Candidate, path: Path) -> bool:
    """Whether there is one base, and nothing was assigned since: what differs from it was counted."""
    sides = entity.source_stamp, entity.target_stamp, entity.base_stamps[0]
    return not entity.is_crossed and len({stamps.at(side, path).assigned for side in sides}) == 1


def _same_root(entity: Candidate, path: Path, source: int | float, target: int | float) -> bool:
    """Whether both sides count from one assignment, or from two of an equal value that can be one.

    They can if both were made since the branches split, and a base knows both, or none does. If it knows one only,
    the other is a change of one side.
    """
    theirs, mine = stamps.at(entity.source_stamp, path), stamps.at(entity.target_stamp, path)
    if stamps.root(theirs) == stamps.root(mine):
        return True
    if stamps.start(theirs, source) != stamps.start(mine, target):
        return False
    if any(stamps.root(side) != side.assigned for side in (theirs, mine)):
        return False  # a sum of what cannot be told
    if any(entity.is_common(side.assigned) for side in (theirs, mine)):
        return False
    return _is_known(entity, path, theirs.assigned) == _is_known(entity, path, mine.assigned)


def _is_known(entity: Candidate, path: Path, assigned: Version) -> bool:
    return any(
        stamps.at(stamp, path).assigned == assigned or (base.knows is not None and base.knows(assigned))
        for base, stamp in zip(entity.bases, entity.base_stamps, strict=True)
    )


def are_equal(entity: Candidate, path: Path) -> bool:
    """Whether both sides hold the same increments at a path: if not, equal values are not the same change."""
    theirs, mine = stamps.at(entity.source_stamp, path), stamps.at(entity.target_stamp, path)
    apart = stamps.increments(theirs.count).keys() ^ stamps.increments(mine.count).keys()
    return all(map(entity.is_common, apart))


def has_news(entity: Candidate, side: Stamp, path: Path = ()) -> bool:
    """Whether a side holds increments, at a path or beneath, that no base holds, though the value may be equal.

    To be asked where bases were made crosswise. With one base, increments without an effect come to nothing.
    """
    return any(
        not all(map(entity.is_common, stamps.increments(found.count).keys() - _known(entity, place)))
        for place, found in stamps.counted(stamps.at(side, path), path)
    )


def hidden_in(entity: Candidate) -> bool:
    """Whether sides with equal results still made different changes: somewhere both counted."""
    if not _can_hide(Missing.ERASED if entity.is_crossed else entity.base_content, entity.source.content):
        return False  # most often, and without a look at the history
    places = {path for side in (entity.source_stamp, entity.target_stamp) for path, _ in stamps.counted(side)}
    return any(_both_changed(entity, path) and not are_equal(entity, path) for path in places)


def can_count(content: Content) -> bool:
    """Whether there can be increments in it: a number, or an array, in which they are not told apart."""
    return is_number(content) or isinstance(content, list)


def _can_hide(base: Content, value: Content) -> bool:
    if isinstance(value, dict):
        return any(_can_hide(item(base, key), value[key]) for key in keys(value))
    return can_count(value) and not same(base, value)


def _both_changed(entity: Candidate, path: Path) -> bool:
    base, value = entity.base_content, entity.source.content
    for key in path:
        base, value = item(base, key), item(value, key)
    if not same(base, value):
        return True
    sides = entity.source_stamp, entity.target_stamp
    return entity.is_crossed and all(has_news(entity, side, path) for side in sides)


def _known(entity: Candidate, path: Path) -> Set[Version]:
    """The increments that a base holds at a path."""
    return {at for stamp in entity.base_stamps for at in stamps.increments(stamps.at(stamp, path).count)}
