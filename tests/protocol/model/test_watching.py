"""The watch evaluator: worked cases of what enters, is updated and leaves; the vectors."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from graphs import ELSEWHERE, OPEN, link, stored
from stemmadb.protocol.model.query.query import Ask, Query, Root, Unresolved
from stemmadb.protocol.model.values.ids import EntityId
from watchers import Watcher, is_silent, told, watch

VECTORS = Path(__file__).parents[2] / "vectors" / "watch_steps.json"
ROOT = Root("urn:a:1", schema=True)


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
    assert is_silent(step)
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
    assert is_silent(watcher.commit({"urn:b:1": 1}))


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
