"""Judging a value: the function that a subschema becomes, made when its document is first used.

There are three ways to judge, and they differ only in what they say of a place that holds a link, whose target is
judged on its own when it is visited: PLAIN takes the link for the object it is; MAY answers whether the value could
match, so a link satisfies everything but `false`; MUST answers whether it matches whatever the link leads to, so a
link satisfies nothing but `true`. `not` turns one of the two into the other (QUERY-2, QUERY-3).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from stemmadb.protocol.model.schema.appliers import Check, Judging
from stemmadb.protocol.model.schema.keywords import KINDS, checks, outright
from stemmadb.protocol.model.schema.links import SIGIL, is_link
from stemmadb.protocol.model.schema.node import SchemaNode
from stemmadb.protocol.model.schema.work import REMEMBERED, SchemaRun, spend

from . import appliers

PLAIN: Final = 0
MAY: Final = 1
MUST: Final = 2
_OPPOSITE: Final = (PLAIN, MUST, MAY)
_CHECKS_PAID: Final = 4  # as many as cost about what is paid for calling a judge


class Judge:
    """Some subschemas that apply together, judged one way; `run(value, memo)` answers."""

    __slots__ = ("is_built", "mode", "nodes", "run")

    def __init__(self, nodes: Sequence[SchemaNode], mode: int) -> None:
        self.nodes = nodes
        self.mode = mode
        self.is_built = False
        self.run: Check = self._first_run

    def _first_run(self, value: Any, memo: SchemaRun) -> bool:
        """Makes the functions of all that can be met from here first: none is made on the way down a value."""
        making = [self]
        for judge in making:
            if not judge.is_built:
                judge.is_built = True
                judge.run = _Making(judge, making).function()
        return self.run(value, memo)


def judge_of(node: SchemaNode, mode: int) -> Judge:
    """The judge of one subschema, the same object every time."""
    found: Judge | None = node.judges[mode]
    if found is None:
        found = node.judges[mode] = Judge((node,), mode)
    return found


class _Making:
    """The making of one judge's function; the judges it needs that have none yet are added to `making`."""

    def __init__(self, judge: Judge, making: list[Judge]) -> None:
        self._judge = judge
        self._mode = judge.mode
        self._making = making

    def function(self) -> Check:
        nodes = self._judge.nodes
        if nodes[0].is_false:
            return lambda _value, _memo: False
        if nodes[0].is_true:
            return lambda _value, _memo: True
        parts, shared = _applied_together(nodes)
        in_place = (*self._in_place(parts), *map(appliers.passed_on, self._same_way(shared)))
        table = {
            kind: _paid((*found, *in_place)) for kind in KINDS if (found := self._checks(parts, kind)) is not None
        }
        inner = _by_kind(table) if self._mode == PLAIN else _past_links(table, answer=self._mode == MAY)
        remembered = len(nodes) == 1 and nodes[0].arrivals > 1 and nodes[0].applies_others
        return _remembering(table, id(nodes[0]), self._mode) if remembered else inner

    def _judge_of(self, node: SchemaNode, mode: int) -> Judging:
        found = judge_of(node, mode)
        if not found.is_built:
            self._making.append(found)
        return found

    def _same_way(self, nodes: Sequence[SchemaNode]) -> list[Judging]:
        return [self._judge_of(node, self._mode) for node in nodes]

    def _checks(self, parts: list[SchemaNode], kind: type) -> tuple[Check, ...] | None:
        """What must hold for a value of this kind, beside what is applied in place; None if none is valid."""
        asserted: list[Check] = []
        applied: list[Check] = []
        for part in parts:
            found = checks(part, kind)
            if found is None:
                return None
            asserted += found
            applied += self._into(part, kind)
        return (*asserted, *applied)

    def _into(self, node: SchemaNode, kind: type) -> list[Check]:
        found: list[Check] = []
        if kind is dict and (node.properties or node.additional is not None):
            found.append(self._object(node))
        if kind is list and node.prefix:
            found.append(appliers.prefix(self._same_way(node.prefix)))
        if kind is list and node.items is not None and not node.items.is_true:
            inner = self._judge_of(node.items, self._mode)
            found.append(appliers.items(len(node.prefix), self._accepted(node.items), inner))
        return found

    def _object(self, node: SchemaNode) -> Check:
        if node.additional is None or node.additional.is_true:
            telling = [(name, child) for name, child in node.properties.items() if not child.is_true]
            judges = self._same_way([child for _, child in telling])
            return appliers.properties(
                [(name, self._accepted(child), judge) for (name, child), judge in zip(telling, judges, strict=True)]
            )
        named = dict(zip(node.properties, self._same_way([*node.properties.values()]), strict=True))
        others = self._judge_of(node.additional, self._mode)
        return appliers.properties_and_others(named, self._accepted(node.additional), others)

    def _accepted(self, node: SchemaNode) -> frozenset[type]:
        """The kinds that need no judging; a link must not pass for an object where the question is MUST."""
        return outright(node) - ({dict} if self._mode == MUST else set())

    def _in_place(self, parts: list[SchemaNode]) -> list[Check]:
        found: list[Check] = []
        for part in parts:
            if part.any_of:
                found.append(appliers.any_of(self._same_way(part.any_of)))
            if part.one_of:
                found += self._one_of(part.one_of)
            if part.negated is not None:
                found.append(appliers.negation(self._judge_of(part.negated, _OPPOSITE[self._mode])))
        return found

    def _one_of(self, nodes: list[SchemaNode]) -> list[Check]:
        """With links: it may be one if one may match and no two must; it must be one if one must and no other may."""
        if self._mode == PLAIN:
            return [appliers.exactly_one(self._same_way(nodes))]
        may = [self._judge_of(node, MAY) for node in nodes]
        must = [self._judge_of(node, MUST) for node in nodes]
        if self._mode == MAY:
            return [appliers.any_of(may), appliers.at_most_one(must)]
        return [appliers.any_of(must), appliers.at_most_one(may)]


