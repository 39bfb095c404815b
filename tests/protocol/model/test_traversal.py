"""The traversal: worked cases of what is in the answer and what is not there."""

from __future__ import annotations

from typing import Any

import pytest

import graphs
from graphs import HERE, Stored, ask, feed, link, run, stored, unmatched
from stemmadb.protocol.model.query.query import Ask, Query, Root, Unresolved, Visit, prepare
from stemmadb.protocol.model.query.traversal import MISSING, resolve, traverse
from stemmadb.protocol.model.values.ids import EntityId

# ---------------------------------------------------------------- what is in the answer


@pytest.mark.rule("QUERY-2")
def test_without_a_schema_the_roots_are_returned_and_no_link_is_followed() -> None:
    entities = stored({"urn:a:1": {"next": link("urn:a:2")}, "urn:a:2": {}})
    answer, asked = run(entities, Root("urn:a:1"))
    assert answer.entities == {"urn:a:1": entities[EntityId("urn:a:1")]}
    assert asked == [Ask((EntityId("urn:a:1"),))]


@pytest.mark.rule("QUERY-1", "QUERY-2")
def test_what_the_supplier_gives_goes_into_the_answer_untouched() -> None:
    held = Stored({"x": 1}, size=3, version=9)
    answer, _ = run({EntityId("urn:a:1"): held}, Root("urn:a:1", schema=True))
    assert answer.entities[EntityId("urn:a:1")] is held


@pytest.mark.rule("QUERY-2", "QUERY-7")
def test_links_are_followed_level_by_level_and_each_id_is_asked_for_once() -> None:
    entities = stored(
        {
            "urn:a:1": [link("urn:a:2"), link("urn:a:3"), link("urn:a:2", path="/0")],
            "urn:a:2": [link("urn:a:4"), link("urn:a:1")],
            "urn:a:3": [link("urn:a:4"), link("urn:a:2", schema={"type": "array"})],
            "urn:a:4": "end",
        }
    )
    answer, asked = run(entities, Root("urn:a:1", schema=True))
    assert answer.entities == entities
    assert [one.ids for one in asked] == [("urn:a:1",), ("urn:a:2", "urn:a:3"), ("urn:a:4",)]


@pytest.mark.rule("QUERY-2")
def test_a_root_that_does_not_match_or_has_no_such_path_is_not_in_the_answer() -> None:
    values: dict[str, Any] = {"urn:a:1": {"done": True}, "urn:a:2": {"done": False}, "urn:a:3": {}}
    roots = [Root(id_, "/done", {"const": False}) for id_ in values]
    answer = ask(values, *roots)
    assert set(answer.entities) == {"urn:a:2"}
    assert unmatched(answer) == {"urn:a:1"}
    assert answer.unresolved == {Unresolved("urn:a:3", "/done")}
    assert [visit.id for visit in answer.roots] == ["urn:a:2"]


@pytest.mark.rule("QUERY-2")
def test_without_a_schema_too_a_root_without_the_path_is_not_in_the_answer() -> None:
    assert ask({"urn:a:1": {}}, Root("urn:a:1", "/x")).entities == {}
    assert set(ask({"urn:a:1": {"x": None}}, Root("urn:a:1", "/x")).entities) == {"urn:a:1"}


@pytest.mark.rule("QUERY-2")
def test_a_traversal_starts_at_the_path_of_the_root() -> None:
    value = {"in": {"x": link("urn:a:2")}, "out": link("urn:a:3")}
    answer = ask({"urn:a:1": value, "urn:a:2": 1, "urn:a:3": 1}, Root("urn:a:1", "/in", True))
    assert set(answer.entities) == {"urn:a:1", "urn:a:2"}


@pytest.mark.rule("QUERY-2")
def test_false_stops_and_true_follows_everything() -> None:
    values: dict[str, Any] = {
        "urn:a:1": {"yes": {"deep": [link("urn:a:2")]}, "no": "urn:a:3"},
        "urn:a:2": link("urn:a:3"),
        "urn:a:3": 1,
    }
    assert set(ask(values, Root("urn:a:1", schema=True)).entities) == set(values)
    assert set(ask(values, Root("urn:a:1", schema={})).entities) == set(values)
    assert ask(values, Root("urn:a:1", schema=False)).entities == {}
    stop: dict[str, Any] = {"properties": {"yes": {"properties": {"deep": {"items": {"not": {}}}}}}}
    assert set(ask(values, Root("urn:a:1", schema=stop)).entities) == {"urn:a:1", "urn:a:2"}
    carried = {"urn:a:1": [link("urn:a:2", schema=False)], "urn:a:2": 1}
    assert set(ask(carried, Root("urn:a:1", schema=True)).entities) == {"urn:a:1"}


