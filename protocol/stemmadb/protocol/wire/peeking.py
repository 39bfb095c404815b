"""What can be told of a message that cannot be read, so that its error reaches the right place (WIRE-4)."""

from __future__ import annotations

import re
from itertools import islice
from typing import Any, Final

import msgspec

from stemmadb.protocol.wire import failures
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
_TOKENS_MAX: Final = 200_000  # a text that is refused costs no more than one that is read
_TOKEN = re.compile(r'"(?:[^"\\]++|\\.)*+"?|[\[\]{}]', re.DOTALL)
_MEMBER = re.compile(r'"(type|id|local|session)"\s*:\s*("[^"\\]{0,256}"|[0-9]{1,19})')


def peek_binary(data: bytes) -> Peeked:
    """What the outermost map says of itself; everything else in it is passed over unread."""
    try:
        return _peeked(msgspec.msgpack, msgspec.msgpack.decode(data, type=_Outline))
    except failures.DecoderFailures:
        return Peeked()


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
