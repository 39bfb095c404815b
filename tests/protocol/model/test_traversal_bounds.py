"""The bounds of a traversal, each at its edge."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping
from typing import Any, TypeAlias

import pytest

from graphs import Stored, ask, chain, link
from stemmadb.protocol.errors import LimitExceeded
from stemmadb.protocol.model.query.query import Ask, Query, Root, TraversalResult, prepare
from stemmadb.protocol.model.query.traversal import traverse
from stemmadb.protocol.model.values.ids import EntityId
from stemmadb.protocol.model.values.limits import Limits

Traversal: TypeAlias = Generator[Ask, Mapping[EntityId, Stored], TraversalResult[Stored]]


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
