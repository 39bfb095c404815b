"""Requests of the plugin interface, checked field by field, and its answers as JSON objects."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeVar, cast

import msgspec

from stemmadb.memory.operations.memory_space import MemorySpace
from stemmadb.memory.operations.namespaces import NamespaceChange
from stemmadb.memory.operations.searching import FoundMemory, SearchQuery
from stemmadb.memory.rules import instants, namespaces, records, texts
from stemmadb.memory.rules.instants import Millis
from stemmadb.memory.rules.namespaces import Namespace, NamespaceKind
from stemmadb.memory.rules.records import KINDS, PLUGIN_KINDS, SOURCES, Memory, Vector
from stemmadb.memory.rules.refusals import InvalidRequest

T = TypeVar("T")
LIMIT_DEFAULT: Final = 20
LIMIT_MAX: Final = 100
FACTS: Final = tuple(kind for kind in KINDS if kind not in ("summary", "checkpoint"))
"""Kinds that this interface shows as `fact`."""


class NewNamespace(NamedTuple):
    """The body of a PUT."""

    kind: NamespaceKind
    expires_at: Millis | None
    metadata: dict[str, Any] | None


class NewMemory(NamedTuple):
    """The body of a POST: the record and its vector."""

    record: Memory
    vector: Vector | None


def read_object(body: bytes) -> Mapping[str, Any]:
    """A JSON object; `InvalidRequest` for anything else."""
    try:
        value = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as broken:
        raise InvalidRequest(f"The body is not JSON: {broken}.") from None
    if not isinstance(value, dict):
        raise InvalidRequest("The body must be a JSON object.")
    return value


def read_namespace(body: Mapping[str, Any]) -> NewNamespace:
    return NewNamespace(
        namespaces.read_kind(body.get("kind")),
        _optional(body, "expires_at", instants.read),
        _optional(body, "metadata", _object),
    )


def read_change(body: Mapping[str, Any]) -> NamespaceChange:
    """At least one field that can be changed; a field with null clears it."""
    if not {"expires_at", "metadata"} & body.keys():
        raise InvalidRequest("Give expires_at or metadata: without either there is nothing to change.")
    change = NamespaceChange()
    if "expires_at" in body:
        change = msgspec.structs.replace(change, expires_at=_optional(body, "expires_at", instants.read))
    if "metadata" in body:
        change = msgspec.structs.replace(change, metadata=_optional(body, "metadata", _object))
    return change


def read_memory(body: Mapping[str, Any], ns: str, memory: MemorySpace) -> NewMemory:
    """An `id` in the body is ignored, as every unknown field is: what was written never changes."""
    if body.get("kind") not in PLUGIN_KINDS:
        raise InvalidRequest(f"kind must be one of {', '.join(PLUGIN_KINDS)}.", field="kind")
    if body.get("source") not in SOURCES:
        raise InvalidRequest(f"source must be one of {', '.join(SOURCES)}.", field="source")
    pin = body.get("pin", False)
    if not isinstance(pin, bool):
        raise InvalidRequest("pin must be true or false.", field="pin")
    record = Memory(
        ns=ns,
        kind=body["kind"],
        text=texts.checked(body.get("content"), "content"),
        via="http",
        source=body["source"],
        pin=pin,
        expires_at=_optional(body, "expires_at", instants.read),
        propagation=_optional(body, "propagation", _object),
        created_at=memory.clock.now(),
    )
    return NewMemory(record, _optional(body, "embedding", records.read_embedding))


def read_search(body: Mapping[str, Any]) -> SearchQuery:
    vector = _optional(body, "embedding", records.read_embedding)
    text = body.get("query")
    if "query" in body and not isinstance(text, str):
        raise InvalidRequest("query must be text.", field="query")
    return SearchQuery(
        namespaces=_names(body.get("namespaces")),
        text=None if text is None else texts.encodable(text, "query"),
        embedding=None if vector is None else records.floats_of(vector),
        kinds=_kinds(body.get("kinds", [])),
        limit=_limit(body.get("limit", LIMIT_DEFAULT)),
    )


def read_requester(body: Mapping[str, Any]) -> str:
    name = body.get("requested_by_namespace")
    if not isinstance(name, str):
        raise InvalidRequest(
            "requested_by_namespace must name the namespace of the memory.", field="requested_by_namespace"
        )
    return name


def _names(given: object) -> Sequence[str]:
    if not isinstance(given, list) or not given:
        raise InvalidRequest("namespaces must list at least one namespace.", field="namespaces")
    return [namespaces.read_name(name, "namespaces") for name in given]


def _kinds(given: object) -> Sequence[str]:
    """None of them means all; `fact` stands for every kind that is shown as one."""
    if not isinstance(given, list) or any(kind not in PLUGIN_KINDS for kind in given):
        raise InvalidRequest(f"kinds must list some of {', '.join(PLUGIN_KINDS)}.", field="kinds")
    return [kind for one in dict.fromkeys(given) for kind in (FACTS if one == "fact" else (one,))]


def _limit(given: object) -> int:
    """JSON has one kind of number: 20.0 is 20."""
    is_whole = not isinstance(given, bool) and isinstance(given, int | float) and given == int(given)
    if not is_whole or not 1 <= cast("int", given) <= LIMIT_MAX:
        raise InvalidRequest(f"limit must be a whole number from 1 to {LIMIT_MAX}.", field="limit")
    return int(cast("int", given))


def _object(given: object, field: str) -> dict[str, Any]:
    if not isinstance(given, dict):
        raise InvalidRequest(f"{field} must be an object.", field=field)
    try:
        return cast("dict[str, Any]", _storable(given))
    except OverflowError:
        raise InvalidRequest(f"{field} has a number that is too large.", field=field) from None


def _storable(value: Any) -> Any:
    """The store has integers of 64 bits; a larger one becomes the nearest float, as JavaScript reads it."""
    if isinstance(value, dict):
        return {name: _storable(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_storable(item) for item in value]
    is_large = isinstance(value, int) and not -(2**63) <= value < 2**63
    return float(value) if is_large else value


def _optional(body: Mapping[str, Any], field: str, read: Callable[[object, str], T]) -> T | None:
    given = body.get(field)
    return None if given is None else read(given, field)


# ---------------------------------------------------------------- answers


def namespace_body(namespace: Namespace) -> dict[str, object]:
    body: dict[str, object] = {"name": namespace.name, "kind": namespace.kind}
    if namespace.expires_at is not None:
        body["expires_at"] = instants.write(namespace.expires_at)
    if namespace.metadata is not None:
        body["metadata"] = namespace.metadata
    return body | {"created_at": instants.write(namespace.created_at)}


def memory_body(found: FoundMemory) -> dict[str, object]:
    """Fields that are not set are left out."""
    memory = found.memory
    body: dict[str, object] = {
        "id": found.id,
        "namespace": memory.ns,
        "content": memory.text,
        "kind": memory.kind if memory.kind in PLUGIN_KINDS else "fact",
        "source": memory.source or ("user" if memory.authority == "human" else "agent"),
        "pin": memory.pin,
        "created_at": instants.write(memory.created_at),
    }
    if memory.expires_at is not None:
        body["expires_at"] = instants.write(memory.expires_at)
    if memory.propagation is not None:
        body["propagation"] = memory.propagation
    if found.score is not None:
        body["score"] = found.score
    return body
