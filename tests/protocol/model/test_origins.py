"""Origins, leaf by leaf, through commits, merges, resolutions and gone bodies (MERGE-3)."""

from __future__ import annotations

import pytest

from merge_space import ABSENT, Space, make_fact
from stemmadb.protocol.errors import UnknownBranch
from stemmadb.protocol.model.history import stamps
from stemmadb.protocol.model.history.origins import (
    NEVER_WRITTEN,
    OriginTrace,
    Traced,
    WrittenLeaves,
    follow,
    inherited,
)
from stemmadb.protocol.model.history.stamps import Stamp
from stemmadb.protocol.model.log.ancestry import BranchPoint
from stemmadb.protocol.model.log.commit_record import Compact, Merge, Revert
from stemmadb.protocol.model.log.state import BranchState, Missing
from stemmadb.protocol.model.values.ids import MAIN, BranchName, EntityId, Version
from stemmadb.protocol.model.values.json_values import Value

X = EntityId("urn:x")


def origins(space: Space, on: str = "main") -> dict[str, int]:
    traced = space.trace().at(BranchPoint(BranchName(on), space.version))
    assert not isinstance(traced.content, Missing)
    return dict(stamps.leaves(traced.content, traced.stamp))


def add(path: str, value: Value) -> dict[str, Value]:
    return {"op": "add", "path": path, "value": value}


@pytest.mark.rule("MERGE-3")
def test_a_commit_originates_at_its_own_version() -> None:
    space = Space()
    space.set("main", X, {"a": 1, "o": {"x": 1, "y": 1}, "l": [1, {"z": 1}]})
    space.patch("main", X, add("/o/x", 2))
    space.patch("main", X, add("/l/1/z", 2))
    assert origins(space) == {"/a": 1, "/o/x": 2, "/o/y": 1, "/l": 3}
    space.set("main", X, {"a": 1})
    assert origins(space) == {"/a": 4}


@pytest.mark.rule("MERGE-3")
@pytest.mark.parametrize(
    ("operation", "expected"),
    [
        (add("/new", 0), {"/a": 1, "/o/x": 1, "/l": 1, "/n": 1, "/new": 2}),
        (add("/o", {"x": 1}), {"/a": 1, "/o/x": 2, "/l": 1, "/n": 1}),
        (add("", {"a": 1}), {"/a": 2}),
        ({"op": "replace", "path": "/a", "value": 1}, {"/a": 2, "/o/x": 1, "/l": 1, "/n": 1}),
        ({"op": "remove", "path": "/o/x"}, {"/a": 1, "/o": 2, "/l": 1, "/n": 1}),
        ({"op": "move", "from": "/a", "path": "/b"}, {"/b": 2, "/o/x": 1, "/l": 1, "/n": 1}),
        ({"op": "move", "from": "/a", "path": "/a"}, {"/a": 1, "/o/x": 1, "/l": 1, "/n": 1}),
        ({"op": "move", "from": "/l/0", "path": "/a"}, {"/a": 2, "/o/x": 1, "/l": 2, "/n": 1}),
        ({"op": "copy", "from": "/o", "path": "/p"}, {"/a": 1, "/o/x": 1, "/l": 1, "/n": 1, "/p/x": 2}),
        ({"op": "test", "path": "/a", "value": 1}, {"/a": 1, "/o/x": 1, "/l": 1, "/n": 1}),
        ({"op": "increment", "path": "/n", "by": 1}, {"/a": 1, "/o/x": 1, "/l": 1, "/n": 2}),
        ({"op": "increment", "path": "/l/0", "by": 1}, {"/a": 1, "/o/x": 1, "/l": 2, "/n": 1}),
        ({"op": "splice", "path": "/l", "index": 0, "remove": 1, "add": []}, {"/a": 1, "/o/x": 1, "/l": 2, "/n": 1}),
    ],
)
def test_each_operation_writes_what_it_names(operation: dict[str, Value], expected: dict[str, int]) -> None:
    space = Space()
    space.set("main", X, {"a": 1, "o": {"x": 1}, "l": [1], "n": 1})
    space.patch("main", X, operation)
    assert origins(space) == expected


