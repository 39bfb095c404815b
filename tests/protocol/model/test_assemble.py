"""Assembling: the nested result, cycles, sharing, bounds, vectors, and equality with the naive oracle."""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping
from pathlib import Path
from random import Random
from typing import Any

import pytest

import graphs
from graphs import HERE, ask, feed, link
from stemmadb.protocol.errors import LimitExceeded
from stemmadb.protocol.model.query.nested_result import assemble
from stemmadb.protocol.model.query.query import Root, prepare
from stemmadb.protocol.model.query.traversal import traverse
from stemmadb.protocol.model.values.limits import Limits

VECTORS = Path(__file__).parents[2] / "vectors" / "traversals.json"
ROOT = Root("urn:a:1", schema=True)


def nested(values: Mapping[str, Any], *roots: Root) -> list[Any]:
    return assemble(ask(values, *roots))


@pytest.mark.rule("QUERY-7")
def test_links_are_replaced_by_what_they_lead_to() -> None:
    values = {
        "urn:a:1": {"title": "list", "items": [link("urn:i:1"), link("urn:i:2", path="/text"), "plain"]},
        "urn:i:1": {"of": link("urn:p:1")},
        "urn:i:2": {"text": "two"},
        "urn:p:1": {"name": "Ann"},
    }
    assert nested(values, ROOT) == [{"title": "list", "items": [{"of": {"name": "Ann"}}, "two", "plain"]}]
    assert nested(values, Root("urn:a:1", "/items/0", True)) == [{"of": {"name": "Ann"}}]
    assert nested(values, Root("urn:a:1", "/title")) == ["list"]


@pytest.mark.rule("QUERY-5", "QUERY-7")
def test_what_is_unresolved_or_does_not_match_stays_a_link() -> None:
    value: Any = [link("urn:a:9"), link("urn:a:2", schema={"const": 0}), link("urn:a:2", path="/x")]
    assert nested({"urn:a:1": value, "urn:a:2": 1}, ROOT) == [value]


@pytest.mark.rule("QUERY-7")
def test_a_cycle_ends_by_leaving_the_link_as_it_is() -> None:
    ring: dict[str, Any] = {f"urn:a:{n}": {"n": n, "next": link(f"urn:a:{n % 3 + 1}")} for n in (1, 2, 3)}
    end = {"n": 3, "next": link("urn:a:1")}
    assert nested(ring, ROOT) == [{"n": 1, "next": {"n": 2, "next": end}}]
    assert nested({"urn:a:1": {"me": link("urn:a:1")}}, ROOT) == [{"me": link("urn:a:1")}]
    assert nested({"urn:a:1": link("urn:a:1")}, ROOT) == [link("urn:a:1")]


@pytest.mark.rule("QUERY-7")
def test_a_root_looks_the_same_whatever_other_roots_there_are() -> None:
    values = {
        "urn:a:1": {"children": [link("urn:a:2"), link("urn:a:3")]},
        "urn:a:2": {"parent": link("urn:a:1")},
        "urn:a:3": {"parent": link("urn:a:1"), "twin": link("urn:a:2")},
    }
    together = nested(values, Root("*", schema=True))
    assert together == [nested(values, Root(id_, schema=True))[0] for id_ in sorted(values)]
    assert together[1] == {
        "parent": {"children": [link("urn:a:2"), {"parent": link("urn:a:1"), "twin": link("urn:a:2")}]}
    }


@pytest.mark.rule("QUERY-7")
def test_nothing_in_the_answer_is_changed_and_what_has_no_links_is_shared() -> None:
    values = {"urn:a:1": {"in": {"x": link("urn:a:2")}, "far": {"y": [1]}}, "urn:a:2": {"z": 1}}
    answer = ask(values, ROOT)
    before = copy.deepcopy({id_: held.value for id_, held in answer.entities.items()})
    (result,) = assemble(answer)
    assert {id_: held.value for id_, held in answer.entities.items()} == before
    assert result == {"in": {"x": {"z": 1}}, "far": {"y": [1]}}
    held: Any = {id_: held.value for id_, held in answer.entities.items()}
    assert isinstance(result, dict)
    assert result["far"] is held["urn:a:1"]["far"]


