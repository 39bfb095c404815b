"""Blame: the commit that last wrote each leaf (HISTORY-1)."""

from __future__ import annotations

import pytest

from merge_space import Space, make_fact
from stemmadb.protocol.model.history.blame import blame
from stemmadb.protocol.model.history.origins import WrittenLeaves
from stemmadb.protocol.model.log import branch_spans
from stemmadb.protocol.model.log.commit_record import Merge
from stemmadb.protocol.model.values.ids import BranchName, EntityId, Version
from stemmadb.protocol.model.values.json_values import Value
from stemmadb.protocol.model.values.limits import DEFAULTS

X = EntityId("urn:x")


def blamed(space: Space, on: str = "main") -> dict[str, Version | None]:
    spans = branch_spans.lineage(space.branches, BranchName(on), space.version)
    facts = [item for item in space.facts[X] if branch_spans.visible(spans, item.fact.branch, item.fact.version)]
    return blame(facts)


def add(path: str, value: Value) -> dict[str, Value]:
    return {"op": "add", "path": path, "value": value}


@pytest.mark.rule("HISTORY-1")
def test_each_leaf_names_the_commit_that_last_wrote_it() -> None:
    space = Space()
    space.set("main", X, {"a": 1, "o": {"x": 1, "y/z": 1}, "e": {}, "l": [1, 2]})
    space.patch("main", X, add("/o/x", 2))
    space.patch("main", X, add("/l/0", 0), add("/new", None))
    assert blamed(space) == {"/a": 1, "/o/x": 2, "/o/y~1z": 1, "/e": 1, "/l": 3, "/new": 3}


@pytest.mark.rule("HISTORY-1")
def test_a_set_writes_every_leaf_and_a_scalar_is_one() -> None:
    space = Space()
    space.set("main", X, {"a": 1})
    space.set("main", X, {"a": 1})
    assert blamed(space) == {"/a": 2}
    space.set("main", X, 7)
    assert blamed(space) == {"": 3}


@pytest.mark.rule("HISTORY-1")
def test_a_merge_is_blamed_for_what_it_changed_and_nothing_else() -> None:
    space = Space()
    space.set("main", X, {"a": 1, "b": 1, "o": {"x": 1, "y": 1}})
    space.fork("draft")
    made = space.patch("draft", X, add("/a", 2), add("/o/x", {"deep": 1}))
    edited = space.patch("main", X, add("/b", 2))
    space.merge("draft", "main", "fields")
    assert blamed(space) == {"/a": space.version, "/b": edited, "/o/x/deep": space.version, "/o/y": 1}
    assert blamed(space, "draft") == {"/a": made, "/b": 1, "/o/x/deep": made, "/o/y": 1}


@pytest.mark.rule("HISTORY-1")
def test_a_merge_that_says_set_is_blamed_for_what_differs() -> None:
    space = Space()
    more = [f"k{number}" for number in range(DEFAULTS.patch_operations_max + 1)]  # than one patch can change
    space.set("main", X, {"a": 1, "o": {"x": 1}, **dict.fromkeys(more, 0)})
    space.fork("draft")
    space.set("draft", X, {"a": 1, "o": {"x": 1}, **dict.fromkeys(more, 1)})
    assert space.merge("draft").writes[0].operation.op == "set"
    assert blamed(space) == {"/a": 1, "/o/x": 1, **{f"/{key}": space.version for key in more}}


@pytest.mark.rule("HISTORY-1")
def test_a_merge_that_changed_nothing_is_blamed_for_nothing() -> None:
    details = Merge(source=BranchName("draft"), source_version=Version(1), target_version=Version(1))
    assert blame(
        [WrittenLeaves(make_fact(1, "set", {"a": 1})), WrittenLeaves(make_fact(2, "set", {"a": 1}), details)]
    ) == {"/a": 1}


@pytest.mark.rule("HISTORY-1")
def test_an_object_that_lost_its_last_field_was_last_written_then() -> None:
    space = Space()
    space.set("main", X, {"o": {"x": 1}})
    space.patch("main", X, {"op": "remove", "path": "/o/x"})
    assert blamed(space) == {"/o": 2}


@pytest.mark.rule("HISTORY-1")
def test_nothing_is_blamed_for_what_is_deleted_or_erased() -> None:
    assert blame([]) == {}
    assert blame([WrittenLeaves(make_fact(1, "set", 1)), WrittenLeaves(make_fact(2, "delete"))]) == {}
    assert blame([WrittenLeaves(make_fact(1, "set", gone=True))]) == {}
