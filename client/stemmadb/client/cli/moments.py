"""Moments as people write them: a version, a tag, a time, or now."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta, tzinfo
from typing import Final, TypeAlias

from stemmadb.protocol.errors import InvalidName, InvalidQuery
from stemmadb.protocol.model.values import ids
from stemmadb.protocol.model.values.ids import BranchName, Version
from stemmadb.protocol.model.values.json_values import INT_MAX

TAG: Final = "tag:"
BRANCH: Final = "branch:"
AT: Final = "@"
EXAMPLES: Final = "42, 'tag:v1', '10 minutes ago', '2026-11-16 09:00', 'yesterday 14:00' or 'head'"
TEXT_LETTERS_MAX: Final = 200

_HEAD: Final = frozenset({"head", "now"})
_UNITS: Final = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_SPELLED: Final = {
    word: unit
    for unit, words in {
        "s": "s sec secs second seconds",
        "m": "m min mins minute minutes",
        "h": "h hr hrs hour hours",
        "d": "d day days",
        "w": "w week weeks",
    }.items()
    for word in words.split()
}
_PART: Final = re.compile(r"\s*(?:and\s+)?(\d{1,9}|an?)\s*([a-z]+)\s*,?")
_CLOCK: Final = re.compile(r"\d{1,2}:\d{2}(:\d{2}(\.\d{1,6})?)?")


@dataclass(frozen=True, slots=True)
class AtHead:
    """The newest state."""


@dataclass(frozen=True, slots=True)
class AtVersion:
    version: Version


@dataclass(frozen=True, slots=True)
class AtTag:
    name: BranchName


@dataclass(frozen=True, slots=True)
class AtTime:
    """A time that knows its zone."""

    time: datetime


When: TypeAlias = AtHead | AtVersion | AtTag | AtTime


@dataclass(frozen=True, slots=True)
class BranchMoment:
    """A branch, None for the one that is asked, and a moment of it."""

    branch: BranchName | None
    when: When


def parse(text: str, *, now: datetime, zone: tzinfo | None = None) -> When:
    """The moment that a person means; `InvalidQuery` with examples if it cannot be told.

    A time without a zone is one of `zone`, or of the machine's own zone. `now` is when it is asked.

    >>> parse("42", now=datetime.now().astimezone())
    AtVersion(version=42)
    """
    words = text.strip()
    if words.lower() in _HEAD:
        return AtHead()
    if words.isascii() and words.isdigit():
        return AtVersion(_version(words))
    if words.lower().startswith(TAG):
        return AtTag(ids.branch_name(words[len(TAG) :]))
    return AtTime(parse_time(words, now=now, zone=zone))


def parse_place(text: str, *, now: datetime, zone: tzinfo | None = None) -> BranchMoment:
    """A moment, a branch, or both: `42`, `yesterday`, `draft`, `branch:yesterday`, `draft@42`.

    What can be read as a moment is one; `branch:` in front says that it is a branch.
    """
    words = text.strip()
    if words.lower().startswith(BRANCH):
        name, _, at = words[len(BRANCH) :].partition(AT)
        return BranchMoment(ids.branch_name(name), parse(at or "head", now=now, zone=zone))
    if AT in words:
        name, _, at = words.partition(AT)
        return BranchMoment(ids.branch_name(name), parse(at, now=now, zone=zone))
    try:
        return BranchMoment(None, parse(words, now=now, zone=zone))
    except InvalidQuery as neither:
        return BranchMoment(_branch(words, neither), AtHead())


def parse_time(text: str, *, now: datetime, zone: tzinfo | None = None) -> datetime:
    """A time that a person means; `InvalidQuery` if it cannot be told.

    `yesterday` alone is a day ago, `today` alone is when the day began.
    """
    assert now.utcoffset() is not None, "a time that knows its zone"
    words = text.strip()
    here = now.astimezone(zone)
    try:
        found = _ago(words.lower(), now) or _day(words.lower(), here, zone) or _written(words, zone)
        found.timestamp()
    except (ValueError, OverflowError):
        raise unclear(text) from None
    return found


def unclear(text: str) -> InvalidQuery:
    """Nobody can tell which moment that is."""
    shown = text[:TEXT_LETTERS_MAX]
    return InvalidQuery(f"{shown!r} is not a moment: write {EXAMPLES}.", why=f"{shown!r} is not a moment")


def _branch(words: str, neither: InvalidQuery) -> BranchName:
    """What is no moment may be a branch; a number that is too large for a version is neither."""
    if words.isascii() and words.isdigit():
        raise neither
    try:
        return ids.branch_name(words)
    except InvalidName:
        raise neither from None


def _version(digits: str) -> Version:
    if len(digits) > len(str(INT_MAX)) or int(digits) > INT_MAX:
        raise unclear(digits)
    return Version(int(digits))


def _ago(words: str, now: datetime) -> datetime | None:
    """`10 minutes ago`, `2h ago`, `an hour and 5 minutes ago`."""
    if not words.endswith("ago"):
        return None
    rest, spans = words.removesuffix("ago"), timedelta()
    while rest.strip():
        part = _PART.match(rest)
        if part is None or part[2] not in _SPELLED:
            raise ValueError(words)
        count = int(part[1]) if part[1].isdigit() else 1
        spans += timedelta(**{_UNITS[_SPELLED[part[2]]]: count})
        rest = rest[part.end() :]
    if not spans and words.strip() == "ago":
        raise ValueError(words)
    return now - spans


def _day(words: str, here: datetime, zone: tzinfo | None) -> datetime | None:
    """`yesterday 14:00`, `today`, `09:30`."""
    name, _, rest = words.partition(" ")
    if _CLOCK.fullmatch(words):
        name, rest = "today", words
    if name not in ("today", "yesterday"):
        return None
    day = here.date() - timedelta(days=1 if name == "yesterday" else 0)
    clock = rest.removeprefix("at ").strip()
    if clock:
        return _local(day, _clock(clock), zone)
    return _local(day, time() if name == "today" else here.time(), zone)


def _clock(text: str) -> time:
    if not _CLOCK.fullmatch(text):
        raise ValueError(text)
    return time.fromisoformat(text.zfill(len(text) + 1) if text.index(":") == 1 else text)


def _written(words: str, zone: tzinfo | None) -> datetime:
    """ISO 8601, with a space for the T if one likes."""
    found = datetime.fromisoformat(words)
    return found if found.utcoffset() is not None else _local(found.date(), found.time(), zone)


def _local(day: date, clock: time, zone: tzinfo | None) -> datetime:
    """What the clocks show there; the machine knows the summer time of its own zone."""
    shown = datetime.combine(day, clock.replace(tzinfo=None))
    return shown.astimezone() if zone is None else shown.replace(tzinfo=zone)
