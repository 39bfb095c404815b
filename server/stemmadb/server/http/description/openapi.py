"""The description of every route as OpenAPI 3.1, made from the route table and the messages. No I/O."""

from __future__ import annotations

import re
import types
from typing import Annotated, Any, Final, Literal, Union, get_args, get_origin, get_type_hints

import msgspec
from msgspec import Meta

from stemmadb.protocol.model.values.ids import Hash
from stemmadb.protocol.wire.messages.fields import BODIES_OF_THE_MODEL, EncodedField
from stemmadb.server.http.base.conditions import LETTERS
from stemmadb.server.http.base.error_table import LIMIT_STATUSES, STATUSES
from stemmadb.server.http.description import openapi_examples
from stemmadb.server.http.routes.route_table import ME, OPENAPI, SPACE, SPACES, Route, routes
from stemmadb.server.http.routes.structure_routes import OURS
from stemmadb.server.http.writes.commits import CommitWriter
from stemmadb.server.http.writes.identities import OwnSessions

VERSION: Final = "1"
_PRIMITIVES: Final[dict[Any, dict[str, Any]]] = {
    int: {"type": "integer", "format": "int64"},
    str: {"type": "string"},
    bool: {"type": "boolean"},
    float: {"type": "number"},
    bytes: {"type": "string", "contentEncoding": "base64"},
}
_PROBLEM: Final = {
    "type": "object",
    "required": ["type", "title", "status", "detail", "code", "details", "retriable"],
    "properties": {
        "type": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string"},
        "code": {"type": "string", "enum": sorted(STATUSES)},
        "details": {"type": "object"},
        "retriable": {"type": "boolean"},
        "stale": {"type": "array", "items": {"type": "object"}},
        "current": {"type": "array", "items": {"type": "object"}},
    },
}


class Schemas:
    """JSON Schemas of the messages, in the JSON form that `json_form` gives them."""

    def __init__(self) -> None:
        self.components: dict[str, Any] = {"Problem": _PROBLEM}

    def of(self, hint: Any) -> dict[str, Any]:
        origin, arguments = get_origin(hint), get_args(hint)
        if origin is Annotated:
            return self._annotated(arguments)
        if origin in (Union, types.UnionType):
            return self._union(arguments)
        if origin is Literal:
            return {"type": "string", "enum": list(arguments)}
        if origin is tuple:
            return {"type": "array", "items": self.of(arguments[0]) if arguments[-1] is ... else {}}
        if origin is dict:
            return {"type": "object", "additionalProperties": self.of(arguments[1])}
        return self._single(hint)

    def _annotated(self, arguments: tuple[Any, ...]) -> dict[str, Any]:
        for mark in arguments[1:]:
            if isinstance(mark, EncodedField):
                return {} if mark.type is None else self.of(mark.type)
        found = self.of(arguments[0])
        for mark in arguments[1:]:
            if isinstance(mark, Meta) and found.get("type") == "integer":
                found = found | {name: getattr(mark, at) for name, at in _BOUNDS if getattr(mark, at) is not None}
        return found

    def _union(self, arguments: tuple[Any, ...]) -> dict[str, Any]:
        real = [one for one in arguments if one is not type(None)]
        found = [self.of(one) for one in real]
        if {} in found:
            return {}
        return found[0] if len(found) == 1 else {"anyOf": found}

    def _single(self, hint: Any) -> dict[str, Any]:
        if hint is Hash:
            return {"type": "string", "pattern": "^b3:[a-z2-7]{51}[aq]$"}
        while hasattr(hint, "__supertype__"):
            hint = hint.__supertype__
        if isinstance(hint, msgspec.StructMeta):
            return self.reference(hint)
        return dict(_PRIMITIVES.get(hint, {}))

    def reference(self, cls: Any, without: frozenset[str] = frozenset()) -> dict[str, Any]:
        name = cls.__name__ if not without else f"{cls.__name__}Body"
        if name not in self.components:
            self.components[name] = {}
            self.components[name] = self._structure(cls, without)
        return {"$ref": f"#/components/schemas/{name}"}

    def _structure(self, cls: Any, without: frozenset[str]) -> dict[str, Any]:
        hints = get_type_hints(cls, include_extras=True)
        fields = [one for one in msgspec.structs.fields(cls) if one.encode_name not in without]
        properties = {
            one.encode_name: {} if (cls.__name__, one.name) in BODIES_OF_THE_MODEL else self.of(hints[one.name])
            for one in fields
        }
        config = cls.__struct_config__
        if config.tag_field is not None and config.tag_field not in without:
            properties = {config.tag_field: {"type": "string", "const": config.tag}} | properties
        required = [one.encode_name for one in fields if one.required]
        described = {"description": (cls.__doc__ or "").strip().split("\n")[0]}
        return described | {"type": "object", "properties": properties} | ({"required": required} if required else {})


_BOUNDS: Final = (("minimum", "ge"), ("maximum", "le"))


