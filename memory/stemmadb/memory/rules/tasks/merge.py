"""Three versions of a file become one: as of the last sync (base), in the directory (mine), in the store (theirs).

base {a: 1, b: 1}, mine {a: 2, b: 1}, theirs {a: 1, b: 3}  ->  {a: 2, b: 3}
base {a: 1},       mine {a: 2},       theirs {a: 3}        ->  a clash in a
base none,         mine {a: 1},       theirs {a: 2}        ->  a clash: both made it
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import msgspec

ABSENT: Final = object()


class Clash(NamedTuple):
    """Both sides changed the same; nothing of the file is written."""

    fields: tuple[str, ...]
    """Empty if one side deleted what the other changed, or the file has no fields."""
    why: str


def is_same(one: Any, other: Any) -> bool:
    """Whether two JSON values are equal; to Python 1, 1.0 and true are."""
    if one is ABSENT or other is ABSENT or one is other:
        return one is other
    return bool(one == other) and msgspec.json.encode(one, order="sorted") == msgspec.json.encode(
        other, order="sorted"
    )


def merge_values(base: Any, mine: Any, theirs: Any) -> Any | Clash:
    """The merged value, None if it is deleted, or a clash. None stands for a file that is not there."""
    if is_same(mine, theirs) or is_same(theirs, base):
        return mine
    if is_same(mine, base):
        return theirs
    if mine is None:
        return Clash((), "it was deleted here and changed in the store")
    if theirs is None:
        return Clash((), "it was changed here and deleted in the store")
    if not isinstance(mine, Mapping) or not isinstance(theirs, Mapping):
        return Clash((), "both sides changed it")
    if not isinstance(base, Mapping):
        return Clash(_differing(mine, theirs), "both sides made it")
    return _merge_fields(base, mine, theirs)


def with_side_taken(base: Any, mine: Any, theirs: Any, *, takes_mine: bool) -> tuple[Any, Any]:
    """Base and mine such that what clashes is settled for one side; what only one side changed is still merged."""
    if not (isinstance(base, Mapping) and isinstance(mine, Mapping) and isinstance(theirs, Mapping)):
        return theirs, mine if takes_mine else theirs
    clash = _merge_fields(base, mine, theirs)
    fields = clash.fields if isinstance(clash, Clash) else ()
    base, mine = dict(base), dict(mine)
    for field in fields:
        for side in (base,) if takes_mine else (base, mine):
            side.pop(field, None)
            if field in theirs:
                side[field] = theirs[field]
    return base, mine


def _merge_fields(base: Mapping[str, Any], mine: Mapping[str, Any], theirs: Mapping[str, Any]) -> Any | Clash:
    merged, clashing = {}, []
    for field in sorted(base.keys() | mine.keys() | theirs.keys()):
        before, here, there = (side.get(field, ABSENT) for side in (base, mine, theirs))
        is_mine_unchanged = is_same(here, before)
        if not (is_mine_unchanged or is_same(here, there) or is_same(there, before)):
            clashing.append(field)
        value = there if is_mine_unchanged else here
        if value is not ABSENT:
            merged[field] = value
    return Clash(tuple(clashing), f"both sides changed {', '.join(clashing)}") if clashing else merged


def _differing(mine: Mapping[str, Any], theirs: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(
        field
        for field in sorted(mine.keys() | theirs.keys())
        if not is_same(mine.get(field, ABSENT), theirs.get(field, ABSENT))
    )