@pytest.mark.rule("MERGE-3")
def test_an_increment_is_a_write_and_not_an_assignment() -> None:
    value: Value = {"n": 1, "l": [1]}
    by_one: list[dict[str, Value]] = [{"op": "increment", "path": path, "by": 1} for path in ("/n", "/l/0")]
    _, stamp = stamps.patched(value, stamps.whole(Version(1)), by_one, Version(2))
    number, array = stamps.at(stamp, ["n"]), stamps.at(stamp, ["l"])
    assert (number.version, number.assigned, stamps.increments(number.count)) == (2, 1, {2: 1})
    assert (array.version, array.assigned, stamps.increments(array.count)) == (2, 2, {2: 0})


@pytest.mark.rule("MERGE-3")
def test_what_a_merge_wrote_keeps_the_origin_it_had() -> None:
    space = Space()
    space.set("main", X, {"a": 1, "b": 1, "c": 1})
    space.fork("draft")
    made = space.patch("draft", X, add("/a", 2))
    space.patch("main", X, add("/b", 2))
    space.merge("draft", "main", "fields")
    assert origins(space) == {"/a": made, "/b": made + 1, "/c": 1}


@pytest.mark.rule("MERGE-3")
def test_origins_survive_many_merges() -> None:
    space = Space()
    space.set("main", X, {"a": 1})
    for index in range(1, 6):
        space.fork(f"b{index}")
    made = space.patch("b1", X, add("/a", 2))
    for index in range(2, 6):
        space.merge(f"b{index - 1}", f"b{index}")
    space.merge("b5", "main")
    assert origins(space) == {"/a": made}


@pytest.mark.rule("MERGE-3")
def test_a_deletion_has_an_origin_and_keeps_it_through_a_merge() -> None:
    space = Space()
    space.set("main", X, {"a": 1})
    space.fork("draft")
    made = space.delete("draft", X)
    space.merge("draft")
    traced = space.trace().at(BranchPoint(MAIN, space.version))
    assert (traced.content, traced.stamp) == (ABSENT, stamps.whole(Version(made)))
    assert traced.version == space.version


@pytest.mark.rule("MERGE-3")
def test_a_removed_field_has_an_origin_and_keeps_it_through_a_merge() -> None:
    space = Space()
    space.set("main", X, {"a": 1, "b": 1})
    space.fork("draft")
    made = space.patch("draft", X, {"op": "remove", "path": "/a"})
    space.patch("main", X, add("/b", 2))
    space.merge("draft", "main", "fields")
    assert stamps.at(space.trace().at(BranchPoint(MAIN, space.version)).stamp, ["a"]).version == made


@pytest.mark.rule("MERGE-3")
def test_a_sum_originates_at_the_later_increment() -> None:
    space = Space()
    space.set("main", X, {"n": 1})
    space.fork("draft")
    space.patch("draft", X, {"op": "increment", "path": "/n", "by": 1})
    later = space.patch("main", X, {"op": "increment", "path": "/n", "by": 1})
    space.merge("draft", "main", "fields")
    assert origins(space) == {"/n": later}
    assert stamps.at(space.trace().at(BranchPoint(MAIN, space.version)).stamp, ["n"]).assigned == 1


@pytest.mark.rule("MERGE-3")
def test_a_resolution_and_a_revert_originate_at_their_own_version() -> None:
    space = Space()
    space.set("main", X, {"a": 1, "b": 1})
    space.fork("draft")
    space.patch("draft", X, add("/a", 2))
    space.patch("main", X, add("/a", 3))
    space.merge("draft", "main", resolutions={X: {"a": 2, "b": 1}})
    assert origins(space) == {"/a": space.version, "/b": space.version}
    undone = WrittenLeaves(make_fact(9, "patch", [add("/a", 1)]), Revert(versions=(Version(3),)))
    state = follow(space.trace().at(BranchPoint(MAIN, space.version)), undone, lambda *_: pytest.fail("not a merge"))
    assert stamps.at(state.stamp, ["a"]).version == 9


def not_a_merge(*_: object) -> Stamp:
    raise AssertionError


def followed(*facts: WrittenLeaves) -> Traced:
    state = NEVER_WRITTEN
    for written in facts:
        state = follow(state, written, not_a_merge)
    return state


