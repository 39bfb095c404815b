"""The traversal: worked cases, bounds, vectors, and equality with the naive oracle on random graphs."""

from __future__ import annotations

import json
from collections.abc import Generator, Iterator, Mapping
from pathlib import Path
from random import Random
from typing import Any, TypeAlias

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import graphs
from graphs import HERE, Entities, Stored, feed, link, stored
from stemmadb.protocol.errors import LimitExceeded
from stemmadb.protocol.model.ids import EntityId
from stemmadb.protocol.model.limits import DEFAULTS, Limits
from stemmadb.protocol.model.query import Answer, Ask, Query, Root, Unresolved, Visit, prepare
from stemmadb.protocol.model.traversal import MISSING, resolve, traverse

Traversal: TypeAlias = Generator[Ask, Mapping[EntityId, Stored], Answer[Stored]]
VECTORS = Path(__file__).parents[2] / "vectors" / "traversals.json"


def ask(values: Mapping[str, Any], *roots: Root, limits: Limits = DEFAULTS) -> Answer[Stored]:
    return run(stored(values), *roots, limits=limits)[0]


def run(entities: Entities, *roots: Root, limits: Limits = DEFAULTS) -> tuple[Answer[Stored], list[Ask]]:
    return feed(traverse(prepare(Query(roots=roots), space=HERE), limits=limits), entities)


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
    assert answer.unmatched() == {"urn:a:1"}
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
    assert answer.unmatched() == {"urn:n:5", "urn:n:25"}
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
    assert answer.unmatched() == frozenset()


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


