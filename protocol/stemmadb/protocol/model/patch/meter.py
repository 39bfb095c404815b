"""Keeps the encoded size of a value under change exact, and within its bounds, without encoding it again.

Only what comes and what goes is encoded. The change is judged before it is made, so a patch that copies the value
into itself stops at the bound, having used no more memory than the bound.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain
from typing import Final

import msgspec

from stemmadb.protocol.errors import LimitExceeded
from stemmadb.protocol.model.values.json_values import Value
from stemmadb.protocol.model.values.limits import MEBIBYTE

encode: Final = msgspec.msgpack.Encoder().encode
WORK_FACTOR_MAX: Final = 4
DEPTH_EXTRA: Final = 3  # walking a value takes several times as long as encoding it, which was counted before


class Work:
    """What has been measured, copied and shifted so far, for one patch or for all patches of a commit."""

    __slots__ = ("done", "maximum")

    def __init__(self, size_max: int) -> None:
        self.done = 0
        self.maximum = WORK_FACTOR_MAX * size_max + MEBIBYTE

    def spend(self, amount: int) -> None:
        self.done += amount
        if self.done > self.maximum:
            raise LimitExceeded(bound="patch_work_bytes_max", maximum=self.maximum, actual=self.done)


class Meter:
    """The minimal msgpack length of the value so far. A bound that is passed is named in `LimitExceeded`.

    A copied value is measured again each time, so few bytes of patch could ask for a great deal of work. In all,
    `WORK_FACTOR_MAX` times the largest value (and a mebibyte, for small bounds) may be measured; what has to be
    walked for its depth counts more, and what is copied or shifts counts by its items.
    """

    __slots__ = ("_depth_max", "_size_max", "_spend", "size")

    def __init__(self, size: int, size_max: int, depth_max: int, work: Work) -> None:
        self.size = size
        self._size_max = size_max
        self._depth_max = depth_max
        self._spend = work.spend

    def grow(self, count: int, key: str, value: Value, level: int) -> None:
        """A key and its value come into an object of `count`; `level` containers will hold the value."""
        came = len(encode((key, value))) - 1
        self._change(head(count + 1) - head(count) + came, came)
        if level + came > self._depth_max:
            self._check_depth((value,), level, came)

    def shrink(self, count: int, key: str, value: Value) -> None:
        """A key and its value go from an object of `count`."""
        went = len(encode((key, value))) - 1
        self._change(head(count - 1) - head(count) - went, went)

    def swap(self, old: Value, new: Value, level: int) -> None:
        """One value takes another's place."""
        came, went = len(encode(new)), len(encode(old))
        self._change(came - went, came + went)
        if level + came > self._depth_max:
            self._check_depth((new,), level, came)

    def cut(self, count: int, index: int, removed: list[Value], added: list[Value], level: int) -> None:
        """Elements go from an array of `count` at `index` and others come; those behind them shift."""
        self._spend(count - index)
        came, went = len(encode(added)) - head(len(added)), len(encode(removed)) - head(len(removed))
        heads = head(count - len(removed) + len(added)) - head(count)
        self._change(heads + came - went, came + went)
        if level + came > self._depth_max:
            self._check_depth(added, level, came)

    def _change(self, by: int, measured: int) -> None:
        """A patch that makes a value smaller is welcome even if it is still too large, as after a lowered bound."""
        self.size += by
        if by > 0 and self.size > self._size_max:
            raise LimitExceeded(bound="value_bytes_max", maximum=self._size_max, actual=self.size)
        self._spend(measured)

    def copied(self, items: int) -> None:
        """A container of so many items is copied before it is changed."""
        self._spend(items)

    def _check_depth(self, items: Iterable[Value], level: int, size: int) -> None:
        """Asked only of what is long: each nested container takes a byte, so what is short cannot be too deep."""
        self._spend(DEPTH_EXTRA * size)
        deepest = level + _depth(items)
        if deepest > self._depth_max:
            raise LimitExceeded(bound="depth_max", maximum=self._depth_max, actual=deepest)


def head(count: int) -> int:
    """The bytes msgpack writes before the items of an array or a map."""
    return 1 if count < 16 else 3 if count < 65536 else 5


def _depth(items: Iterable[Value]) -> int:
    """How deep containers nest in the items; level by level, which is a few times faster than item by item."""
    deepest = 0
    level = _containers(items)
    while level:
        deepest += 1
        level = _containers(chain.from_iterable(item.values() if type(item) is dict else item for item in level))
    return deepest


def _containers(items: Iterable[Value]) -> list[list[Value] | dict[str, Value]]:
    level = list(items)
    if set(map(type, level)).isdisjoint((list, dict)):  # most long arrays are flat, and this is several times faster
        return []
    return [item for item in level if type(item) is list or type(item) is dict]
