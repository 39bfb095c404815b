"""The watch evaluator: worked cases of what enters, is updated and leaves, bounds at the edge, failures, vectors."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from graphs import ELSEWHERE, OPEN, Stored, feed, link, stored
from stemmadb.protocol.errors import InvalidQuery, LimitExceeded
from stemmadb.protocol.model.ids import EntityId
from stemmadb.protocol.model.limits import Limits
from stemmadb.protocol.model.query import Ask, Query, Root, Unresolved, prepare
from stemmadb.protocol.model.watching import Step, Watch
from stemmadb.protocol.model.watching.evaluator import State
from watchers import Watcher, watch

VECTORS = Path(__file__).parents[2] / "vectors" / "watch_steps.json"
ROOT = Root("urn:a:1", schema=True)


def told(step: Step[Stored]) -> tuple[set[str], set[str], set[str]]:
    return set(step.entered), set(step.updated), set(step.left)


# ---------------------------------------------------------------- what is told


@pytest.mark.rule("WATCH-1")
def test_a_change_inside_the_answer_is_an_update_with_the_new_value() -> None:
    watcher = watch({"urn:a:1": {"x": 1}}, ROOT)
    step = watcher.commit({"urn:a:1": {"x": 2}})
    assert told(step) == (set(), {"urn:a:1"}, set())
    assert step.updated[EntityId("urn:a:1")].value == {"x": 2}
    assert watcher.asked == []


@pytest.mark.rule("WATCH-2")
def test_a_change_that_does_not_concern_the_watch_asks_for_nothing_and_tells_nothing() -> None:
    watcher = watch({"urn:a:1": {"next": link("urn:a:2")}, "urn:z:1": 1}, ROOT)
    assert watcher.watch.concerns([EntityId("urn:z:1"), EntityId("urn:a:2")]) == ["urn:a:2"]
    step = watcher.commit({"urn:z:1": link("urn:a:1")})
    assert step.is_silent()
    assert watcher.asked == []


@pytest.mark.rule("WATCH-1")
def test_a_new_link_is_followed_and_only_what_is_new_is_asked_for() -> None:
    values = {"urn:a:1": {}, "urn:a:2": {"next": link("urn:a:3"), "back": link("urn:a:1")}, "urn:a:3": {}}
    watcher = watch(values, ROOT)
    step = watcher.commit({"urn:a:1": {"next": link("urn:a:2")}})
    assert told(step) == ({"urn:a:2", "urn:a:3"}, {"urn:a:1"}, set())
    assert step.watched == {"urn:a:2", "urn:a:3"}
    assert watcher.asked == [Ask((EntityId("urn:a:2"),)), Ask((EntityId("urn:a:3"),))]


@pytest.mark.rule("WATCH-1")
def test_what_is_written_with_the_link_to_it_is_not_asked_for() -> None:
    watcher = watch({"urn:a:1": {}}, ROOT)
    step = watcher.commit({"urn:a:1": {"next": link("urn:a:2")}, "urn:a:2": {"n": 2}})
    assert told(step) == ({"urn:a:2"}, {"urn:a:1"}, set())
    assert watcher.asked == []


@pytest.mark.rule("WATCH-1", "WATCH-2")
def test_a_retargeted_link_lets_one_leave_and_another_enter() -> None:
    watcher = watch({"urn:a:1": {"next": link("urn:a:2")}, "urn:a:2": {}, "urn:a:3": {}}, ROOT)
    step = watcher.commit({"urn:a:1": {"next": link("urn:a:3")}})
    assert told(step) == ({"urn:a:3"}, {"urn:a:1"}, {"urn:a:2"})
    assert step.watched == {"urn:a:3"}
    assert step.unwatched == {"urn:a:2"}


@pytest.mark.rule("WATCH-2")
def test_a_ring_of_links_that_loses_its_only_entry_leaves() -> None:
    ring: dict[str, Any] = {f"urn:r:{n}": {"next": link(f"urn:r:{(n + 1) % 5}")} for n in range(5)}
    watcher = watch({"urn:a:1": {"in": link("urn:r:2")}, **ring}, ROOT)
    assert len(watcher.held) == 6
    step = watcher.commit({"urn:a:1": {}})
    assert told(step) == (set(), {"urn:a:1"}, set(ring))
    assert watcher.watch.ids == {"urn:a:1"}


@pytest.mark.rule("WATCH-2")
def test_a_ring_with_a_second_entry_stays_and_nothing_is_asked_for() -> None:
    ring: dict[str, Any] = {f"urn:r:{n}": {"next": link(f"urn:r:{(n + 1) % 5}")} for n in range(5)}
    watcher = watch({"urn:a:1": {"in": link("urn:r:2"), "also": link("urn:r:4")}, **ring}, ROOT)
    step = watcher.commit({"urn:a:1": {"also": link("urn:r:4")}})
    assert told(step) == (set(), {"urn:a:1"}, set())
    assert watcher.asked == []
    assert set(watcher.commit({"urn:a:1": {}}).left) == set(ring)


@pytest.mark.rule("WATCH-2")
def test_a_link_to_itself_keeps_nothing_alive() -> None:
    values = {
        "urn:a:1": {"in": link("urn:a:2")},
        "urn:a:2": {"me": link("urn:a:2"), "us": link("urn:a:2", path="/me")},
    }
    watcher = watch(values, ROOT)
    assert watcher.commit({"urn:a:1": {}}).left == {"urn:a:2"}


@pytest.mark.rule("WATCH-2")
def test_a_graph_moved_below_a_new_entity_is_not_asked_for_again() -> None:
    tail: dict[str, Any] = {f"urn:t:{n}": {"next": link(f"urn:t:{n + 1}")} for n in range(20)}
    watcher = watch({"urn:a:1": {"next": link("urn:t:0")}, "urn:n:1": {"next": link("urn:t:0")}, **tail}, ROOT)
    step = watcher.commit({"urn:a:1": {"next": link("urn:n:1")}})
    assert told(step) == ({"urn:n:1"}, {"urn:a:1"}, set())
    assert watcher.asked == [Ask((EntityId("urn:n:1"),))]


@pytest.mark.rule("QUERY-4", "WATCH-1")
def test_an_entity_reached_under_two_schemas_leaves_with_the_last_of_them() -> None:
    both = [link("urn:a:2", schema={"type": "object"}), link("urn:a:2", schema={"minProperties": 1})]
    watcher = watch({"urn:a:1": both, "urn:a:2": {"x": 1}}, ROOT)
    assert told(watcher.commit({"urn:a:1": both[:1]})) == (set(), {"urn:a:1"}, set())
    assert told(watcher.commit({"urn:a:1": both[1:]})) == (set(), {"urn:a:1"}, set())
    assert told(watcher.commit({"urn:a:2": {}})) == (set(), set(), {"urn:a:2"})
    assert told(watcher.commit({"urn:a:1": both})) == ({"urn:a:2"}, {"urn:a:1"}, set())
    assert told(watcher.commit({"urn:a:1": []})) == (set(), {"urn:a:1"}, {"urn:a:2"})


@pytest.mark.rule("WATCH-1")
def test_a_filter_that_begins_or_ceases_to_match_takes_what_is_behind_it_along() -> None:
    values: dict[str, Any] = {"urn:a:1": {"done": True, "next": link("urn:a:2")}, "urn:a:2": {}}
    watcher = watch(values, Root("urn:a:1", schema=OPEN))
    assert watcher.held == {}
    step = watcher.commit({"urn:a:1": {"done": False, "next": link("urn:a:2")}})
    assert told(step) == ({"urn:a:1", "urn:a:2"}, set(), set())
    step = watcher.commit({"urn:a:1": {"done": True, "next": link("urn:a:2")}})
    assert told(step) == (set(), set(), {"urn:a:1", "urn:a:2"})
    assert watcher.watch.ids == {"urn:a:1"}


@pytest.mark.rule("QUERY-1", "WATCH-1")
def test_a_listing_gains_what_is_created_and_loses_what_is_deleted_or_stops_matching() -> None:
    watcher = watch({"urn:t:1": {"done": False}, "urn:t:2": {"done": True}}, Root("urn:t:*", schema=OPEN))
    assert watcher.watch.prefixes == ("urn:t:",)
    assert watcher.watch.ids == {"urn:t:1"}
    assert watcher.watch.concerns([EntityId("urn:t:9"), EntityId("urn:x:1")]) == ["urn:t:9"]
    assert told(watcher.commit({"urn:t:3": {"done": False}, "urn:x:1": {}})) == ({"urn:t:3"}, set(), set())
    assert told(watcher.commit({"urn:t:1": {"done": True}})) == (set(), set(), {"urn:t:1"})
    assert told(watcher.commit({}, deleted=("urn:t:3",))) == (set(), set(), {"urn:t:3"})
    assert told(watcher.commit({"urn:t:1": {"done": False}})) == ({"urn:t:1"}, set(), set())
    assert told(watcher.commit({"urn:t:1": {"done": False, "n": 1}})) == (set(), {"urn:t:1"}, set())
    assert watcher.unresolved == set()


@pytest.mark.rule("QUERY-1", "WATCH-1")
def test_the_star_concerns_everything() -> None:
    watcher = watch({}, Root("*"))
    assert watcher.watch.prefixes == ("",)
    assert told(watcher.commit({"urn:a:1": None, "urn:b:1": link("urn:c:1")})) == (
        {"urn:a:1", "urn:b:1"},
        set(),
        set(),
    )
    assert told(watcher.commit({}, deleted=("urn:a:1", "urn:b:1"))) == (set(), set(), {"urn:a:1", "urn:b:1"})
    assert not watcher.watch.ids


@pytest.mark.rule("WATCH-1", "WATCH-2")
def test_a_listed_entity_that_is_also_linked_stays_depended_on_until_both_end() -> None:
    node = {"$ref": "#/$defs/n", "$defs": {"n": {"properties": {"next": {"$ref": "#/$defs/n"}}, "required": ["ok"]}}}
    values: dict[str, Any] = {"urn:t:1": {"ok": 1, "next": link("urn:t:2")}, "urn:t:2": {"ok": 1}}
    watcher = watch(values, Root("urn:t:*", schema=node))
    assert told(watcher.commit({"urn:t:2": {}})) == (set(), set(), {"urn:t:2"})
    assert watcher.watch.ids == {"urn:t:1", "urn:t:2"}
    assert told(watcher.commit({"urn:t:2": {"ok": 2}})) == ({"urn:t:2"}, set(), set())
    assert told(watcher.commit({"urn:t:1": {"ok": 1}})) == (set(), {"urn:t:1"}, set())
    assert told(watcher.commit({"urn:t:1": {"ok": 1, "next": link("urn:t:2")}, "urn:t:2": {}}))[2] == {"urn:t:2"}
    assert told(watcher.commit({"urn:t:1": {"ok": 1}}))[2] == set()
    assert watcher.watch.ids == {"urn:t:1"}


@pytest.mark.rule("WATCH-1")
def test_a_linked_entity_becomes_a_root_and_is_one_no_more() -> None:
    values: dict[str, Any] = {
        "urn:a:1": {"next": link("urn:t:1", schema=OPEN)},
        "urn:t:1": {"done": True, "next": link("urn:a:2")},
        "urn:a:2": {},
    }
    watcher = watch(values, ROOT, Root("urn:t:*", schema=OPEN))
    was_open: Any = {"done": False, "next": link("urn:a:2")}
    assert told(watcher.commit({"urn:t:1": was_open})) == ({"urn:t:1", "urn:a:2"}, set(), set())
    assert told(watcher.commit({"urn:a:1": {}})) == (set(), {"urn:a:1"}, set())
    assert told(watcher.commit({"urn:t:1": {"done": True}})) == (set(), set(), {"urn:t:1", "urn:a:2"})


# ---------------------------------------------------------------- what is not there


@pytest.mark.rule("QUERY-5", "WATCH-1")
def test_an_unresolved_target_that_comes_into_being_is_visited() -> None:
    watcher = watch({"urn:a:1": {"next": link("urn:a:2")}, "urn:a:3": {}}, ROOT)
    assert watcher.unresolved == {Unresolved("urn:a:2", "")}
    assert watcher.watch.ids == {"urn:a:1", "urn:a:2"}
    step = watcher.commit({"urn:a:2": {"next": link("urn:a:3")}})
    assert told(step) == ({"urn:a:2", "urn:a:3"}, set(), set())
    assert step.resolved == {Unresolved("urn:a:2", "")}
    step = watcher.commit({}, deleted=("urn:a:2",))
    assert told(step) == (set(), set(), {"urn:a:2", "urn:a:3"})
    assert step.unresolved == {Unresolved("urn:a:2", "")}


@pytest.mark.rule("QUERY-5", "WATCH-1")
def test_two_links_to_nothing_are_resolved_only_when_both_are_gone() -> None:
    two = [link("urn:a:2"), link("urn:a:2", schema={"type": "object"})]
    watcher = watch({"urn:a:1": two}, ROOT)
    assert watcher.commit({"urn:a:1": two[1:]}).resolved == frozenset()
    assert watcher.commit({"urn:a:1": []}).resolved == {Unresolved("urn:a:2", "")}


@pytest.mark.rule("QUERY-5", "WATCH-1")
def test_broken_links_and_links_elsewhere_come_and_go_in_unresolved() -> None:
    watcher = watch({"urn:a:1": {"a": link("urn:b:1", space=ELSEWHERE), "b": {"/": {"link@1": {}}}}}, ROOT)
    assert watcher.unresolved == {Unresolved("urn:b:1", ""), Unresolved("urn:a:1", "/b")}
    assert watcher.watch.ids == {"urn:a:1"}
    step = watcher.commit({"urn:a:1": {"b": {"/": {"link@1": {}}}}})
    assert step.resolved == {Unresolved("urn:b:1", "")}
    assert watcher.commit({"urn:b:1": 1}).is_silent()


@pytest.mark.rule("QUERY-5", "WATCH-1")
def test_a_path_that_begins_to_lead_somewhere_is_followed() -> None:
    watcher = watch({"urn:a:1": link("urn:a:2", path="/x"), "urn:a:2": {}}, ROOT)
    assert watcher.held.keys() == {"urn:a:1"}
    assert told(watcher.commit({"urn:a:2": {"x": 1}})) == ({"urn:a:2"}, set(), set())
    assert told(watcher.commit({"urn:a:2": {"y": 1}})) == (set(), set(), {"urn:a:2"})


@pytest.mark.rule("WATCH-1")
def test_a_root_that_is_deleted_and_written_again() -> None:
    watcher = watch({"urn:a:1": {"next": link("urn:a:2")}, "urn:a:2": {}}, ROOT)
    assert told(watcher.commit({}, deleted=("urn:a:1",))) == (set(), set(), {"urn:a:1", "urn:a:2"})
    assert watcher.unresolved == {Unresolved("urn:a:1", "")}
    assert told(watcher.commit({"urn:a:1": 1})) == ({"urn:a:1"}, set(), set())


@pytest.mark.rule("WATCH-2")
def test_what_a_cut_off_entity_newly_links_to_is_not_even_asked_for() -> None:
    watcher = watch({"urn:a:1": {"next": link("urn:a:2")}, "urn:a:2": {}, "urn:a:3": {}}, ROOT)
    step = watcher.commit({"urn:a:1": {}, "urn:a:2": {"next": link("urn:a:3")}})
    assert told(step) == (set(), {"urn:a:1"}, {"urn:a:2"})
    assert watcher.asked == []


# ---------------------------------------------------------------- bounds


def chain(length: int) -> dict[str, Any]:
    values: dict[str, Any] = {f"urn:c:{n}": {"next": link(f"urn:c:{n + 1}")} for n in range(length)}
    return {**values, f"urn:c:{length}": {}}


def dies(watcher: Watcher, changes: dict[str, Any], bound: str) -> None:
    watcher.store(stored(changes))
    assert bound in watcher.passed()
    with pytest.raises(LimitExceeded) as raised:
        watcher.step(stored(changes))
    assert raised.value.facts["bound"] == bound
    assert watcher.watch.state is State.DEAD


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
        Watch(prepare(Query(roots=(ROOT,), **moment)))  # type: ignore[arg-type]


@pytest.mark.rule("WATCH-1")
def test_a_step_that_is_closed_half_way_leaves_the_watch_dead() -> None:
    watcher = watch({"urn:a:1": {}, "urn:a:2": {}}, ROOT)
    running = watcher.watch.step(stored({"urn:a:1": link("urn:a:2")}))
    next(running)
    with pytest.raises(AssertionError):
        next(watcher.watch.step({}))
    running.close()
    assert watcher.watch.state is State.DEAD
    with pytest.raises(AssertionError):
        next(watcher.watch.step({}))
    with pytest.raises(AssertionError):
        next(watcher.watch.fill())


@pytest.mark.rule("WATCH-1")
def test_a_step_that_was_never_begun_changes_nothing() -> None:
    watcher = watch({"urn:a:1": {}, "urn:a:2": {}}, ROOT)
    watcher.watch.step(stored({"urn:a:1": link("urn:a:2")})).close()
    assert watcher.watch.state is State.ALIVE
    watcher.commit({"urn:a:1": {"x": 1}})


@pytest.mark.rule("WATCH-1", "QUERY-6")
def test_a_watch_that_cannot_be_filled_is_dead() -> None:
    unfilled: Watch[Stored] = Watch(prepare(Query(roots=(Root("*"),))), limits=Limits(query_entities_max=1))
    with pytest.raises(LimitExceeded):
        feed(unfilled.fill(), stored({"urn:a:1": 1, "urn:a:2": 1}))
    assert unfilled.state is State.DEAD


@pytest.mark.rule("WATCH-2")
def test_no_value_is_kept_between_steps() -> None:
    import gc
    import weakref

    class Counted(Stored):
        pass

    def values() -> dict[EntityId, Stored]:
        return {EntityId("urn:a:1"): Counted({"next": link("urn:a:2")}), EntityId("urn:a:2"): Counted({})}

    kept: Watch[Stored] = Watch(prepare(Query(roots=(ROOT,))))
    supplied = values()
    seen = [weakref.ref(held) for held in supplied.values()]
    feed(kept.fill(), supplied)
    changes: dict[EntityId, Stored | None] = {**values()}
    seen += [weakref.ref(held) for held in changes.values() if held is not None]
    feed(kept.step(changes), {})
    del supplied, changes
    gc.collect()
    assert [held() for held in seen] == [None] * 4
    assert kept.entities() == {"urn:a:1", "urn:a:2"}


# ---------------------------------------------------------------- cost


def tree(count: int) -> dict[str, Any]:
    """Each entity links to two below it, to the one above, and to a hub that all of them link to."""
    values: dict[str, Any] = {}
    for n in range(count):
        below = [link(f"urn:n:{child}") for child in (2 * n + 1, 2 * n + 2) if child < count]
        values[f"urn:n:{n}"] = {
            "below": below,
            "above": link(f"urn:n:{max(n - 1, 0) // 2}"),
            "hub": link("urn:hub:1"),
        }
    return values | {"urn:hub:1": {"first": link("urn:n:0")}}


def calls_of_steps(count: int, *changes: dict[str, Any]) -> int:
    """How many functions are called by the steps: a measure of cost that no clock disturbs."""
    entities = stored(tree(count))
    watched: Watch[Stored] = Watch(prepare(Query(roots=(Root("urn:n:0", schema=True),))))
    feed(watched.fill(), entities)
    calls = 0

    def count_calls(frame: object, event: str, argument: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    for change in map(stored, changes):
        sys.setprofile(count_calls)
        try:
            feed(watched.step(change), {})
        finally:
            sys.setprofile(None)
    return calls


@pytest.mark.rule("WATCH-2")
@pytest.mark.parametrize(
    "changed",
    [
        {"below": [], "above": link("urn:n:0"), "hub": link("urn:hub:1"), "title": "edited"},
        {"below": [], "above": link("urn:n:0")},
        {"below": [link("urn:n:1")], "above": link("urn:n:0"), "hub": link("urn:hub:1")},
        {},
        [],
    ],
)
def test_a_step_in_a_large_graph_does_as_much_as_in_a_small_one(changed: Any) -> None:
    small, large = calls_of_steps(7, {"urn:n:6": changed}), calls_of_steps(4_095, {"urn:n:4094": changed})
    assert large <= small + 5


@pytest.mark.rule("WATCH-2")
def test_a_hub_that_loses_the_link_it_hangs_on_finds_another_without_a_search() -> None:
    # The hub hangs on the root; the next link to it is taken, and what hangs below the hub is left in peace.
    roots = {"urn:n:0": {"below": [link("urn:n:1"), link("urn:n:2")]}}
    assert calls_of_steps(4_095, roots) <= calls_of_steps(7, roots) + 5


# ---------------------------------------------------------------- vectors


def cases() -> list[Any]:
    found: list[Any] = json.loads(VECTORS.read_text())["cases"]
    return found


@pytest.mark.rule("WATCH-1", "WATCH-2")
@pytest.mark.parametrize("case", cases(), ids=lambda case: case["name"])
def test_the_vectors_hold_for_the_watch(case: Any) -> None:
    roots = tuple(Root(**root) for root in case["query"]["roots"])
    watcher = Watcher(stored(case["entities"]), Query(roots=roots))
    assert sorted(watcher.held) == case["entities_in_answer"]
    for expected in case["steps"]:
        written = {id_: one["set"] for id_, one in expected["changes"].items() if "set" in one}
        deleted = tuple(id_ for id_, one in expected["changes"].items() if "delete" in one)
        step = watcher.commit(written, deleted=deleted)
        assert sorted(step.entered) == expected["entered"]
        assert sorted(step.updated) == expected["updated"]
        assert sorted(step.left) == expected["left"]
        assert sorted([place.id, place.path] for place in watcher.unresolved) == expected["unresolved"]
