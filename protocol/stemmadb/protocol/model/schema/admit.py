"""What comes in as a schema: bounded, plain JSON, copied into a canonical form of our own (QUERY-3)."""

from __future__ import annotations

from typing import Any

import msgspec

from stemmadb.protocol.errors import InvalidSchema, InvalidValue, LimitExceeded
from stemmadb.protocol.model.values import json_values, pointer
from stemmadb.protocol.model.values.limits import DEFAULTS

_encode = msgspec.json.Encoder(order="sorted").encode
_decode = msgspec.json.Decoder().decode


def refused(path: tuple[str, ...], why: str) -> InvalidSchema:
    """The error for the place at `path`; a long path is cut, so that an error stays small."""
    return InvalidSchema(path=pointer.shown(pointer.write(path)), why=why)


def check_bounds(schema: object) -> None:
    """Raises unless it is JSON within the bounds of depth and number."""
    if type(schema) is not bool and type(schema) is not dict:
        raise refused((), f"a schema is an object or a bool, not {type(schema).__name__}")
    _check_depth(schema)
    try:
        json_values.check(schema)
    except InvalidValue as bad:
        raise InvalidSchema(path=pointer.shown(bad.facts["path"]), why=bad.facts["why"]) from None


def admitted(schema: object) -> Any:
    """A copy of the schema with sorted keys, known to be JSON within the bounds; nobody else can change it."""
    check_bounds(schema)
    encoded = _encode(schema)
    if len(encoded) > DEFAULTS.schema_bytes_max:
        raise LimitExceeded(bound="schema_bytes_max", maximum=DEFAULTS.schema_bytes_max, actual=len(encoded))
    return _decode(encoded)


def canonical(admitted_schema: Any) -> bytes:
    """The bytes by which two admitted schemas are the same one."""
    return _encode(admitted_schema)


def _check_depth(schema: object) -> None:
    """Level by level, so that neither nesting nor a dict that holds itself can run away."""
    level: list[object] = [schema]
    items = depth = 0
    while level := [child for item in level for child in _children(item)]:
        depth += 1
        items += len(level)
        if depth > DEFAULTS.depth_max:
            raise LimitExceeded(bound="depth_max", maximum=DEFAULTS.depth_max, actual=depth)
        if items > DEFAULTS.schema_bytes_max:
            raise LimitExceeded(bound="schema_bytes_max", maximum=DEFAULTS.schema_bytes_max, actual=items)


def _children(item: object) -> list[object]:
    if type(item) is dict:
        return list(item.values())
    return item if type(item) is list else []
