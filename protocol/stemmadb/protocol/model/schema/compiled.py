"""A compiled schema: immutable, equal by content, and the judge of values (QUERY-3, QUERY-4)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from blake3 import blake3

from stemmadb.protocol.model.schema.judge import MAY, PLAIN, Judge, judge_of
from stemmadb.protocol.model.schema.node import SchemaNode
from stemmadb.protocol.model.schema.work import SchemaRun, begun


class Schema:
    """One subschema, or several of one document that apply together. Equal keys mean equal behaviour."""

    __slots__ = ("_hash", "_may", "_plain", "key", "nodes", "plans")

    def __init__(self, nodes: tuple[SchemaNode, ...]) -> None:
        self.nodes = nodes
        self.key: bytes = nodes[0].key if len(nodes) == 1 else _key_of_all(nodes)
        self.plans: Any = None  # what `reach` has worked out about it; says nothing that the nodes do not say
        self._hash = hash(self.key)
        alone = len(nodes) == 1
        self._plain = judge_of(nodes[0], PLAIN) if alone else Judge(nodes, PLAIN)
        self._may = judge_of(nodes[0], MAY) if alone else Judge(nodes, MAY)

    @property
    def is_true(self) -> bool:
        """Whether it is `true`, or says no more than that."""
        return self.nodes[0].is_true

    @property
    def is_false(self) -> bool:
        return self.nodes[0].is_false

    def matches(self, value: Any) -> bool:
        """Whether the value is valid, as draft 2020-12 has it (QUERY-3); `LimitExceeded` if that is too much work."""
        return self._plain.run(value, begun())

    def may_match(self, value: Any, run: SchemaRun) -> bool:
        """The same, where a place that holds a link satisfies everything but `false`."""
        return self._may.run(value, run)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Schema) and self.key == other.key)

    def __repr__(self) -> str:
        return f"Schema({self.key.hex()[:12]})"


def schema_of(nodes: Iterable[SchemaNode]) -> Schema:
    """The nodes as one schema: `false` if one of them is, without those that say nothing, each once."""
    given = list(nodes)
    if len(given) == 1:
        return _single(given[0])
    unique = {node.key: node for node in given}
    false = next((node for node in given if node.is_false), None)
    telling = [unique[key] for key in sorted(unique) if not unique[key].is_true]
    if false is not None or len(telling) < 2:
        return _single(false or (telling or given)[0])
    return Schema(tuple(telling))


def _single(node: SchemaNode) -> Schema:
    found: Schema | None = node.schema
    if found is None:
        found = node.schema = Schema((node,))
    return found


def _key_of_all(nodes: tuple[SchemaNode, ...]) -> bytes:
    return blake3(b"all of" + b"".join(sorted(node.key for node in nodes))).digest()
