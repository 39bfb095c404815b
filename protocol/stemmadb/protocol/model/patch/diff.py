"""The small patch that leads from one value to another (for `tx.update`, PATCH-3).

Objects are compared key by key. Of arrays, what is equal at both ends is left alone and the rest is spliced, or
changed element by element where that takes fewer bytes. Where no patch is smaller than the new value, the root is
replaced.
"""

from __future__ import annotations

from typing import Final, TypeAlias

import msgspec

from stemmadb.protocol.model import pointer, values
from stemmadb.protocol.model.limits import DEFAULTS
from stemmadb.protocol.model.values import Value

Step: TypeAlias = dict[str, Value]
_encode: Final = msgspec.msgpack.Encoder().encode


def diff(old: Value, new: Value) -> list[Step]:
    """Operations that lead from `old` to a value equal to `new`; none if the two are equal.

    The operations share parts of `new`; never more of them than a patch may have.
    """
    whole = _step("replace", pointer.ROOT, new)
    changes = _Changes(bytes_max=len(_encode(whole)))
    try:
        changes.between(old, new, pointer.ROOT)
    except _TooLarge:
        return [whole]
    return changes.steps


class _TooLarge(Exception):
    """The steps take more bytes than what they would save."""


class _Changes:
    """Steps that together stay within a number of bytes; `_TooLarge` as soon as they do not."""

    def __init__(self, bytes_max: int) -> None:
        self.steps: list[Step] = []
        self._bytes_left = bytes_max

    def between(self, old: Value, new: Value, path: str) -> None:
        """What leads from one value to the other at this path."""
        if isinstance(old, dict) and isinstance(new, dict):
            self._between_objects(old, new, path)
        elif isinstance(old, list) and isinstance(new, list):
            self._between_arrays(old, new, path)
        elif not values.equal(old, new):
            self._append(_step("replace", path, new))

    def _between_objects(self, old: dict[str, Value], new: dict[str, Value], path: str) -> None:
        for key in old:
            if key not in new:
                self._append({"op": "remove", "path": _below(path, key)})
        for key, value in new.items():
            if key in old:
                self.between(old[key], value, _below(path, key))
            else:
                self._append(_step("add", _below(path, key), value))

    def _between_arrays(self, old: list[Value], new: list[Value], path: str) -> None:
        start = _equal_ahead(old, new)
        gone, come = old[start:], new[start:]
        kept = _equal_ahead(gone[::-1], come[::-1])
        gone, come = gone[: len(gone) - kept], come[: len(come) - kept]
        if gone or come:
            hunks = align([_encode(item) for item in gone], [_encode(item) for item in come])
            self._smaller(_Elements(gone, come, path, start), hunks)

    def _append(self, step: Step) -> None:
        self._bytes_left -= len(_encode(step))
        self.steps.append(step)
        if self._bytes_left < 0 or len(self.steps) > DEFAULTS.patch_operations_max:
            raise _TooLarge


def _equal_ahead(old: list[Value], new: list[Value]) -> int:
    """How many elements are equal before the first that is not."""
    count = 0
    for one, other in zip(old, new, strict=False):
        if not values.equal(one, other):
            break
        count += 1
    return count


def _below(path: str, key: str) -> str:
    return f"{path}/{pointer.escape(key)}"


def _step(kind: str, path: str, value: Value) -> Step:
    return {"op": kind, "path": path, "value": value}


def _splice(path: str, index: int, remove: int, added: list[Value]) -> Step:
    return {"op": "splice", "path": path, "index": index, "remove": remove, "add": added}
