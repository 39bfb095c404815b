"""The exact look at msgpack bytes: that no map repeats a key and every key is a string.

The typed decoder takes the last of two equal keys without a word. Bytes that its result encodes to again hold no
such key, and that is how nearly every message is cleared; only others (a peer that writes keys in another order, or
writes defaults out) are walked here. The walk makes no objects, skips binary in one step and has a stack of its own.
"""

from __future__ import annotations

from typing import Final, NamedTuple, NoReturn

from stemmadb.protocol.errors import Malformed


class _Form(NamedTuple):
    """How an item begins: bytes before its payload, bytes that say a length, and what the length counts."""

    fixed: int = 0
    length_bytes: int = 0
    items_each: int = 0
    text: bool = False
    inline: int = 0


def _forms() -> list[_Form | None]:
    forms: list[_Form | None] = [_Form()] * 256
    for code in range(0x80, 0x90):
        forms[code] = _Form(items_each=2, inline=code & 0x0F)
    for code in range(0x90, 0xA0):
        forms[code] = _Form(items_each=1, inline=code & 0x0F)
    for code in range(0xA0, 0xC0):
        forms[code] = _Form(text=True, inline=code & 0x1F)
    sizes = {0xCA: 4, 0xCB: 8, 0xCC: 1, 0xCD: 2, 0xCE: 4, 0xCF: 8, 0xD0: 1, 0xD1: 2, 0xD2: 4, 0xD3: 8}
    forms[0xCA:0xD4] = [_Form(fixed=sizes[code]) for code in range(0xCA, 0xD4)]
    for code, width in ((0xC4, 1), (0xC5, 2), (0xC6, 4)):
        forms[code] = _Form(length_bytes=width)
    for code, width in ((0xD9, 1), (0xDA, 2), (0xDB, 4)):
        forms[code] = _Form(length_bytes=width, text=True)
    for code, width, items in ((0xDC, 2, 1), (0xDD, 4, 1), (0xDE, 2, 2), (0xDF, 4, 2)):
        forms[code] = _Form(length_bytes=width, items_each=items)
    for code in (0xC1, 0xC7, 0xC8, 0xC9, 0xD4, 0xD5, 0xD6, 0xD7, 0xD8):
        forms[code] = None
    return forms


_FORMS: Final = _forms()


def check(data: bytes, *, depth_max: int) -> None:
    """`Malformed` unless `data` is one item in which no map repeats a key."""
    walk = _Walk(data, depth_max)
    walk.run()


class _Walk:
    """`_left` counts the items that each open container still lacks; a map counts its keys as well."""

    def __init__(self, data: bytes, depth_max: int) -> None:
        self._data = data
        self._at = 0
        self._depth_max = depth_max
        self._left: list[int] = [1]
        self._keys: list[set[bytes] | None] = [None]

    def run(self) -> None:
        while self._left:
            if self._left[-1] == 0:
                self._left.pop()
                self._keys.pop()
                continue
            keys = self._keys[-1]
            is_key = keys is not None and self._left[-1] % 2 == 0
            self._left[-1] -= 1
            text = self._item()
            if is_key and keys is not None:
                self._take_key(keys, text)
        if self._at != len(self._data):
            self._fail(f"{len(self._data) - self._at} bytes follow the message")

    def _item(self) -> bytes | None:
        """Passes one item; opens it if it is a container, gives its bytes if it is a string."""
        form = _FORMS[self._take(1)[0]]
        if form is None:
            self._fail("it holds a msgpack extension or a byte that begins nothing")
        length = form.inline or int.from_bytes(self._take(form.length_bytes), "big")
        if form.items_each:
            self._open(length, form.items_each)
            return None
        if form.text:
            return self._take(length)
        self._skip(form.fixed or length)
        return None

    def _open(self, length: int, items_each: int) -> None:
        if length * items_each > len(self._data) - self._at:
            self._fail(f"it declares {length} items and ends before them")
        if len(self._left) > self._depth_max:
            self._fail(f"it is nested deeper than {self._depth_max}")
        self._left.append(length * items_each)
        self._keys.append(set() if items_each == 2 else None)

    def _take_key(self, keys: set[bytes], text: bytes | None) -> None:
        if text is None:
            self._fail("a key is not a string")
        if text in keys:
            self._fail(f"the key {text[:80].decode('utf-8', 'replace')!r} occurs twice")
        keys.add(text)

    def _take(self, count: int) -> bytes:
        start = self._at
        self._skip(count)
        return self._data[start : self._at]

    def _skip(self, count: int) -> None:
        self._at += count
        if self._at > len(self._data):
            self._fail("it ends in the middle of an item")

    def _fail(self, why: str) -> NoReturn:
        raise Malformed(path=f"byte {min(self._at, len(self._data))}", why=why)
