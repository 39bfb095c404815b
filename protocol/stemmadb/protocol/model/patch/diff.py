"""The small patch that leads from one value to another (for `tx.update`, PATCH-3).

Objects are compared key by key. Of arrays, what is equal is left alone and the rest is spliced, or changed element by
element where that takes fewer bytes. The root is replaced only where there would be more operations than a patch may
have: replacing it would take fewer bytes in a small document, and would collide with every other writer (COMMIT-3).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final, TypeAlias

import msgspec

from stemmadb.protocol.model.patch.align import Hunk, align
from stemmadb.protocol.model.values import json_values, pointer
from stemmadb.protocol.model.values.json_values import Value
from stemmadb.protocol.model.values.limits import DEFAULTS

Step: TypeAlias = dict[str, Value]
_encode: Final = msgspec.msgpack.Encoder().encode


def diff(old: Value, new: Value) -> list[Step]:
    """Operations that lead from `old` to a value equal to `new`; none if the two are equal.

    The operations share parts of `new`; never more of them than a patch may have.
    """
    changes = _Changes(bytes_max=math.inf)
    try:
        changes.between(old, new, pointer.ROOT)
    except _TooLarge:
        return [_step("replace", pointer.ROOT, new)]
    return changes.steps


class _TooLarge(Exception):
    """The steps take more bytes than what they would save."""


class _Changes:
    """Steps that together stay within a number of bytes; `_TooLarge` as soon as they do not."""

    def __init__(self, bytes_max: float) -> None:
        self.steps: list[Step] = []
        self._bytes_left = bytes_max

    def between(self, old: Value, new: Value, path: str) -> None:
        """What leads from one value to the other at this path."""
        if isinstance(old, dict) and isinstance(new, dict):
            self._between_objects(old, new, path)
        elif isinstance(old, list) and isinstance(new, list):
            self._between_arrays(old, new, path)
        elif not json_values.equal(old, new):
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
        removed, added = old[start:], new[start:]
        common = _equal_ahead(removed[::-1], added[::-1])
        removed, added = removed[: len(removed) - common], added[: len(added) - common]
        hunks = align([_encode(item) for item in removed], [_encode(item) for item in added])
        if len(hunks) == 1:
            self._between_runs(removed, added, path, start)
        elif hunks:
            self._between_hunks(hunks, removed, added, path, start)

    def _between_hunks(
        self, hunks: list[Hunk], removed: list[Value], added: list[Value], path: str, start: int
    ) -> None:
        """Hunk by hunk, each at its place in the new array, since those before it are new by then; or one splice."""

        def each(changes: _Changes) -> None:
            waiting = hunks[::-1]
            while waiting:
                hunk = waiting.pop()
                if waiting and (ends := _moved(hunk, waiting[-1], removed, added)):
                    waiting.pop()
                    changes._append(_move(path, start + ends[0], start + ends[1]))
                    continue
                old, new = removed[hunk.old_start : hunk.old_end], added[hunk.new_start : hunk.new_end]
                changes._between_runs(old, new, path, start + hunk.new_start)

        self._smaller(_splice(path, start, len(removed), added), each)

    def _between_runs(self, removed: list[Value], added: list[Value], path: str, start: int) -> None:
        """Element by element, and a splice for those that have no counterpart; or one splice for all."""
        pairs = min(len(removed), len(added))

        def each(changes: _Changes) -> None:
            for index, (old, new) in enumerate(zip(removed, added, strict=False), start):
                changes.between(old, new, f"{path}/{index}")
            if len(removed) != len(added):
                changes._append(_splice(path, start + pairs, len(removed) - pairs, added[pairs:]))

        self._smaller(_splice(path, start, len(removed), added), each)

    def _smaller(self, plain: Step, finer: Callable[[_Changes], None]) -> None:
        """The finer changes, unless they take more bytes than the plain step."""
        trial = _Changes(bytes_max=len(_encode(plain)))
        try:
            finer(trial)
        except _TooLarge:
            trial.steps = [plain]
        for step in trial.steps:
            self._append(step)

    def _append(self, step: Step) -> None:
        self._bytes_left -= len(_encode(step))
        self.steps.append(step)
        if self._bytes_left < 0 or len(self.steps) > DEFAULTS.patch_operations_max:
            raise _TooLarge


def _equal_ahead(old: list[Value], new: list[Value]) -> int:
    """How many elements are equal before the first that is not."""
    count = 0
    for one, other in zip(old, new, strict=False):
        if not json_values.equal(one, other):
            break
        count += 1
    return count


def _moved(hunk: Hunk, after: Hunk, removed: list[Value], added: list[Value]) -> tuple[int, int] | None:
    """From where to where, if the two hunks are one element that changed its place."""
    if (hunk.removes, hunk.adds, after.removes, after.adds) == (1, 0, 0, 1):
        same = json_values.equal(removed[hunk.old_start], added[after.new_start])
        return (hunk.new_start, after.new_start) if same else None
    if (hunk.removes, hunk.adds, after.removes, after.adds) == (0, 1, 1, 0):
        same = json_values.equal(removed[after.old_start], added[hunk.new_start])
        # It is taken out before it is put in, so it stands one place nearer than after the insertion.
        return (after.new_start - 1, hunk.new_start) if same else None
    return None


def _below(path: str, key: str) -> str:
    return f"{path}/{pointer.escape(key)}"


def _step(kind: str, path: str, value: Value) -> Step:
    return {"op": kind, "path": path, "value": value}


def _move(path: str, source: int, target: int) -> Step:
    return {"op": "move", "from": f"{path}/{source}", "path": f"{path}/{target}"}


def _splice(path: str, index: int, remove: int, added: list[Value]) -> Step:
    """A splice, or what does the same in fewer bytes."""
    if remove + len(added) == 1:
        place = f"{path}/{index}"
        return _step("add", place, added[0]) if added else {"op": "remove", "path": place}
    return {"op": "splice", "path": path, "index": index, "remove": remove, "add": added}
