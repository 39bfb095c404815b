"""From a tree of nodes to the graph that `$ref` makes of it, known to end on every value (QUERY-3).

Where a subschema leads back to itself without going into the value it would recurse for ever, and is refused. Where
it goes into the value it ends with the value; what is left to bound is how many calls stand inside one another.
"""

from __future__ import annotations

from typing import Final
from urllib.parse import unquote_to_bytes

from stemmadb.protocol.errors import InvalidPointer, LimitExceeded
from stemmadb.protocol.model.schema.admit import refused
from stemmadb.protocol.model.schema.node import SchemaNode
from stemmadb.protocol.model.values import pointer
from stemmadb.protocol.model.values.limits import DEFAULTS

CALLS_MAX: Final = 700
"""Calls inside one another that a schema may need; Python gives up at 1,000, of which the caller has used some."""
_CALLS = 2  # an applier and the function of the subschema; what is applied together and not shared needs none


def resolve(root: SchemaNode, nodes: list[SchemaNode]) -> SchemaNode:
    """Follows every `$ref`; gives the root, or what stands for it where it is nothing but a `$ref`."""
    for node in nodes:
        if "$ref" in node.raw:
            node.ref = _target(root, node)
    order = _places_in_order(nodes)
    for node in order:  # what a node refers to comes before it, so a chain of refs is followed one step at a time
        node.ref = _meant(node.ref) if node.ref is not None else None
    for node in nodes:
        _skip_mere_refs(node)
    for node in nodes:
        for child in () if node.is_mere_ref else (*node.below(), *node.together(), *node.apart()):
            child.arrivals += 1
        for branch in node.one_of:  # judged two ways where there are links, see `judge`
            branch.arrivals += 1
    _check_calls(order)
    return _meant(root)


def _target(root: SchemaNode, node: SchemaNode) -> SchemaNode:
    text, path = node.raw["$ref"], (*node.path, "$ref")
    if not text.startswith("#"):
        raise refused(path, "a '$ref' points into its own document: '#' or '#/…'")
    try:
        tokens = pointer.parse(unquote_to_bytes(text[1:]).decode())
    except (InvalidPointer, UnicodeDecodeError):
        raise refused(path, "a '$ref' is '#' and a JSON Pointer") from None
    target = _at(root, tokens)
    if target is None:
        raise refused(path, f"there is no schema at {pointer.shown(text)!r}")
    return target


def _at(node: SchemaNode, tokens: tuple[str, ...]) -> SchemaNode | None:
    """The node at a place; None where there is nothing, or something that is not a schema."""
    todo = list(reversed(tokens))
    while todo:
        found = _step(node, todo)
        if found is None:
            return None
        node = found
    return node


def _step(node: SchemaNode, todo: list[str]) -> SchemaNode | None:
    keyword = todo.pop()
    single = {"additionalProperties": node.additional, "items": node.items, "not": node.negated}
    if keyword in single:
        return single[keyword]
    if not todo:
        return None
    token = todo.pop()
    named = {"properties": node.properties, "$defs": node.defs}
    if keyword in named:
        return named[keyword].get(token)
    several = {"allOf": node.all_of, "anyOf": node.any_of, "oneOf": node.one_of, "prefixItems": node.prefix}
    if keyword in several:
        index = pointer.index(token, len(several[keyword]) - 1)
        return None if index is None else several[keyword][index]
    return None


def _places_in_order(nodes: list[SchemaNode]) -> list[SchemaNode]:
    """Every node after those that it applies to the same value; refuses the cycles that have no such order."""
    done: dict[SchemaNode, bool] = {}
    order: list[SchemaNode] = []
    for start in nodes:
        todo = [start]
        while todo:
            node = todo[-1]
            if done.get(node):
                todo.pop()
            elif node in done:
                done[todo.pop()] = True
                order.append(node)
            else:
                done[node] = False
                todo.extend(_unfinished(node, done))
    return order


def _unfinished(node: SchemaNode, done: dict[SchemaNode, bool]) -> list[SchemaNode]:
    inner = [child for child in (*node.together(), *node.apart()) if not done.get(child)]
    for child in inner:
        if child in done:
            raise refused(node.path, "it recurses for ever: it leads back to itself without going into the value")
    return inner


def _meant(node: SchemaNode) -> SchemaNode:
    """The node itself, or what it refers to where it says nothing else."""
    return node.ref if node.is_mere_ref and node.ref is not None else node


def _skip_mere_refs(node: SchemaNode) -> None:
    node.properties = {name: _meant(child) for name, child in node.properties.items()}
    node.prefix = [_meant(child) for child in node.prefix]
    node.all_of = [_meant(child) for child in node.all_of]
    node.any_of = [_meant(child) for child in node.any_of]
    node.one_of = [_meant(child) for child in node.one_of]
    node.additional = _meant(node.additional) if node.additional is not None else None
    node.items = _meant(node.items) if node.items is not None else None
    node.negated = _meant(node.negated) if node.negated is not None else None


def _check_calls(order: list[SchemaNode]) -> None:
    """Bounds the calls inside one another that the deepest value can cause."""
    calls = _next_calls(order, {})
    worst = (DEFAULTS.depth_max + 1) * (_CALLS + max(calls.values()))
    if worst <= CALLS_MAX:  # almost always: no need to be exact
        return
    for _ in range(DEFAULTS.depth_max):
        before, calls = calls, _next_calls(order, calls)
        if calls == before:
            break
    worst = max(calls.values())  # of any node: each can be where a link's target begins
    if worst > CALLS_MAX:
        raise LimitExceeded(bound="schema_calls_max", maximum=CALLS_MAX, actual=worst)


def _next_calls(order: list[SchemaNode], inside: dict[SchemaNode, int]) -> dict[SchemaNode, int]:
    """The calls that each node needs for a value, given those that each needs for what is inside the value."""
    calls: dict[SchemaNode, int] = {}
    for node in order:
        needed = [0]
        needed += [calls[child] + (_CALLS if child.arrivals > 1 else 0) for child in node.together()]
        needed += [calls[child] + _CALLS for child in node.apart()]
        needed += [inside[child] + _CALLS for child in node.below() if inside]
        calls[node] = max(needed)
    return calls
