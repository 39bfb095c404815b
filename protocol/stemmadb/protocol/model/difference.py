"""Difference: where two states differ, per entity and per path (HISTORY-1)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, Literal, TypeAlias

import msgspec

from stemmadb.protocol.model import pointer, values
from stemmadb.protocol.model.ids import EntityId
from stemmadb.protocol.model.state import Missing
from stemmadb.protocol.model.values import Value

Content: TypeAlias = Value | Missing
"""What is at a place: a value, nothing, or something that is not known any more."""
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
    """
    return list(_changes(old, new, pointer.ROOT))


def states(old: Mapping[EntityId, Content], new: Mapping[EntityId, Content]) -> dict[EntityId, list[PathChange]]:
    """The entities that differ between two states, in the order of their ids; an entity not named is absent.

    The states need to hold only entities with facts where the two lineages are apart (`branch.apart`).
    """
    changes = {id_: entity(old.get(id_, Missing.ABSENT), new.get(id_, Missing.ABSENT)) for id_ in {*old, *new}}
    return {id_: changes[id_] for id_ in sorted(changes) if changes[id_]}


def _changes(old: Content, new: Content, path: str) -> Iterator[PathChange]:
    if same(old, new):
        return
    if isinstance(old, dict) and isinstance(new, dict):
        for key in keys(old, new):
            yield from _changes(item(old, key), item(new, key), f"{path}/{pointer.escape(key)}")
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for index, (one, other) in enumerate(zip(old, new, strict=True)):
            yield from _changes(one, other, f"{path}/{index}")
    else:
        yield PathChange(path, _kind(old, new), old, new)


def _kind(old: Content, new: Content) -> Literal["added", "removed", "changed"]:
    if old is Missing.ABSENT:
        return "added"
    return "removed" if new is Missing.ABSENT else "changed"


def same(one: Content, other: Content) -> bool:
    """Equal values, or missing for the same reason."""
    if isinstance(one, Missing) or isinstance(other, Missing):
        return one is other
    return values.equal(one, other)


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
