"""Writing in a draft: what each write comes to, what it claims, and what is refused where the app stands."""

from __future__ import annotations

import datetime
import enum
from collections.abc import Callable
from typing import Any

import pytest

from drafts import PlainView, held, name
from stemmadb.client.drafting import TransactionDraft
from stemmadb.client.nursery.plans import CommitPlan, CommitWrite
from stemmadb.protocol.errors import (
    AlreadyExists,
    InvalidId,
    InvalidPointer,
    InvalidValue,
    LimitExceeded,
    NotFound,
    PatchFailed,
)
from stemmadb.protocol.model import patch
from stemmadb.protocol.model.values import body
from stemmadb.protocol.model.values.body import encode
from stemmadb.protocol.model.values.ids import MAIN, EntityId
from stemmadb.protocol.model.values.limits import DEFAULTS, Limits

ONE, TWO = EntityId("urn:a:1"), EntityId("urn:a:2")


def draft(value: Any = None, **limits: int) -> TransactionDraft:
    """A draft over a view in which everything is known, and only the first entity is there, if it has a value."""
    confirmed = {} if value is None else {str(ONE): held(value)}
    return TransactionDraft(PlainView(covered=("urn:",), confirmed=confirmed), limits=Limits(**limits))


def replace(path: str, value: Any) -> dict[str, Any]:
    return {"op": "replace", "path": path, "value": value}


def kinds(made: TransactionDraft) -> list[tuple[str, object, bool]]:
    return [(write.op, write.value, write.blind) for write in made.plan().writes]


def paths(made: TransactionDraft) -> list[str]:
    """The paths of the first entity that are declared."""
    return [one.path for one in made.plan().reads if one.id == ONE]


def test_a_draft_that_did_nothing_writes_nothing() -> None:
    assert draft().plan() == CommitPlan(branch=MAIN, writes=())


@pytest.mark.rule("COMMIT-3")
def test_a_set_claims_that_the_entity_is_as_it_was() -> None:
    made = draft({"a": 1})
    made.set(ONE, {"b": 2})
    assert made.plan().writes == (CommitWrite("set", ONE, encode({"b": 2}), {"b": 2}, None),)
    assert paths(made) == [""]


@pytest.mark.rule("COMMIT-6")
def test_the_writes_of_a_draft_keep_their_order() -> None:
    made = draft({"n": 1})
    made.increment(ONE, "/n")
    made.set(TWO, 2)
    made.delete(ONE)
    assert [(write.op, write.id) for write in made.plan().writes] == [("patch", ONE), ("set", TWO), ("delete", ONE)]


@pytest.mark.rule("COMMIT-3")
def test_what_is_blind_claims_nothing() -> None:
    made = draft({"n": 1, "a": 1})
    made.patch(ONE, [{"op": "test", "path": "/n", "value": 1}, replace("/a", 2)], blind=True)
    made.increment(ONE, "/n", blind=True)
    made.delete(ONE, blind=True)
    made.set(ONE, 1, blind=True)
    assert all(write.blind for write in made.plan().writes)
    assert paths(made) == []


def test_what_the_app_changes_later_changes_nothing_here() -> None:
    value: dict[str, Any] = {"list": [1]}
    operation: dict[str, Any] = {"op": "add", "path": "/x", "value": [1]}
    note: dict[str, Any] = {"message": "m"}
    made = TransactionDraft(PlainView(covered=("urn:",)), limits=DEFAULTS, note=note)
    made.set(ONE, value)
    made.patch(ONE, [operation])
    made.create(TWO, value)
    value["list"].append(2)
    operation["value"].append(2)
    note["message"] = "other"
    assert made.get(ONE) == {"list": [1], "x": [1]}
    plan = made.plan()
    assert [write.value for write in plan.writes] == [
        {"list": [1]},
        [{"op": "add", "path": "/x", "value": [1]}],
        {"list": [1]},
    ]
    assert plan.note == encode({"message": "m"})


@pytest.mark.rule("PATCH-2")
def test_patches_never_change_the_value_that_an_earlier_write_brought() -> None:
    made = draft()
    made.set(ONE, {"list": [1]})
    made.patch(ONE, [{"op": "add", "path": "/list/-", "value": 2}])
    made.patch(ONE, [{"op": "add", "path": "/list/-", "value": 3}])
    assert made.get(ONE) == {"list": [1, 2, 3]}
    assert made.plan().writes[0].value == {"list": [1]}


