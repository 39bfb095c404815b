"""A JSON Schema of every message in its JSON form, derived from the message types (WIRE-5)."""

from __future__ import annotations

import types
from typing import Annotated, Any, Final, Literal, NewType, Union, get_args, get_origin, get_type_hints

import msgspec

from stemmadb.protocol.model.values.ids import Hash
from stemmadb.protocol.wire.messages import ANSWERS, CLIENT_MESSAGES, REQUESTS, SERVER_MESSAGES, type_of
from stemmadb.protocol.wire.messages.fields import BODIES_OF_THE_MODEL, EncodedField
from stemmadb.protocol.wire.version import PROTOCOL, SUBPROTOCOLS

Node = dict[str, Any]
REFERENCE: Final = "^b3:[a-z2-7]{52}$"
VALUE: Final[Node] = {"$ref": "#/$defs/Value"}
BOUNDS: Final = {"ge": "minimum", "le": "maximum", "min_length": "minLength", "max_length": "maxLength"}


def schema() -> Node:
    """The whole document: a definition for each message and each part, and which of them go which way."""
    made = _Definitions()
    for cls in (*CLIENT_MESSAGES, *SERVER_MESSAGES, *ANSWERS):
        made.name_of(cls)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "The messages of StemmaDB in JSON form",
        "description": "Made from the message types by `make web-made`. A server refuses a field that is not here; a "
        "client ignores one in `hello.limits` and `hello.features`. Texts with contentEncoding base64 are padded, of "
        "the standard alphabet; minLength and maxLength beside it count bytes.",
        "protocol": PROTOCOL,
        "subprotocols": list(SUBPROTOCOLS),
        "clientMessages": {type_of(cls): _ref(cls.__name__) for cls in CLIENT_MESSAGES},
        "serverMessages": {type_of(cls): _ref(cls.__name__) for cls in SERVER_MESSAGES},
        "answers": {type_of(cls): _ref(cls.answer.__name__) for cls in REQUESTS},
        "$defs": made.sorted(),
    }


def _ref(name: str) -> Node:
    return {"$ref": f"#/$defs/{name}"}


class _Definitions:
    """Definitions by class name, each made once."""

    def __init__(self) -> None:
        self._made: dict[str, Node] = {"Value": {"description": "Any JSON value within MODEL-3."}}

    def sorted(self) -> dict[str, Node]:
        return dict(sorted(self._made.items()))

    def name_of(self, cls: Any) -> str:
        name: str = cls.__name__
        if name not in self._made:
            self._made[name] = {}
            self._made[name] = self._structure(cls)
        return name

    def _structure(self, cls: Any) -> Node:
        config = cls.__struct_config__
        hints = get_type_hints(cls, include_extras=True)
        properties: dict[str, Node] = {}
        required: list[str] = []
        if config.tag_field is not None:
            properties[config.tag_field] = {"const": config.tag}
            required.append(config.tag_field)
        for field in msgspec.structs.fields(cls):
            is_body = (cls.__name__, field.name) in BODIES_OF_THE_MODEL
            node = dict(VALUE) if is_body else self.of(hints[field.name])
            if field.required:
                required.append(field.encode_name)
            elif isinstance(field.default, str | int | bool) and field.default is not None:
                node = {**node, "default": field.default}
            properties[field.encode_name] = node
        described = (cls.__doc__ or "").split("\n")[0]
        node = {"description": described} if described else {}
        return {
            **node,
            "type": "object",
            "properties": properties,
            "required": required,
            "additionalProperties": False,
        }

    def of(self, hint: Any) -> Node:
        """What a field of this type looks like in JSON; None is left out, since a missing field says the same."""
        if isinstance(hint, NewType):
            return {"type": "string", "pattern": REFERENCE} if hint is Hash else self.of(hint.__supertype__)
        origin = get_origin(hint)
        if origin is Annotated:
            return self._annotated(hint)
        if origin in (Union, types.UnionType):
            return self._union([one for one in get_args(hint) if one is not type(None)])
        if origin is tuple:
            return self._tuple(get_args(hint))
        if origin is Literal:
            return {"enum": list(get_args(hint))}
        if origin is dict:
            return {"type": "object", "additionalProperties": self.of(get_args(hint)[1])}
        return (
            _ref(self.name_of(hint)) if isinstance(hint, type) and issubclass(hint, msgspec.Struct) else _plain(hint)
        )

    def _annotated(self, hint: Any) -> Node:
        inner, *marks = get_args(hint)
        for mark in marks:
            if isinstance(mark, EncodedField):
                return dict(VALUE) if mark.type is None else self.of(mark.type)
        node = self.of(inner)
        if "pattern" in node:
            return node
        for mark in marks:
            found = {
                BOUNDS[bound]: getattr(mark, bound) for bound in BOUNDS if getattr(mark, bound, None) is not None
            }
            node = {**node, **found}
        return node

    def _union(self, members: list[Any]) -> Node:
        return self.of(members[0]) if len(members) == 1 else {"anyOf": [self.of(one) for one in members]}

    def _tuple(self, items: tuple[Any, ...]) -> Node:
        if items[-1] is Ellipsis:
            item = items[0]
            nullable = type(None) in get_args(item)
            node = self.of(item)
            return {"type": "array", "items": {"anyOf": [node, {"type": "null"}]} if nullable else node}
        return {"type": "array", "prefixItems": [self.of(one) for one in items], "items": False}


def _plain(hint: Any) -> Node:
    if hint is bytes:
        return {"type": "string", "contentEncoding": "base64"}
    names = {str: "string", bool: "boolean", int: "integer"}
    return {"type": names[hint]} if hint in names else dict(VALUE)
