"""The quick way of applying a patch leaves behind what the general way does: value, size, work and error."""

from __future__ import annotations

import copy
import random
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stemmadb.protocol.errors import LimitExceeded, PatchFailed
from stemmadb.protocol.model import patch
from stemmadb.protocol.model.patch.meter import DEPTH_EXTRA
from stemmadb.protocol.model.values import json_values, pointer

Doc = Any
KEYS = ["a", "b", "0", "-", "a/b", "", "é"]
SCALARS = [None, True, 0, 1, 300, 2**63 - 1, 0.5, -1e308, "", "x", "é" * 20, "long" * 30]
MEMBERS_OF_A_HEAD = 15  # an object of more has a longer head


def encoded_length(value: Doc) -> int:
    return len(msgspec.msgpack.encode(value))


def any_value(rng: random.Random, depth: int) -> Doc:
    kind = rng.randrange(8) if depth else 0
    if kind < 4:
        return rng.choice(SCALARS)
    if kind == 4:
        return [any_value(rng, depth - 1) for _ in range(rng.randint(0, 3))]
    return any_object(rng, depth - 1)


def any_object(rng: random.Random, depth: int) -> Doc:
    found = {key: any_value(rng, depth) for key in rng.sample(KEYS, rng.randint(0, len(KEYS)))}
    if rng.random() < 0.3:
        found |= {f"k{number}": 0 for number in range(MEMBERS_OF_A_HEAD - len(found))}
    return found


def any_path(rng: random.Random, value: Doc) -> Doc:
    """Mostly down the objects of the value to a member, there or not; at times something odd."""
    if rng.random() < 0.05:
        return rng.choice(["", "a", "/~2", 7, None, ["/a"], "/a" * 40])
    tokens: list[str] = []
    while True:
        key = rng.choice([*value, *KEYS[:2]]) if isinstance(value, dict) else rng.choice(["0", "-", "a"])
        tokens.append(key)
        value = value.get(key) if isinstance(value, dict) else None
        if not isinstance(value, dict | list) or rng.random() < 0.4:
            return pointer.write(tokens)


def any_operation(rng: random.Random, value: Doc) -> Doc:
    kind = rng.choice(["replace", "replace", "add", "add", "increment", "remove", "test", "copy", "jump"])
    operation: dict[str, Doc] = {"op": kind, "path": any_path(rng, value)}
    if kind == "increment":
        operation["by"] = rng.choice([1, -5, 0.5, 2**63 - 1, "1"])
    elif kind == "copy":
        operation["from"] = any_path(rng, value)
    elif rng.random() < 0.95:
        operation["value"] = any_value(rng, 2)
    return operation if rng.random() < 0.98 else rng.choice([7, "op", [], {}, {"op": []}])


def any_case(rng: random.Random) -> tuple[Doc, list[Doc]]:
    """Operations that could all be done but, at times, the last."""
    value = now = any_object(rng, 3)
    operations: list[Doc] = []
    for _ in range(rng.randint(0, 6)):
        operation = any_operation(rng, now)
        try:
            now = patch.apply(now, [operation])
        except PatchFailed:
            if rng.random() < 0.2:
                return value, [*operations, operation]
            continue
        operations.append(operation)
    return value, operations


def outcome(value: Doc, operations: Doc, bounds: dict[str, int], room: int | None) -> Doc:
    """All that can be seen of applying it; of a failure the work is not, as it ends the commit."""
    work = patch.Work(bounds["size_max"])
    if room is not None:
        work.done = work.maximum - room
    try:
        result, size = patch.apply_sized(value, encoded_length(value), operations, work=work, **bounds)
    except (PatchFailed, LimitExceeded) as failed:
        return failed.code, failed.facts
    return msgspec.msgpack.encode(result), size, work.done, result is value


@pytest.mark.rule("PATCH-1", "PATCH-2")
@given(st.integers(0, 2**64 - 1))
@settings(derandomize=True, deadline=None, max_examples=1500)
def test_both_ways_leave_the_same_behind(seed: int) -> None:
    rng = random.Random(seed)
    value, operations = any_case(rng)
    before = copy.deepcopy([value, operations])
    size_max = encoded_length(value) + rng.choice([0, 1, 10, 200, 10_000])
    bounds = {
        "size_max": size_max,
        "depth_max": rng.choice([json_values.depth(value), json_values.depth(value) + 1, 64]),
    }
    room = rng.choice([None, None, rng.randint(0, 200)])
    # A tuple goes the general way from the start.
    quick, general = (outcome(value, form, bounds, room) for form in (operations, tuple(operations)))
    assert quick == general, (value, operations, bounds, room)
    assert [value, operations] == before


