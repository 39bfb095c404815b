"""Values on their way in and out: encoded once when they are given to us, decoded afresh when they are given away."""

from __future__ import annotations

import enum
from collections.abc import Iterable
from typing import Final, Literal, TypeAlias, cast

from stemmadb.client.notes import given_note
from stemmadb.protocol.model.query.traversal import MISSING, resolve
from stemmadb.protocol.model.values import body, json_values
from stemmadb.protocol.model.values.json_values import Value
from stemmadb.protocol.model.values.limits import Limits


class Deletion(enum.Enum):
    """In the place of a value: the entity shall be gone. Null is a value like any other."""

    DELETED = "deleted"


DELETED: Final = Deletion.DELETED
Given: TypeAlias = Value | Literal[Deletion.DELETED]
"""What an entity shall be: a value, or `DELETED`."""


def encoded(value: object, limits: Limits) -> bytes:
    """The body of a value; `InvalidValue` if it is not JSON."""
    return body.encode(json_values.check(value, limits.depth_max))


def encoded_given(given: object, limits: Limits) -> bytes | None:
    """The body of what an entity shall be, none if it shall be gone."""
    return None if given is DELETED else encoded(given, limits)


def encoded_note(note: object, limits: Limits) -> bytes | None:
    """The body of a note: a text, or an object that by convention has `message`. None is no note."""
    return None if note is None else encoded(given_note(cast("Value", note)), limits)


def check_options(call: str, given: Iterable[str], options: type) -> None:
    """`TypeError`, as for any function: an option that is passed over in silence might have been `dry_run`."""
    for name in given:
        if name not in options.__annotations__:
            known = ", ".join(options.__annotations__)
            raise TypeError(f"{call}() got an unexpected keyword argument {name!r}; it takes {known}")


def decoded(encoded_: bytes | None) -> Value:
    """A value that nobody else holds; None where there are no bytes."""
    return None if encoded_ is None else body.read_stored(encoded_)


def part_of(value: Value, path: str) -> Value:
    """What is at the path, None if nothing is."""
    found = resolve(value, path)
    return None if found is MISSING else found
