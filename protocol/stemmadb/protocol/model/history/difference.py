"""Difference: where two states differ, per entity and per path (HISTORY-1)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final, Literal, Protocol, TypeAlias, TypeVar

import msgspec

from stemmadb.protocol.model.log.state import Missing
from stemmadb.protocol.model.values import json_values, pointer
from stemmadb.protocol.model.values.ids import EntityId
from stemmadb.protocol.model.values.json_values import Value

Content: TypeAlias = Value | Missing
"""What is at a place: a value, nothing, or something that is not known any more."""
PATH_BYTES_MAX: Final = 1 << 20
"""How much the paths told of one entity, or of the conflicts of one merge, may take together."""
GONE: Final = frozenset({Missing.ERASED, Missing.COMPACTED})


class PathChange(msgspec.Struct, frozen=True):
    """One place that differs. What came or went whole is one change at its highest path."""

    path: str
    kind: Literal["added", "removed", "changed"]
    old: Content
    new: Content


def entity(old: Content, new: Content) -> list[PathChange]:
    """What leads from one state of an entity to another, in the order of the old value's keys, then the new one's.

    Arrays of equal length are compared element by element; others differ as a whole, since elements have no names.
    Where the paths would take more than `PATH_BYTES_MAX`, it goes only as deep everywhere as they do not.
    """
    if same(old, new):
        return []
    return opened([PathChange(pointer.ROOT, _kind(old, new), old, new)], _inside)


def states(old: Mapping[EntityId, Content], new: Mapping[EntityId, Content]) -> dict[EntityId, list[PathChange]]:
    """The entities that differ between two states, in the order of their ids; an entity not named is absent.

    The states need to hold only entities with facts where the two lineages are apart (`branch.apart`).
    """
    changes = {id_: entity(old.get(id_, Missing.ABSENT), new.get(id_, Missing.ABSENT)) for id_ in {*old, *new}}
    return {id_: changes[id_] for id_ in sorted(changes) if changes[id_]}


class DifferencePlace(Protocol):
    """Something at a path."""

    @property
    def path(self) -> str: ...


Opened = TypeVar("Opened", bound=DifferencePlace)


def opened(places: list[Opened], inside: Callable[[Opened], Iterable[Opened] | None]) -> list[Opened]:
    """The places, opened level by level as long as their paths together take at most `PATH_BYTES_MAX`.

    A path repeats the keys above it, so that a few bytes of a value can have paths of many times its length. `inside`
    says what is one level below a place; None for one that cannot be opened.
    """
    while True:
        below: list[Opened] = []
        left, is_open = PATH_BYTES_MAX, False
        for place in places:
            inner = inside(place)
            is_open |= inner is not None
            for found in (place,) if inner is None else inner:
                left -= len(found.path.encode())
                if left < 0:
                    return places
                below.append(found)
        if not is_open:
            return places
        places = below


def _inside(change: PathChange) -> Iterator[PathChange] | None:
    old, new, path = change.old, change.new, change.path
    if isinstance(old, dict) and isinstance(new, dict):
        pairs = ((pointer.escape(key), item(old, key), item(new, key)) for key in keys(old, new))
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        pairs = ((str(at), one, other) for at, (one, other) in enumerate(zip(old, new, strict=True)))
    else:
        return None
    return (
        PathChange(f"{path}/{key}", _kind(one, other), one, other)
        for key, one, other in pairs
        if not same(one, other)
    )


def _kind(old: Content, new: Content) -> Literal["added", "removed", "changed"]:
    if old is Missing.ABSENT:
        return "added"
    return "removed" if new is Missing.ABSENT else "changed"


def same(one: Content, other: Content) -> bool:
    """Equal values, or missing for the same reason."""
    if isinstance(one, Missing) or isinstance(other, Missing):
        return one is other
    return json_values.equal(one, other)


def is_gone(content: Content) -> bool:
    """Whether there was something that is not known any more."""
    return isinstance(content, Missing) and content in GONE


def item(content: Content, key: str) -> Content:
    """What is at a key: nothing beneath what is not an object, and nothing known beneath what is gone."""
    if isinstance(content, dict):
        return content.get(key, Missing.ABSENT)
    return content if isinstance(content, Missing) else Missing.ABSENT


def keys(*objects: dict[str, Value]) -> list[str]:
    """All keys, each once, in the order of the first object that has it."""
    return list(dict.fromkeys(key for one in objects for key in one))
