"""Copy-on-write: what is shared, what is copied once, and the bounds kept while applying."""

from __future__ import annotations

import copy
import tracemalloc
from typing import Any

import msgspec
import pytest

from stemmadb.protocol.errors import LimitExceeded
from stemmadb.protocol.model import patch
from stemmadb.protocol.model.patch.meter import WORK_FACTOR_MAX
from stemmadb.protocol.model.values import json_values
from stemmadb.protocol.model.values.limits import MEBIBYTE

Doc = Any


def encoded_length(value: Doc) -> int:
    return len(msgspec.msgpack.encode(value))


def sized(value: Doc, operations: list[Doc], size_max: int = 10**6, depth_max: int = 64) -> tuple[Doc, int]:
    return patch.apply_sized(value, encoded_length(value), operations, size_max=size_max, depth_max=depth_max)


# ---------------------------------------------------------------- sharing


@pytest.mark.rule("PATCH-2")
def test_what_is_off_the_path_is_shared_and_what_is_on_it_is_copied() -> None:
    value: Doc = {"left": {"x": [1]}, "right": {"y": [2], "z": {}}}
    result: Doc = patch.apply(value, [{"op": "add", "path": "/right/z/new", "value": 1}])
    assert result["left"] is value["left"]
    assert result["right"]["y"] is value["right"]["y"]
    assert result is not value
    assert result["right"] is not value["right"]
    assert value == {"left": {"x": [1]}, "right": {"y": [2], "z": {}}}


@pytest.mark.rule("PATCH-2")
def test_a_patch_that_only_looks_gives_the_same_value() -> None:
    value: Doc = {"a": [1]}
    assert patch.apply(value, []) is value
    assert patch.apply(value, [{"op": "test", "path": "/a/0", "value": 1}]) is value


@pytest.mark.rule("PATCH-2")
def test_a_value_brought_by_an_operation_is_not_changed_by_a_later_one() -> None:
    brought: Doc = {"list": [1]}
    operations: Doc = [
        {"op": "add", "path": "/one", "value": brought},
        {"op": "add", "path": "/two", "value": brought},
        {"op": "add", "path": "/one/list/-", "value": 2},
        {"op": "splice", "path": "/all", "index": 0, "remove": 0, "add": [brought]},
        {"op": "add", "path": "/all/0/list/-", "value": 3},
    ]
    result = patch.apply({"all": []}, operations)
    assert result == {"all": [{"list": [1, 3]}], "one": {"list": [1, 2]}, "two": {"list": [1]}}
    assert brought == {"list": [1]}


@pytest.mark.rule("PATCH-2")
def test_a_copy_of_something_already_changed_goes_its_own_way() -> None:
    operations: Doc = [
        {"op": "add", "path": "/a/x/n", "value": 1},
        {"op": "copy", "from": "/a", "path": "/b"},
        {"op": "add", "path": "/a/x/n", "value": 2},
        {"op": "add", "path": "/b/x/n", "value": 3},
    ]
    assert patch.apply({"a": {"x": {}}}, operations) == {"a": {"x": {"n": 2}}, "b": {"x": {"n": 3}}}


@pytest.mark.rule("PATCH-2")
def test_a_value_copied_into_itself_makes_no_ring() -> None:
    operations: Doc = [
        {"op": "add", "path": "/n", "value": 1},
        {"op": "copy", "from": "", "path": "/self"},
        {"op": "copy", "from": "", "path": "/self"},
    ]
    assert patch.apply({}, operations) == {"n": 1, "self": {"n": 1, "self": {"n": 1}}}


@pytest.mark.rule("PATCH-2")
def test_a_moved_container_is_still_changed_only_here() -> None:
    value: Doc = {"a": {"x": [1]}, "b": {}}
    operations: Doc = [
        {"op": "move", "from": "/a", "path": "/b/a"},
        {"op": "add", "path": "/b/a/x/-", "value": 2},
        {"op": "move", "from": "/b/a", "path": "/c"},
        {"op": "add", "path": "/c/x/-", "value": 3},
    ]
    assert patch.apply(value, operations) == {"b": {}, "c": {"x": [1, 2, 3]}}
    assert value == {"a": {"x": [1]}, "b": {}}


@pytest.mark.rule("PATCH-2")
def test_the_undo_of_a_value_changed_before_keeps_it_as_it_was_then() -> None:
    value: Doc = {"a": {"x": [1]}}
    operations: Doc = [
        {"op": "add", "path": "/a/x/-", "value": 2},
        {"op": "move", "from": "/a/x", "path": "/a"},
        {"op": "add", "path": "/a/-", "value": 3},
    ]
    undo = patch.invert(value, operations)
    kept = copy.deepcopy(undo)
    assert patch.apply(patch.apply(value, operations), undo) == value
    assert undo == kept


