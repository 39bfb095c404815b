"""The contract of the plugin interface as an OpenAPI 3.0.3 document.

`document()` says all that this server does. `document(plain=True)` has the contract's schemas exactly as they are,
without what its prose demands in addition. Both list every status that the server can answer.
"""

from __future__ import annotations

import copy
from typing import Any, Final

from stemmadb.memory.interfaces.http.bodies import LIMIT_DEFAULT, LIMIT_MAX
from stemmadb.memory.rules.namespaces import KINDS, NAME_CHARACTERS_MAX
from stemmadb.memory.rules.records import DIMS_MAX, FLOAT32_MAX, PLUGIN_KINDS, SOURCES

VERSION: Final = "1.0.0"
CAPABILITIES: Final = ("embedding", "fts", "ttl", "pin", "propagation")
ERROR_CODES: Final = ("bad_request", "not_found", "forbidden", "internal", "unavailable")
NAME_PATTERN: Final = r"^[a-z]+:[A-Za-z0-9_:.\-]+$"
_TIME: Final = {"type": "string", "format": "date-time"}
_OBJECT: Final = {"type": "object", "additionalProperties": True, "nullable": True}
_NUMBERS: Final = {"type": "array", "items": {"type": "number"}, "nullable": True}
_NULLABLE_TIME: Final = {**_TIME, "nullable": True}


def document(*, plain: bool = False) -> dict[str, Any]:
    made: dict[str, Any] = {
        "openapi": "3.0.3",
        "info": {
            "title": "Memory Plugin v1",
            "version": VERSION,
            "description": "Memories of agents, kept in StemmaDB. There is no authentication: the interface is "
            "served on loopback or a unix socket only.",
        },
        "paths": _paths(),
        "components": {"parameters": _parameters(), "responses": _responses(), "schemas": copy.deepcopy(_SCHEMAS)},
    }
    if not plain:
        _add_prose_rules(made["components"]["schemas"])
    return made


def _ref(kind: str, name: str) -> dict[str, str]:
    return {"$ref": f"#/components/{kind}/{name}"}


def _json(schema: dict[str, Any]) -> dict[str, Any]:
    return {"application/json": {"schema": schema}}


def _answers(*names: str, **more: Any) -> dict[str, Any]:
    """By status: those of the operation, and those that every request can get."""
    statuses = {"BadRequest": "400", "Forbidden": "403", "NotFound": "404", "TooLarge": "413", "Unavailable": "503"}
    every = (*names, "Forbidden", "TooLarge", "Unavailable")
    return {status[1:]: answer for status, answer in more.items()} | {
        statuses[name]: _ref("responses", name) for name in dict.fromkeys(every)
    }


def _operation(name: str, summary: str, answers: dict[str, Any], body: str | None = None) -> dict[str, Any]:
    operation: dict[str, Any] = {"operationId": name, "summary": summary, "responses": answers}
    if body is not None:
        operation["requestBody"] = {"required": True, "content": _json(_ref("schemas", body))}
    return operation


def _ok(description: str, schema: str) -> dict[str, Any]:
    return {"description": description, "content": _json(_ref("schemas", schema))}


def _paths() -> dict[str, Any]:
    namespace = {"_200": _ref("responses", "Namespace")}
    nothing = {"_204": {"description": "Nothing of it is found any more"}}
    by_name = {"parameters": [_ref("parameters", "NamespaceName")]}
    memory_id = {"in": "path", "name": "id", "required": True, "schema": {"type": "string", "format": "uuid"}}
    return {
        "/v1/health": {
            "get": _operation(
                "getHealth", "Is it alive, what can it do", _answers(_200=_ok("It is alive", "HealthResponse"))
            )
        },
        "/v1/namespaces/{name}": by_name
        | {
            "put": _operation(
                "upsertNamespace",
                "Make or overwrite a namespace",
                _answers("BadRequest", **namespace),
                "NamespaceUpsert",
            ),
            "patch": _operation(
                "patchNamespace",
                "Change expiry or metadata",
                _answers("BadRequest", "NotFound", **namespace),
                "NamespacePatch",
            ),
            "delete": _operation(
                "deleteNamespace",
                "Forget a namespace and all its memories",
                _answers("BadRequest", "NotFound", **nothing),
            ),
        },
        "/v1/namespaces/{name}/memories": by_name
        | {
            "post": _operation(
                "commitMemory",
                "Write a memory",
                _answers("BadRequest", "NotFound", _201=_ok("It is durable", "MemoryWriteResponse")),
                "MemoryWrite",
            )
        },
        "/v1/search": {
            "post": _operation(
                "searchMemories",
                "Find memories in the namespaces that are listed",
                _answers("BadRequest", _200=_ok("What was found, best first", "SearchResponse")),
                "SearchRequest",
            )
        },
        "/v1/memories/{id}": {"parameters": [memory_id]}
        | {
            "delete": _operation(
                "forgetMemory",
                "Forget a memory",
                _answers("BadRequest", "NotFound", **nothing),
                "ForgetRequest",
            )
        },
    }


