"""Previews: the beginning of a large value, small enough to show in a list (QUERY-9)."""

from __future__ import annotations

from typing import Final, TypeAlias

import msgspec

from stemmadb.protocol.model.values import pointer
from stemmadb.protocol.model.values.json_values import Value

PREVIEW_BYTES_MAX: Final = 512
"""Of JSON, in the value of a preview."""
OMITTED_MAX: Final = 32
"""Paths that a preview names."""
OMITTED_BYTES_MAX: Final = 512
"""What these paths take together."""
LEVELS_MAX: Final = 4
"""How deep a value is shortened from within; what lies deeper comes whole or not at all."""
_LEAST_MEMBER: Final = 2
"""The bytes of the smallest member of an array: a digit and a comma."""


class Preview(msgspec.Struct, frozen=True):
    """What is shown of a value. Of one that is no object or array, and too large, nothing: `value` is then None.

    `omitted` are paths that were left out, in order, as many as fit. Of an array the end is left out, so that what is
    kept has the paths that it has in the whole.
    """

    has_value: bool
    value: Value
    truncated: bool
    size: int
    omitted: tuple[str, ...]


class _Omitted(Exception):
    """Nothing of a value fits."""


Path: TypeAlias = tuple[str, ...]


def preview(value: Value) -> Preview:
    """The value, or as much of it as fits."""
    size = json_size(value)
    if size <= PREVIEW_BYTES_MAX:
        return Preview(True, value, False, size, ())
    shortening = _Shortening()
    try:
        kept = shortening.fit(value, PREVIEW_BYTES_MAX, ())
    except _Omitted:
        return Preview(False, None, True, size, (pointer.ROOT,))
    return Preview(True, kept, True, size, tuple(shortening.omitted))


def json_size(value: Value) -> int:
    """The bytes of a value as JSON, without spaces."""
    return len(msgspec.json.encode(value))


class _Shortening:
    """One value on its way to its preview. Members are kept in their order, each as far as it fits."""

    def __init__(self) -> None:
        self.omitted: list[str] = []
        self._room = OMITTED_BYTES_MAX

    def fit(self, value: Value, room: int, path: Path) -> Value:
        """The value, or what fits of it into that many bytes; `_Omitted` if nothing does."""
        if not isinstance(value, dict | list) or len(path) >= LEVELS_MAX or room < len(value):
            if room < _LEAST_MEMBER - 1 or json_size(value) > room:
                return self._shortened(value, room, path)
            return value
        return value if json_size(value) <= room else self._shortened(value, room, path)

    def _shortened(self, value: Value, room: int, path: Path) -> Value:
        if room < len("[]") or len(path) >= LEVELS_MAX or not isinstance(value, dict | list):
            raise _Omitted
        return self._object(value, room, path) if isinstance(value, dict) else self._array(value, room, path)

    def _object(self, value: dict[str, Value], room: int, path: Path) -> Value:
        kept: dict[str, Value] = {}
        left = room - len("{}")
        for name, member in value.items():
            left_for_it = left - json_size(name) - len(":") - (1 if kept else 0)
            try:
                if left_for_it < 1:
                    raise _Omitted
                kept[name] = self.fit(member, left_for_it, (*path, name))
            except _Omitted:
                if not self._omit((*path, name)) and left <= len('"":0'):
                    break
                continue
            left = left_for_it - json_size(kept[name])
        return kept

    def _array(self, value: list[Value], room: int, path: Path) -> Value:
        kept: list[Value] = []
        left = room - len("[]")
        for index, item in enumerate(value):
            left_for_it = left - (1 if kept else 0)
            try:
                if left_for_it < 1:
                    raise _Omitted
                kept.append(self.fit(item, left_for_it, (*path, str(index))))
            except _Omitted:
                self._omit((*path, str(index)))
                break
            left = left_for_it - json_size(kept[-1])
        return kept

    def _omit(self, path: Path) -> bool:
        """Whether there was room to name it."""
        text = pointer.write(path)
        self._room -= len(text.encode())
        if self._room < 0 or len(self.omitted) >= OMITTED_MAX:
            self._room = 0
            return False
        self.omitted.append(text)
        return True
