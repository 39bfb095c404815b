"""Links between entities as they stand inside values: the sigil `{"/": {"link@1": {…}}}` (QUERY-2)."""

from __future__ import annotations

from typing import Final

import msgspec

from stemmadb.protocol.errors import InvalidId, InvalidPointer
from stemmadb.protocol.model.schema.work import REMEMBERED, SchemaRun, spend
from stemmadb.protocol.model.values import ids, pointer
from stemmadb.protocol.model.values.json_values import Value

SIGIL: Final = "/"
KIND: Final = "link@1"
_MEMBERS: Final = frozenset(("id", "path", "space", "schema"))
_READING: Final = REMEMBERED + 8  # units of work


class EntityLink(msgspec.Struct, frozen=True):
    """A well-formed link. Its schema is as it was written, not compiled."""

    id: str
    path: str = ""
    space: str | None = None
    schema: bool | dict[str, Value] | None = None


class BrokenLink(msgspec.Struct, frozen=True):
    """What is written as a link and cannot be followed; `id` is what stands there for one, if it is a string."""

    id: str | None
    why: str


def link_of(value: Value) -> EntityLink | BrokenLink | None:
    """The link that this value is; None for any other value. What is beside or under another key is data."""
    if type(value) is not dict or len(value) != 1:
        return None
    inner = value.get(SIGIL)
    if type(inner) is not dict or len(inner) != 1 or KIND not in inner:
        return None
    return _read(inner[KIND])


def is_link(value: dict[str, Value], run: SchemaRun) -> bool:
    """Whether the object is a well-formed sigil link; found out once in a run, as its path may be long."""
    place = (0, id(value))  # no subschema has this number
    if place not in run:
        spend(run, _READING)
        run[place] = type(link_of(value)) is EntityLink
    return run[place]


def reference(text: str) -> EntityLink | BrokenLink:
    """The link that a string marked `x-entity-reference` is."""
    try:
        return EntityLink(id=ids.entity_id(text))
    except InvalidId as bad:
        return BrokenLink(id=text, why=bad.facts["why"])


def _read(body: Value) -> EntityLink | BrokenLink:
    if type(body) is not dict:
        return BrokenLink(id=None, why="a link's content must be an object")
    text = body.get("id")
    if type(text) is not str:
        return BrokenLink(id=None, why="a link needs an 'id' that is a string")
    try:
        id_ = ids.entity_id(text)
    except InvalidId as bad:
        return BrokenLink(id=text, why=f"'id' is not an entity id: {bad.facts['why']}")
    if len(body) == 1:  # most links
        return EntityLink(id_)
    if why := _offence(body):
        return BrokenLink(id=text, why=why)
    # _offence has looked at the type of each member
    return EntityLink(id_, body.get("path", ""), body.get("space"), body.get("schema"))  # type: ignore[arg-type]


def _offence(body: dict[str, Value]) -> str | None:
    if not body.keys() <= _MEMBERS:
        return "a link has only 'id', 'path', 'space' and 'schema'"
    if type(body.get("space", "")) is not str:
        return "'space' must be a string"
    if type(body.get("schema", True)) not in (bool, dict):
        return "'schema' must be an object or a bool"
    return _path_offence(body.get("path", ""))


def _path_offence(path: Value) -> str | None:
    if type(path) is not str:
        return "'path' must be a string"
    try:
        pointer.parse(path)
    except InvalidPointer as bad:
        return f"'path' is not a JSON Pointer: {bad.facts['why']}"
    return None
