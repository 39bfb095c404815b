"""Compiling a schema, and the bounded cache that lets a plain schema be used again and again (QUERY-3)."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final

import msgspec

from stemmadb.protocol.model.schema.admit import admitted, check_bounds, refused
from stemmadb.protocol.model.schema.compiled import Schema, schema_of
from stemmadb.protocol.model.schema.parse import parse
from stemmadb.protocol.model.schema.resolve import resolve
from stemmadb.protocol.model.values import Value

SMALL_BYTES_MAX: Final = 8 * 1024
SMALL_CACHED_MAX: Final = 512
LARGE_CACHED_MAX: Final = 4

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
    return _small(encoded) if len(encoded) <= SMALL_BYTES_MAX else _large(encoded)


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
