"""One budget of work for a whole question: what it counts, where it pauses, and how it is cancelled (QUERY-6)."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import pytest
from msgspec.structs import replace

from graphs import feed, stored
from stemmadb.protocol.errors import LimitExceeded
from stemmadb.protocol.model.query.query import Query, Root, prepare
from stemmadb.protocol.model.query.traversal import traverse
from stemmadb.protocol.model.schema import WorkBudget, WorkCancelled
from stemmadb.protocol.model.values.limits import DEFAULTS
from stemmadb.protocol.model.watch import NOTHING_ASKED, WatchEvaluator

COSTLY: dict[str, Any] = {"items": {"anyOf": [*({"const": f"no {n}"} for n in range(12)), {"type": "integer"}]}}
NUMBERS = list(range(2_000))


def roots(count: int) -> Query:
    """Each with a schema of its own, so that each is a visit of its own."""
    return Query(roots=tuple(Root("urn:a:1", schema={**COSTLY, "maxItems": 10_000 + n}) for n in range(count)))


def asked(query: Query, budget: WorkBudget) -> None:
    walk: Generator[Any, Any, Any] = traverse(prepare(query), budget=budget)
    next(walk)
    with pytest.raises(StopIteration):
        walk.send(stored({"urn:a:1": NUMBERS}))


@pytest.mark.rule("QUERY-6")
def test_the_roots_of_a_query_spend_from_one_budget() -> None:
    one, ten = WorkBudget(), WorkBudget()
    asked(roots(1), one)
    asked(roots(10), ten)
    assert ten.spent == 10 * one.spent > 0
    with pytest.raises(LimitExceeded) as refused:
        asked(roots(10), WorkBudget(ten.spent - 1))
    assert refused.value.facts["bound"] == "query_work_max"
    assert refused.value.facts["maximum"] == ten.spent - 1
    asked(roots(10), WorkBudget(ten.spent))


@pytest.mark.rule("QUERY-6")
def test_entities_of_a_listing_that_do_not_match_are_work_too() -> None:
    prepared = prepare(Query(roots=(Root("*", schema={"type": "string"}),)))
    walk: Generator[Any, Any, Any] = traverse(prepared, limits=replace(DEFAULTS, query_work_max=1_000))
    next(walk)
    with pytest.raises(LimitExceeded) as refused:
        walk.send(stored({f"urn:a:{n}": n for n in range(200)}))
    assert refused.value.facts["bound"] == "query_work_max"


@pytest.mark.rule("QUERY-6")
def test_a_query_that_is_cancelled_ends_within_a_value() -> None:
    budget = WorkBudget()
    walk: Generator[Any, Any, Any] = traverse(prepare(roots(1)), budget=budget)
    next(walk)
    budget.cancel()
    with pytest.raises(WorkCancelled):
        walk.send(stored({"urn:a:1": NUMBERS}))


def watch() -> WatchEvaluator[Any]:
    made: WatchEvaluator[Any] = WatchEvaluator(prepare(roots(3)))
    walk = made.fill()
    next(walk)
    with pytest.raises(StopIteration):
        walk.send(stored({"urn:a:1": NUMBERS}))
    return made


@pytest.mark.rule("WATCH-1")
@pytest.mark.parametrize("turn", [0, 5, 10_000, 100_000])
def test_a_step_that_pauses_says_and_costs_what_it_does_without_a_pause(turn: int) -> None:
    changes = stored({"urn:a:1": NUMBERS[1:]})
    whole = WorkBudget()
    with pytest.raises(StopIteration) as done:
        next(watch().step(changes, whole))
    paused = WorkBudget(turn=turn)
    walk = watch().step(changes, paused)
    assert next(walk) is NOTHING_ASKED
    assert paused.spent <= turn
    with pytest.raises(StopIteration) as resumed:
        walk.send({})
    assert resumed.value.value == done.value.value
    assert paused.spent == whole.spent


@pytest.mark.rule("WATCH-1")
def test_a_step_has_a_budget_of_its_own() -> None:
    changes = stored({"urn:a:1": NUMBERS[1:]})
    with pytest.raises(LimitExceeded) as refused:
        next(watch().step(changes, WorkBudget(1_000)))
    assert refused.value.facts["bound"] == "query_work_max"


@pytest.mark.rule("QUERY-6")
def test_links_that_fan_out_to_one_another_end_at_a_bound() -> None:
    """Forty entities that all link to each other with schemas of their own: every visit makes forty new ones."""
    ids = [f"urn:a:{n}" for n in range(40)]
    fan = {
        id_: [{"/": {"link@1": {"id": other, "schema": {"maxItems": 1_000 + n}}}} for n, other in enumerate(ids)]
        for id_ in ids
    }
    values = stored(fan)
    walk: Generator[Any, Any, Any] = traverse(
        prepare(Query(roots=(Root(ids[0], schema=True),))), limits=replace(DEFAULTS, query_work_max=200_000)
    )
    with pytest.raises(LimitExceeded) as refused:
        feed(walk, values)
    assert refused.value.facts["bound"] in ("query_work_max", "query_visits_max", "conjuncts_max")


@pytest.mark.rule("QUERY-3")
@pytest.mark.parametrize("keyword", ["items", "additionalProperties"])
def test_a_ref_that_loops_through_the_value_ends_with_the_value(keyword: str) -> None:
    document = {"$ref": "#/$defs/a", "$defs": {"a": {keyword: {"$ref": "#/$defs/b"}}, "b": {"$ref": "#/$defs/a"}}}
    value: Any = 1
    for _ in range(60):
        value = [value, value] if keyword == "items" else {"a": value, "b": value}
    budget = WorkBudget()
    walk: Generator[Any, Any, Any] = traverse(
        prepare(Query(roots=(Root("urn:a:1", schema=document),))), budget=budget
    )
    next(walk)
    with pytest.raises((StopIteration, LimitExceeded)):
        walk.send(stored({"urn:a:1": value}))


@pytest.mark.rule("QUERY-4")
def test_a_child_is_reached_only_if_every_conjunct_reaches_it() -> None:
    def link(id_: str, **more: Any) -> Any:
        return {"/": {"link@1": {"id": id_, **more}}}

    values = stored(
        {
            "urn:a:1": {"to": link("urn:a:2", schema={"properties": {"x": True, "y": True}})},
            "urn:a:2": {"x": link("urn:a:3"), "y": link("urn:a:4"), "z": link("urn:a:5")},
            "urn:a:3": 3,
            "urn:a:4": 4,
            "urn:a:5": 5,
        }
    )
    schema = {"properties": {"to": {"properties": {"x": True, "z": True}}}}
    walk: Generator[Any, Any, Any] = traverse(prepare(Query(roots=(Root("urn:a:1", schema=schema),))))
    answer, _ = feed(walk, values)
    assert set(answer.entities) == {"urn:a:1", "urn:a:2", "urn:a:3"}
