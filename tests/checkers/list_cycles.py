"""Elle's method for histories of lists: there is no cycle among transactions, or it is named after its worst kind.

A history of lists tells its own order: the longest read of a list has all elements in the order in which they came.
From that follows which transaction must come before which. If one comes before itself, no order of the transactions
explains what was seen.

| name | the cycle has |
|---|---|
| G0 | only writes that follow writes |
| G1c | also reads of what was written |
| G-single | also one read that did not see a later write |
| G2 | more of those |

`-process` and `-realtime` say that it is one only since a process, or a clock, saw which came first.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from list_components import components
from list_graph import Graph, Why, build
from list_history import Transaction
from list_orders import infer
from violations import Violation

FORWARD: Final = Why.WW | Why.WR
SUFFIXES: Final = (("", Why(0)), ("-process", Why.PROCESS), ("-realtime", Why.PROCESS | Why.REALTIME))
TRIES: Final = 500
"""So many missed writes of one component are looked at for a cycle that has one of them only."""


class Cycle(NamedTuple):
    """Its name, its nodes in order, and why each comes before the next."""

    name: str
    nodes: list[int]
    why: list[Why]


def anomalies(transactions: Sequence[Transaction]) -> list[Violation]:
    """Everything that is wrong with a history of lists, if it was to be strictly serializable."""
    orders, violations = infer(transactions)
    graph = build(orders)
    for component in components(range(len(graph.edges)), graph.edges.__getitem__):
        cycle = classify(graph, set(component))
        violations.append(Violation(cycle.name, _explained(cycle, transactions, len(component))))
    return violations


def classify(graph: Graph, component: set[int]) -> Cycle:
    """The worst cycle of a component."""
    for suffix, more in SUFFIXES:
        for name, allowed in (("G0", Why.WW | more), ("G1c", FORWARD | more)):
            if (nodes := _any_cycle(graph, component, allowed)) is not None:
                return _cycle(graph, name + suffix, nodes, allowed)
        if (nodes := _single(graph, component, FORWARD | more)) is not None:
            return _cycle(graph, "G-single" + suffix, nodes, FORWARD | Why.RW | more)
        if (nodes := _any_cycle(graph, component, FORWARD | Why.RW | more)) is not None:
            return _cycle(graph, "G2" + suffix, nodes, FORWARD | Why.RW | more)
    raise AssertionError("a component has a cycle")


def _following(graph: Graph, within: set[int], allowed: Why, node: int) -> Iterator[int]:
    return (after for after, why in graph.edges[node].items() if after in within and why & allowed)


def _any_cycle(graph: Graph, within: set[int], allowed: Why) -> list[int] | None:
    """A shortest one through some node of a part that is connected by these edges alone."""
    for part in components(sorted(within), lambda node: _following(graph, within, allowed, node)):
        start = min(part)
        for after in sorted(_following(graph, set(part), allowed, start)):
            return _path(graph, set(part), allowed, after, start)
    return None


def _single(graph: Graph, within: set[int], allowed: Why) -> list[int] | None:
    """A cycle with one missed write: from it there is a way back without another."""
    missed = ((a, b) for a in sorted(within) for b, why in graph.edges[a].items() if b in within and why & Why.RW)
    for (reader, writer), _ in zip(missed, range(TRIES), strict=False):
        if (nodes := _path(graph, within, allowed, writer, reader)) is not None:
            return [reader, *nodes[:-1]]
    return None


def _path(graph: Graph, within: set[int], allowed: Why, start: int, goal: int) -> list[int] | None:
    """The nodes of a shortest way, both ends with it."""
    came: dict[int, int] = {start: start}
    waiting = deque([start])
    while waiting and goal not in came:
        node = waiting.popleft()
        for after in _following(graph, within, allowed, node):
            if after not in came:
                came[after] = node
                waiting.append(after)
    if goal not in came:
        return None
    nodes = [goal]
    while nodes[-1] != start:
        nodes.append(came[nodes[-1]])
    return nodes[::-1]


def _cycle(graph: Graph, name: str, nodes: list[int], allowed: Why) -> Cycle:
    first = nodes.index(min(nodes))
    nodes = nodes[first:] + nodes[:first]
    why = [graph.edges[before][after] & allowed for before, after in zip(nodes, nodes[1:] + nodes[:1], strict=True)]
    return Cycle(name, nodes, why)


def _explained(cycle: Cycle, transactions: Sequence[Transaction], size: int) -> str:
    words: Iterable[str] = (
        f"{transactions[node]} -{(why & -why).name or ''}->"
        for node, why in zip(cycle.nodes, cycle.why, strict=True)
        if node < len(transactions)
    )
    return f"{' '.join(words)} the first again (of {size} that are all before one another)"
