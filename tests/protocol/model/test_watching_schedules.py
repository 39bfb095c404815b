"""A watch step equals the query afresh: random graphs with cycles, random queries, random commits."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import graphs
from graphs import Entities, Stored
from stemmadb.protocol.errors import LimitExceeded
from stemmadb.protocol.model.query.query import Query, Root
from stemmadb.protocol.model.values.ids import EntityId
from stemmadb.protocol.model.values.limits import Limits
from stemmadb.protocol.model.watch.evaluator import WatchState
from watchers import Watcher

SCHEDULES = 2_500


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
            assert watcher.watch.state is WatchState.DEAD
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


@pytest.mark.rule("WATCH-1", "WATCH-2", "QUERY-6")
@pytest.mark.parametrize("depth_max", [64, 8, 5])
def test_cutting_and_joining_links_of_larger_graphs_leaves_only_what_a_root_reaches(depth_max: int) -> None:
    """With a low bound of depth, ways that get longer are told from ways that only seem so."""
    steps = 0
    for seed in range(40):
        random = Random(seed)
        count = random.choice((16, 30))
        joined = {n: {m for m in range(count) if random.random() < 1.5 / count} for n in range(count)}
        entities = {_id(number): _entity(targets) for number, targets in joined.items()}
        steps += _cut_and_join(random, joined, entities, Limits(query_depth_max=depth_max))
    assert steps > 300


def _cut_and_join(random: Random, joined: dict[int, set[int]], entities: Entities, limits: Limits) -> int:
    """Changes one link a step, until the depth is passed or enough was seen; gives how many steps were made."""
    query = Query(roots=(Root(_id(0), schema=True), Root("urn:n:1*", schema={"maxItems": 0})))
    if graphs.exceeded(graphs.naive(query, entities), limits):
        return 0
    watcher = Watcher(entities, query, limits)
    for number in range(25):
        source = random.randrange(len(joined))
        joined[source] ^= {random.randrange(len(joined))}
        changes = {_id(source): _entity(joined[source])}
        watcher.store(changes)
        if watcher.passed():
            with pytest.raises(LimitExceeded):
                watcher.step(changes)
            return number
        watcher.step(changes)
    return 25


def _id(number: int) -> EntityId:
    return EntityId(f"urn:n:{number}")


def _entity(targets: set[int]) -> Stored:
    return Stored([graphs.link(_id(target)) for target in sorted(targets)])