@pytest.mark.rule("PATCH-2")
@pytest.mark.parametrize("inside", ["", "/wide"])
def test_many_operations_on_a_wide_array_copy_it_once(inside: str) -> None:
    wide: Doc = list(range(100_000))
    operations: Doc = [{"op": "replace", "path": f"{inside}/{index}", "value": None} for index in range(200)]
    value: Doc = {"wide": wide} if inside else wide
    tracemalloc.start()
    result: Doc = patch.apply(value, operations)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    changed = result["wide"] if inside else result
    assert changed == [None] * 200 + wide[200:]
    assert peak < 1.5 * 8 * 100_000  # one copy, at eight bytes an element


# ---------------------------------------------------------------- bounds


@pytest.mark.rule("PATCH-1")
@pytest.mark.parametrize("count", [15, 16, 65_535, 65_536])
def test_the_size_is_exact_where_the_head_of_a_container_grows_and_shrinks(count: int) -> None:
    array: Doc = list(range(count))
    mapping: Doc = {str(number): number for number in range(count)}
    for value, path in ((array, "/-"), (mapping, "/new")):
        grown, size = sized(value, [{"op": "add", "path": path, "value": 5}])
        assert size == encoded_length(grown)
        last = f"/{count}" if path == "/-" else path
        shrunk, back = patch.apply_sized(grown, size, [{"op": "remove", "path": last}], size_max=10**6, depth_max=9)
        assert (shrunk, back) == (value, encoded_length(value))


@pytest.mark.rule("PATCH-1")
def test_copies_of_the_root_into_itself_stop_at_the_bound_within_its_memory() -> None:
    value: Doc = {"text": "x" * 1_000}
    bomb: Doc = [{"op": "copy", "from": "", "path": f"/{index}"} for index in range(1_000)]
    tracemalloc.start()
    with pytest.raises(LimitExceeded) as passed:
        sized(value, bomb, size_max=MEBIBYTE)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert passed.value.facts["bound"] == "value_bytes_max"
    assert MEBIBYTE < passed.value.facts["actual"] <= 2 * MEBIBYTE
    assert peak < 4 * MEBIBYTE


@pytest.mark.rule("PATCH-1")
def test_a_few_bytes_of_patch_cannot_ask_for_work_without_end() -> None:
    value: Doc = {"big": [[0]] * 10_000}
    again: Doc = [{"op": "increment", "path": "/big/0/0", "by": 1}, {"op": "copy", "from": "/big", "path": "/twin"}]
    size_max = 2 * encoded_length(value)
    with pytest.raises(LimitExceeded) as passed:
        sized(value, again * 500, size_max=size_max)
    assert passed.value.facts["bound"] == "patch_work_bytes_max"
    assert passed.value.facts["maximum"] == WORK_FACTOR_MAX * size_max + MEBIBYTE


@pytest.mark.rule("PATCH-1")
def test_depth_is_counted_from_the_root_to_the_deepest_container() -> None:
    def nested(depth: int) -> Doc:
        value: Doc = 0
        for level in range(depth):
            value = [value] if level % 2 else {"k": value}
        return value

    for path, value, room in (("", 0, 64), ("/a", {}, 63), ("/a/-", {"a": []}, 62)):
        result, _ = sized(value, [{"op": "add", "path": path, "value": nested(room)}])
        assert json_values.depth(result) == 64
        with pytest.raises(LimitExceeded) as passed:
            sized(value, [{"op": "add", "path": path, "value": nested(room + 1)}])
        assert passed.value.facts == {"bound": "depth_max", "maximum": 64, "actual": 65}


@pytest.mark.rule("PATCH-1")
def test_a_value_beyond_a_lowered_bound_can_be_made_smaller_and_not_larger() -> None:
    value: Doc = {"a": "x" * 100, "b": "y" * 100}
    result, size = sized(value, [{"op": "replace", "path": "/a", "value": "x" * 90}], size_max=50)
    assert size == encoded_length(result)
    with pytest.raises(LimitExceeded):
        sized(value, [{"op": "replace", "path": "/a", "value": "x" * 101}], size_max=50)


@pytest.mark.rule("PATCH-1")
def test_elements_that_shift_count_as_work() -> None:
    array: Doc = [0] * 200_000
    behind: Doc = [{"op": "add", "path": "/-", "value": 1}] * 100
    assert len(sized(array, behind, size_max=210_000)[0]) == 200_100
    with pytest.raises(LimitExceeded) as passed:
        sized(array, [{"op": "add", "path": "/0", "value": 1}] * 100, size_max=210_000)
    assert passed.value.facts["bound"] == "patch_work_bytes_max"
