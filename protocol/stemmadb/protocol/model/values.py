"""JSON values: what may be stored, and when two are equal (MODEL-3)."""

from __future__ import annotations

import math
from typing import Final, TypeAlias

from stemmadb.protocol.errors import InvalidValue
from stemmadb.protocol.model import pointer
from stemmadb.protocol.model.limits import DEFAULTS

Value: TypeAlias = bool | int | float | str | list["Value"] | dict[str, "Value"] | None

INT_MIN: Final = -(2**63)
INT_MAX: Final = 2**63 - 1


def check(value: object, depth_max: int = DEFAULTS.depth_max) -> Value:
    """The same object, known to be a value; otherwise `InvalidValue` with the path of the first offence.

    Walks without recursion, so that no nesting, not even a list that holds itself, can exhaust the stack. An item
    takes at least a byte, so a value shared within itself so often that it has more items than bytes is refused.
    """
    items = 0
    todo: list[tuple[object, tuple[str, ...]]] = [(value, ())]
    while todo:
        item, path = todo.pop()
        items += 1
        if items > DEFAULTS.value_bytes_max:
            raise InvalidValue(path=pointer.write(path), why=f"it has more than {items - 1} items")
        if why := _offence(item):
            raise InvalidValue(path=pointer.write(path), why=why)
        if isinstance(item, list | dict):
            if len(path) >= depth_max:
                raise InvalidValue(path=pointer.write(path), why=f"it is nested deeper than {depth_max}")
            todo.extend(_children(item, path))
    return value  # type: ignore[return-value]  # every part of it was just looked at


def _children(item: list[object] | dict[str, object], path: tuple[str, ...]) -> list[tuple[object, tuple[str, ...]]]:
    pairs = enumerate(item) if isinstance(item, list) else item.items()
    return [(child, (*path, str(key))) for key, child in pairs][::-1]


def _offence(item: object) -> str | None:
    """Why this one item is not JSON, without its children."""
    kind = type(item)
    if kind is str:
        return text_offence(item)  # type: ignore[arg-type]
    if kind is int:
        return None if INT_MIN <= item <= INT_MAX else "the integer does not fit in 64 bits"  # type: ignore[operator]
    if kind is float:
        return None if math.isfinite(item) else "the number is not finite"  # type: ignore[arg-type]
    if kind is dict:
        return _key_offence(item)  # type: ignore[arg-type]
    if item is None or kind is bool or kind is list:
        return None
    return f"{kind.__name__} is not a JSON type"


def _key_offence(item: dict[object, object]) -> str | None:
    for key in item:
        if type(key) is not str:
            return f"a key is {type(key).__name__}, not a string"
        if why := text_offence(key):
            return f"a key is not valid: {why}"
    return None


def text_offence(text: str) -> str | None:
    """Why the text is not valid Unicode, if it is not."""
    if text.isascii():
        return None
    try:
        text.encode()
    except UnicodeEncodeError:
        return "the string holds a lone surrogate"
    return None


def equal(left: Value, right: Value) -> bool:
    """Equal as JSON: numbers by value (1 = 1.0), a bool never equals a number, key order does not count."""
    if left is right:
        return True
    # Python's own comparison is faster and only ever too generous: it takes True for 1.
    return left == right and _kinds_agree(left, right)


def _kinds_agree(left: Value, right: Value) -> bool:
    """Of two values that Python holds equal: is every bool met by a bool?"""
    todo: list[tuple[Value, Value]] = [(left, right)]
    while todo:
        one, other = todo.pop()
        if one is other:
            continue
        if isinstance(one, dict) and isinstance(other, dict):
            todo.extend((one[key], other[key]) for key in one)
        elif isinstance(one, list) and isinstance(other, list):
            todo.extend(zip(one, other, strict=True))
        elif isinstance(one, bool) is not isinstance(other, bool):
            return False
    return True


def depth(value: Value) -> int:
    """How many containers are nested: 0 for a scalar, 1 for `[]`."""
    deepest = 0
    todo: list[tuple[Value, int]] = [(value, 1)]
    while todo:
        item, level = todo.pop()
        if isinstance(item, dict):
            deepest = max(deepest, level)
            todo.extend((child, level + 1) for child in item.values())
        elif isinstance(item, list):
            deepest = max(deepest, level)
            todo.extend((child, level + 1) for child in item)
    return deepest
