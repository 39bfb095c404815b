"""A watch step with one changed entity in graphs of 10, 1,000 and 10,000 entities: what it costs must not grow."""

from __future__ import annotations

import statistics
import time
import tracemalloc
from collections.abc import Callable

from benchmarks.core.traversal import FANOUT, Stored, answered, graph, link, node
from stemmadb.protocol.model.query.query import Query, Root, prepare
from stemmadb.protocol.model.values.ids import EntityId
from stemmadb.protocol.model.watch import WatchEvaluator

SIZES = (10, 1_000, 10_000)
Change = Callable[[int, int], tuple[EntityId, Stored]]


def edited(turn: int, count: int) -> tuple[EntityId, Stored]:
    """Another title; the links stay."""
    number = count - 1
    return EntityId(f"urn:n:{number}"), Stored(node(number, count) | {"title": f"edit {turn}"})


def relinked(turn: int, count: int) -> tuple[EntityId, Stored]:
    """The link across moves between two entities."""
    number = count - 1
    return EntityId(f"urn:n:{number}"), Stored(node(number, count) | {"across": link(turn % 2)})


def cut(turn: int, count: int) -> tuple[EntityId, Stored]:
    """A tree edge goes and comes back: the only child's, which a link across keeps in the answer meanwhile."""
    number = (count - 2) // FANOUT
    value = node(number, count)
    return EntityId(f"urn:n:{number}"), Stored(value | {"children": value["children"][: turn % 2]})


class Subject:
    """A watch on a graph of one size."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.entities = graph(count)
        self.watch: WatchEvaluator[Stored] = WatchEvaluator(prepare(Query(roots=(Root("urn:n:0", schema=True),))))
        assert len(answered(self.watch.fill(), self.entities).entities) == count

    def step(self, change: Change, turn: int) -> float:
        """µs of one step."""
        id_, after = change(turn, self.count)
        self.entities[id_] = after
        started = time.perf_counter()
        running = self.watch.step({id_: after})
        try:
            ask = next(running)
            while True:
                ask = running.send({asked: self.entities[asked] for asked in ask.ids})
        except StopIteration:
            return (time.perf_counter() - started) * 1e6


def bytes_per_entity(count: int) -> float:
    """What a filled watch keeps, without the values and the ids, which others hold."""
    entities = graph(count)
    prepared = prepare(Query(roots=(Root("urn:n:0", schema=True),)))
    answered(WatchEvaluator[Stored](prepared).fill(), entities)
    tracemalloc.start()
    try:
        watch: WatchEvaluator[Stored] = WatchEvaluator(prepared)
        answered(watch.fill(), entities)
        return tracemalloc.get_traced_memory()[0] / count
    finally:
        tracemalloc.stop()


def run(quick: bool = False) -> list[dict[str, object]]:
    steps = 200 if quick else 2_000
    rows: list[dict[str, object]] = []
    for change, name in ((edited, "an edit"), (relinked, "a link moved"), (cut, "a link cut and joined")):
        subjects = [Subject(count) for count in SIZES]
        taken = [[subject.step(change, turn) for subject in subjects] for turn in range(steps)]  # interleaved
        medians = [statistics.median(column) for column in zip(*taken, strict=True)]
        for count, median in zip(SIZES, medians, strict=True):
            figures = {"us_per_step": median, "n": steps}
            rows.append({"scenario": f"watch step: {name}", "system": f"{count:,} entities", **figures})
        ratio = medians[-1] / medians[0]
        rows.append({"scenario": f"watch step: {name}", "system": "ratio 10,000 : 10", "ratio": ratio})
    kept = bytes_per_entity(1_000 if quick else 10_000)
    rows.append({"scenario": "watch: memory kept", "system": "three links each", "bytes_per_entity": kept})
    return rows
