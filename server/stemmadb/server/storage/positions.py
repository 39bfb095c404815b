"""Numbers of places in the log, and the ranges of places and of ids that questions are about."""

from __future__ import annotations

from typing import Final

from stemmadb.protocol.model.log.branch_spans import Span
from stemmadb.protocol.model.values.ids import Version
from stemmadb.protocol.model.values.limits import DEFAULTS
from stemmadb.server.storage.port import FACTS_MAX, FactPosition

INDEX_BITS: Final = 20
INDEX_MAX: Final = (1 << INDEX_BITS) - 1
VERSION_MAX: Final = (1 << 63 - INDEX_BITS) - 1
"""A number fits in the 64 bits that SQLite has; whatever lies beyond is as good as this."""
AFTER_ALL_TEXT: Final = b""
"""In SQLite every text sorts before every blob: the end of a range of texts that has none."""

_CODE_POINT_MAX: Final = 0x10FFFF
_SURROGATES: Final = range(0xD800, 0xE000)

assert DEFAULTS.bulk_operations_max <= FACTS_MAX <= INDEX_MAX


def number(version: int, index: int) -> int:
    """A place as the one integer that is a fact's key; places and numbers sort alike."""
    assert 0 <= index <= INDEX_MAX, f"a commit has at most {INDEX_MAX + 1} facts"
    return version << INDEX_BITS | index


def number_of(place: FactPosition) -> int:
    return number(place.version, place.index)


def place_of(number_: int) -> FactPosition:
    return FactPosition(Version(number_ >> INDEX_BITS), number_ & INDEX_MAX)


def first(version: int) -> int:
    """The least number of a version; those below it belong to earlier versions."""
    return min(version, VERSION_MAX) << INDEX_BITS


def last(version: int) -> int:
    return min(version, VERSION_MAX) << INDEX_BITS | INDEX_MAX


def bounds(span: Span) -> tuple[int, int]:
    """The least and the greatest number in a span."""
    return first(span.after + 1), last(span.upto)


def upper_bound(prefix: str) -> str | bytes:
    """What all ids under a prefix, and no others that sort after it, are less than.

    UTF-8 sorts as code points do, so it is the prefix with its last code point raised by one.
    """
    while prefix:
        code = ord(prefix[-1])
        prefix = prefix[:-1]
        if code < _CODE_POINT_MAX:
            code += 1
            return prefix + chr(_SURROGATES.stop if code in _SURROGATES else code)
    return AFTER_ALL_TEXT
