"""The graph of what must come before what: a node for each transaction, and one for each moment of real time.

Real time needs no pair of transactions: a line of moments carries it, one for each end. A transaction leads to the
moment of its end, each moment to the next one, and the last moment before a transaction began leads to it. So there
are as many edges as transactions, however many overlap.
"""

from __future__ import annotations

from bisect import bisect_left
from enum import IntFlag
from itertools import pairwise

from list_orders import ListOrders


class Why(IntFlag):
    """Why one comes before the other."""

    WW = 1
    """It appended the element before."""
    WR = 2
    """It appended what the other read."""
    RW = 4
    """It read what was there before the other appended."""
    PROCESS = 8
    """It was made before by the same process."""
    REALTIME = 16
    """It had ended before the other began."""


class Graph:
    """Edges by node: where they lead, and why. Nodes up to `transactions` are those, the others are moments."""

    def __init__(self, transactions: int) -> None:
        self.transactions = transactions
        self.edges: list[dict[int, Why]] = [{} for _ in range(transactions)]

    def add(self, before: int, after: int, why: Why) -> None:
        if before != after:
            edges = self.edges[before]
            known = edges.get(after)
            edges[after] = why if known is None else known | why

    def moment(self) -> int:
        """A new node that is no transaction."""
        self.edges.append({})
        return len(self.edges) - 1


def build(orders: ListOrders) -> Graph:
    """All edges of a history."""
    graph = Graph(len(orders.transactions))
    _add_versions(graph, orders)
    _add_reads(graph, orders)
    _add_processes(graph, orders)
    _add_real_time(graph, orders)
    return graph


def _add_versions(graph: Graph, orders: ListOrders) -> None:
    for key, longest in orders.longest.items():
        writers = [orders.writers.get((key, element)) for element in longest]
        for before, after in pairwise(writers):
            if before is not None and after is not None:
                graph.add(before, after, Why.WW)


def _add_reads(graph: Graph, orders: ListOrders) -> None:
    for place, key, elements in orders.reads:
        longest = orders.longest.get(key, ())
        if elements and (writer := orders.writers.get((key, elements[-1]))) is not None:
            graph.add(writer, place, Why.WR)
        if (after := _next_writer(orders, place, key, longest[len(elements) :])) is not None:
            graph.add(place, after, Why.RW)


def _next_writer(orders: ListOrders, place: int, key: str, rest: tuple[int, ...]) -> int | None:
    """Who appended the first element that a read did not see; its own come right behind what it read."""
    for element in rest:
        writer = orders.writers.get((key, element))
        if writer != place:
            return writer
    return None


def _add_processes(graph: Graph, orders: ListOrders) -> None:
    last: dict[str, int] = {}
    for place, transaction in enumerate(orders.transactions):
        if transaction.outcome == "ok":
            if transaction.process in last:
                graph.add(last[transaction.process], place, Why.PROCESS)
            last[transaction.process] = place


def _add_real_time(graph: Graph, orders: ListOrders) -> None:
    ended = sorted((one.known, place) for place, one in enumerate(orders.transactions) if one.outcome == "ok")
    moments = [graph.moment() for _ in ended]
    for (_, place), moment in zip(ended, moments, strict=True):
        graph.add(place, moment, Why.REALTIME)
    for before, after in pairwise(moments):
        graph.add(before, after, Why.REALTIME)
    ends = [end for end, _ in ended]
    for place, transaction in enumerate(orders.transactions):
        if transaction.outcome != "failed" and (before := bisect_left(ends, transaction.began)):
            graph.add(moments[before - 1], place, Why.REALTIME)