@pytest.mark.rule("PATCH-1")
@pytest.mark.parametrize(
    "operation",
    [
        {"op": "replace", "path": "/in/n", "value": 300},
        {"op": "add", "path": "/in/new", "value": "x" * 70},
        {"op": "increment", "path": "/in/n", "by": 1},
    ],
)
def test_each_bound_is_passed_at_the_same_byte(operation: Doc) -> None:
    value: Doc = {"in": {"n": 1, "m": 2}, "out": [1, 2, 3]}
    for room in range(400):
        bounds = {"size_max": 10_000, "depth_max": 64}
        assert outcome(value, [operation], bounds, room) == outcome(value, (operation,), bounds, room)
    for size_max in range(encoded_length(value), encoded_length(value) + 100):
        bounds = {"size_max": size_max, "depth_max": 64}
        assert outcome(value, [operation], bounds, None) == outcome(value, (operation,), bounds, None)
    for depth_max in range(100):
        bounds = {"size_max": 10_000, "depth_max": depth_max}
        assert outcome(value, [operation], bounds, None) == outcome(value, (operation,), bounds, None)


@pytest.mark.rule("PATCH-1")
def test_a_long_text_counts_as_if_it_were_walked_and_goes_the_quick_way() -> None:
    work = patch.Work(10_000)
    operations: Doc = [{"op": "replace", "path": "/a", "value": "x" * 100}]
    patch.apply_sized({"a": 0}, 4, operations, size_max=10_000, depth_max=64, work=work)
    copied, went, came = 1, 1, 102
    assert work.done == copied + went + came + DEPTH_EXTRA * came


@pytest.mark.rule("PATCH-2")
def test_an_object_that_an_operation_brings_is_copied_before_the_next_changes_it() -> None:
    brought: Doc = {"x": {"n": 1}}
    operations: Doc = [
        {"op": "add", "path": "/one", "value": brought},
        {"op": "replace", "path": "/one/x/n", "value": 2},
        {"op": "add", "path": "/two", "value": brought},
        {"op": "increment", "path": "/two/x/n", "by": 9},
    ]
    result, size = patch.apply_sized({}, 1, operations, size_max=100, depth_max=64)
    assert result == {"one": {"x": {"n": 2}}, "two": {"x": {"n": 10}}}
    assert size == encoded_length(result)
    assert brought == {"x": {"n": 1}}


@pytest.mark.rule("PATCH-1")
def test_the_index_of_a_failure_counts_the_operations_done_the_quick_way() -> None:
    operations: Doc = [{"op": "replace", "path": "/a", "value": 1}] * 3 + [{"op": "remove", "path": "/b"}]
    with pytest.raises(PatchFailed) as failed:
        patch.apply_sized({"a": 0}, 4, operations, size_max=100, depth_max=64)
    assert (failed.value.facts["patch_index"], failed.value.facts["path"]) == (3, "/b")
    with pytest.raises(PatchFailed) as failed:
        patch.footprint([*operations[:3], {"op": "remove", "path": "b"}])
    assert (failed.value.facts["patch_index"], failed.value.facts["path"]) == (3, "b")


class Text(str):
    """No plain string, so no path."""


@pytest.mark.rule("PATCH-4")
@pytest.mark.parametrize(
    "operation",
    [
        {"op": "replace", "path": "/a"},
        {"op": "replace", "value": 1},
        {"path": "/a", "value": 1},
        {"op": "replace", "path": "a", "value": 1},
        {"op": "replace", "path": "/~2" * 40, "value": 1},
        {"op": "replace", "path": Text("/a"), "value": 1},
        {"op": "replace", "path": ("/", "a"), "value": 1},
        7,
    ],
)
def test_a_malformed_replacement_is_refused_alone_and_after_others(operation: Doc) -> None:
    good: Doc = {"op": "replace", "path": "/a", "value": 1}
    for index, operations in enumerate(([operation], [good, operation])):
        with pytest.raises(PatchFailed) as failed:
            patch.footprint(operations)
        assert failed.value.facts["patch_index"] == index
        with pytest.raises(PatchFailed) as failed:
            patch.apply_sized({"a": 0}, 4, operations, size_max=100, depth_max=64)
        assert failed.value.facts["patch_index"] == index
