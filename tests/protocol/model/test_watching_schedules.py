"""A watch step equals the query afresh: random graphs with cycles, random queries, random commits."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import graphs
from stemmadb.protocol.errors import LimitExceeded
from stemmadb.protocol.model.query import Query, Root
from stemmadb.protocol.model.values import Value
from stemmadb.protocol.model.watching.evaluator import State
from watchers import Watcher

SCHEDULES = 5_000


def runs_like_the_query_afresh(random: Random) -> int:
    """One schedule of several commits; gives how many steps were made."""
    count = random.choice((3, 6, 10, 14))
    entities, query = graphs.random_entities(random, count), graphs.random_query(random, count)
    limits = graphs.random_limits(random)
    if graphs.exceeded(graphs.naive(query, entities), limits):
        return 0  # the traversal's own tests say that it cannot be filled
    watcher = Watcher(entities, query, limits)
    for number in range(random.randrange(2, 8)):
        changes = graphs.random_changes(random, count, watcher.entities)
        watcher.store(changes)
        if passed := watcher.passed():
            with pytest.raises(LimitExceeded) as raised:
                watcher.step(changes)
            assert raised.value.facts["bound"] in passed
            assert watcher.watch.state is State.DEAD
            return number
        if random.random() < 0.5:
            changes = {id_: changes[id_] for id_ in watcher.watch.concerns(changes)}
        watcher.step(changes)
    return number + 1


@pytest.mark.rule("WATCH-1", "WATCH-2", "QUERY-6")
def test_after_every_step_the_watcher_holds_what_the_query_afresh_answers() -> None:
    steps = sum(runs_like_the_query_afresh(Random(seed)) for seed in range(SCHEDULES))
    assert steps > 3 * SCHEDULES


@pytest.mark.rule("WATCH-1", "WATCH-2", "QUERY-6")
@settings(derandomize=True, deadline=None, max_examples=50)
@given(st.randoms(use_true_random=False))
def test_after_every_step_the_watcher_holds_it_on_schedules_that_shrink(random: Random) -> None:
    runs_like_the_query_afresh(random)


def ring_links(random: Random, count: int, density: float) -> dict[int, set[int]]:
    return {n: {m for m in range(count) if random.random() < density} for n in range(count)}


@pytest.mark.rule("WATCH-1", "WATCH-2")
def test_cutting_and_joining_links_of_larger_graphs_leaves_only_what_a_root_reaches() -> None:
    for seed in range(60):
        random = Random(seed)
        count = random.choice((20, 40))
        joined = ring_links(random, count, 1.3 / count)
        watcher = _watch_of(joined)
        for _ in range(25):
            number = random.randrange(count)
            joined[number] ^= {random.randrange(count)}
            watcher.commit({f"urn:n:{number}": _value(joined[number])})


def _watch_of(joined: dict[int, set[int]]) -> Watcher:
    values = {f"urn:n:{number}": _value(targets) for number, targets in joined.items()}
    roots = (Root("urn:n:0", schema=True), Root("urn:n:1*", schema={"maxItems": 0}))
    return Watcher(graphs.stored(values), Query(roots=roots))


def _value(targets: set[int]) -> Value:
    return [graphs.link(f"urn:n:{target}") for target in sorted(targets)]
