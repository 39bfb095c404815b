"""The JSON subprotocol: between the form of messages in msgpack, which the client works with, and their JSON form."""

from __future__ import annotations

import base64
import json
from typing import Any

from plain_bytes import hash_of, pack, reference, unpack

REFERENCES = {"hash", "parent", "digest", "previous", "request", "note_digest", "blob", "delegation"}
REFERENCE_LISTS = {"hashes", "facts", "blobs"}
BYTES = {"session", "nonce", "operation", "signature", "challenge", "salt", "note_salt", "data"}
BYTES_LISTS = {"salts", "delegations"}
BODIES = {"body", "note", "patch"}
AS_IT_IS = {"details", "limits", "roles", "schema"}


def to_text(message: dict[str, Any]) -> str:
    return json.dumps(_shown(message), ensure_ascii=False)


def from_text(text: str) -> dict[str, Any]:
    """Bodies become the shortest msgpack: the bytes that were hashed only if their author wrote the shortest."""
    read: dict[str, Any] = _taken(json.loads(text))
    return read


def _shown(item: Any) -> Any:
    if isinstance(item, dict):
        return {name: _shown_field(name, value) for name, value in item.items()}
    if isinstance(item, list):
        return [_shown(part) for part in item]
    return base64.b64encode(item).decode() if isinstance(item, bytes) else item


def _shown_field(name: str, value: Any) -> Any:
    if value is None or name in AS_IT_IS:
        return value
    if name in BODIES:
        return unpack(value)
    if name in ("content", "arguments"):
        return _shown(unpack(value))
    if name in REFERENCES and isinstance(value, bytes):
        return reference(value)
    if name in REFERENCE_LISTS and isinstance(value, list):
        return [reference(part) if isinstance(part, bytes) else _shown(part) for part in value]
    return _shown(value)


def _taken(item: Any) -> Any:
    if isinstance(item, dict):
        return {name: _taken_field(name, value) for name, value in item.items()}
    return [_taken(part) for part in item] if isinstance(item, list) else item


def _taken_field(name: str, value: Any) -> Any:
    if name in AS_IT_IS:
        return value
    if name in BODIES:
        return pack(value)
    if name in ("content", "arguments"):
        return pack(_taken(value))
    if name == "locals":
        return [[base64.b64decode(part[0]), part[1]] if isinstance(part, list) else part for part in value]
    if isinstance(value, list):
        return [_taken_text(name, part) for part in value]
    return _taken_text(name, value)


def _taken_text(name: str, value: Any) -> Any:
    if not isinstance(value, str):
        return _taken(value)
    if name in REFERENCES | REFERENCE_LISTS and value.startswith("b3:"):
        return hash_of(value)
    if name in BYTES | BYTES_LISTS:
        return base64.b64decode(value)
    return value
