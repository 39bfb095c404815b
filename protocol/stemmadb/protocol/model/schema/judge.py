"""Judging a value: the functions that a subschema becomes, made when it is first applied.

There are three ways to judge, and they differ only in what they say of a place that holds a link, whose target is
judged on its own when it is visited: PLAIN takes the link for the object it is; MAY answers whether the value could
match, so a link satisfies everything but `false`; MUST answers whether it matches whatever the link leads to, so a
link satisfies nothing but `true`. `not` turns one of the two into the other (QUERY-2, QUERY-3).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from .keywords import KINDS, Check, Memo, checks, outright
from .links import SIGIL, is_link
from .node import Node

PLAIN: Final = 0
MAY: Final = 1
MUST: Final = 2
_OPPOSITE: Final = (PLAIN, MUST, MAY)


class Judge:
    """Some subschemas that apply together, judged one way; `run(value, memo)` answers."""

    __slots__ = ("_mode", "_nodes", "run")

    def __init__(self, nodes: Sequence[Node], mode: int) -> None:
        self._nodes = nodes
        self._mode = mode
        self.run: Check = self._first_run

    def _first_run(self, value: Any, memo: Memo) -> bool:
        self.run = _build(self._nodes, self._mode)
        return self.run(value, memo)


def judge(node: Node, mode: int) -> Judge:
    """The judge of one subschema, the same object every time."""
    found: Judge | None = node.tests[mode]
    if found is None:
        found = node.tests[mode] = Judge((node,), mode)
    return found


def _build(nodes: Sequence[Node], mode: int) -> Check:
    parts, shared = _applied_together(nodes)
    if len(nodes) == 1 and nodes[0].is_false:
        return lambda _value, _memo: False
    if not shared and all(part.is_true for part in parts):
        return lambda _value, _memo: True
    table = {kind: found for kind in KINDS if (found := _all_checks(parts, shared, kind, mode)) is not None}
    again = len(nodes) == 1 and nodes[0].arrivals > 1
    plain = _by_kind(table) if mode == PLAIN else _past_links(table, answer=mode == MAY)
    return _remembering(plain, id(nodes[0]) * 3 + mode) if again else plain


def _applied_together(nodes: Sequence[Node]) -> tuple[list[Node], list[Node]]:
    """The nodes with all that is applied with them, in two lists: what is theirs alone, and what others share.

    What is theirs alone becomes part of their own function; what is shared keeps a function of its own, which
    remembers its answers. So a schema is never multiplied, neither when it is built nor when it is run.
    """
    parts: dict[Node, None] = dict.fromkeys(nodes)
    shared: dict[Node, None] = {}
    todo = list(parts)
    while todo:
        for child in todo.pop().together():
            if child.arrivals > 1:
                shared[child] = None
            elif child not in parts:
                parts[child] = None
                todo.append(child)
    return list(parts), [node for node in shared if node not in parts]


def _all_checks(parts: list[Node], shared: list[Node], kind: type, mode: int) -> tuple[Check, ...] | None:
    asserted: list[Check] = []
    applied: list[Check] = []
    for part in parts:
        found = checks(part, kind)
        if found is None:
            return None
        asserted += found
        applied += _appliers(part, kind, mode)
    return (*asserted, *applied, *[_deferred(judge(node, mode)) for node in shared])


def _deferred(inner: Judge) -> Check:
    return lambda value, memo: inner.run(value, memo)


def _by_kind(table: dict[type, tuple[Check, ...]]) -> Check:
    find = table.get

    def run(value: Any, memo: Memo) -> bool:
        found = find(type(value))
        if found is None:
            return False
        for check in found:  # noqa: SIM110  # a generator would cost more than what it runs
            if not check(value, memo):
                return False
        return True

    return run


def _past_links(table: dict[type, tuple[Check, ...]], *, answer: bool) -> Check:
    find = table.get

    def run(value: Any, memo: Memo) -> bool:
        kind = type(value)
        if kind is dict and SIGIL in value and is_link(value):
            return answer
        found = find(kind)
        if found is None:
            return False
        for check in found:  # noqa: SIM110
            if not check(value, memo):
                return False
        return True

    return run


def _remembering(inner: Check, name: int) -> Check:
    def run(value: Any, memo: Memo) -> bool:
        place = (name, id(value))
        known = memo.get(place)
        if known is None:
            known = memo[place] = inner(value, memo)
        return known

    return run


def _appliers(node: Node, kind: type, mode: int) -> list[Check]:
    """The functions that apply the node's subschemas to a value of this kind, or to its parts."""
    found: list[Check] = []
    if kind is dict and (node.properties or node.additional is not None):
        found.append(_object_applier(node, mode))
    if kind is list and (node.prefix or node.items is not None):
        found.append(_array_applier(node, mode))
    if node.any_of:
        found.append(_any_of([judge(branch, mode) for branch in node.any_of]))
    if node.one_of:
        found.append(_one_of(node.one_of, mode))
    if node.negated is not None:
        found.append(_not(judge(node.negated, _OPPOSITE[mode])))
    return found


