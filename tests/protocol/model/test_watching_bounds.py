"""The bounds of a watch at the edge, and how a watch ends."""

from __future__ import annotations

from typing import Any

import pytest

from graphs import Stored, chain, feed, link, stored
from stemmadb.protocol.errors import InvalidQuery, LimitExceeded
from stemmadb.protocol.model.query.query import Ask, Query, Root, prepare
from stemmadb.protocol.model.values.ids import EntityId
from stemmadb.protocol.model.values.limits import Limits
from stemmadb.protocol.model.watch import WatchEvaluator
from stemmadb.protocol.model.watch.evaluator import WatchState
from watchers import Watcher, told, watch

ROOT = Root("urn:a:1", schema=True)


def dies(watcher: Watcher, changes: dict[str, Any], bound: str) -> None:
    watcher.store(stored(changes))
    assert bound in watcher.passed()
    with pytest.raises(LimitExceeded) as raised:
        watcher.step(stored(changes))
    assert raised.value.facts["bound"] == bound
    assert watcher.watch.state is WatchState.DEAD


@pytest.mark.rule("QUERY-6", "WATCH-1")
def test_depth_is_bounded_at_the_edge_in_a_step() -> None:
    def grown() -> Watcher:
        return watch(chain(3), Root("urn:c:0", schema=True), limits=Limits(query_depth_max=4))

    assert len(grown().commit({"urn:c:3": link("urn:d:1"), "urn:d:1": {}}).entered) == 1
    dies(grown(), {"urn:c:3": link("urn:d:1"), "urn:d:1": link("urn:d:2")}, "query_depth_max")


@pytest.mark.rule("QUERY-6", "WATCH-1")
def test_a_graph_that_is_moved_down_too_far_passes_the_depth() -> None:
    values: dict[str, Any] = {**chain(3), "urn:a:1": {"in": link("urn:c:0"), "by": link("urn:b:1")}}
    values |= {"urn:b:1": {"in": link("urn:b:2")}, "urn:b:2": {"in": link("urn:c:0")}}
    watcher = watch(values, ROOT, limits=Limits(query_depth_max=5))
    dies(watcher, {"urn:a:1": {"by": link("urn:b:1")}}, "query_depth_max")


@pytest.mark.rule("QUERY-6", "WATCH-1")
def test_a_long_way_round_does_not_pass_the_depth_while_a_short_one_is_found_later() -> None:
    # c0 hung on a1; the step takes that away and finds the way over the b's first, the short one over d1 last.
    values: dict[str, Any] = {**chain(3), "urn:d:1": {"in": link("urn:c:0")}}
    values |= {f"urn:b:{n}": {"in": link(f"urn:b:{n + 1}")} for n in range(4)}
    values |= {"urn:b:4": {"in": link("urn:c:0")}, "urn:a:1": {"by": link("urn:b:0"), "in": link("urn:c:0")}}
    watcher = watch(values, ROOT, limits=Limits(query_depth_max=5))
    step = watcher.commit({"urn:a:1": {"by": link("urn:b:0"), "over": link("urn:d:1")}})
    assert told(step) == ({"urn:d:1"}, {"urn:a:1"}, set())
    assert told(watcher.commit({"urn:c:3": {"n": 1}})) == (set(), {"urn:c:3"}, set())


@pytest.mark.rule("QUERY-6", "WATCH-1")
def test_new_visits_that_seem_too_deep_are_made_where_they_are_not() -> None:
    # Linked from the end of a chain at the bound and, farther on, from the root through an entity asked for later.
    values: dict[str, Any] = {**chain(4), "urn:n:1": {}, "urn:d:1": {"in": link("urn:n:1")}}
    roots = [Root("urn:c:0", schema=True)]
    watcher = watch(values, *roots, limits=Limits(query_depth_max=4))
    first = {"next": link("urn:c:1"), "over": link("urn:d:1")}
    step = watcher.commit({"urn:c:4": {"next": link("urn:n:1")}, "urn:c:0": first})
    assert told(step) == ({"urn:n:1", "urn:d:1"}, {"urn:c:0", "urn:c:4"}, set())
    # And where the shorter way leads to what links to the new entity: the depths between are not known at once.
    watcher = watch(values | {"urn:d:1": {"in": link("urn:c:4")}}, *roots, limits=Limits(query_depth_max=4))
    step = watcher.commit({"urn:c:4": {"next": link("urn:n:1")}, "urn:c:0": first})
    assert told(step) == ({"urn:n:1", "urn:d:1"}, {"urn:c:0", "urn:c:4"}, set())


@pytest.mark.rule("QUERY-6", "WATCH-1")
def test_entities_are_bounded_at_the_edge_in_a_step() -> None:
    def full() -> Watcher:
        return watch({"urn:t:1": {}, "urn:t:2": {}}, Root("urn:t:*"), limits=Limits(query_entities_max=3))

    assert len(full().commit({"urn:t:3": {}}).entered) == 1
    exchanged: dict[str, Any] = {"urn:t:3": {}, "urn:t:4": {}}
    assert len(full().commit(exchanged, deleted=("urn:t:1",)).entered) == 2
    dies(full(), exchanged, "query_entities_max")