class Streamed(Mapping[EntityId, Stored]):
    """A listing that is read from a store while it goes, and says how far it was read."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.read = 0

    def __getitem__(self, id_: EntityId) -> Stored:
        return Stored({"n": id_})

    def __iter__(self) -> Iterator[EntityId]:
        for self.read in range(self.count):  # noqa: B020
            yield EntityId(f"urn:n:{self.read}")

    def __len__(self) -> int:
        return self.count


@pytest.mark.rule("QUERY-6")
def test_a_listing_is_read_no_farther_than_the_bound() -> None:
    star = prepare(Query(roots=(Root("*"),)))
    running: Traversal = traverse(star, limits=Limits(query_entities_max=5))
    next(running)
    supply = Streamed(1_000_000)
    with pytest.raises(LimitExceeded):
        running.send(supply)
    assert supply.read == 5


# ---------------------------------------------------------------- bounds


def chain(length: int) -> dict[str, Any]:
    values: dict[str, Any] = {f"urn:c:{n}": {"next": link(f"urn:c:{n + 1}")} for n in range(length)}
    return {**values, f"urn:c:{length}": {}}


@pytest.mark.rule("QUERY-6")
@pytest.mark.parametrize("hops", [0, 1, 5, 64])
def test_depth_is_bounded_at_the_edge(hops: int) -> None:
    limits = Limits(query_depth_max=hops)
    assert len(ask(chain(hops), Root("urn:c:0", schema=True), limits=limits).entities) == hops + 1
    with pytest.raises(LimitExceeded) as raised:
        ask(chain(hops + 1), Root("urn:c:0", schema=True), limits=limits)
    assert raised.value.facts == {"bound": "query_depth_max", "maximum": hops, "actual": hops + 1}


@pytest.mark.rule("QUERY-6")
def test_depth_is_counted_by_the_shortest_way_and_a_link_to_what_was_visited_has_none() -> None:
    values = {**chain(3), "urn:c:3": {"next": link("urn:c:0")}}
    roots = [Root(f"urn:c:{number}", schema=True) for number in range(4)]
    assert len(ask(values, *roots, limits=Limits(query_depth_max=0)).entities) == 4
    assert len(ask(values, Root("*", schema=True), limits=Limits(query_depth_max=0)).entities) == 4


@pytest.mark.rule("QUERY-6")
def test_a_root_that_is_linked_to_and_does_not_match_has_no_depth() -> None:
    schema = {"properties": {"next": {"$ref": "#"}}, "required": ["next"]}
    values = {"urn:a:1": {"next": link("urn:a:2")}, "urn:a:2": {}}
    roots = [Root("urn:a:1", schema=schema), Root("urn:a:2", schema=schema)]
    assert set(ask(values, *roots, limits=Limits(query_depth_max=0)).entities) == {"urn:a:1"}


@pytest.mark.rule("QUERY-6")
def test_entities_are_bounded_at_the_edge_and_what_does_not_match_does_not_count() -> None:
    values: dict[str, Any] = {f"urn:a:{n}": {"n": n} for n in range(10)}
    root = Root("*", schema={"properties": {"n": {"minimum": 5}}})
    assert len(ask(values, root, limits=Limits(query_entities_max=5)).entities) == 5
    with pytest.raises(LimitExceeded) as raised:
        ask(values, root, limits=Limits(query_entities_max=4))
    assert raised.value.facts == {"bound": "query_entities_max", "maximum": 4, "actual": 5}


@pytest.mark.rule("QUERY-6")
def test_bytes_are_bounded_at_the_edge_and_count_once_for_each_entity() -> None:
    values = {"urn:a:1": [link("urn:a:2"), link("urn:a:2", path="/x")], "urn:a:2": {"x": 1}}
    root = Root("urn:a:1", schema=True)
    assert len(ask(values, root, limits=Limits(query_bytes_max=20)).entities) == 2
    with pytest.raises(LimitExceeded) as raised:
        ask(values, root, limits=Limits(query_bytes_max=19))
    assert raised.value.facts == {"bound": "query_bytes_max", "maximum": 19, "actual": 20}


@pytest.mark.rule("QUERY-6")
def test_schemas_that_links_carry_cannot_multiply_the_visits_without_end() -> None:
    def carried(number: int) -> dict[str, Any]:
        return {"additionalProperties": {"$ref": "#"}, "items": {"$ref": "#"}, "maxItems": 100 + number}

    ids = [f"urn:a:{number}" for number in range(12)]
    values: dict[str, Any] = {i: [link(to, schema=carried(n)) for n, to in enumerate(ids)] for i in ids}
    with pytest.raises(LimitExceeded) as raised:
        ask(values, Root("urn:a:0", schema=True), limits=Limits(query_entities_max=12))
    assert raised.value.facts == {"bound": "query_visits_max", "maximum": 120, "actual": 121}


# ---------------------------------------------------------------- against the oracle


def agrees_with_the_oracle(random: Random) -> None:
    count = random.choice((3, 6, 10, 14))
    entities, query = graphs.random_entities(random, count), graphs.random_query(random, count)
    limits = graphs.random_limits(random)
    expected = graphs.naive(query, entities)
    passed = graphs.exceeded(expected, limits)
    running: Traversal = traverse(prepare(query, space=HERE), limits=limits)
    if passed:
        with pytest.raises(LimitExceeded) as raised:
            feed(running, entities)
        assert raised.value.facts["bound"] in passed
        return
    answer, _ = feed(running, entities)
    assert set(answer.entities) == expected.entities
    assert all(held is entities[id_] for id_, held in answer.entities.items())
    assert answer.unresolved == expected.unresolved
    assert [tuple(visit) for visit in answer.roots] == [tuple(seen) for seen in expected.roots]
    assert {tuple(visit) for visit in answer.visits} == {tuple(seen) for seen in expected.distance}


@pytest.mark.rule("QUERY-2", "QUERY-4", "QUERY-5", "QUERY-6")
def test_a_traversal_equals_the_oracle_on_random_graphs() -> None:
    for seed in range(1_000):
        agrees_with_the_oracle(Random(seed))


@pytest.mark.rule("QUERY-2", "QUERY-4", "QUERY-5", "QUERY-6")
@settings(derandomize=True, deadline=None, max_examples=60)
@given(st.randoms(use_true_random=False))
def test_a_traversal_equals_the_oracle_on_graphs_that_shrink(random: Random) -> None:
    agrees_with_the_oracle(random)


# ---------------------------------------------------------------- vectors


def cases() -> list[Any]:
    found: list[Any] = json.loads(VECTORS.read_text())["cases"]
    return found


@pytest.mark.rule("QUERY-2", "QUERY-4", "QUERY-5")
@pytest.mark.parametrize("case", cases(), ids=lambda case: case["name"])
def test_the_vectors_hold_for_the_traversal(case: Any) -> None:
    roots = tuple(Root(**root) for root in case["query"]["roots"])
    prepared = prepare(Query(roots=roots), space=case["space"])
    answer, _ = feed(traverse(prepared), stored(case["entities"]))
    assert sorted(answer.entities) == case["entities_in_answer"]
    assert sorted([place.id, place.path] for place in answer.unresolved) == case["unresolved"]


@pytest.mark.rule("QUERY-4")
def test_a_visit_without_a_schema_differs_from_one_under_true() -> None:
    answer = ask({"urn:a:1": 1}, Root("urn:a:1"), Root("urn:a:1", schema=True))
    assert len({Visit(*visit) for visit in answer.roots}) == 2
