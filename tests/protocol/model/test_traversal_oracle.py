"""The traversal against the naive oracle on random graphs, and the vectors."""

from __future__ import annotations

import json
from collections.abc import Generator, Mapping
from pathlib import Path
from random import Random
from typing import Any, TypeAlias

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import graphs
from graphs import HERE, Stored, feed, stored
from stemmadb.protocol.errors import LimitExceeded
from stemmadb.protocol.model.query.query import Ask, Query, Root, TraversalResult, prepare
from stemmadb.protocol.model.query.traversal import traverse
from stemmadb.protocol.model.values.ids import EntityId

Traversal: TypeAlias = Generator[Ask, Mapping[EntityId, Stored], TraversalResult[Stored]]
VECTORS = Path(__file__).parents[2] / "vectors" / "traversals.json"


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
