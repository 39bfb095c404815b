"""Stamps: which version wrote each part of a value, kept as a tree beside it.

A stamp speaks for everything beneath it, except where a deeper stamp says otherwise. Writing a whole value is one
stamp; writing `/a/b` later adds one at `/a/b`. What was removed keeps its stamp: a deletion was written too. Arrays
are leaves, because elements have no names to follow: whatever is written inside one is written to the array.

A stamp also knows which increments are in what it stamps, since equal sums are not the same change (MERGE-3).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import TypeAlias, TypeGuard

import msgspec

from stemmadb.protocol.model import patch
from stemmadb.protocol.model.history.difference import opened
from stemmadb.protocol.model.patch import operation as op
from stemmadb.protocol.model.patch.apply import increased
from stemmadb.protocol.model.patch.operation import Fault, Operation, Tokens
from stemmadb.protocol.model.values import pointer
from stemmadb.protocol.model.values.ids import Version
from stemmadb.protocol.model.values.json_values import Value

_NOTHING: Mapping[str, Stamp] = {}

Increments: TypeAlias = Mapping[Version, int | float]
IsCommon: TypeAlias = Callable[[Version], bool]
"""Whether a commit was made before two branches split, so that both have it in common (`ancestry.split`)."""


def nothing(version: Version) -> bool:  # noqa: ARG001  # as `IsCommon` is called
    """Where nothing is in common."""
    return False


class Count(msgspec.Struct, frozen=True, eq=False):
    """The increments in a number since it had the value `start` at `root`: one more, or those of two sides together.

    Made by the commit of `version`, which made the number `value`. Each node shares those before it, so that a long
    history of increments takes one node for each.
    """

    root: Version
    start: int | float
    version: Version
    value: int | float
    amount: int | float | None = None
    before: tuple[Count, ...] = ()


class Stamp(msgspec.Struct, frozen=True):
    """Written at `version`, `assigned` by something else than an increment at that one, and incremented since."""

    version: Version
    assigned: Version
    below: Mapping[str, Stamp] = _NOTHING
    count: Count | None = None


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


def is_number(content: object) -> TypeGuard[int | float]:
    return type(content) is int or type(content) is float


def start(stamp: Stamp, value: int | float) -> int | float:
    """What a number was before its increments."""
    return value if stamp.count is None else stamp.count.start


def root(stamp: Stamp) -> Version:
    """The version at which it was that."""
    return stamp.assigned if stamp.count is None else stamp.count.root


def total(amounts: Collection[int | float]) -> int | float | None:
    """The sum, the same in any order; None if no number can hold it."""
    is_exact = all(type(amount) is int for amount in amounts)
    try:
        return increased(sum(amounts) if is_exact else math.fsum(amounts), 0)
    except (Fault, OverflowError):
        return None


def united(
    mine: Stamp, old: object, theirs: Stamp, other: object, new: object, version: Version, is_common: IsCommon
) -> Count | None:
    """The increments of both sides, if they are what the number is made of after a merge; None if not.

    They are not where a side had lost some of them to a conflict, or loses them now, or where the sides count from
    two assignments that are not both later than the split of the branches.
    """
    if not (is_number(old) and is_number(other) and is_number(new)):
        return None
    roots, begin = {root(mine), root(theirs)}, start(mine, old)
    if len(roots) > 1 and begin != start(theirs, other):
        return None
    both = increments(mine.count).keys() | increments(theirs.count).keys()
    if added((mine, old), (theirs, other), both, is_common) != new:
        return None
    if len(roots) > 1 and any(map(is_common, roots)):
        return None
    counts = tuple(side.count for side in (mine, theirs) if side.count)
    return Count(root(mine), begin, version, new, before=counts)


def added(
    one: tuple[Stamp, int | float],
    other: tuple[Stamp, int | float],
    retained: Collection[Version],
    is_common: IsCommon,
) -> int | float | None:
    """What two numbers come to that count from one assignment, with the increments retained of both.

    One of them, and what the other one alone has. With floats that depends on which one it is reckoned from, so it is
    reckoned from what they had in common when they split, or else it is the smaller. None if no number can hold it.
    """
    (stamp, value), (other_stamp, other_value) = one, other
    of_one, of_other = increments(stamp.count), increments(other_stamp.count)
    amounts = of_one | of_other
    total_of_one = total((value, *_change(of_one, of_other, retained)))
    if all(type(amount) is int for amount in (value, other_value, *amounts.values())):
        return total_of_one
    begin = _common_start(stamp, value, is_common)
    if begin is not None and begin == _common_start(other_stamp, other_value, is_common):
        return total((begin[1], *(amounts[at] for at in retained if not is_common(at))))
    totals = (total_of_one, total((other_value, *_change(of_other, of_one, retained))))
    return min((found for found in totals if found is not None), default=None)


def _change(own: Increments, others: Increments, retained: Collection[Version]) -> Iterator[int | float]:
    """What leads from a number with its own increments to one with those that are retained."""
    yield from (by for at, by in others.items() if at in retained and at not in own)
    yield from (-by for at, by in own.items() if at not in retained)


def _common_start(stamp: Stamp, value: int | float, is_common: IsCommon) -> tuple[Version | None, int | float] | None:
    """What a number was when the branches split, and since when; None where it is made of several of such."""
    if stamp.count is None:
        return None, value
    found: dict[Version | None, int | float] = {}
    for node in _nodes(stamp.count, is_common):
        if is_common(node.version):
            found[node.version] = node.value
        elif not node.before:
            found[None] = node.start
    return found.popitem() if len(found) == 1 else None


def increments(count: Count | None) -> dict[Version, int | float]:
    """The increments of a count: the version of each and how much it added."""
    found: dict[Version, int | float] = {}
    for node in _nodes(count):
        if node.amount is not None:
            found[node.version] = found.get(node.version, 0) + node.amount
    return found


def _nodes(count: Count | None, is_last: IsCommon = nothing) -> Iterator[Count]:
    """A count and those before it, each once, and none before one that is the last to be looked at."""
    seen: set[int] = set()
    todo = [count] if count is not None else []
    while todo:
        node = todo.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        yield node
        if not is_last(node.version):
            todo.extend(node.before)


def counted(stamp: Stamp, path: Tokens = ()) -> Iterator[tuple[Tokens, Stamp]]:
    """Each place that holds increments."""
    if stamp.count is not None:
        yield path, stamp
    for key, below in stamp.below.items():
        yield from counted(below, (*path, key))


def latest(stamp: Stamp) -> Version:
    """The highest version anywhere in the tree."""
    return max([stamp.version, *map(latest, stamp.below.values())])


class _Leaf(msgspec.Struct, frozen=True):
    path: str
    value: Value
    stamp: Stamp


def leaves(value: Value, stamp: Stamp) -> Iterator[tuple[str, Version]]:
    """Each leaf path of a value with its version; a scalar, an array and an empty object are leaves.

    An object is one too, with the highest version in it, where the paths would take more than `PATH_BYTES_MAX`.
    """
    for leaf in opened([_Leaf(pointer.ROOT, value, stamp)], _inside):
        yield leaf.path, latest(leaf.stamp)


def _inside(leaf: _Leaf) -> Iterator[_Leaf] | None:
    value, stamp, path = leaf.value, leaf.stamp, leaf.path
    if not isinstance(value, dict) or not value:
        return None
    return (_Leaf(f"{path}/{pointer.escape(key)}", item, child(stamp, key)) for key, item in value.items())


def patched(value: Value, stamp: Stamp, operations: Sequence[Operation], version: Version) -> tuple[Value, Stamp]:
    """The value after a patch that was admitted, and its stamps: what an operation names is written, if equal too."""
    for operation in operations:
        for path in _written(operation):
            place = _outside_arrays(value, path)
            old, found = at(stamp, place), _found(value, place)
            is_inside = path != place or operation["op"] == "splice"
            stamp = put(stamp, place, _stamped(old, operation, version, found, is_inside=is_inside))
        value = patch.apply(value, [operation])
    return value, stamp


def named(stamp: Stamp, operations: Sequence[Operation], version: Version) -> Stamp:
    """The stamps after a patch of a value that is not known: what lies inside an array is stamped beneath it."""
    for operation in operations:
        for path in _written(operation):
            stamp = put(stamp, path, whole(version))
    return stamp


def _stamped(old: Stamp, operation: Operation, version: Version, value: Value, *, is_inside: bool) -> Stamp:
    """The stamp of a place after an operation on it, or on what is inside the array there."""
    if operation["op"] != "increment":
        return Stamp(version, version, count=old.count if is_inside else None)
    if is_inside:  # an array is compared as a whole, but what was counted in it is not the same change either
        return Stamp(version, version, count=_increased(old, 0, version, 0))
    assert is_number(value), "the increment was admitted"
    return Stamp(version, old.assigned, count=_increased(old, value, version, op.step(operation)))


def _increased(old: Stamp, value: int | float, version: Version, by: int | float) -> Count:
    if old.count is None:
        return Count(old.assigned, value, version, increased(value, by), by)
    return Count(old.count.root, old.count.start, version, increased(value, by), by, (old.count,))


def _found(value: Value, path: Tokens) -> Value:
    """What is at a path outside arrays; null where nothing is yet."""
    for key in path:
        value = value.get(key) if isinstance(value, dict) else None
    return value


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