@pytest.mark.rule("QUERY-7")
def test_doublings_are_shared_and_do_not_explode() -> None:
    last = 40
    values: dict[str, Any] = {f"urn:a:{n}": [link(f"urn:a:{n + 1}"), link(f"urn:a:{n + 1}")] for n in range(1, last)}
    (result,) = nested({**values, f"urn:a:{last}": "end"}, ROOT)
    for _ in range(1, last):
        assert result[0] is result[1]
        result = result[0]
    assert result == "end"


@pytest.mark.rule("QUERY-7")
def test_a_graph_where_everything_links_to_everything_is_shown_once() -> None:
    ids = [f"urn:a:{n}" for n in range(1, 60)]
    (result,) = nested({id_: [link(other) for other in ids] for id_ in ids}, ROOT)
    links = [link(other) for other in ids]
    assert result == [links[0], *[links] * 58]


@pytest.mark.rule("QUERY-6", "QUERY-7")
def test_nesting_is_bounded_at_the_edge() -> None:
    values: dict[str, Any] = {f"urn:a:{n:03}": {"next": link(f"urn:a:{n + 1:03}")} for n in range(6)}
    answer = ask(values, Root("urn:a:*", schema=True))
    assert len(assemble(answer, limits=Limits(query_depth_max=5))) == 6
    with pytest.raises(LimitExceeded) as raised:
        assemble(answer, limits=Limits(query_depth_max=4))
    assert raised.value.facts == {"bound": "query_depth_max", "maximum": 4, "actual": 5}


@pytest.mark.rule("QUERY-6", "QUERY-7")
def test_a_large_cycle_of_roots_is_refused_rather_than_shown_once_for_each() -> None:
    ids = [f"urn:a:{n}" for n in range(110)]
    answer = ask({id_: [link(other) for other in ids] for id_ in ids}, Root("*", schema=True))
    with pytest.raises(LimitExceeded) as raised:
        assemble(answer)
    assert raised.value.facts["bound"] == "assembled_links_max"


@pytest.mark.rule("QUERY-7")
def test_a_long_chain_does_not_exhaust_the_stack() -> None:
    values: dict[str, Any] = {f"urn:a:{n}": {"next": link(f"urn:a:{n + 1}")} for n in range(5_000)}
    answer = ask(values, Root("*", schema=True))
    (*_, first) = assemble(answer, limits=Limits(query_depth_max=5_000))
    assert isinstance(first, dict)


@pytest.mark.rule("QUERY-7")
def test_assembling_equals_the_oracle_on_random_graphs() -> None:
    compared = 0
    for seed in range(1_000):
        random = Random(seed)
        count = random.choice((3, 5, 8))
        entities, query = graphs.random_entities(random, count), graphs.random_query(random, count)
        expected = graphs.naive(query, entities)
        if sum(map(len, expected.links.values())) <= 30:  # the oracle shares nothing and may take for ever
            compared += 1
            answer, _ = feed(traverse(prepare(query, space=HERE)), entities)
            assert assemble(answer) == graphs.naive_assembled(expected, entities)
    assert compared > 600


def cases() -> list[Any]:
    found: list[Any] = json.loads(VECTORS.read_text())["cases"]
    return found


@pytest.mark.rule("QUERY-7")
@pytest.mark.parametrize("case", cases(), ids=lambda case: case["name"])
def test_the_vectors_hold_for_assembling(case: Any) -> None:
    answer = ask(case["entities"], *(Root(**root) for root in case["query"]["roots"]))
    assert [[visit.id, visit.path] for visit in answer.roots] == case["roots"]
    assert assemble(answer) == case["assembled"]
