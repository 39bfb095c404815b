"""From an admitted schema to its tree of nodes; every keyword known and well formed, or refused by name (QUERY-3)."""

from __future__ import annotations

from typing import Any, Final

from stemmadb.protocol.errors import LimitExceeded
from stemmadb.protocol.model.schema.admit import refused
from stemmadb.protocol.model.schema.grammar import ASSERTIONS, NAMED, ONE, SEVERAL
from stemmadb.protocol.model.schema.node import Document, SchemaNode
from stemmadb.protocol.model.schema.pattern import BadPattern, searcher

PATTERNS_MAX: Final = 256
_SLOTS = {
    "additionalProperties": "additional", "items": "items", "not": "negated", "allOf": "all_of", "anyOf": "any_of",
    "oneOf": "one_of", "prefixItems": "prefix", "properties": "properties", "$defs": "defs",
}  # fmt: skip


def parse(raw: Any) -> tuple[SchemaNode, list[SchemaNode]]:
    """The root of the tree, and all nodes with each before those inside it. `$ref`s are not followed yet."""
    document = Document(raw)
    root = SchemaNode(document, raw, ())
    nodes = [root]
    patterns: set[str] = set()
    for node in nodes:  # grows while it is walked: no recursion, whatever the nesting
        children = _read(node, patterns)
        nodes.extend(children)
    for node in reversed(nodes):
        node.has_ref = node.has_ref or any(child.has_ref for child in _inside(node))
    return root, nodes


def _inside(node: SchemaNode) -> list[SchemaNode]:
    return [*node.below(), *node.together(), *node.apart(), *node.defs.values()]


def _read(node: SchemaNode, patterns: set[str]) -> list[SchemaNode]:
    children: list[SchemaNode] = []
    for keyword, value in node.raw.items():
        path = (*node.path, keyword)
        if keyword in _SLOTS:
            children += _subschemas(node, keyword, value, path)
        elif keyword not in ASSERTIONS:
            raise refused(path, f"{keyword[:80]!r} is not a keyword that is understood here")
        elif not ASSERTIONS[keyword][0](value):
            raise refused(path, f"{keyword!r} must be {ASSERTIONS[keyword][1]}")
    if "pattern" in node.raw:
        _read_pattern(node, patterns)
    return children


def _subschemas(node: SchemaNode, keyword: str, value: Any, path: tuple[str, ...]) -> list[SchemaNode]:
    slot = _SLOTS[keyword]
    if keyword in ONE:
        child = _child(node, value, path)
        setattr(node, slot, child)
        return [child]
    if keyword in SEVERAL:
        if type(value) is not list or not value:
            raise refused(path, f"{keyword!r} must be an array of schemas, at least one")
        several = [_child(node, item, (*path, str(index))) for index, item in enumerate(value)]
        setattr(node, slot, several)
        return several
    assert keyword in NAMED
    if type(value) is not dict:
        raise refused(path, f"{keyword!r} must be an object of schemas")
    named = {name: _child(node, item, (*path, name)) for name, item in value.items()}
    setattr(node, slot, named)
    return list(named.values())


def _child(node: SchemaNode, raw: Any, path: tuple[str, ...]) -> SchemaNode:
    if type(raw) is not bool and type(raw) is not dict:
        raise refused(path, "a schema is an object or a bool")
    return SchemaNode(node.document, raw, path)


def _read_pattern(node: SchemaNode, patterns: set[str]) -> None:
    pattern = node.raw["pattern"]
    patterns.add(pattern)
    if len(patterns) > PATTERNS_MAX:
        raise LimitExceeded(bound="schema_patterns_max", maximum=PATTERNS_MAX, actual=len(patterns))
    try:
        node.search = searcher(pattern)
    except BadPattern as bad:
        raise refused((*node.path, "pattern"), f"the pattern cannot be used: {bad}") from None
