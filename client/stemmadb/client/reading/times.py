"""Times and versions as people write them, checked, and as the log has them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final, TypeAlias

from stemmadb.protocol.errors import InvalidQuery
from stemmadb.protocol.model.values.ids import TimeMs, Version
from stemmadb.protocol.model.values.json_values import INT_MAX

When: TypeAlias = datetime | int
"""A datetime that knows its zone, or milliseconds since the epoch."""

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND: Final = timedelta(milliseconds=1)


def milliseconds(when: When) -> TimeMs:
    """The whole milliseconds, rounded down; a datetime without a zone is `InvalidQuery`: nobody knows when it is."""
    if isinstance(when, datetime):
        if when.utcoffset() is None:
            raise InvalidQuery(why=f"the time {when} has no zone; write datetime.now(UTC) or .astimezone()")
        count = (when - EPOCH) // _MILLISECOND
    elif type(when) is int:
        count = when
    else:
        raise InvalidQuery(why="a time is a datetime with a zone or a whole number of milliseconds")
    if not 0 <= count <= INT_MAX:
        raise InvalidQuery(why="the time lies before 1970 or beyond all times")
    return TimeMs(count)


def checked_version(version: object) -> Version:
    """A version, or `InvalidQuery`."""
    if type(version) is not int or not 0 <= version <= INT_MAX:
        raise InvalidQuery(why="a version is a whole number from 0 up")
    return Version(version)


def optional_version(version: object) -> Version | None:
    """A version, or None for the head."""
    return None if version is None else checked_version(version)


def as_datetime(time: TimeMs) -> datetime:
    """The time as a datetime in UTC."""
    return EPOCH + timedelta(milliseconds=time)


class Timed:
    """What happened at a time of the server's clock."""

    __slots__ = ()
    time_ms: TimeMs

    @property
    def time(self) -> datetime:
        """When, as a datetime in UTC."""
        return as_datetime(self.time_ms)