def _parameters() -> dict[str, Any]:
    schema = {"type": "string", "minLength": 1, "maxLength": NAME_CHARACTERS_MAX, "pattern": NAME_PATTERN}
    return {"NamespaceName": {"in": "path", "name": "name", "required": True, "schema": schema}}


def _responses() -> dict[str, Any]:
    errors = {
        "BadRequest": "The request is wrong",
        "NotFound": "There is no such thing",
        "Forbidden": "The caller may not do this",
        "TooLarge": "The body is too large",
        "Unavailable": "Not now: try again",
    }
    answers = {name: _ok(description, "Error") for name, description in errors.items()}
    return {"Namespace": _ok("The namespace", "Namespace"), **answers}


def _text(*values: str) -> dict[str, Any]:
    return {"type": "string", "enum": list(values)} if values else {"type": "string"}


def _object(required: list[str], **properties: Any) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "object", "properties": properties}
    return {"type": "object", "required": required, **schema} if required else schema


_KIND: Final = _ref("schemas", "MemoryKind")
_SCHEMAS: Final[dict[str, Any]] = {
    "HealthResponse": _object(
        ["status", "version", "capabilities"],
        status=_text("ok", "degraded"),
        version=_text(),
        capabilities={"type": "array", "items": _text(*CAPABILITIES)},
    ),
    "NamespaceKind": _text(*KINDS),
    "Namespace": _object(
        ["name", "kind", "created_at"],
        name=_text(),
        kind=_ref("schemas", "NamespaceKind"),
        expires_at=_NULLABLE_TIME,
        metadata=_OBJECT,
        created_at=_TIME,
    ),
    "NamespaceUpsert": _object(
        ["kind"], kind=_ref("schemas", "NamespaceKind"), expires_at=_NULLABLE_TIME, metadata=_OBJECT
    ),
    "NamespacePatch": _object([], expires_at=_NULLABLE_TIME, metadata=_OBJECT),
    "MemoryKind": _text(*PLUGIN_KINDS),
    "MemorySource": _text(*SOURCES),
    "MemoryWrite": _object(
        ["content", "kind", "source"],
        content={"type": "string", "minLength": 1},
        kind=_KIND,
        source=_ref("schemas", "MemorySource"),
        expires_at=_NULLABLE_TIME,
        propagation=_OBJECT,
        pin={"type": "boolean", "default": False},
        embedding=_NUMBERS,
    ),
    "MemoryWriteResponse": _object(["id", "namespace"], id={"type": "string", "format": "uuid"}, namespace=_text()),
    "Memory": _object(
        ["id", "namespace", "content", "kind", "source", "created_at"],
        id={"type": "string", "format": "uuid"},
        namespace=_text(),
        content=_text(),
        kind=_KIND,
        source=_ref("schemas", "MemorySource"),
        expires_at=_NULLABLE_TIME,
        propagation=_OBJECT,
        pin={"type": "boolean"},
        created_at=_TIME,
        score={"type": "number", "nullable": True},
    ),
    "SearchRequest": _object(
        ["namespaces"],
        namespaces={"type": "array", "items": {"type": "string"}, "minItems": 1},
        query=_text(),
        kinds={"type": "array", "items": _KIND},
        limit={"type": "integer", "minimum": 1, "maximum": LIMIT_MAX, "default": LIMIT_DEFAULT},
        embedding=_NUMBERS,
    ),
    "SearchResponse": _object(["memories"], memories={"type": "array", "items": _ref("schemas", "Memory")}),
    "ForgetRequest": _object(["requested_by_namespace"], requested_by_namespace=_text()),
    "Error": _object(["code", "message"], code=_text(*ERROR_CODES), message=_text(), details=_OBJECT),
}


def _add_prose_rules(schemas: dict[str, Any]) -> None:
    """What the contract says in words only, and the bounds of 32-bit floats."""
    patch = schemas["NamespacePatch"]
    patch["minProperties"] = 1
    patch["anyOf"] = [{"required": ["expires_at"]}, {"required": ["metadata"]}]
    write, search = schemas["MemoryWrite"]["properties"], schemas["SearchRequest"]["properties"]
    write["content"]["pattern"] = r"\S"
    search["namespaces"]["items"] |= {"minLength": 1, "maxLength": NAME_CHARACTERS_MAX, "pattern": NAME_PATTERN}
    numbers = {"type": "number", "minimum": -FLOAT32_MAX, "maximum": FLOAT32_MAX}
    for fields in (write, search):
        fields["embedding"] = {**_NUMBERS, "items": numbers, "minItems": 1, "maxItems": DIMS_MAX}