@pytest.mark.rule("QUERY-6", "WATCH-1")
def test_bytes_are_bounded_at_the_edge_in_a_step_and_follow_the_size() -> None:
    def full() -> Watcher:
        return watch({"urn:t:1": {}, "urn:t:2": {}}, Root("urn:t:*"), limits=Limits(query_bytes_max=30))

    watcher = full()
    grown = {EntityId("urn:t:1"): Stored({}, size=20)}
    watcher.store(grown)
    assert told(watcher.step(grown)) == (set(), {"urn:t:1"}, set())
    dies(watcher, {"urn:t:3": {}}, "query_bytes_max")
    assert told(full().commit({"urn:t:3": {}})) == ({"urn:t:3"}, set(), set())


@pytest.mark.rule("QUERY-6", "WATCH-1")
def test_new_links_to_too_much_stop_as_soon_as_the_bound_is_passed() -> None:
    values: dict[str, Any] = {"urn:a:1": {}, **{f"urn:w:{n}": [link(f"urn:w:{n + 1}")] for n in range(50)}}
    watcher = watch(values, ROOT, limits=Limits(query_entities_max=5))
    change = stored({"urn:a:1": [link("urn:w:0")]})
    watcher.store(change)
    asked: list[Ask] = []
    with pytest.raises(LimitExceeded):
        feed(watcher.watch.step(change), watcher.entities, asked)
    assert len(asked) == 5


def recursive(number: int) -> dict[str, Any]:
    return {"additionalProperties": {"$ref": "#"}, "maxProperties": 100 + number}


@pytest.mark.rule("QUERY-4", "QUERY-6", "WATCH-1")
def test_a_visit_that_cannot_be_made_fails_the_step_only_if_it_is_still_reached() -> None:
    """Each link narrows by one more schema; the last one is one too many for a set of conjuncts."""

    def narrowing() -> Watcher:
        values: dict[str, Any] = {
            f"urn:c:{n}": {"next": link(f"urn:c:{n + 1}", schema=recursive(n + 1))} for n in range(63)
        }
        root = Root("urn:c:0", schema=recursive(0))
        return watch({**values, "urn:c:63": {}, "urn:d:1": {}}, root, limits=Limits(query_depth_max=100))

    one_more: dict[str, Any] = {"urn:c:63": {"next": link("urn:d:1", schema=recursive(64))}}
    watcher = narrowing()
    with pytest.raises(LimitExceeded) as raised:
        feed(watcher.watch.step(stored(one_more)), watcher.entities)
    assert raised.value.facts["bound"] == "conjuncts_max"
    assert narrowing().commit({**one_more, "urn:c:61": {}}).left == {"urn:c:62", "urn:c:63"}


# ---------------------------------------------------------------- life and death


@pytest.mark.rule("WATCH-1")
@pytest.mark.parametrize("moment", [{"version": 3}, {"time": 3}])
def test_only_a_query_at_head_can_be_watched(moment: dict[str, int]) -> None:
    with pytest.raises(InvalidQuery):
        WatchEvaluator(prepare(Query(roots=(ROOT,), **moment)))  # type: ignore[arg-type]


@pytest.mark.rule("WATCH-1")
def test_a_step_that_is_closed_half_way_leaves_the_watch_dead() -> None:
    watcher = watch({"urn:a:1": {}, "urn:a:2": {}}, ROOT)
    running = watcher.watch.step(stored({"urn:a:1": link("urn:a:2")}))
    next(running)
    with pytest.raises(AssertionError):
        next(watcher.watch.step({}))
    running.close()
    assert watcher.watch.state is WatchState.DEAD
    with pytest.raises(AssertionError):
        next(watcher.watch.step({}))
    with pytest.raises(AssertionError):
        next(watcher.watch.fill())


@pytest.mark.rule("WATCH-1")
def test_a_step_that_was_never_begun_changes_nothing() -> None:
    watcher = watch({"urn:a:1": {}, "urn:a:2": {}}, ROOT)
    watcher.watch.step(stored({"urn:a:1": link("urn:a:2")})).close()
    assert watcher.watch.state is WatchState.ALIVE
    watcher.commit({"urn:a:1": {"x": 1}})


@pytest.mark.rule("WATCH-1", "QUERY-6")
def test_a_watch_that_cannot_be_filled_is_dead() -> None:
    unfilled: WatchEvaluator[Stored] = WatchEvaluator(
        prepare(Query(roots=(Root("*"),))), limits=Limits(query_entities_max=1)
    )
    with pytest.raises(LimitExceeded):
        feed(unfilled.fill(), stored({"urn:a:1": 1, "urn:a:2": 1}))
    assert unfilled.state is WatchState.DEAD
