"""Increments on branches that were merged crosswise, or that began on their own (MERGE-2, MERGE-3)."""

from __future__ import annotations

import pytest

from merge_builders import X, forked, increment, replace, summary
from merge_space import Space
from stemmadb.protocol.errors import MergeConflict


@pytest.mark.rule("MERGE-2", "MERGE-3")
def test_bases_that_agree_by_chance_do_not_make_an_increment_count_twice() -> None:
    space = forked({"n": 0}, "x", "y", "z")
    for name in "xyz":
        space.patch(name, X, increment("/n"))
    space.merge("z", "x", "fields")
    space.merge("z", "y", "fields")
    at = space.version
    space.fork("p", "x")
    space.fork("q", "y")
    space.merge("y", "p", "fields", version=at)
    space.merge("x", "q", "fields", version=at)
    assert space.get("p") == space.get("q") == {"n": 3}
    assert space.merge("p", "q", "fields").conflicts == ()
    assert space.get("q") == {"n": 3}


def seeded_twice() -> Space:
    """A counter that both branches began on their own, with the same number, and that has met since."""
    space = Space()
    space.fork("draft")
    space.set("main", X, {"n": 0})
    space.set("draft", X, {"n": 0})
    space.merge("draft", "main", "fail")
    space.merge("main", "draft", "fail")
    space.patch("main", X, increment("/n"))
    space.patch("draft", X, increment("/n"))
    return space


@pytest.mark.rule("MERGE-3")
def test_increments_of_a_number_assigned_equally_on_both_sides_are_not_lost() -> None:
    space = seeded_twice()
    assert summary(space.merge("draft", "main", "fields")) == [(X, "/n", "both")]
    assert space.get("main") == {"n": 2}
    space.patch("draft", X, increment("/n"))
    space.merge("main", "draft", "fields")
    assert space.get("draft") == {"n": 3}
    with pytest.raises(MergeConflict):
        seeded_twice().merge("draft", "main", "fail")
    assert len(seeded_twice().merge("draft", "main", "lww").conflicts) == 1


@pytest.mark.rule("MERGE-3")
def test_an_increment_and_an_assignment_of_equal_results_are_a_conflict() -> None:
    space = forked({"n": 1})
    space.patch("main", X, increment("/n"))
    space.patch("draft", X, replace("/n", 2))
    assert summary(space.merge("draft", "main", "fields")) == [(X, "/n", "source")]


@pytest.mark.rule("MERGE-2", "MERGE-3")
@pytest.mark.parametrize("by", [1, 5])
def test_increments_after_a_criss_cross_are_added_or_a_conflict(by: int) -> None:
    def crossed() -> Space:
        space = forked({"n": 0})
        space.patch("main", X, increment("/n", by))
        at = space.patch("draft", X, increment("/n"))
        space.merge("draft", "main", "fields", version=at)
        space.merge("main", "draft", "fields", version=at)
        space.patch("main", X, increment("/n"))
        space.patch("draft", X, increment("/n"))
        return space

    with pytest.raises(MergeConflict):
        crossed().merge("draft", "main", "fail")
    space = crossed()
    assert summary(space.merge("draft", "main", "fields")) == [(X, "/n", "both")]
    assert space.get("main") == {"n": by + 3}


@pytest.mark.rule("MERGE-2", "MERGE-3")
def test_a_criss_cross_of_other_entities_does_not_ask_for_the_history_of_a_counter() -> None:
    space = forked({"n": 0})
    space.set("main", "urn:y", "text")
    at = space.set("draft", "urn:z", "text")
    space.merge("draft", "main", version=at)
    space.merge("main", "draft", version=at)
    assert space.merge("draft", "main", "fail").writes == ()
    assert space.traces_made == 0
    space.patch("main", X, increment("/n"))
    space.patch("draft", X, increment("/n"))
    space.merge("draft", "main", "fields")
    assert space.get("main") == {"n": 2}