@pytest.mark.parametrize("write", ["set", "create", "patch", "update", "increment", "delete"])
def test_ids_are_checked_at_once(write: str) -> None:
    arguments: dict[str, tuple[Any, ...]] = {"patch": ([],), "delete": (), "increment": ("/n",)}
    with pytest.raises(InvalidId):
        getattr(draft(), write)("1", *arguments.get(write, (1,)))


# ---------------------------------------------------------------- values


class Color(enum.IntEnum):
    RED = 1


RING: list[Any] = []
RING.append(RING)


@pytest.mark.rule("MODEL-3")
@pytest.mark.parametrize(
    ("value", "path"),
    [
        ({"a": (1, 2)}, "/a"),
        ({"a": [datetime.date(2024, 1, 1)]}, "/a/0"),
        ({"a": b"bytes"}, "/a"),
        ({"a": {1: 2}}, "/a"),
        ({"a": {None: 2}}, "/a"),
        ({"a": {1, 2}}, "/a"),
        ({"a": object()}, "/a"),
        ({"a": float("nan")}, "/a"),
        ({"a": 2**63}, "/a"),
        ({"a": 2**70}, "/a"),
        ({"a": "\ud800"}, "/a"),
        (RING, "/0" * DEFAULTS.depth_max),
    ],
    ids=range(12),
)
def test_what_is_not_json_is_refused_with_its_path(value: Any, path: str) -> None:
    made = draft({"a": 1})
    for write in (made.set, made.update):
        with pytest.raises(InvalidValue) as refused:
            write(ONE, value)
        assert refused.value.facts["path"] == path
    with pytest.raises(InvalidValue):
        made.create(TWO, value)
    with pytest.raises(InvalidValue) as refused:
        made.patch(ONE, [replace("/a", value)])
    assert refused.value.facts["path"].startswith("/0/value")
    with pytest.raises(InvalidValue):
        TransactionDraft(PlainView(), limits=DEFAULTS, note=value)
    assert made.plan().writes == ()


def test_a_value_that_only_claims_to_be_equal_to_json_is_refused() -> None:
    class Sly(list[int]):
        __hash__ = None

        def __ne__(self, other: object) -> bool:
            return True

    with pytest.raises(InvalidValue):
        draft().set(ONE, Sly())


def test_plain_values_of_a_narrower_type_are_taken_for_what_they_are() -> None:
    made = draft()
    made.set(ONE, {"color": Color.RED})
    value = made.get(ONE)
    assert value == {"color": 1}
    assert isinstance(value, dict)
    assert type(value["color"]) is int


def test_a_large_and_a_deep_value_are_refused_at_once() -> None:
    made = draft(value_bytes_max=100, depth_max=8)
    with pytest.raises(LimitExceeded, match="value_bytes_max allows at most 100"):
        made.set(ONE, "x" * 100)
    with pytest.raises(InvalidValue, match="nested deeper than 8"):
        made.set(ONE, [[[[[[[[[1]]]]]]]]])
    made.set(ONE, [[[[[[[[1]]]]]]]])
    made.set(ONE, "x" * 98)


def test_a_note_is_any_value_within_its_bound() -> None:
    view = PlainView()
    assert TransactionDraft(view, limits=DEFAULTS, note="why").plan().note == encode("why")
    assert TransactionDraft(view, limits=DEFAULTS).plan().note is None
    with pytest.raises(LimitExceeded, match="note_bytes_max allows at most 10"):
        TransactionDraft(view, limits=Limits(note_bytes_max=10), note="x" * 10)
    with pytest.raises(InvalidValue, match="nested deeper than 1"):
        TransactionDraft(view, limits=Limits(depth_max=1), note=[[1]])


def test_operations_are_bounded() -> None:
    made = draft({"n": 1}, operations_max=2)
    made.set(TWO, 1)
    made.update(ONE, {"n": 1})
    made.increment(ONE, "/n")
    with pytest.raises(LimitExceeded, match="operations_max allows at most 2, and this has 3"):
        made.delete(ONE)
    assert len(made.plan().writes) == 2


# ---------------------------------------------------------------- create and delete


@pytest.mark.rule("COMMIT-3")
def test_create_is_a_set_that_claims_that_nothing_is_there() -> None:
    made = draft()
    made.create(ONE, 1)
    assert kinds(made) == [("set", 1, False)]
    assert paths(made) == [""]


