"""The exact look at msgpack bytes: that no map repeats a key and every key is a string.

The typed decoder takes the last of two equal keys without a word. Bytes that its result encodes to again hold no
such key, and that is how nearly every message is cleared; only others (a peer that writes keys in another order, or
writes defaults out) are walked here. The walk makes no objects, skips binary in one step and has a stack of its own.
"""

from __future__ import annotations

from typing import Final, NoReturn

from stemmadb.protocol.errors import Malformed

_SIZED: Final = -1
_REFUSED: Final = -2
_LENGTH_BYTES: Final = {
    0xC4: 1, 0xC5: 2, 0xC6: 4, 0xD9: 1, 0xDA: 2, 0xDB: 4, 0xDC: 2, 0xDD: 4, 0xDE: 2, 0xDF: 4,
}  # fmt: skip
_NUMBER_BYTES: Final = {0xCA: 4, 0xCB: 8, 0xCC: 1, 0xCD: 2, 0xCE: 4, 0xCF: 8, 0xD0: 1, 0xD1: 2, 0xD2: 4, 0xD3: 8}
_FIRST_CONTAINER: Final = 0xDC
_FIRST_MAP: Final = 0xDE


def _payload(code: int) -> int:
    """The bytes behind the first one, or why that cannot be said from it alone."""
    if 0x80 <= code <= 0x9F or code in _LENGTH_BYTES:
        return _SIZED
    if 0xA0 <= code <= 0xBF:
        return code & 0x1F
    if code == 0xC1 or 0xC7 <= code <= 0xC9 or 0xD4 <= code <= 0xD8:
        return _REFUSED
    return _NUMBER_BYTES.get(code, 0)


_PAYLOADS: Final = [_payload(code) for code in range(256)]


def check(data: bytes, *, depth_max: int) -> None:
    """`Malformed` unless `data` is one item in which no map repeats a key."""
    try:
        end = _walk(data, depth_max)
    except IndexError:
        end = len(data) + 1
    if end > len(data):
        _fail(len(data), "it ends in the middle of an item")
    if end < len(data):
        _fail(end, f"{len(data) - end} bytes follow the message")


def _walk(data: bytes, depth_max: int) -> int:
    """Says where the one item ends. `left` counts what the innermost container still lacks, keys included."""
    at, left = 0, 1
    keys: set[bytes] | None = None
    outer: list[tuple[int, set[bytes] | None]] = []
    while True:
        while not left:
            if not outer:
                return at
            left, keys = outer.pop()
        left -= 1
        if keys is not None and left % 2:
            at = _pass_key(data, at, keys)
            continue
        payload = _PAYLOADS[data[at]]
        if payload >= 0:
            at += 1 + payload
            continue
        code, length, at = _sized(data, at)
        if _LENGTH_BYTES.get(code, 0) and code < _FIRST_CONTAINER:
            at += length
            continue
        if len(outer) >= depth_max:
            _fail(at, f"it is nested deeper than {depth_max}")
        outer.append((left, keys))
        is_map = code >= _FIRST_MAP or code <= 0x8F
        left, keys = (2 * length, set()) if is_map else (length, None)
        if left > len(data) - at:
            _fail(at, f"it declares {length} items and ends before them")


def _sized(data: bytes, at: int) -> tuple[int, int, int]:
    """First byte, declared length and where the contents begin, of what declares its length."""
    code = data[at]
    if code <= 0x9F:
        return code, code & 0x0F, at + 1
    if _PAYLOADS[code] == _REFUSED:
        _fail(at, "it holds a msgpack extension or a byte that begins nothing")
    start = at + 1 + _LENGTH_BYTES[code]
    return code, int.from_bytes(data[at + 1 : start], "big"), start


def _pass_key(data: bytes, at: int, keys: set[bytes]) -> int:
    code = data[at]
    if 0xA0 <= code <= 0xBF:
        start, length = at + 1, code & 0x1F
    elif 0xD9 <= code <= 0xDB:
        _, length, start = _sized(data, at)
    else:
        _fail(at, "a key is not a string")
    key = data[start : start + length]
    if key in keys:
        _fail(at, f"the key {key[:80].decode('utf-8', 'replace')!r} occurs twice")
    keys.add(key)
    return start + length


def _fail(at: int, why: str) -> NoReturn:
    raise Malformed(path=f"byte {at}", why=why)