def document() -> dict[str, Any]:
    """All of it, as plain JSON values."""
    schemas = Schemas()
    paths: dict[str, dict[str, Any]] = {}
    for route in routes(CommitWriter(OwnSessions(bytes))):
        paths.setdefault(SPACE + route.path, {})[route.method.lower()] = _operation(route, schemas)
    roots = ((SPACES, "The caller's spaces."), (ME, "Who the caller is."), (OPENAPI, "This description."))
    for path, summary in roots:
        security: list[Any] = [] if path == OPENAPI else [{"bearer": []}]
        paths[path] = {"get": {"summary": summary, "security": security, "responses": {"200": _json({}), **_ERRORS}}}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "StemmaDB",
            "version": VERSION,
            "description": "Integers may be larger than 2^53: read them with a parser that keeps all digits.",
        },
        "security": [{"bearer": []}],
        "paths": dict(sorted(paths.items())),
        "components": {
            "schemas": dict(sorted(schemas.components.items())),
            "securitySchemes": {"bearer": {"type": "http", "scheme": "bearer", "bearerFormat": "stk1"}},
        },
    }


def encoded() -> bytes:
    """The bytes under version control, and of the answer."""
    return msgspec.json.format(msgspec.json.encode(document()), indent=1) + b"\n"


def _operation(route: Route, schemas: Schemas) -> dict[str, Any]:
    parameters = [_in_path("space")] + ([_in_path("blob")] if "{blob}" in route.path else [])
    hints = get_type_hints(route.params, include_extras=True)
    for field in msgspec.structs.fields(route.params):
        schema = schemas.of(hints[field.name])
        said = {"name": field.name, "in": "query", "required": field.required, "schema": schema}
        parameters.append(said | _example(field.name))
    parameters += [_header("Idempotency-Key")] if route.writes else []
    parameters += [_header(name, is_write=route.writes) for name in route.headers]
    answer = {} if route.answer is None else schemas.reference(route.answer)
    operation: dict[str, Any] = {
        "summary": route.summary,
        "operationId": route.method.lower() + "".join(re.findall("[A-Za-z]+", route.path.title())),
        "parameters": parameters,
        "responses": {str(route.status): _answer(route.content, answer), **_also(route), **_ERRORS},
    }
    if route.body != "none":
        content = _body(route, schemas)
        example = {"example": openapi_examples.BODIES[route.method, route.path]}
        content = {kind: described | example for kind, described in content.items()}
        operation["requestBody"] = {"required": route.body not in ("fields", "bytes"), "content": content}
    return operation


def _body(route: Route, schemas: Schemas) -> dict[str, Any]:
    if route.body == "bytes":
        return {"application/octet-stream": {}}
    if route.body == "patch":
        return {"application/json-patch+json": {"schema": {"type": "array", "items": {"type": "object"}}}}
    if route.body == "value":
        return {"application/json": {"schema": {}}}
    without = OURS | {"name"} if route.body == "fields" and route.path in ("/branch", "/tag") else OURS
    schema = schemas.reference(route.body_type, without if route.body == "fields" else frozenset())
    return {"application/json": {"schema": schema}}


def _in_path(name: str) -> dict[str, Any]:
    schema = {"type": "string", "pattern": _PATHS[name]}
    return {"name": name, "in": "path", "required": True, "schema": schema} | _example(name)


def _example(name: str) -> dict[str, Any]:
    """Of a parameter that a good request has."""
    return {"example": openapi_examples.PARAMETERS[name]} if name in openapi_examples.PARAMETERS else {}


def _header(name: str, *, is_write: bool = True) -> dict[str, Any]:
    pattern = _HEADERS.get(name) if is_write else None
    schema = {"type": "string"} | ({} if pattern is None else {"pattern": pattern})
    return {"name": name, "in": "header", "required": False, "schema": schema}


def _json(schema: dict[str, Any]) -> dict[str, Any]:
    return _answer(("application/json",), schema)


def _answer(content: tuple[str, ...], schema: dict[str, Any]) -> dict[str, Any]:
    said = {kind: {"schema": schema} if kind == "application/json" else {} for kind in content}
    return {"description": "The answer.", "content": said}


def _also(route: Route) -> dict[str, Any]:
    known = {
        304: {"description": "The client has it."},
        206: {"description": "A part of it.", "content": {"*/*": {}}},
    }
    return {str(status): known[status] for status in route.also}


_ERRORS: Final = {
    "default": {
        "description": f"An error; statuses {sorted({*STATUSES.values(), *LIMIT_STATUSES.values()})}.",
        "content": {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}},
    }
}

_PATHS: Final = {"space": "^did:key:z[1-9A-HJ-NP-Za-km-z]+$", "blob": "^b3:[a-z2-7]{52}$"}
_HEADERS: Final = {
    "Idempotency-Key": "^[!-~]{1,128}$",
    "If-Match": rf'^"[0-9]{{1,19}}\.[a-z2-7]{{{LETTERS}}}"$',
    "If-None-Match": r"^\*$",
}
"""What a write takes in them."""
