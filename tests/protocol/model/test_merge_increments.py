"""Increments on both sides of a merge (MERGE-3)."""

from __future__ import annotations

import pytest

from merge_builders import X, forked, increment, replace, summary
from stemmadb.protocol.errors import MergeConflict
from stemmadb.protocol.model.log.commit_record import Strategy
from stemmadb.protocol.model.values.json_values import Value


@pytest.mark.rule("MERGE-2", "MERGE-3")
def test_increments_that_met_in_a_criss_cross_are_not_added_again() -> None:
    space = forked({"n": 0})
    space.patch("main", X, increment("/n"))
    at = space.patch("draft", X, increment("/n"))
    space.merge("draft", "main", "fields", version=at)
    space.merge("main", "draft", "fields", version=at)
    assert space.get("main") == space.get("draft") == {"n": 2}
    assert space.merge("draft", "main", "fields").writes == ()
    assert space.get("main") == {"n": 2}


@pytest.mark.rule("MERGE-3")
def test_increments_on_both_sides_are_added_under_fields() -> None:
    space = forked({"n": 1})
    space.patch("main", X, increment("/n"))
    space.patch("draft", X, increment("/n"))
    plan = space.merge("draft", "main", "fields")
    assert space.get("main") == {"n": 3}
    assert summary(plan) == [(X, "/n", "both")]
    space.merge("main", "draft", "fields")
    assert space.get("draft") == {"n": 3}


@pytest.mark.rule("MERGE-3")
@pytest.mark.parametrize("strategy", ["lww", "source", "target"])
def test_equal_results_of_increments_are_a_conflict_under_other_strategies(strategy: Strategy) -> None:
    space = forked({"n": 1})
    space.patch("main", X, increment("/n"))
    space.patch("draft", X, increment("/n"))
    plan = space.merge("draft", "main", strategy)
    assert len(plan.conflicts) == 1
    assert plan.writes == ()

    again = forked({"n": 1})
    again.patch("main", X, increment("/n"))
    again.patch("draft", X, increment("/n"))
    with pytest.raises(MergeConflict):
        again.merge("draft", "main", "fail")


@pytest.mark.rule("MERGE-3")
def test_increments_are_added_through_merges_in_both_directions() -> None:
    space = forked({"n": 0})
    total = 0
    for turn in range(1, 6):
        space.patch("main", X, increment("/n", turn))
        space.patch("draft", X, increment("/n", turn))
        total += 2 * turn
        space.merge("draft", "main", "fields")
        assert space.get("main") == {"n": total}
        space.merge("main", "draft", "fields")
        assert space.get("draft") == {"n": total}


@pytest.mark.rule("MERGE-3")
def test_a_number_set_before_and_merged_is_a_counter_since() -> None:
    """That `main` got the new number by a merge does not make it an assignment of its own."""
    space = forked({"n": 0})
    space.patch("draft", X, replace("/n", 5))
    space.merge("draft", "main")
    space.patch("draft", X, increment("/n"))
    space.patch("main", X, increment("/n"))
    space.merge("main", "draft", "fields")
    assert space.get("draft") == {"n": 7}


@pytest.mark.rule("MERGE-3")
def test_an_increment_against_an_assignment_is_a_conflict_on_that_leaf() -> None:
    space = forked({"n": 1})
    space.patch("main", X, increment("/n"))
    space.patch("draft", X, replace("/n", 9))
    assert summary(space.merge("draft", "main", "fields")) == [(X, "/n", "source")]
    assert space.get("main") == {"n": 9}


@pytest.mark.rule("MERGE-3")
def test_a_sum_that_no_number_can_hold_is_a_conflict_on_that_leaf() -> None:
    space = forked({"n": 2**62})
    space.patch("main", X, increment("/n", 2**61))
    space.patch("draft", X, increment("/n", 2**61 + 1))
    assert summary(space.merge("draft", "main", "fields")) == [(X, "/n", "source")]
    assert space.get("main") == {"n": 2**62 + 2**61 + 1}


@pytest.mark.rule("MERGE-3")
@pytest.mark.parametrize("then", [None, {"op": "add", "path": "/l/-", "value": 9}])
def test_equal_increments_in_an_array_are_a_conflict_of_the_array(then: dict[str, Value] | None) -> None:
    space = forked({"l": [1]})
    for name in ("main", "draft"):
        space.patch(name, X, increment("/l/0"), *([then] if then else []))
    with pytest.raises(MergeConflict):
        space.merge("draft", "main", "fail")
    assert summary(space.merge("draft", "main", "fields")) == [(X, "/l", "source")]


@pytest.mark.rule("MERGE-3")
def test_equal_arrays_that_were_written_whole_are_the_same_change() -> None:
    space = forked({"l": [1]})
    space.patch("main", X, increment("/l/0"), replace("/l", [5]))
    space.patch("draft", X, replace("/l", [5]))
    assert space.merge("draft", "main", "fail").conflicts == ()


@pytest.mark.rule("MERGE-3")
@pytest.mark.parametrize(("start", "one", "other", "total"), [(0.6, 0.1, 1.7, 2.4), (0.1, 0.2, 0.3, 0.6)])
def test_sums_of_floats_are_equal_in_both_directions(start: float, one: float, other: float, total: float) -> None:
    space = forked({"n": start})
    space.patch("main", X, increment("/n", one))
    at = space.patch("draft", X, increment("/n", other))
    space.merge("draft", "main", "fields", version=at)
    space.merge("main", "draft", "fields", version=at)
    assert space.get("main") == space.get("draft") == {"n": total}
    assert space.merge("draft", "main", "fail").conflicts == ()


@pytest.mark.rule("MERGE-3")
def test_a_sum_of_floats_that_no_number_can_hold_is_a_conflict_on_that_leaf() -> None:
    space = forked({"n": 1e308})
    space.patch("main", X, increment("/n", 7e307))
    space.patch("draft", X, increment("/n", 7e307))
    assert summary(space.merge("draft", "main", "fields")) == [(X, "/n", "source")]


@pytest.mark.rule("MERGE-3")
def test_after_a_side_lost_increments_to_a_conflict_new_ones_still_add_up() -> None:
    space = forked({"n": 0})
    space.patch("main", X, increment("/n"))
    space.patch("draft", X, increment("/n", 5))
    space.merge("draft", "main", "target")
    space.patch("main", X, increment("/n", 10))
    space.patch("draft", X, increment("/n", 20))
    space.merge("draft", "main", "fields")
    assert space.get("main") == {"n": 31}
    space.patch("draft", X, increment("/n", 40))
    space.merge("main", "draft", "fields")
    assert space.get("draft") == {"n": 71}
