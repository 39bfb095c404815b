"""Which children of a value a schema reaches, and the schema that goes on with each (QUERY-2).

What contributes is the schema itself, what `allOf` and `$ref` add, and those branches of `anyOf` and `oneOf` that may
match the value; as with the draft's annotations a child is reached if any of them speaks of it, under all that they say.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from stemmadb.protocol.model.values import Value

from .compiler import compile as compile_schema
from .compiled import Schema, schema_of
from .judge import MAY, judge
from .keywords import Memo
from .node import Node

PLANS_MAX: Final = 64
_TRUE: Final = compile_schema(True)


class Plan:
    """What some contributing subschemas say of children. `child` gives None for one that is not reached."""

    __slots__ = ("_known", "_open", "_parts", "marked")

    def __init__(self, parts: list[Node], *, silent: bool) -> None:
        self.marked = any(part.marked for part in parts)
        self._parts = parts
        self._open = silent
        self._known: dict[str | int, Schema | None] = {}

    def child(self, key: str | int) -> Schema | None:
        if self._open:
            return _TRUE
        found = [node for part in self._parts if (node := _for_child(part, key)) is not None]
        if not found:
            return None
        schema = schema_of(found)
        return None if schema.is_false else schema


def _for_child(part: Node, key: str | int) -> Node | None:
    if isinstance(key, str):
        return part.properties.get(key, part.additional)
    return part.prefix[key] if key < len(part.prefix) else part.items


def plan_at(schema: Schema, value: Value, memo: Memo) -> Plan:
    parts = _contributing(schema.nodes, value, memo)
    silent = not any(node.speaks_of_children for node in _anywhere(schema.nodes))
    return Plan(parts, silent=silent)


def _contributing(nodes: Iterable[Node], value: Value, memo: Memo) -> list[Node]:
    found = dict.fromkeys(nodes)
    todo = list(found)
    while todo:
        node = todo.pop()
        branches = [node for node in (*node.any_of, *node.one_of) if judge(node, MAY).run(value, memo)]
        for child in (*node.together(), *branches):
            if child not in found:
                found[child] = None
                todo.append(child)
    return list(found)


def _anywhere(nodes: Iterable[Node]) -> list[Node]:
    """The nodes with all that may contribute on any value."""
    found = dict.fromkeys(nodes)
    todo = list(found)
    while todo:
        node = todo.pop()
        for child in (*node.together(), *node.any_of, *node.one_of):
            if child not in found:
                found[child] = None
                todo.append(child)
    return list(found)