@pytest.mark.rule("QUERY-2")
def test_strings_are_links_only_where_the_schema_says_so() -> None:
    values: dict[str, Any] = {"urn:a:1": {"ref": "urn:a:2", "text": "urn:a:3"}, "urn:a:2": 1, "urn:a:3": 1}
    marked = {"properties": {"ref": {"x-entity-reference": True}}}
    assert set(ask(values, Root("urn:a:1", schema=marked)).entities) == {"urn:a:1", "urn:a:2"}


@pytest.mark.rule("QUERY-4")
def test_a_link_narrows_by_the_schema_at_the_link_and_the_one_it_carries() -> None:
    numbers = {"properties": {"n": {"minimum": 10}}}
    values: dict[str, Any] = {
        "urn:a:1": [link(f"urn:n:{n}", schema={"properties": {"n": {"maximum": 20}}}) for n in (5, 15, 25)],
        **{f"urn:n:{n}": {"n": n} for n in (5, 15, 25)},
    }
    answer = ask(values, Root("urn:a:1", schema={"items": numbers}))
    assert set(answer.entities) == {"urn:a:1", "urn:n:15"}
    assert unmatched(answer) == {"urn:n:5", "urn:n:25"}
    assert answer.unresolved == frozenset()


@pytest.mark.rule("QUERY-4")
def test_an_entity_is_visited_again_under_another_schema() -> None:
    values: dict[str, Any] = {
        "urn:a:1": {"plain": link("urn:a:2"), "open": link("urn:a:2")},
        "urn:a:2": {"x": link("urn:a:3"), "y": link("urn:a:4")},
        "urn:a:3": 1,
        "urn:a:4": 2,
    }

    both = {"properties": {"plain": {"properties": {"x": {"const": 1}}}, "open": {"properties": {"y": {"const": 2}}}}}
    answer = ask(values, Root("urn:a:1", schema=both))
    assert len([visit for visit in answer.visits if visit.id == "urn:a:2"]) == 2
    assert set(answer.entities) == {"urn:a:1", "urn:a:2", "urn:a:3", "urn:a:4"}
    followed = [
        [hop.target.id for hop in answer.visits[visit].hops] for visit in answer.visits if visit.id == "urn:a:2"
    ]
    assert followed == [["urn:a:3"], ["urn:a:4"]]


@pytest.mark.rule("QUERY-4")
def test_a_target_that_one_visit_refuses_stays_in_through_another() -> None:
    values = {"urn:a:1": [link("urn:a:2", schema={"const": 0}), link("urn:a:2")], "urn:a:2": 1}
    answer = ask(values, Root("urn:a:1", schema=True))
    assert set(answer.entities) == {"urn:a:1", "urn:a:2"}
    assert unmatched(answer) == frozenset()


@pytest.mark.rule("QUERY-4")
def test_links_to_themselves_and_rings_end() -> None:
    values = {
        "urn:a:1": {"me": link("urn:a:1"), "part": link("urn:a:1", path="/me"), "next": link("urn:a:2")},
        "urn:a:2": {"next": link("urn:a:1")},
    }
    answer = ask(values, Root("urn:a:1", schema=True))
    assert set(answer.entities) == {"urn:a:1", "urn:a:2"}
    assert answer.unresolved == frozenset()
    assert len(answer.visits) == 3


@pytest.mark.rule("QUERY-4")
def test_a_visit_without_a_schema_differs_from_one_under_true() -> None:
    answer = ask({"urn:a:1": 1}, Root("urn:a:1"), Root("urn:a:1", schema=True))
    assert len({Visit(*visit) for visit in answer.roots}) == 2


# ---------------------------------------------------------------- what is not there


@pytest.mark.rule("QUERY-5")
def test_whatever_leads_nowhere_is_unresolved_all_alike() -> None:
    links: list[Any] = [
        link("urn:a:missing"),
        link("urn:a:2", path="/no/where"),
        link("urn:a:2", path="/list/01"),
        link("urn:a:2", path="/list/-"),
        link("urn:a:2", path="/list/1"),
        link("urn:a:2", space=graphs.ELSEWHERE),
        link("urn:a:2", path="not a pointer"),
        link("no id"),
        {"/": {"link@1": {"id": 7}}},
    ]
    answer = ask({"urn:a:1": {"links": links}, "urn:a:2": {"list": [1]}}, Root("urn:a:1", "/links", True))
    assert answer.unresolved == {
        Unresolved("urn:a:missing", ""),
        Unresolved("urn:a:2", "/no/where"),
        Unresolved("urn:a:2", "/list/01"),
        Unresolved("urn:a:2", "/list/-"),
        Unresolved("urn:a:2", "/list/1"),
        Unresolved("urn:a:2", ""),
        # A broken link has no target to name: it is named by its own place.
        Unresolved("urn:a:1", "/links/6"),
        Unresolved("urn:a:1", "/links/7"),
        Unresolved("urn:a:1", "/links/8"),
    }
    assert set(answer.entities) == {"urn:a:1"}


