"""Compiling a schema, and the bounded cache that lets a plain schema be used again and again (QUERY-3)."""

from __future__ import annotations

import marshal
from typing import Any, Final

from stemmadb.protocol.model.values import Value

from .admit import admitted
from .compiled import Schema, schema_of
from .parse import parse
from .resolve import resolve

CACHED_MAX: Final = 1_024
CACHED_BYTES_MAX: Final = 1024 * 1024

_cache: dict[bytes, Schema] = {}
_cached_bytes = 0


def matches(value: Value, schema: bool | dict[str, Any]) -> bool:
    """Whether the value is valid under a plain schema, as draft 2020-12 has it; `InvalidSchema` if it is none."""
    return compile(schema).matches(value)


def compile(schema: bool | dict[str, Any]) -> Schema:  # noqa: A001  # as in re.compile
    """The compiled schema; `InvalidSchema` with the place, or `LimitExceeded` with the bound."""
    try:
        # A dict may have changed since it was seen, so its content is the key. marshal tells a tuple from a list and
        # 1 from true and refuses what is not plain data, so nothing but the same JSON finds a cached schema.
        key = marshal.dumps(schema, 2)
    except ValueError:
        key = b""
    found = _cache.get(key)
    if found is None:
        found = _compile(schema)
        _remember(key, found)
    return found


def _compile(schema: object) -> Schema:
    root, nodes = parse(admitted(schema))
    return schema_of((resolve(root, nodes),))


def _remember(key: bytes, schema: Schema) -> None:
    """Keeps the newest, in number and in bytes; one that would fill a quarter of it is not worth keeping."""
    global _cached_bytes
    if not key or len(key) > CACHED_BYTES_MAX // 4:
        return
    _cache[key] = schema
    _cached_bytes += len(key)
    while len(_cache) > CACHED_MAX or _cached_bytes > CACHED_BYTES_MAX:
        oldest = next(iter(_cache))
        del _cache[oldest]
        _cached_bytes -= len(oldest)
