"""The exact reader of msgpack bodies: everything MODEL-3 allows, nothing else, and the path of the first offence.

It goes through the bytes with a stack of its own, so no nesting exhausts Python's, and compares every declared
length with the bytes that are left before it makes anything, so no declared length costs memory.
"""

from __future__ import annotations

import math
import struct
from typing import Any, Final, NoReturn

from stemmadb.protocol.errors import InvalidValue, LimitExceeded
from stemmadb.protocol.model.values import pointer
from stemmadb.protocol.model.values.json_values import INT_MAX, Value
from stemmadb.protocol.model.values.limits import DEFAULTS

_SCALARS: dict[int, struct.Struct] = {
    0xCA: struct.Struct(">f"),
    0xCB: struct.Struct(">d"),
    0xCC: struct.Struct(">B"),
    0xCD: struct.Struct(">H"),
    0xCE: struct.Struct(">I"),
    0xCF: struct.Struct(">Q"),
    0xD0: struct.Struct(">b"),
    0xD1: struct.Struct(">h"),
    0xD2: struct.Struct(">i"),
    0xD3: struct.Struct(">q"),
}
ITEMS_MAX: Final = 1_000_000  # a microsecond for each; what is larger and well made the fast reader has taken
_CONSTANTS: dict[int, Value] = {0xC0: None, 0xC2: False, 0xC3: True}
_LENGTH_BYTES = {0xD9: 1, 0xDA: 2, 0xDB: 4, 0xDC: 2, 0xDD: 4, 0xDE: 2, 0xDF: 4}
_BINARY = frozenset({0xC4, 0xC5, 0xC6})
_EXTENSION = frozenset({0xC7, 0xC8, 0xC9, 0xD4, 0xD5, 0xD6, 0xD7, 0xD8})
_NO_KEY = object()


class _Open:
    """A container being filled."""

    __slots__ = ("key", "left", "value")

    def __init__(self, value: list[Value] | dict[str, Value], left: int) -> None:
        self.value = value
        self.left = left
        self.key: Any = _NO_KEY


def read(body: bytes, *, depth_max: int = DEFAULTS.depth_max) -> Value:
    """The one value in `body`; `InvalidValue` with the path and the reason otherwise."""
    return _Scan(body, depth_max).value()


class _Scan:
    def __init__(self, body: bytes, depth_max: int) -> None:
        self._body = body
        self._at = 0
        self._items = 0
        self._depth_max = depth_max
        self._stack: list[_Open] = []

    def value(self) -> Value:
        """Reads item after item; a finished container is handed to the one that holds it."""
        while True:
            self._items += 1
            if self._items > ITEMS_MAX:
                raise LimitExceeded(bound="exact_items_max", maximum=ITEMS_MAX, actual=self._items)
            item = self._item()
            if isinstance(item, _Open):
                if len(self._stack) >= self._depth_max:
                    self._fail(f"it is nested deeper than {self._depth_max}")
                if item.left:
                    self._stack.append(item)
                    continue
                done: Value = item.value
            else:
                done = item
            while self._stack:
                if not self._give(done):
                    break
                done = self._stack.pop().value
            else:
                if self._at != len(self._body):
                    self._fail(f"{len(self._body) - self._at} bytes follow the value")
                return done

    def _give(self, item: Value) -> bool:
        """Puts an item into the innermost open container; true when that filled it."""
        top = self._stack[-1]
        if isinstance(top.value, list):
            top.value.append(item)
        elif top.key is _NO_KEY:
            self._take_key(top, item)
            return False
        else:
            top.value[top.key] = item
            top.key = _NO_KEY
        top.left -= 1
        return top.left == 0

    def _take_key(self, top: _Open, key: Value) -> None:
        if not isinstance(key, str):
            self._fail(f"a key is {type(key).__name__}, not a string")
        if key in top.value:
            self._fail(f"the key {key[:80]!r} occurs twice")
        top.key = key

    def _item(self) -> Value | _Open:
        code = self._take(1)[0]
        if code <= 0x7F:
            return code
        if code >= 0xE0:
            return code - 0x100
        if code in _SCALARS:
            return self._number(_SCALARS[code])
        if code in _CONSTANTS:
            return _CONSTANTS[code]
        return self._sized(code)

    def _sized(self, code: int) -> str | _Open:
        """A string, an array or a map: what declares its length."""
        if 0xA0 <= code <= 0xBF:
            return self._text(code & 0x1F)
        if code <= 0x8F:
            return self._open({}, code & 0x0F)
        if code <= 0x9F:
            return self._open([], code & 0x0F)
        if code not in _LENGTH_BYTES:
            self._fail(_why_refused(code))
        length = int.from_bytes(self._take(_LENGTH_BYTES[code]), "big")
        if code <= 0xDB:
            return self._text(length)
        return self._open([] if code <= 0xDD else {}, length)

    def _open(self, value: list[Value] | dict[str, Value], length: int) -> _Open:
        needed = length * (1 if isinstance(value, list) else 2)
        if needed > len(self._body) - self._at:
            self._fail(f"it declares {length} items and ends before them")
        return _Open(value, length)

    def _number(self, form: struct.Struct) -> int | float:
        number: int | float = form.unpack(self._take(form.size))[0]
        if isinstance(number, float):
            if not math.isfinite(number):
                self._fail("the number is not finite")
        elif number > INT_MAX:
            self._fail("the integer does not fit in 64 bits")
        return number

    def _text(self, length: int) -> str:
        try:
            return self._take(length).decode()
        except UnicodeDecodeError:
            self._fail("the string is not valid UTF-8")

    def _take(self, count: int) -> bytes:
        end = self._at + count
        if end > len(self._body):
            self._fail("it ends in the middle of an item")
        taken = self._body[self._at : end]
        self._at = end
        return taken

    def _fail(self, why: str) -> NoReturn:
        raise InvalidValue(path=pointer.shown(pointer.write(self._path())), why=why)

    def _path(self) -> list[str]:
        tokens: list[str] = []
        for opened in self._stack:
            if isinstance(opened.value, list):
                tokens.append(str(len(opened.value)))
            elif opened.key is not _NO_KEY:
                tokens.append(opened.key)
        return tokens


def _why_refused(code: int) -> str:
    if code in _BINARY:
        return "binary is not a JSON type; upload a blob and refer to it"
    if code in _EXTENSION:
        return "a msgpack extension is not a JSON type"
    return f"{code:#04x} begins no msgpack item"
