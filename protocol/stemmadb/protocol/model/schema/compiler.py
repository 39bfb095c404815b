"""Compiling a schema, and the bounded cache that lets a plain schema be used again and again (QUERY-3)."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final

import msgspec

from stemmadb.protocol.model.schema.admit import admitted, check_bounds, refused
from stemmadb.protocol.model.schema.compiled import Schema, schema_of
from stemmadb.protocol.model.schema.parse import parse
from stemmadb.protocol.model.schema.resolve import resolve
from stemmadb.protocol.model.schema.work import JUDGEMENTS_MAX
from stemmadb.protocol.model.values.json_values import Value

SMALL_BYTES_MAX: Final = 8 * 1024
SMALL_CACHED_MAX: Final = 512
LARGE_CACHED_MAX: Final = 4

_SCHEMA, _BYTE, _PATTERN = 500, 12, 8_000  # units of work
_ONE_MAX: Final = JUDGEMENTS_MAX // 4 * 3
_PATTERN_KEY: Final = b"\xa7pattern"  # as msgpack has it

# A dict may have changed since it was last seen, so the cache goes by its content: the bytes are the key, and what is
# compiled is what the bytes say. Unlike JSON, msgpack has bytes of their own for NaN, binary and keys of other types.
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder().decode


def matches(value: Value, schema: bool | dict[str, Any]) -> bool:
    """Whether the value is valid under a plain schema, as draft 2020-12 has it; `InvalidSchema` if it is none."""
    return compile(schema).matches(value)


def compile(schema: bool | dict[str, Any]) -> Schema:  # as in re.compile
    """The compiled schema; `InvalidSchema` with the place, or `LimitExceeded` with the bound."""
    try:
        encoded = _encode(schema)
    except (TypeError, ValueError, OverflowError, RecursionError):
        check_bounds(schema)  # says which place it is that cannot be encoded
        raise
    return compile_encoded(encoded)


def encoded(schema: bool | dict[str, Value]) -> bytes:
    """A schema that stands inside a value, as the bytes by which it is compiled once."""
    return _encode(schema)


def compile_encoded(encoded_schema: bytes) -> Schema:
    return (_small if len(encoded_schema) <= SMALL_BYTES_MAX else _large)(encoded_schema)


def compiling(encoded_schema: bytes) -> int:
    """The units of work that compiling costs where it was not done before: by size, and above all by patterns.

    One schema can always be compiled, whatever it is: a run has as much work as that.
    """
    units = _SCHEMA + _BYTE * len(encoded_schema) + _PATTERN * encoded_schema.count(_PATTERN_KEY)
    return min(units, _ONE_MAX)


def _compiled(encoded: bytes) -> Schema:
    root, nodes = parse(admitted(_decoded(encoded)))
    return schema_of((resolve(root, nodes),))


def _decoded(encoded: bytes) -> object:
    try:
        return _decode(encoded)
    except (msgspec.DecodeError, ValueError, TypeError):
        raise refused((), "it is not JSON") from None


_small = lru_cache(maxsize=SMALL_CACHED_MAX)(_compiled)
_large = lru_cache(maxsize=LARGE_CACHED_MAX)(_compiled)
