"""Traversal of a graph of 1,000 entities, fed from a dict: µs per entity."""

from __future__ import annotations

import statistics
import time
from collections.abc import Generator
from typing import Any

from stemmadb.protocol.model.query.nested_result import assemble
from stemmadb.protocol.model.query.query import Ask, Query, Root, Supply, TraversalResult, prepare
from stemmadb.protocol.model.query.traversal import traverse
from stemmadb.protocol.model.values.ids import EntityId

ENTITIES = 1_000
FANOUT = 8
TASK = {"$ref": "#/$defs/task"}
OPEN = TASK | {
    "$defs": {
        "task": {
            "properties": {"done": {"const": False}, "children": {"items": TASK}, "parent": TASK, "across": TASK},
            "required": ["title", "done"],
        }
    }
}


class Stored:
    """An entity as a store's cache gives it."""

    __slots__ = ("size", "value")

    def __init__(self, value: Any) -> None:
        self.value = value
        self.size = 200


def link(number: int) -> dict[str, Any]:
    return {"/": {"link@1": {"id": f"urn:n:{number}"}}}


def node(number: int, count: int) -> dict[str, Any]:
    """A tree in which each entity links to its children, to its parent, and to one more across."""
    children = [link(child) for child in range(number * FANOUT + 1, number * FANOUT + FANOUT + 1) if child < count]
    parent = link((number - 1) // FANOUT if number else 0)
    value = {"title": f"task {number}", "done": False, "tags": ["a", "b"], "by": {"name": "alice", "age": 30}}
    return value | {"children": children, "parent": parent, "across": link((number * 7 + 3) % count)}


def graph(count: int) -> dict[EntityId, Stored]:
    return {EntityId(f"urn:n:{number}"): Stored(node(number, count)) for number in range(count)}


def answered(
    running: Generator[Ask, Supply[Stored], TraversalResult[Stored]], entities: dict[EntityId, Stored]
) -> TraversalResult[Stored]:
    try:
        ask = next(running)
        while True:
            if ask.prefixes:
                ask = running.send(entities)
            else:
                ask = running.send({id_: entities[id_] for id_ in ask.ids if id_ in entities})
    except StopIteration as end:
        answer: TraversalResult[Stored] = end.value
        return answer


def measure(root: Root, *, nested: bool, repetitions: int) -> list[float]:
    """µs per entity of each repetition."""
    entities = graph(ENTITIES)
    prepared = prepare(Query(roots=(root,)))
    taken = []
    for _ in range(repetitions):
        started = time.perf_counter()
        answer = answered(traverse(prepared), entities)
        if nested:
            assemble(answer)
        taken.append((time.perf_counter() - started) / ENTITIES * 1e6)
        assert len(answer.entities) == ENTITIES
    return taken


def run(quick: bool = False) -> list[dict[str, object]]:
    repetitions = 5 if quick else 30
    systems = {
        "one root, schema true": (Root("urn:n:0", schema=True), False),
        "one root, a schema that filters": (Root("urn:n:0", schema=OPEN), False),
        "every entity a root, no schema": (Root("*"), False),
        "one root, schema true, assembled": (Root("urn:n:0", schema=True), True),
    }
    rows: list[dict[str, object]] = []
    for system, (root, nested) in systems.items():
        taken = measure(root, nested=nested, repetitions=repetitions)
        figures = {
            "us_per_entity": statistics.median(taken),
            "us_min": min(taken),
            "n": ENTITIES,
            "reps": repetitions,
        }
        rows.append({"scenario": f"traversal of {ENTITIES:,} entities", "system": system, **figures})
    return rows