def _applied_together(nodes: Sequence[SchemaNode]) -> tuple[list[SchemaNode], list[SchemaNode]]:
    """The nodes with all that is applied with them, in two lists: what is theirs alone, and what others share.

    What is theirs alone becomes part of their own function; what is shared keeps a function of its own, which
    remembers its answers. So a schema is never multiplied, neither when functions are made nor when they run.
    """
    parts: dict[SchemaNode, None] = dict.fromkeys(nodes)
    shared: dict[SchemaNode, None] = {}
    todo = list(parts)
    while todo:
        for child in todo.pop().together():
            if child.arrivals > 1:
                shared[child] = None
            else:
                parts[child] = None
                todo.append(child)
    return list(parts), [node for node in shared if node not in parts]


def _paid(checks: tuple[Check, ...]) -> tuple[Check, ...]:
    """The checks, with one before them that pays if they are many: `allOf` may have brought thousands together."""
    return checks if len(checks) <= _CHECKS_PAID else (appliers.paying(len(checks) // 2), *checks)


def _by_kind(table: dict[type, tuple[Check, ...]]) -> Check:
    find = table.get

    def run(value: Any, memo: SchemaRun) -> bool:
        found = find(type(value))
        if found is None:
            return False
        for check in found:  # noqa: SIM110
            if not check(value, memo):
                return False
        return True

    return run


def _past_links(table: dict[type, tuple[Check, ...]], *, answer: bool) -> Check:
    find = table.get

    def run(value: Any, memo: SchemaRun) -> bool:
        kind = type(value)
        if kind is dict and SIGIL in value and is_link(value, memo):
            return answer
        found = find(kind)
        if found is None:
            return False
        for check in found:  # noqa: SIM110
            if not check(value, memo):
                return False
        return True

    return run


def _remembering(table: dict[type, tuple[Check, ...]], name: int, mode: int) -> Check:
    """Either of the two above, judging each value once; written out, as a call inside would count double in depth."""
    name = name * 3 + mode
    answer = mode == MAY

    def run(value: Any, memo: SchemaRun) -> bool:
        place = (name, id(value))
        if place in memo:
            return memo[place]
        spend(memo, REMEMBERED)
        if mode != PLAIN and type(value) is dict and SIGIL in value and is_link(value, memo):
            return answer
        found = table.get(type(value))
        verdict = found is not None
        for check in found or ():
            if not check(value, memo):
                verdict = False
                break
        memo[place] = verdict
        return verdict

    return run
