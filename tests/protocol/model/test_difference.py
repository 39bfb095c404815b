"""Where two states differ, per entity and per path (HISTORY-1)."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from merge_space import Space
from stemmadb.protocol.model.history import difference
from stemmadb.protocol.model.history.difference import Content, PathChange, same
from stemmadb.protocol.model.log.state import Missing
from stemmadb.protocol.model.values import pointer
from stemmadb.protocol.model.values.ids import EntityId

ABSENT, ERASED = Missing.ABSENT, Missing.ERASED
leaf = st.none() | st.booleans() | st.integers(0, 1) | st.sampled_from(["", "a"])
values = st.recursive(
    leaf,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "/", "~", "0"]), inner, max_size=3)
    ),
    max_leaves=8,
)
contents = values | st.sampled_from([ABSENT, ERASED])


def put(root: Any, change: PathChange) -> Any:
    """The new value with a change made, by hand."""
    tokens = pointer.parse(change.path)
    if not tokens:
        return change.new
    place = root
    for token in tokens[:-1]:
        place = place[int(token) if isinstance(place, list) else token]
    last = int(tokens[-1]) if isinstance(place, list) else tokens[-1]
    if change.new is ABSENT:
        del place[last]
    else:
        place[last] = change.new
    return root


@pytest.mark.rule("HISTORY-1")
@settings(derandomize=True, deadline=None, max_examples=150)
@given(contents, contents)
def test_making_the_changes_leads_from_one_state_to_the_other(old: Content, new: Content) -> None:
    changed: Any = deepcopy(old)
    changes = difference.entity(old, new)
    for change in changes:
        changed = put(changed, change)
    assert same(changed, new)
    assert all(not same(change.old, change.new) for change in changes)
    assert (changes == []) == same(old, new)
    backwards = difference.entity(new, old)
    assert {(change.path, repr(change.new)) for change in backwards} == {
        (change.path, repr(change.old)) for change in changes
    }


@pytest.mark.rule("HISTORY-1")
def test_each_place_is_added_removed_or_changed() -> None:
    found = difference.entity({"a": 1, "b": {"c": 1, "d": 1}}, {"b": {"c": 2, "d": 1}, "e": {"f": 1}})
    assert found == [
        PathChange("/a", "removed", 1, ABSENT),
        PathChange("/b/c", "changed", 1, 2),
        PathChange("/e", "added", ABSENT, {"f": 1}),
    ]


@pytest.mark.rule("HISTORY-1")
def test_arrays_of_equal_length_are_compared_element_by_element_and_others_whole() -> None:
    assert difference.entity({"l": [1, {"a": 1}]}, {"l": [1, {"a": 2}]}) == [PathChange("/l/1/a", "changed", 1, 2)]
    assert difference.entity([1], [1, 2]) == [PathChange("", "changed", [1], [1, 2])]


@pytest.mark.rule("HISTORY-1")
def test_a_bool_is_not_a_number_and_one_is_one_point_zero() -> None:
    assert difference.entity({"a": True}, {"a": 1}) == [PathChange("/a", "changed", True, 1)]
    assert difference.entity({"a": 1}, {"a": 1.0}) == []


@pytest.mark.rule("HISTORY-1")
def test_states_differ_per_entity() -> None:
    p, q, r, s = (EntityId(f"urn:{name}") for name in "pqrs")
    found = difference.states({s: 1, q: {"a": 1}, p: 0}, {r: 2, q: {"a": 1}, p: ERASED})
    assert list(found) == [p, r, s]
    assert found[p] == [PathChange("", "changed", 0, ERASED)]
    assert [found[id_][0].kind for id_ in (r, s)] == ["added", "removed"]


@pytest.mark.rule("HISTORY-1", "MERGE-4")
def test_the_difference_to_a_plan_is_what_the_merge_changes() -> None:
    space = Space()
    space.set("main", "urn:x", {"a": 1, "b": 1})
    space.fork("draft")
    space.patch("draft", "urn:x", {"op": "replace", "path": "/a", "value": 2})
    space.set("draft", "urn:y", 1)
    planned = space.merge("draft", dry_run=True)
    before = {write.id: space.get("main", write.id) for write in planned.writes}
    predicted = difference.states(before, {write.id: write.content for write in planned.writes})
    space.merge("draft")
    assert predicted == difference.states(before, {id_: space.get("main", id_) for id_ in before})
    assert [(id_, change.path, change.kind) for id_, changes in predicted.items() for change in changes] == [
        ("urn:x", "/a", "changed"),
        ("urn:y", "", "added"),
    ]