def _accepted(node: Node, mode: int) -> frozenset[type]:
    """The kinds of value that need no judging; a link must not pass for an object where the answer is MUST."""
    return outright(node) - ({dict} if mode == MUST else set())


def _object_applier(node: Node, mode: int) -> Check:
    if node.additional is None or node.additional.is_true:
        telling = [(name, child) for name, child in node.properties.items() if not child.is_true]
        return _properties([(name, _accepted(child, mode), judge(child, mode)) for name, child in telling])
    named = {name: judge(child, mode) for name, child in node.properties.items()}
    return _properties_and_others(named, _accepted(node.additional, mode), judge(node.additional, mode))


def _properties(named: list[tuple[str, frozenset[type], Judge]]) -> Check:
    def run(value: dict[str, Any], memo: Memo) -> bool:
        for name, accepted, inner in named:
            if name in value:
                item = value[name]
                if type(item) not in accepted and not inner.run(item, memo):
                    return False
        return True

    return run


def _properties_and_others(named: dict[str, Judge], accepted: frozenset[type], others: Judge) -> Check:
    def run(value: dict[str, Any], memo: Memo) -> bool:
        for name, item in value.items():
            if name in named:
                if not named[name].run(item, memo):
                    return False
            elif type(item) not in accepted and not others.run(item, memo):
                return False
        return True

    return run


def _array_applier(node: Node, mode: int) -> Check:
    prefix = [judge(child, mode) for child in node.prefix]
    items = _items(node.items, mode) if node.items is not None and not node.items.is_true else None
    if not prefix and items is not None:
        return items
    start = len(prefix)

    def run(value: list[Any], memo: Memo) -> bool:
        for inner, item in zip(prefix, value, strict=False):
            if not inner.run(item, memo):
                return False
        return items is None or items(value[start:], memo)

    return run


def _items(node: Node, mode: int) -> Check:
    accepted, inner = _accepted(node, mode), judge(node, mode)

    def run(value: list[Any], memo: Memo) -> bool:
        if accepted.issuperset(map(type, value)):
            return True
        for item in value:  # noqa: SIM110
            if not inner.run(item, memo):
                return False
        return True

    return run


def _any_of(branches: list[Judge]) -> Check:
    def run(value: Any, memo: Memo) -> bool:
        for branch in branches:  # noqa: SIM110
            if branch.run(value, memo):
                return True
        return False

    return run


def _not(inner: Judge) -> Check:
    return lambda value, memo: not inner.run(value, memo)


def _one_of(nodes: list[Node], mode: int) -> Check:
    """Exactly one branch; with links: one at least may match and not two must, or one must and no other may."""
    counted = [judge(node, MAY if mode == MUST else mode) for node in nodes]
    doubted = [judge(node, _OPPOSITE[mode]) for node in nodes]
    count: Callable[[list[Judge], Any, Memo], int] = _count_to_two

    def exactly(value: Any, memo: Memo) -> bool:
        return count(counted, value, memo) == 1

    def perhaps(value: Any, memo: Memo) -> bool:
        return count(counted, value, memo) > 0 and count(doubted, value, memo) < 2

    def surely(value: Any, memo: Memo) -> bool:
        return count(counted, value, memo) == 1 and count(musts, value, memo) == 1

    musts = [judge(node, MUST) for node in nodes] if mode == MUST else []
    return (exactly, perhaps, surely)[mode]


def _count_to_two(branches: list[Judge], value: Any, memo: Memo) -> int:
    count = 0
    for branch in branches:
        if branch.run(value, memo):
            count += 1
            if count == 2:
                break
    return count
