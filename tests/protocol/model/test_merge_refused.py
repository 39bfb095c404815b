"""Merges that are refused: what cannot be asked for, and `fail` (MERGE-3)."""

from __future__ import annotations

import pytest

from merge_space import Space
from stemmadb.protocol.errors import FutureVersion, InvalidMerge, MergeConflict, UnknownBranch
from stemmadb.protocol.model.values.ids import EntityId
from stemmadb.protocol.model.values.json_values import Value

X = EntityId("urn:x")


def forked(value: Value, *names: str) -> Space:
    space = Space()
    space.set("main", X, value)
    for name in names or ("draft",):
        space.fork(name)
    return space


@pytest.mark.rule("MERGE-1", "MERGE-3")
def test_a_merge_that_cannot_be_asked_for_is_refused() -> None:
    space = forked(0)
    with pytest.raises(InvalidMerge, match="itself"):
        space.merge("main", "main")
    with pytest.raises(UnknownBranch):
        space.merge("nowhere", "main")
    with pytest.raises(UnknownBranch):
        space.merge("main", "nowhere")
    with pytest.raises(FutureVersion):
        space.merge("draft", "main", version=99)
    with pytest.raises(InvalidMerge, match="no strategy 'newest'"):
        space.merge("draft", "main", "newest")  # type: ignore[arg-type]
    with pytest.raises(InvalidMerge, match="no strategy 'list'"):
        space.merge("draft", "main", [])  # type: ignore[arg-type]


@pytest.mark.rule("MERGE-3")
def test_a_resolution_of_what_is_not_in_conflict_is_refused() -> None:
    space = forked(0)
    space.set("draft", X, 1)
    for id_ in (X, EntityId("urn:unknown")):
        with pytest.raises(InvalidMerge, match=id_):
            space.merge("draft", "main", resolutions={id_: 1})
    assert space.get("main") == 0


@pytest.mark.rule("MERGE-3")
def test_fail_writes_nothing_and_names_every_conflict() -> None:
    space = forked(0)
    for id_ in ("urn:a", "urn:b"):
        space.set("main", id_, 1)
        space.set("draft", id_, 2)
    before = space.version
    with pytest.raises(MergeConflict) as failed:
        space.merge("draft", "main", "fail", {EntityId("urn:a"): 3})
    assert [conflict.id for conflict in failed.value.facts["conflicts"]] == ["urn:b"]
    assert failed.value.facts["count"] == 1
    assert space.version == before
