"""A watch step with one changed entity in graphs of 10, 1,000 and 10,000 entities: what it costs must not grow."""

from __future__ import annotations

import statistics
import time
import tracemalloc
from collections.abc import Callable

from benchmarks.traversal import Stored, answered, graph, link, node
from stemmadb.protocol.model.ids import EntityId
from stemmadb.protocol.model.query import Query, Root, prepare
from stemmadb.protocol.model.watching import Watch

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
    """The last entity loses, then regains, the link from its parent, which another link makes up for or not."""
    number = (count - 2) // 8
    value = node(number, count)
    return EntityId(f"urn:n:{number}"), Stored(value | {"children": value["children"][: -1 if turn % 2 else None]})


def measure(change: Change, count: int, steps: int) -> list[float]:
    """µs of each step."""
    entities = graph(count)
    watch: Watch[Stored] = Watch(prepare(Query(roots=(Root("urn:n:0", schema=True),))))
    assert len(answered(watch.fill(), entities).entities) == count
    taken = []
    for turn in range(steps):
        id_, after = change(turn, count)
        entities[id_] = after
        started = time.perf_counter()
        running = watch.step({id_: after})
        try:
            ask = next(running)
            while True:
                ask = running.send({asked: entities[asked] for asked in ask.ids})
        except StopIteration:
            taken.append((time.perf_counter() - started) * 1e6)
    return taken


def bytes_per_entity(count: int) -> float:
    """What a filled watch keeps, without the values and the ids, which others hold."""
    entities = graph(count)
    prepared = prepare(Query(roots=(Root("urn:n:0", schema=True),)))
    answered(Watch[Stored](prepared).fill(), entities)
    tracemalloc.start()
    try:
        watch: Watch[Stored] = Watch(prepared)
        answered(watch.fill(), entities)
        return tracemalloc.get_traced_memory()[0] / count
    finally:
        tracemalloc.stop()


def run(quick: bool = False) -> list[dict[str, object]]:
    steps = 200 if quick else 2_000
    rows: list[dict[str, object]] = []
    for change, name in ((edited, "an edit"), (relinked, "a link moved"), (cut, "a link cut and joined")):
        medians = {}
        for count in SIZES:
            taken = measure(change, count, steps)
            medians[count] = statistics.median(taken)
            figures = {"us_per_step": medians[count], "us_p99": sorted(taken)[-len(taken) // 100], "n": steps}
            rows.append({"scenario": f"watch step: {name}", "system": f"{count:,} entities", **figures})
        ratio = medians[SIZES[-1]] / medians[SIZES[0]]
        rows.append({"scenario": f"watch step: {name}", "system": "ratio 10,000 : 10", "ratio": ratio})
    kept = bytes_per_entity(1_000 if quick else 10_000)
    rows.append({"scenario": "watch: memory kept", "system": "three links each", "bytes_per_entity": kept})
    return rows
