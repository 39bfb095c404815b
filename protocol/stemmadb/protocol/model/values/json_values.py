"""JSON values: what may be stored, and when two are equal (MODEL-3)."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Final, TypeAlias

from stemmadb.protocol.errors import InvalidValue
from stemmadb.protocol.model.values import pointer
from stemmadb.protocol.model.values.limits import DEFAULTS

Value: TypeAlias = bool | int | float | str | list["Value"] | dict[str, "Value"] | None

INT_MIN: Final = -(2**63)
INT_MAX: Final = 2**63 - 1


def check(value: object, depth_max: int = DEFAULTS.depth_max, items_max: int | None = None) -> Value:
    """The same object, known to be a value; otherwise `InvalidValue` with the path of the first offence.

    Walks with one iterator for each level, so that no nesting, not even a list that holds itself, can exhaust the
    stack, and the walk takes no memory of its own. An item takes at least a byte, so a value shared within itself so
    often that it has more items than bytes is refused.
    """
    bound = DEFAULTS.value_bytes_max if items_max is None else items_max
    items = 0
    keys: list[object] = [pointer.ROOT]  # where each level stands; the first is the value itself and has no key
    levels: list[Iterator[tuple[object, object]]] = [iter([(pointer.ROOT, value)])]
    while levels:
        for key, item in levels[-1]:
            items += 1
            # What most items of a large value are, without a call for each.
            if type(item) is int and INT_MIN <= item <= INT_MAX and items <= bound:
                continue
            keys[-1] = key
            why = _offence(item) if items <= bound else f"it has more than {bound} items"
            if isinstance(item, list | dict) and len(levels) > depth_max:
                why = why or f"it is nested deeper than {depth_max}"
            if why:
                raise InvalidValue(path=pointer.write(str(key) for key in keys[1:]), why=why)
            if item and isinstance(item, list | dict):
                levels.append(enumerate(item) if isinstance(item, list) else iter(item.items()))
                keys.append(pointer.ROOT)
                break
        else:
            levels.pop()
            keys.pop()
    return value  # type: ignore[return-value]  # every part of it was just looked at


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