@pytest.mark.rule("COMMIT-2")
def test_create_of_what_is_there_is_refused_and_whoever_goes_on_relies_on_that() -> None:
    made = draft({"a": 1})
    with pytest.raises(AlreadyExists, match="'urn:a:1' already exists on branch 'main'"):
        made.create(ONE, 1)
    assert kinds(made) == []
    assert paths(made) == [""]


def test_create_sees_what_the_draft_did() -> None:
    made = draft({"a": 1})
    made.delete(ONE)
    made.create(ONE, 2)
    with pytest.raises(AlreadyExists):
        made.create(ONE, 3)
    assert made.get(ONE) == 2


@pytest.mark.rule("COMMIT-3")
@pytest.mark.parametrize("blind", [False, True])
def test_delete_of_what_is_not_there_is_refused(blind: bool) -> None:
    made = draft()
    with pytest.raises(NotFound, match="'urn:a:1' does not exist on branch 'main'"):
        made.delete(ONE, blind=blind)
    assert kinds(made) == []
    assert paths(made) == ([] if blind else [""])


def test_after_a_delete_only_a_whole_value_can_be_written() -> None:
    made = draft({"n": 1})
    made.delete(ONE)
    attempts: tuple[Callable[[], None], ...] = (
        lambda: made.delete(ONE),
        lambda: made.patch(ONE, [replace("/n", 1)]),
        lambda: made.patch(ONE, [replace("", 1)], blind=True),
        lambda: made.increment(ONE, "/n"),
        lambda: made.update(ONE, 1),
    )
    for attempt in attempts:
        with pytest.raises(NotFound):
            attempt()
    made.set(ONE, {"n": 5})
    made.increment(ONE, "/n")
    assert made.get(ONE) == {"n": 6}
    assert paths(made) == [""]


# ---------------------------------------------------------------- patches


@pytest.mark.rule("COMMIT-3", "PATCH-4")
def test_a_patch_declares_the_paths_that_it_writes_and_reads_but_not_what_is_only_incremented() -> None:
    made = draft({"a": 1, "n": 1, "m": 1, "list": [1], "t": 1, "from": 1})
    made.patch(
        ONE,
        [
            replace("/a", 2),
            {"op": "increment", "path": "/n", "by": 1},
            {"op": "increment", "path": "/m", "by": 1},
            {"op": "add", "path": "/list/0", "value": 0},
            {"op": "test", "path": "/t", "value": 1},
            {"op": "copy", "from": "/from", "path": "/to"},
            replace("/m", 0),
        ],
    )
    assert sorted(paths(made)) == ["/a", "/from", "/list", "/m", "/t", "/to"]
    assert made.plan().writes[0].paths == ("/a", "/n", "/m", "/list", "/to")


@pytest.mark.rule("COMMIT-3")
def test_a_patch_that_follows_a_whole_write_needs_no_read() -> None:
    made = draft()
    made.set(ONE, {"a": 1}, blind=True)
    made.patch(ONE, [replace("/a", 2)])
    assert paths(made) == []
    assert made.get(ONE) == {"a": 2}


@pytest.mark.rule("COMMIT-4")
def test_a_patch_on_top_of_pending_commits_names_those_it_overlaps() -> None:
    pending = [CommitWrite("patch", ONE, b"", [replace(path, 2)], (path,)) for path in ("/a", "/b")]
    view = PlainView(
        confirmed={ONE: held({"a": 1, "b": 1})}, pending=[(name(3), pending[:1]), (name(4), pending[1:])]
    )
    made = TransactionDraft(view, limits=DEFAULTS)
    made.patch(ONE, [replace("/b", 3)])
    assert [(one.path, tuple(one.through)) for one in made.plan().reads] == [("/b", (name(4),))]


def test_a_patch_of_many_paths_declares_the_whole_entity() -> None:
    value = {f"k{index}": 0 for index in range(33)}
    few, many = draft(value), draft(value)
    few.patch(ONE, [replace(f"/k{index}", 1) for index in range(32)])
    many.patch(ONE, [replace(f"/k{index}", 1) for index in range(33)])
    assert len(paths(few)) == 32
    assert paths(many) == [""]


@pytest.mark.rule("PATCH-1")
def test_a_patch_that_cannot_be_applied_is_refused_and_leaves_nothing() -> None:
    made = draft({"a": 1})
    with pytest.raises(PatchFailed, match="Patch operation 1 cannot be applied: there is nothing at '/b'"):
        made.patch(ONE, [replace("/a", 2), replace("/b", 2)])
    assert made.get(ONE) == {"a": 1}
    assert kinds(made) == []