@pytest.mark.rule("QUERY-5")
def test_a_link_that_names_the_space_it_is_in_is_followed() -> None:
    values = {"urn:a:1": link("urn:a:2", space=HERE), "urn:a:2": 1}
    assert set(ask(values, Root("urn:a:1", schema=True)).entities) == {"urn:a:1", "urn:a:2"}
    unnamed, _ = feed(traverse(prepare(Query(roots=(Root("urn:a:1", schema=True),)))), stored(values))
    assert set(unnamed.entities) == {"urn:a:1"}


@pytest.mark.rule("QUERY-5")
def test_a_root_that_is_named_and_not_there_is_unresolved_and_a_listing_leaves_no_trace() -> None:
    values: dict[str, Any] = {"urn:a:1": {"x": 1}, "urn:a:2": {}}
    answer = ask(values, Root("urn:a:9", "/x"), Root("urn:a:*", "/x"), Root("urn:b:*"))
    assert answer.unresolved == {Unresolved("urn:a:9", "/x")}
    assert set(answer.entities) == {"urn:a:1"}
    assert {visit.id for visit in answer.visits} == {"urn:a:1", "urn:a:9"}


@pytest.mark.rule("QUERY-2")
@pytest.mark.parametrize(
    ("path", "found"),
    [
        *[("", {"a": [1, {"": 2}]}), ("/a/0", 1), ("/a/1/", 2)],
        *[(path, MISSING) for path in ("/b", "/a/2", "/a/x", "/a/0/0", "/b/c", "a", "/a/-", "/a/+1", "/a/01", "/~2")],
    ],
)
def test_a_path_leads_to_a_part_of_the_value_or_nowhere(path: str, found: object) -> None:
    assert resolve({"a": [1, {"": 2}]}, path) == found
    assert resolve([], "/0") is MISSING


# ---------------------------------------------------------------- listings


@pytest.mark.rule("QUERY-1", "QUERY-2")
def test_prefixes_and_the_star_list_what_matches() -> None:
    values: dict[str, Any] = {"urn:a:2": {"done": False}, "urn:a:1": {"done": False}, "urn:b:1": {"done": True}}
    listed = ask(values, Root("urn:a:*"))
    assert set(listed.entities) == {"urn:a:1", "urn:a:2"}
    assert [visit.id for visit in listed.roots] == ["urn:a:1", "urn:a:2"]
    assert set(ask(values, Root("*")).entities) == set(values)
    assert set(ask(values, Root("*", schema=graphs.OPEN)).entities) == {"urn:a:1", "urn:a:2"}


@pytest.mark.rule("QUERY-1")
def test_roots_come_in_the_order_of_the_query_each_once() -> None:
    values: dict[str, Any] = dict.fromkeys(("urn:a:1", "urn:a:2", "urn:b:1", "urn:b:2"), 1)
    roots = [Root("urn:b:2"), Root("urn:a:*"), Root("*"), Root("urn:a:1", schema=True), Root("urn:b:2")]
    ids = [(visit.id, visit.conjuncts is None) for visit in ask(values, *roots).roots]
    assert ids == [
        ("urn:b:2", True),
        ("urn:a:1", True),
        ("urn:a:2", True),
        ("urn:b:1", True),
        ("urn:a:1", False),
    ]


@pytest.mark.rule("QUERY-1", "QUERY-4")
def test_a_listed_entity_that_does_not_match_can_still_be_reached_by_a_link() -> None:
    values: dict[str, Any] = {
        "urn:a:1": {"done": False, "next": link("urn:a:2"), "same": link("urn:a:3")},
        "urn:a:2": {"done": True},
        "urn:a:3": {"done": False},
    }
    answer, asked = run(stored(values), Root("urn:a:*", schema=graphs.OPEN))
    assert set(answer.entities) == set(values)
    assert [one.ids for one in asked] == [(), ("urn:a:2",)]
    assert asked[0].prefixes == ("urn:a:",)
