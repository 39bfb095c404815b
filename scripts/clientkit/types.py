"""The TypeScript of the message schema: an interface for each message and part."""

from __future__ import annotations

import json
from typing import Any, Final

Node = dict[str, Any]
HEAD: Final = """// Every message in its JSON form. Made from the Python types by `make web-made`: do not edit.
import type { Json } from "../values/json.ts";
"""
PLAIN: Final = {"string": "string", "boolean": "boolean", "integer": "number"}


def module(schema: Node) -> str:
    """The whole file."""
    parts = [_interface(name, node) for name, node in schema["$defs"].items() if name != "Value"]
    return "\n".join([HEAD, *parts, *_indexes(schema)])


def _indexes(schema: Node) -> list[str]:
    lines = []
    for key, name in (
        ("clientMessages", "ClientMessages"),
        ("serverMessages", "ServerMessages"),
        ("answers", "Answers"),
    ):
        fields = "".join(f'  "{kind}": {_name(node)};\n' for kind, node in schema[key].items())
        lines.append(f"export interface {name} {{\n{fields}}}\n")
    lines.append("export type ClientMessage = ClientMessages[keyof ClientMessages];")
    lines.append("export type ServerMessage = ServerMessages[keyof ServerMessages];\n")
    return lines


def _interface(name: str, node: Node) -> str:
    required = set(node["required"])
    fields = "".join(
        f"  readonly {field}{'' if field in required else '?'}: {_type(inner)};\n"
        for field, inner in node["properties"].items()
    )
    comment = f"/** {node['description']} */\n" if "description" in node else ""
    return (
        f"{comment}export interface {name} {{\n{fields}}}\n"
        if fields
        else f"{comment}export type {name} = Record<string, never>;\n"
    )


def _name(node: Node) -> str:
    return str(node["$ref"]).rsplit("/", 1)[-1]


def _type(node: Node) -> str:
    if "$ref" in node:
        return "Json" if _name(node) == "Value" else _name(node)
    if "const" in node or "enum" in node:
        return " | ".join(json.dumps(one) for one in node.get("enum", [node.get("const")]))
    if "anyOf" in node:
        return " | ".join(_type(one) for one in node["anyOf"])
    if node["type"] == "array":
        return _array(node)
    if node["type"] == "object":
        return f"{{ readonly [key: string]: {_type(node['additionalProperties'])} }}"
    return "null" if node["type"] == "null" else PLAIN[node["type"]]


def _array(node: Node) -> str:
    if "prefixItems" in node:
        return f"readonly [{', '.join(map(_type, node['prefixItems']))}]"
    inner = _type(node["items"])
    return f"readonly ({inner})[]" if " " in inner else f"readonly {inner}[]"
