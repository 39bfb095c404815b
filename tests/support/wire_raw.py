"""Messages as raw msgpack, also such as no encoder would write."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from stemmadb.protocol.model.values.body import encode


def pairs(*items: tuple[Any, Any]) -> bytes:
    """A map exactly as given: raw bytes stay as they are, anything else is encoded."""
    parts = [part if isinstance(part, msgspec.Raw) else msgspec.Raw(encode(part)) for item in items for part in item]
    assert len(items) < 16
    return bytes([0x80 + len(items)]) + b"".join(bytes(part) for part in parts)


def padded(size: int, make: Callable[[int], bytes]) -> bytes:
    """A message of exactly that size."""
    made = make(size - len(make(300)) + 300)
    assert len(made) == size
    return made


def raw(data: bytes) -> Any:
    return msgspec.Raw(data)


COMMIT = (("type", "commit"), ("local", 1), ("nonce", bytes(16)), ("content", b"x"))
QUERY = (("type", "query"), ("id", 1))


def query(schema: Any) -> bytes:
    root = pairs(("id", "urn:a:*"), ("schema", schema))
    return pairs(*QUERY, ("query", raw(pairs(("roots", raw(b"\x91" + root))))))
