"""Stamps: which version wrote each part of a value, kept as a tree beside it.

A stamp speaks for everything beneath it, except where a deeper stamp says otherwise. Writing a whole value is one
stamp; writing `/a/b` later adds one at `/a/b`. What was removed keeps its stamp: a deletion was written too. Arrays
are leaves, because elements have no names to follow: whatever is written inside one is written to the array.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from stemmadb.protocol.model import patch, pointer
from stemmadb.protocol.model.ids import Version
from stemmadb.protocol.model.patch import operation as op
from stemmadb.protocol.model.patch.operation import Operation, Tokens
from stemmadb.protocol.model.values import Value

_NOTHING: Mapping[str, Stamp] = {}


class Stamp(msgspec.Struct, frozen=True):
    """Written at `version`, and `assigned` by something else than an increment at that one.

    Two states of a number with the same `assigned` differ by increments only.
    """

    version: Version
    assigned: Version
    below: Mapping[str, Stamp] = _NOTHING


def whole(version: Version) -> Stamp:
    """Everything was written at this version."""
    return Stamp(version, version)


def child(stamp: Stamp, key: str) -> Stamp:
    """What is said about one key."""
    found = stamp.below.get(key)
    return found if found is not None else Stamp(stamp.version, stamp.assigned)


def at(stamp: Stamp, path: Sequence[str]) -> Stamp:
    """What is said about a path."""
    for key in path:
        stamp = child(stamp, key)
    return stamp


def put(stamp: Stamp, path: Sequence[str], new: Stamp) -> Stamp:
    """The tree with a part of it written anew; the old tree is not changed."""
    if not path:
        return new
    below = dict(stamp.below)
    below[path[0]] = put(child(stamp, path[0]), path[1:], new)
    return Stamp(stamp.version, stamp.assigned, below)


def latest(stamp: Stamp) -> Version:
    """The highest version anywhere in the tree."""
    return max([stamp.version, *map(latest, stamp.below.values())])


def leaves(value: Value, stamp: Stamp, path: str = pointer.ROOT) -> Iterator[tuple[str, Version]]:
    """Each leaf path of a value with its version; a scalar, an array and an empty object are leaves."""
    if isinstance(value, dict) and value:
        for key, item in value.items():
            yield from leaves(item, child(stamp, key), f"{path}/{pointer.escape(key)}")
    else:
        yield path, latest(stamp)


def patched(value: Value, stamp: Stamp, operations: Sequence[Operation], version: Version) -> tuple[Value, Stamp]:
    """The value after a patch that was admitted, and its stamps: what an operation names is written, if equal too."""
    for operation in operations:
        for path in _written(operation):
            place = _outside_arrays(value, path)
            is_count = operation["op"] == "increment" and len(place) == len(path)
            assigned = at(stamp, place).assigned if is_count else version
            stamp = put(stamp, place, Stamp(version, assigned))
        value = patch.apply(value, [operation])
    return value, stamp


def _written(operation: Operation) -> tuple[Tokens, ...]:
    if operation["op"] == "test":
        return ()
    if operation["op"] == "move":
        source, target = op.ends(operation)
        return (source, target) if source != target else ()
    return (op.tokens(operation),)


def _outside_arrays(value: Value, path: Tokens) -> Tokens:
    """The path, or the array it leads into."""
    for depth, key in enumerate(path):
        if isinstance(value, list):
            return path[:depth]
        value = value.get(key) if isinstance(value, dict) else None
    return path
