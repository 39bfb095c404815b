"""Which children of a value a schema reaches, and the schema that goes on with each (QUERY-2).

What contributes is the schema itself, what `allOf` and `$ref` add, and those branches of `anyOf` and `oneOf` that may
match the value; as with the draft's annotations a child is reached if any of them speaks of it, under all they say.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, TypeAlias

from stemmadb.protocol.model.schema.compiled import Schema, schema_of
from stemmadb.protocol.model.schema.compiler import compile as compile_schema
from stemmadb.protocol.model.schema.judge import MAY, judge_of
from stemmadb.protocol.model.schema.node import SchemaNode
from stemmadb.protocol.model.schema.work import SchemaRun, spend
from stemmadb.protocol.model.values.json_values import Value

PLANS_MAX: Final = 64
_MAKING: Final = 10  # units of work for each subschema that a plan is made of
_CHOOSING: Final = 20  # and for choosing one
TRUE: Final = compile_schema(True)


class SchemaPlan:
    """What some contributing subschemas say of children."""

    __slots__ = (
        "_known",
        "_open",
        "_others",
        "_parts",
        "_prefixed",
        "_rest",
        "making",
        "marked",
        "marks_below",
        "width",
    )

    def __init__(self, parts: list[SchemaNode], *, silent: bool) -> None:
        self.marked = any(part.marked for part in parts)
        below = anywhere(child for part in parts for child in part.below())
        self.marks_below = any(node.marked for node in below)
        self.making = _MAKING * (len(parts) + len(below))
        self.width = 0 if silent else len(parts)
        self._parts = parts
        self._open = silent
        self._known: dict[str | int, Schema | None] = {}
        self._others = _together([part.additional for part in parts if part.additional is not None])
        self._rest = _together([part.items for part in parts if part.items is not None])
        self._prefixed = max((len(part.prefix) for part in parts), default=0)

    def child(self, key: str | int) -> Schema | None:
        """The schema for the child at this key or index; None if it is not reached."""
        if self._open:
            return TRUE
        if key in self._known:
            return self._known[key]
        if isinstance(key, int):
            if key >= self._prefixed:
                return self._rest
        elif not any(key in part.properties for part in self._parts):
            return self._others
        said = [node for part in self._parts if (node := _said(part, key)) is not None]
        found = self._known[key] = _together(said)
        return found


class Plans:
    """All plans of one schema; there is one unless the value decides which branches contribute."""

    __slots__ = ("_by_parts", "_fixed", "_nodes", "_silent", "making")

    def __init__(self, schema: Schema) -> None:
        self._nodes = schema.nodes
        every = anywhere(schema.nodes)
        self._silent = not any(node.speaks_of_children for node in every)
        branching = any(node.any_of or node.one_of for node in every)
        self._fixed = None if branching else SchemaPlan(every, silent=self._silent)
        self._by_parts: dict[tuple[int, ...], SchemaPlan] = {}
        self.making = _MAKING * len(every) + (self._fixed.making if self._fixed is not None else 0)

    def at(self, value: Value, run: SchemaRun, met: Met) -> SchemaPlan:
        """The plan for this value; `met` are the plans that this run has paid for, whether they were kept or not."""
        if self._fixed is not None:
            return self._fixed
        parts = _contributing(self._nodes, value, run)
        spend(run, _CHOOSING + 2 * len(parts))
        name = tuple(map(id, parts))
        found = met.get((self, name))
        if found is None:
            found = met[self, name] = self._cached(name, parts)
            spend(run, found.making)
        return found

    def _cached(self, name: tuple[int, ...], parts: list[SchemaNode]) -> SchemaPlan:
        found = self._by_parts.get(name)
        if found is None:
            if len(self._by_parts) >= PLANS_MAX:
                self._by_parts.clear()
            found = self._by_parts[name] = SchemaPlan(parts, silent=self._silent)
        return found


Met: TypeAlias = dict[tuple[Plans, tuple[int, ...]], SchemaPlan]


def plans(schema: Schema) -> Plans:
    """The schema's plans, made when they are first asked for."""
    found: Plans | None = schema.plans
    if found is None:
        found = schema.plans = Plans(schema)
    return found


def anywhere(nodes: Iterable[SchemaNode]) -> list[SchemaNode]:
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


def _contributing(nodes: Iterable[SchemaNode], value: Value, run: SchemaRun) -> list[SchemaNode]:
    found = dict.fromkeys(nodes)
    todo = list(found)
    while todo:
        node = todo.pop()
        spend(run, 1 + 4 * (len(node.any_of) + len(node.one_of)))
        branches = [branch for branch in (*node.any_of, *node.one_of) if judge_of(branch, MAY).run(value, run)]
        for child in (*node.together(), *branches):
            if child not in found:
                found[child] = None
                todo.append(child)
    return list(found)


def _said(part: SchemaNode, key: str | int) -> SchemaNode | None:
    if isinstance(key, str):
        return part.properties.get(key, part.additional)
    return part.prefix[key] if key < len(part.prefix) else part.items


def _together(nodes: list[SchemaNode]) -> Schema | None:
    if not nodes:
        return None
    schema = schema_of(nodes)
    return None if schema.is_false else schema
