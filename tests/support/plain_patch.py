"""JSON Patch by RFC 6902 and docs/spec/01-data-model.md (PATCH-1): small and slow, it copies the whole value."""

from __future__ import annotations

import copy
import math
from typing import Any

INTEGERS = range(-(2**63), 2**63)


class CannotApply(Exception):
    """The operation at `index` of a patch cannot be applied."""

    def __init__(self, index: int, why: str) -> None:
        super().__init__(f"operation {index}: {why}")
        self.index = index


class _Wrong(Exception):
    pass


def apply(value: Any, operations: list[Any]) -> Any:
    """The value after all operations; the old one is left as it was."""
    value = copy.deepcopy(value)
    for index, operation in enumerate(operations):
        try:
            value = _one(value, operation)
        except _Wrong as wrong:
            raise CannotApply(index, str(wrong)) from None
    return value


def equal(left: Any, right: Any) -> bool:
    """Equality of JSON: 1 equals 1.0, true does not equal 1, the order of keys does not count (MODEL-3)."""
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(equal(item, right[key]) for key, item in left.items())
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(equal, left, right))
    return (type(left) is type(right) and left == right) or (_is_number(left) and _is_number(right) and left == right)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _one(root: Any, operation: Any) -> Any:
    if not isinstance(operation, dict):
        raise _Wrong("it is no object")
    name, path = operation.get("op"), _segments(_member(operation, "path"))
    if name == "add":
        return _put(root, path, copy.deepcopy(_member(operation, "value")), insert=True)
    if name == "replace":
        _get(root, path)
        return _put(root, path, copy.deepcopy(_member(operation, "value")), insert=False)
    if name == "remove":
        return _remove(root, path)
    if name == "test":
        if not equal(_get(root, path), _member(operation, "value")):
            raise _Wrong("the test fails")
        return root
    if name in ("move", "copy"):
        return _carry(root, _segments(_member(operation, "from")), path, moving=name == "move")
    if name == "splice":
        return _splice(root, path, operation)
    if name == "increment":
        return _put(root, path, _sum(_get(root, path), _member(operation, "by")), insert=False)
    raise _Wrong(f"there is no operation {name!r}")


def _member(operation: dict[str, Any], name: str) -> Any:
    if name not in operation:
        raise _Wrong(f"{name} is missing")
    return operation[name]


def _segments(pointer: Any) -> list[str]:
    if not isinstance(pointer, str) or (pointer and not pointer.startswith("/")):
        raise _Wrong("it is no JSON Pointer")
    found = pointer.split("/")[1:]
    for segment in found:
        if "~" in segment.replace("~0", "").replace("~1", ""):
            raise _Wrong("it has a bad escape")
    return [segment.replace("~1", "/").replace("~0", "~") for segment in found]


def _index(segment: str, length: int) -> int:
    """The place in an array that a segment names; it is below `length`."""
    if not segment.isascii() or not segment.isdigit() or (segment[0] == "0" and segment != "0"):
        raise _Wrong(f"{segment!r} is no index")
    if int(segment) >= length:
        raise _Wrong(f"{segment} is beyond the end")
    return int(segment)


def _get(root: Any, path: list[str]) -> Any:
    for segment in path:
        if isinstance(root, dict):
            if segment not in root:
                raise _Wrong(f"there is no {segment!r}")
            root = root[segment]
        elif isinstance(root, list):
            root = root[_index(segment, len(root))]
        else:
            raise _Wrong("a scalar has no members")
    return root


def _put(root: Any, path: list[str], value: Any, *, insert: bool) -> Any:
    if not path:
        return value
    holder, last = _get(root, path[:-1]), path[-1]
    if isinstance(holder, dict):
        holder[last] = value
    elif not isinstance(holder, list):
        raise _Wrong("a scalar has no members")
    elif insert:
        holder.insert(len(holder) if last == "-" else _index(last, len(holder) + 1), value)
    else:
        holder[_index(last, len(holder))] = value
    return root


def _remove(root: Any, path: list[str]) -> Any:
    if not path:
        raise _Wrong("the whole value cannot be removed")
    holder, last = _get(root, path[:-1]), path[-1]
    if isinstance(holder, dict):
        if last not in holder:
            raise _Wrong(f"there is no {last!r}")
        del holder[last]
    elif isinstance(holder, list):
        del holder[_index(last, len(holder))]
    else:
        raise _Wrong("a scalar has no members")
    return root


def _carry(root: Any, source: list[str], path: list[str], *, moving: bool) -> Any:
    value = copy.deepcopy(_get(root, source))
    if moving and path == source:
        return root
    if moving and path[: len(source)] == source:
        raise _Wrong("nothing moves into itself")
    if moving:
        root = _remove(root, source) if source else root
    return _put(root, path, value, insert=True)


def _splice(root: Any, path: list[str], operation: dict[str, Any]) -> Any:
    array, index, removed, added = (
        _get(root, path), _member(operation, "index"), _member(operation, "remove"), _member(operation, "add")
    )  # fmt: skip
    if not isinstance(array, list) or not isinstance(added, list):
        raise _Wrong("it is no array")
    if index < 0 or removed < 0 or index + removed > len(array):
        raise _Wrong("it is beyond the end")
    return _put(root, path, [*array[:index], *copy.deepcopy(added), *array[index + removed :]], insert=False)


def _sum(number: Any, by: Any) -> Any:
    if not _is_number(number) or not _is_number(by):
        raise _Wrong("it is no number")
    try:
        total = number + by
    except OverflowError:
        raise _Wrong("the sum is no number") from None
    if isinstance(total, int) and total not in INTEGERS:
        raise _Wrong("the sum is beyond 64 bits")
    if isinstance(total, float) and not math.isfinite(total):
        raise _Wrong("the sum is not finite")
    return total
