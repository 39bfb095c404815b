"""Entity tags and conditional requests: which state a client says it has (HTTP-7, HTTP-8). No I/O."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, NamedTuple

from stemmadb.protocol.errors import Malformed
from stemmadb.protocol.model.values import reference
from stemmadb.protocol.model.values.body import encode
from stemmadb.protocol.model.values.ids import Hash, Version

LETTERS: Final = 12
"""Of a hash in base32: a restored server has other hashes, so that a tag of a lost history matches nothing."""
_TAG: Final = re.compile(rf'"([0-9]{{1,19}})\.([a-z2-7]{{{LETTERS}}})"')
QUESTION_LETTERS: Final = 8
_EVENT: Final = re.compile(rf"([0-9]{{1,19}})\.([a-z2-7]{{{LETTERS}}})(?:\.([a-z2-7]{{{QUESTION_LETTERS}}}))?")


class StateMark(NamedTuple):
    """A version and the first letters of a hash: of an entity's fact, or of a commit."""

    version: Version
    letters: str

    def __str__(self) -> str:
        return f"{self.version}.{self.letters}"


class EventId(NamedTuple):
    """The id of an event: a state of the log, and of what and for whom a stream shows it (HTTP-10)."""

    mark: StateMark
    question: str

    def __str__(self) -> str:
        return f"{self.mark}.{self.question}"


class Condition(NamedTuple):
    """What a write says about the state it replaces."""

    match: StateMark | None = None
    """`If-Match`: the entity is as it was when it had this tag."""
    creates: bool = False
    """`If-None-Match: *`: there is no value."""

    @property
    def is_given(self) -> bool:
        return self.match is not None or self.creates


def mark_of(version: Version, hash_: Hash) -> StateMark:
    return StateMark(version, letters_of(hash_))


def letters_of(hash_: Hash) -> str:
    return reference.write(hash_)[len(reference.PREFIX) :][:LETTERS]


def etag(mark: StateMark) -> str:
    return f'"{mark}"'


def question_of(*parts: object) -> str:
    """Letters for what is asked and what the caller may read: a stream goes on only where both are the same."""
    return letters_of(reference.hash_bytes(encode(parts)))[:QUESTION_LETTERS]


def read_event_id(text: str, what: str) -> EventId:
    """`Last-Event-ID`, or `since` with the same text."""
    found = _EVENT.fullmatch(text)
    if found is None:
        raise Malformed(path=f"({what})", why="it is not the id of an event, such as 42.hieglpwai6m4.k3hx7a2c")
    return EventId(StateMark(Version(int(found[1])), found[2]), found[3] or "")


def read_condition(if_match: Sequence[str], if_none_match: Sequence[str]) -> Condition:
    """The condition of a write: one strong tag, or a star for a new entity; nothing else is taken (HTTP-8)."""
    if if_match and if_none_match:
        raise Malformed(path="(If-Match)", why="it cannot be there together with If-None-Match")
    if if_match:
        found = _TAG.fullmatch(if_match[0]) if len(if_match) == 1 else None
        if found is None:
            raise Malformed(
                path="(If-Match)", why='it takes one strong tag of this server, such as "42.hieglpwai6m4"'
            )
        return Condition(match=StateMark(Version(int(found[1])), found[2]))
    if if_none_match and list(if_none_match) != ["*"]:
        raise Malformed(path="(If-None-Match)", why="for a write it takes * and nothing else")
    return Condition(creates=bool(if_none_match))


def is_known(if_none_match: Sequence[str], mark: StateMark) -> bool:
    """Whether a reader has this state already: the answer is 304. Weak tags compare as strong ones do here."""
    listed = [one.strip() for text in if_none_match for one in text.split(",")]
    return "*" in listed or etag(mark) in (one.removeprefix("W/") for one in listed)