@pytest.mark.rule("COMMIT-2")
def test_whoever_goes_on_after_a_refused_patch_relies_on_what_it_told() -> None:
    for refused, relied in [
        ([replace("/b", 2)], ["/b"]),
        ([{"op": "test", "path": "/a", "value": 2}], ["/a"]),
        ([{"op": "increment", "path": "/text", "by": 1}], ["/text"]),
    ]:
        made = draft({"a": 1, "text": ""})
        with pytest.raises(PatchFailed):
            made.patch(ONE, refused)
        assert paths(made) == relied
        made = draft({"a": 1, "text": ""})
        with pytest.raises(PatchFailed):
            made.patch(ONE, refused, blind=True)
        assert paths(made) == []


@pytest.mark.parametrize(
    "operations",
    [[{"op": "replace", "path": "a", "value": 1}], [{"op": "jump", "path": "/a"}], [{"op": "remove"}]],
)
def test_the_shape_of_a_patch_is_checked_at_once_also_where_nothing_is_known(operations: Any) -> None:
    made = TransactionDraft(PlainView(), limits=DEFAULTS)
    with pytest.raises(PatchFailed):
        made.patch(ONE, operations)
    assert made.missing() == frozenset()


@pytest.mark.parametrize("operations", ["text", {"op": "remove"}, [1], None, 5])
def test_a_patch_is_a_list_of_objects(operations: Any) -> None:
    with pytest.raises(InvalidValue, match="a patch is a list of operations"):
        draft({"a": 1}).patch(ONE, operations)


def test_a_patch_can_be_given_as_a_tuple() -> None:
    made = draft({"a": 1})
    made.patch(ONE, (replace("/a", 2),))
    assert kinds(made) == [("patch", [replace("/a", 2)], False)]


def test_a_patch_without_operations_writes_nothing() -> None:
    made = draft({"a": 1})
    made.patch(ONE, [])
    assert made.plan() == CommitPlan(branch=MAIN, writes=())


def test_the_bounds_of_a_patch() -> None:
    made = draft({"a": "", "b": ""}, patch_operations_max=2, value_bytes_max=100, depth_max=8)
    with pytest.raises(LimitExceeded, match="patch_operations_max allows at most 2, and this has 3"):
        made.patch(ONE, [replace("/a", 1)] * 3)
    with pytest.raises(LimitExceeded, match="value_bytes_max"):
        made.patch(ONE, [replace("/a", "x" * 100)])
    with pytest.raises(LimitExceeded, match="depth_max"):
        made.patch(ONE, [replace("/a" * 10, 1)])
    with pytest.raises(LimitExceeded, match="depth_max"):
        made.patch(ONE, [{"op": "test", "path": "/a" * 10, "value": 1}])
    with pytest.raises(LimitExceeded, match="depth_max"):
        made.patch(ONE, [replace("/a", [[[[[[[[[]]]]]]]]])])
    made.patch(ONE, [replace("/a", "x" * 60)])
    with pytest.raises(LimitExceeded, match="value_bytes_max allows at most 100"):  # of the value, not of the patch
        made.patch(ONE, [replace("/b", "x" * 60)])
    assert len(made.plan().writes) == 1


def test_the_work_of_a_commit_is_bounded_and_a_patch_that_fails_costs_nothing() -> None:
    text = "x" * 40_000
    made = draft({"a": text, "n": 1}, value_bytes_max=50_000)
    for _ in range(60):
        with pytest.raises(PatchFailed):
            made.patch(ONE, [replace("/a", text), replace("/none", 1)])
    for _ in range(6):
        made.patch(ONE, [replace("/a", text)])
    with pytest.raises(LimitExceeded, match="patch_work_bytes_max"):
        made.patch(ONE, [replace("/a", text)])
    assert len(made.plan().writes) == 6


# ---------------------------------------------------------------- increments


@pytest.mark.rule("COMMIT-3")
def test_increments_claim_nothing() -> None:
    made = draft({"n": 1})
    made.increment(ONE, "/n", by=2)
    made.increment(ONE, "/n")
    assert kinds(made)[0] == ("patch", [{"op": "increment", "path": "/n", "by": 2}], False)
    assert paths(made) == []
    assert made.get(ONE, "/n") == 4
    assert paths(made) == ["/n"]


