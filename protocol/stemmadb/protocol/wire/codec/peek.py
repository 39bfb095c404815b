"""What can be told of a message that cannot be read, so that its error reaches the right place (WIRE-4)."""

from __future__ import annotations

import re
from itertools import islice
from typing import Any, Final

import msgspec

from stemmadb.protocol.wire.codec import failures
from stemmadb.protocol.wire.messages.fields import RandomId, RequestId, WireLocal


class Peeked(msgspec.Struct, frozen=True):
    """Only what could have been meant: a number out of its bounds names nothing."""

    type: str | None = None
    id: int | None = None
    local: int | None = None
    session: bytes | None = None


class _Outline(msgspec.Struct):
    type: msgspec.Raw = msgspec.Raw(b"")
    id: msgspec.Raw = msgspec.Raw(b"")
    local: msgspec.Raw = msgspec.Raw(b"")
    session: msgspec.Raw = msgspec.Raw(b"")


_FIELD_BYTES_MAX: Final = 256
_TOKENS_MAX: Final = 20_000  # a text that is refused costs no more than one that is read
_MEMBERS_MAX: Final = 16
_MAP_BYTES: Final = {0xDE: 3, 0xDF: 5}
_NUMBER_BYTES: Final = {0xCC: 1, 0xCD: 2, 0xCE: 4, 0xCF: 8, 0xD0: 1, 0xD1: 2, 0xD2: 4, 0xD3: 8, 0xCA: 4, 0xCB: 8}
_LENGTH_BYTES: Final = {0xD9: 1, 0xDA: 2, 0xDB: 4, 0xC4: 1, 0xC5: 2, 0xC6: 4}
"""Of msgpack: what follows the first byte of a map, a number, and a text or binary."""
_TOKEN = re.compile(r'"(?:[^"\\]++|\\.)*+"?|[\[\]{}]', re.DOTALL)
_MEMBER = re.compile(r'"(type|id|local|session)"\s*:\s*("[^"\\]{0,256}"|[0-9]{1,19})')


def peek_binary(data: bytes) -> Peeked:
    """What the outermost map says of itself; everything else in it is passed over unread."""
    try:
        return _peeked(msgspec.msgpack, msgspec.msgpack.decode(data, type=_Outline))
    except failures.DecoderFailures:
        return Peeked()


def peek_large_binary(data: bytes) -> Peeked:
    """The same of a message that is too large to be read at all: its first fields, up to the first container."""
    try:
        return _peeked(msgspec.msgpack, _leading(data))
    except (IndexError, ValueError):
        return Peeked()


def _leading(data: bytes) -> _Outline:
    """Walks the first members of the outermost map by their lengths. Nothing is decoded but what names a message."""
    outline, at = _Outline(), _MAP_BYTES.get(data[0], 1)
    if data[0] & 0xF0 != 0x80 and data[0] not in _MAP_BYTES:
        return outline
    for _ in range(_MEMBERS_MAX):
        if at >= len(data) or (name_end := _end(data, at)) is None or (end := _end(data, name_end)) is None:
            break
        name = data[at:name_end][-8:]
        for field in ("type", "id", "local", "session"):
            if name.endswith(field.encode()) and name_end - at == len(field) + 1:
                setattr(outline, field, msgspec.Raw(data[name_end : min(end, name_end + _FIELD_BYTES_MAX + 1)]))
        at = end
    return outline


def _end(data: bytes, at: int) -> int | None:
    """Where the item at this place ends; None for a container, which would have to be walked."""
    first = data[at]
    if first < 0x80 or first >= 0xE0 or first in (0xC0, 0xC2, 0xC3):
        return at + 1
    if 0xA0 <= first < 0xC0:
        return at + 1 + (first & 0x1F)
    if first in _NUMBER_BYTES:
        return at + 1 + _NUMBER_BYTES[first]
    if (size := _LENGTH_BYTES.get(first)) is None:
        return None
    return at + 1 + size + int.from_bytes(data[at + 1 : at + 1 + size], "big")


def peek_large_text(text: str) -> Peeked:
    return _peeked(msgspec.json, _bracketed(text))


def peek_text(text: str) -> Peeked:
    """The same of a text. The decoder passes over good JSON only; what it refuses is looked through by its brackets.

    So a commit is named also if its content is not JSON that can be stored, or is nested deeper than any stack.
    """
    try:
        return _peeked(msgspec.json, msgspec.json.decode(text, type=_Outline))
    except failures.DecoderFailures:
        return _peeked(msgspec.json, _bracketed(text))


def _bracketed(text: str) -> _Outline:
    """The members of the outermost object that name a message, found without reading the others."""
    outline, depth = _Outline(), 0
    for token in islice(_TOKEN.finditer(text), _TOKENS_MAX):
        first = text[token.start()]
        if first != '"':
            depth += 1 if first in "[{" else -1
        elif depth == 1 and (member := _MEMBER.match(text, token.start())):
            setattr(outline, member[1], msgspec.Raw(member[2].encode("utf-8", "replace")))
    return outline


def _peeked(library: Any, outline: _Outline) -> Peeked:
    return Peeked(
        _field(library, outline.type, str),
        _field(library, outline.id, RequestId),
        _field(library, outline.local, WireLocal),
        _field(library, outline.session, RandomId),
    )


def _field(library: Any, raw: msgspec.Raw, type_: Any) -> Any:
    try:
        return library.decode(raw, type=type_) if 0 < len(bytes(raw)) <= _FIELD_BYTES_MAX else None
    except failures.DecoderFailures:
        return None
