"""Times as people and programs write them (RFC 3339), and as the rules compare them: milliseconds since 1970."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Final, NewType

from stemmadb.memory.rules.refusals import InvalidRequest

Millis = NewType("Millis", int)
"""Milliseconds since the epoch, UTC."""

FIRST: Final = -62_135_596_800_000
LAST: Final = 253_402_300_799_000
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_RFC3339: Final = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)[Tt ](\d\d):(\d\d):(\d\d)(?:\.(\d+))?([Zz]|[+-]\d\d:\d\d)", re.ASCII
)


def read(text: object, field: str) -> Millis:
    """A date-time with an offset; `InvalidRequest` for anything else. A leap second is the second before it.

    An offset may lead out of the years 1 to 9999; then it is the first or the last moment of them.
    """
    found = _RFC3339.fullmatch(text) if isinstance(text, str) else None
    if found is None:
        raise InvalidRequest(f"{field} must be a date-time such as 2026-11-18T09:30:00Z.", field=field)
    year, month, day, hour, minute, second, fraction, offset = found.groups()
    seconds = "59" if second == "60" else second
    zone = "+00:00" if offset in "Zz" else offset
    try:
        moment = datetime.fromisoformat(f"{year}-{month}-{day}T{hour}:{minute}:{seconds}{zone}")
        whole = min(max(FIRST, int(moment.timestamp()) * 1_000), LAST)
    except (ValueError, OverflowError):
        raise InvalidRequest(f"{field} is not a date-time that exists: {text}.", field=field) from None
    return Millis(whole + int(((fraction or "") + "000")[:3]))


def write(at: Millis) -> str:
    """UTC, to the millisecond.

    >>> write(Millis(1_763_458_200_250))
    '2025-11-18T09:30:00.250Z'
    """
    whole, part = divmod(at, 1_000)
    return f"{(_EPOCH + timedelta(seconds=whole)).isoformat()[:19]}.{part:03d}Z"


def is_past(expires_at: Millis | None, now: Millis) -> bool:
    """Whether it has expired: from the very millisecond that was given on."""
    return expires_at is not None and expires_at <= now