def test_an_increment_is_checked_at_once() -> None:
    made = draft({"n": "text"})
    with pytest.raises(InvalidPointer):
        made.increment(ONE, "n")
    with pytest.raises(PatchFailed, match="only a number can be incremented"):
        made.increment(ONE, "/n")
    with pytest.raises(PatchFailed, match="'by' must be a number"):
        made.increment(ONE, "/n", by="1")  # type: ignore[arg-type]
    with pytest.raises(InvalidValue):
        made.increment(ONE, "/n", by=float("inf"))
    with pytest.raises(NotFound):
        made.increment(TWO, "/n")


# ---------------------------------------------------------------- updates


@pytest.mark.rule("COMMIT-3")
def test_an_update_writes_and_claims_only_what_changed() -> None:
    made = draft({"title": "t", "done": False, "list": [1, 2, 3]})
    made.update(ONE, {"title": "t", "done": True, "list": [1, 2, 3]})
    assert kinds(made) == [("patch", [replace("/done", True)], False)]
    assert paths(made) == ["/done"]
    assert made.get(ONE, "/done") is True


def test_an_update_to_what_is_there_writes_nothing() -> None:
    made = draft({"a": 1, "b": 2})
    made.update(ONE, {"b": 2, "a": 1})
    assert made.plan() == CommitPlan(branch=MAIN, writes=())


def test_an_update_shows_what_its_patch_gives_to_the_letter() -> None:
    made = draft({"a": 1, "b": 1})
    made.update(ONE, {"a": 1.0, "b": 2})
    value = made.get(ONE)
    assert isinstance(value, dict)
    assert type(value["a"]) is int


@pytest.mark.rule("COMMIT-3")
def test_an_update_that_would_claim_everything_writes_the_shorter_of_patch_and_value() -> None:
    made = draft({f"k{index}": "x" * index for index in range(40)})
    made.update(ONE, {f"k{index}": index for index in range(40)})
    assert [write.op for write in made.plan().writes] == ["set"]
    assert paths(made) == [""]
    replaced = draft([1, 2])
    replaced.update(ONE, {"a": 1})
    assert kinds(replaced) == [("set", {"a": 1}, False)]


def test_an_update_of_what_the_draft_wrote_is_the_shorter_of_both_and_claims_nothing() -> None:
    small, large = draft(), draft()
    small.set(ONE, {"a": 1}, blind=True)
    small.update(ONE, {"a": 2})
    large.set(ONE, {"a": 1, "text": "x" * 100}, blind=True)
    large.update(ONE, {"a": 2, "text": "x" * 100})
    assert [write.op for write in small.plan().writes] == ["set", "set"]
    assert [write.op for write in large.plan().writes] == ["set", "patch"]
    assert paths(small) == paths(large) == []


def test_an_update_whose_patch_passes_a_bound_writes_the_whole_value() -> None:
    old = {f"k{index}": "x" * 20 for index in range(5)}
    new = {f"k{index}": "y" * 20 for index in range(5)}
    few = draft(old, patch_operations_max=4)
    few.update(ONE, new)
    assert kinds(few) == [("set", new, False)]
    small = draft(old, value_bytes_max=len(encode(old)))
    small.update(ONE, new)
    assert kinds(small) == [("set", new, False)]
    assert paths(small) == [""]


def test_an_update_whose_patch_is_too_much_work_writes_the_whole_value() -> None:
    text = "x" * 40_000
    made = draft({"a": text, "n": 1}, value_bytes_max=50_000)
    for _ in range(6):
        made.patch(ONE, [replace("/a", text)])
    made.update(ONE, {"a": "y" * 40_000, "n": 1})
    assert made.plan().writes[-1].op == "set"
    assert made.get(ONE, "/n") == 1


def test_an_update_needs_something_that_is_there() -> None:
    made = draft()
    with pytest.raises(NotFound):
        made.update(ONE, 1)
    assert paths(made) == [""]


@pytest.mark.rule("MODEL-4")
def test_the_bytes_of_each_write_are_those_of_its_value() -> None:
    made = draft({"a": [1], "n": 1})
    made.update(ONE, {"a": [1, 2], "n": 2})
    made.patch(ONE, [replace("/n", 3)])
    made.set(TWO, {"b": None})
    for write in made.plan().writes:
        assert body.read_stored(write.body or b"") == write.value
        if write.op == "patch":
            operations: Any = write.value
            assert write.paths == patch.footprint(operations).writes