@pytest.mark.rule("MERGE-3")
def test_a_fact_whose_body_is_gone_has_written_everything() -> None:
    start = WrittenLeaves(make_fact(1, "set", {"a": 1}))
    state = followed(start, WrittenLeaves(make_fact(2, "patch", gone=True)))
    assert (state.content, state.stamp) == (Missing.ERASED, stamps.whole(Version(2)))
    state = followed(
        start, WrittenLeaves(make_fact(2, "set", gone=True)), WrittenLeaves(make_fact(3, "patch", [add("/a", 1)]))
    )
    assert (state.content, state.stamp) == (Missing.ERASED, stamps.whole(Version(3)))
    merged = Merge(source=MAIN, source_version=Version(1), target_version=Version(1))
    state = followed(start, WrittenLeaves(make_fact(2, "patch", gone=True), merged))
    assert state.stamp == stamps.whole(Version(2))


@pytest.mark.rule("MERGE-3")
def test_a_checkpoint_changes_no_origin() -> None:
    patched = followed(
        WrittenLeaves(make_fact(1, "set", {"a": 1})), WrittenLeaves(make_fact(2, "patch", [add("/b", 1)]))
    )
    state = follow(
        patched, WrittenLeaves(make_fact(3, "checkpoint", {"a": 1, "b": 1}), Compact(floor=Version(3))), not_a_merge
    )
    assert (state.content, state.stamp, state.version) == (patched.content, patched.stamp, 2)


@pytest.mark.rule("MERGE-3")
def test_a_point_sees_the_entity_of_its_lineage_only() -> None:
    space = Space()
    at = [space.set("main", X, 1), space.fork("draft"), space.set("main", X, 2)]
    trace = space.trace()
    assert trace.at(BranchPoint(BranchName("draft"), Version(9))).content == 1
    assert trace.at(BranchPoint(MAIN, Version(at[2]))).content == 2
    assert trace.at(BranchPoint(MAIN, Version(at[1]))).content == 1
    assert trace.at(BranchPoint(MAIN, Version(0))) == NEVER_WRITTEN
    with pytest.raises(UnknownBranch):
        trace.at(BranchPoint(BranchName("nowhere"), Version(1)))


@pytest.mark.rule("MERGE-3")
def test_thousands_of_merges_of_one_entity_are_followed_without_recursion() -> None:
    draft = BranchName("draft")
    branches = {MAIN: BranchState(name=MAIN), draft: BranchState(name=draft, parent=MAIN, fork=Version(1), depth=2)}
    facts = [WrittenLeaves(make_fact(1, "set", {"v": 0}))]
    for index in range(5_000):
        target, source = (MAIN, draft) if index % 2 else (draft, MAIN)
        made, merged = Version(2 * index + 2), Version(2 * index + 3)
        facts.append(WrittenLeaves(make_fact(made, "patch", [add("/v", index)], on=source)))
        details = Merge(source=source, source_version=made, target_version=made)
        facts.append(WrittenLeaves(make_fact(merged, "patch", [add("/v", index)], on=target), details))
    traced = OriginTrace(branches, facts).at(BranchPoint(MAIN, Version(20_000)))
    assert dict(stamps.leaves({"v": 0}, traced.stamp)) == {"/v": 10_000}


@pytest.mark.rule("MERGE-3")
def test_an_object_taken_whole_brings_all_its_origins() -> None:
    theirs = stamps.put(stamps.whole(Version(3)), ["o", "x"], stamps.whole(Version(5)))
    other: Value = {"o": {"x": 1, "y": 2}}
    found = inherited({"o": 7}, other, stamps.whole(Version(1)), other, theirs, Version(9))
    assert dict(stamps.leaves(other, found)) == {"/o/x": 5, "/o/y": 3}


@pytest.mark.rule("MERGE-3")
def test_what_a_merge_left_alone_keeps_the_targets_origins() -> None:
    value: Value = {"a": 1, "o": {"x": 1}}
    mine, theirs = stamps.whole(Version(1)), stamps.whole(Version(3))
    assert inherited(value, value, mine, value, theirs, Version(9)) == mine
    changed: Value = {"a": 2, "o": {"x": 1}}
    assert dict(stamps.leaves(changed, inherited(value, changed, mine, changed, theirs, Version(9)))) == {
        "/a": 3,
        "/o/x": 1,
    }
