"""Patches against oracles and laws, on random values and random operations, valid and invalid."""

from __future__ import annotations

import copy
from typing import Any

import jsonpatch
import msgspec
import pytest
from hypothesis import assume, event, given, settings
from hypothesis import strategies as st

from stemmadb.protocol.errors import LimitExceeded, PatchFailed
from stemmadb.protocol.model import patch, pointer, values
from stemmadb.protocol.model.values import INT_MAX, INT_MIN

Doc = Any
Op = dict[str, Any]
steady = settings(derandomize=True, deadline=None, max_examples=300)

# Few keys, so that paths meet; among them those that look like an index, need escapes or are empty.
KEYS = st.sampled_from(["a", "b", "0", "1", "-", "a/b", "m~n", "", "é"])
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 300),
    st.sampled_from([INT_MAX, INT_MIN, 0.5, 1.0, -1e300]),
    st.sampled_from(["", "x", "é" * 20]),
)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=4), max_leaves=12
)
DOCS = st.dictionaries(KEYS, VALUES, min_size=1, max_size=5) | st.lists(VALUES, min_size=1, max_size=5)
ODD_PATHS = st.sampled_from(
    ["", "/", "/a", "/0", "/-", "/a/-", "/b/0", "/01", "/-1", "/1e0", "/a/b/c", "a", "/~2", "/99"]
)
KINDS = ["add", "add", "replace", "remove", "move", "copy", "test", "splice", "splice", "increment"]


def places(value: Doc, path: str = "") -> list[str]:
    """Every pointer into a value, those just behind its arrays included."""
    found = [path]
    if isinstance(value, dict):
        for key, item in value.items():
            found += places(item, f"{path}/{pointer.escape(key)}")
    if isinstance(value, list):
        for index, item in enumerate(value):
            found += places(item, f"{path}/{index}")
        found += [f"{path}/{len(value)}", f"{path}/-"]
    return found


def pick(value: Doc, path: str) -> Doc:
    for token in pointer.parse(path):
        value = value[token] if isinstance(value, dict) else value[int(token)]
    return value


@st.composite
def operations_for(draw: st.DrawFn, value: Doc, *, odd: bool = True) -> Op:
    """An operation that mostly fits the value."""
    here = st.sampled_from(places(value))
    paths = here | here | here | st.builds(lambda path, key: f"{path}/{pointer.escape(key)}", here, KEYS)
    paths = paths | ODD_PATHS if odd else paths
    kind = draw(st.sampled_from(KINDS))
    operation: Op = {"op": kind, "path": draw(paths)}
    if kind in ("add", "replace"):
        operation["value"] = draw(VALUES)
    if kind == "test":
        operation["value"] = draw(VALUES) if draw(st.integers(0, 3)) == 0 else try_pick(value, operation["path"])
    if kind in ("move", "copy"):
        operation["from"] = draw(paths)
    if kind == "increment":
        operation["by"] = draw(st.integers(-5, 5) | st.sampled_from([0.5, INT_MIN, 1e308]))
        numbers = [p for p in places(value) if type(try_pick(value, p)) in (int, float)]
        operation["path"] = draw(st.sampled_from(numbers)) if numbers else operation["path"]
    if kind == "splice":
        arrays = [p for p in places(value) if isinstance(try_pick(value, p), list)]
        operation["path"] = draw(st.sampled_from(arrays)) if arrays else operation["path"]
        operation |= draw(st.fixed_dictionaries({"index": st.integers(0, 3), "remove": st.integers(0, 2)}))
        operation["add"] = draw(st.lists(VALUES, max_size=20 if draw(st.integers(0, 9)) == 0 else 2))
    return operation


def try_pick(value: Doc, path: str) -> Doc:
    try:
        return pick(value, path)
    except (KeyError, IndexError, ValueError, TypeError):
        return None


@st.composite
def cases(draw: st.DrawFn, *, failing: bool = True) -> tuple[Doc, list[Op]]:
    """A value and a patch, each operation chosen for what those before it made; `failing` lets the last one fail."""
    value = now = draw(DOCS)
    operations: list[Op] = []
    for _ in range(draw(st.integers(1, 6))):
        operation = draw(operations_for(now, odd=failing))
        try:
            now = patch.apply(now, [operation])
        except PatchFailed:
            if failing:
                return value, [*operations, operation]
            continue
        operations.append(operation)
        if len(msgspec.msgpack.encode(now)) > 2_000:
            break
    return value, operations


def encoded_length(value: Doc) -> int:
    return len(msgspec.msgpack.encode(value))


# ---------------------------------------------------------------- the oracle


class Refused(Exception):
    pass


def oracle(value: Doc, operations: list[Op]) -> Doc:
    """RFC 6902 by the `jsonpatch` package, ours by copying everything and changing that; or the index that fails."""
    for index, operation in enumerate(operations):
        try:
            value = one_by_oracle(copy.deepcopy(value), copy.deepcopy(operation))
        except (Refused, jsonpatch.JsonPatchException, jsonpatch.JsonPointerException):
            return ("failed", index)
    return value


def one_by_oracle(value: Doc, operation: Op) -> Doc:
    if operation["op"] not in ("splice", "increment"):
        return jsonpatch.apply_patch(value, [operation])
    target = try_pick(value, operation["path"])
    if operation["op"] == "splice":
        return splice_by_oracle(value, target, operation)
    if isinstance(target, bool) or not isinstance(target, int | float):
        raise Refused
    total = target + operation["by"]
    if abs(total) == float("inf") or (isinstance(total, int) and not INT_MIN <= total <= INT_MAX):
        raise Refused
    return jsonpatch.apply_patch(value, [{"op": "replace", "path": operation["path"], "value": total}])


def splice_by_oracle(value: Doc, array: Doc, operation: Op) -> Doc:
    if not isinstance(array, list) or operation["index"] + operation["remove"] > len(array):
        raise Refused
    for _ in range(operation["remove"]):
        array.pop(operation["index"])
    for item in reversed(operation["add"]):
        array.insert(operation["index"], item)
    return value


def outcome(value: Doc, operations: list[Op]) -> Doc:
    try:
        return patch.apply(value, operations)
    except PatchFailed as failed:
        return ("failed", failed.facts["index"])


@pytest.mark.rule("PATCH-1", "PATCH-3")
@given(cases())
@settings(steady, max_examples=500)
def test_a_patch_gives_what_the_naive_oracle_gives_or_fails_at_the_same_operation(case: tuple[Doc, list[Op]]) -> None:
    value, operations = case
    ours, theirs = outcome(value, operations), oracle(value, operations)
    event("failed" if isinstance(ours, tuple) else "applied")
    assert isinstance(ours, tuple) is isinstance(theirs, tuple), (ours, theirs)
    assert ours == theirs if isinstance(ours, tuple) else values.equal(ours, theirs)


# ---------------------------------------------------------------- applying


@pytest.mark.rule("PATCH-2")
@given(cases())
@steady
def test_neither_the_old_value_nor_the_operations_are_ever_changed(case: tuple[Doc, list[Op]]) -> None:
    value, operations = case
    before = copy.deepcopy((value, operations))
    result = outcome(value, operations)
    assert values.equal([value, operations], list(before))
    if not isinstance(result, tuple):  # a second patch on the result must not reach what the first one shared
        kept = copy.deepcopy(result)
        for path in places(result)[:12]:
            outcome(
                result,
                [{"op": "add", "path": f"{path}/new", "value": 1}, {"op": "add", "path": f"{path}/0", "value": 2}],
            )
        assert values.equal([value, operations, result], [*before, kept])


@pytest.mark.rule("PATCH-1", "PATCH-2")
@given(cases())
@steady
def test_all_at_once_is_the_same_as_one_after_the_other(case: tuple[Doc, list[Op]]) -> None:
    value, operations = case
    at_once = outcome(value, operations)
    assume(not isinstance(at_once, tuple))
    for operation in operations:
        value = patch.apply(value, [operation])
    assert values.equal(at_once, value)


@pytest.mark.rule("PATCH-1")
@given(cases())
@settings(steady, max_examples=500)
def test_the_size_kept_is_the_length_of_the_encoding(case: tuple[Doc, list[Op]]) -> None:
    value, operations = case
    expected = outcome(value, operations)
    try:
        result, size = patch.apply_sized(
            value, encoded_length(value), operations, size_max=1_000_000, depth_max=1_000
        )
    except PatchFailed as failed:
        assert expected == ("failed", failed.facts["index"])
    else:
        assert values.equal(result, expected)
        assert size == encoded_length(result)


@pytest.mark.rule("PATCH-1")
@given(cases(failing=False), st.integers(-1, 1), st.integers(-1, 1))
@steady
def test_a_bound_is_passed_exactly_when_some_step_passes_it(
    case: tuple[Doc, list[Op]], size_off: int, depth_off: int
) -> None:
    value, operations = case
    states = [value]
    for operation in operations:
        states.append(patch.apply(states[-1], [operation]))
    sizes, depths = [encoded_length(state) for state in states], [values.depth(state) for state in states]
    size_max, depth_max = max(sizes) + size_off, max(depths) + depth_off
    assume(sizes[0] <= size_max and depths[0] <= depth_max)
    try:
        patch.apply_sized(value, sizes[0], operations, size_max=size_max, depth_max=depth_max)
    except LimitExceeded as passed:
        assert passed.facts["bound"] in {"value_bytes_max": size_off < 0, "depth_max": depth_off < 0}
        assert passed.facts["actual"] > passed.facts["maximum"]
        assert size_off < 0 or depth_off < 0
    else:
        assert size_off >= 0
        assert depth_off >= 0


# ---------------------------------------------------------------- footprints


def apart(one: patch.Footprint, other: patch.Footprint) -> bool:
    """Nothing that one writes overlaps what the other writes or reads."""

    def clear(writes: tuple[str, ...], touched: tuple[str, ...]) -> bool:
        return not any(pointer.overlaps(left, right) for left in writes for right in touched)

    return clear(one.writes, other.writes + other.reads) and clear(other.writes, one.reads)


@pytest.mark.rule("PATCH-4")
@given(st.data(), DOCS)
@settings(steady, max_examples=800)
def test_patches_with_footprints_apart_commute(data: st.DataObject, value: Doc) -> None:
    one = data.draw(st.lists(operations_for(value, odd=False), min_size=1, max_size=2))
    other = data.draw(st.lists(operations_for(value, odd=False), min_size=1, max_size=2))
    try:
        assume(apart(patch.footprint(one), patch.footprint(other)))
    except PatchFailed:
        assume(False)
    alone = not isinstance(outcome(value, one), tuple), not isinstance(outcome(value, other), tuple)
    forth, back = outcome(value, [*one, *other]), outcome(value, [*other, *one])
    event(f"applies: {alone}")
    assert isinstance(forth, tuple) is isinstance(back, tuple) is (alone != (True, True))
    assert isinstance(forth, tuple) or values.equal(forth, back)


@pytest.mark.rule("PATCH-4", "COMMIT-3")
@given(st.lists(st.integers(-9, 9), max_size=5), st.lists(st.integers(-9, 9), max_size=5))
@settings(steady, max_examples=50)
def test_increments_of_one_integer_commute(ones: list[int], others: list[int]) -> None:
    one, other = ([{"op": "increment", "path": "/n", "by": by} for by in steps] for steps in (ones, others))
    assert patch.apply({"n": 1}, [*one, *other]) == patch.apply({"n": 1}, [*other, *one])


# ---------------------------------------------------------------- inverses


@pytest.mark.rule("COMMIT-9")
@given(cases(failing=False))
@settings(steady, max_examples=800)
def test_the_inverse_leads_back(case: tuple[Doc, list[Op]]) -> None:
    value, operations = case
    kept = copy.deepcopy(value)
    undo = patch.invert(value, operations)
    assert values.equal(value, kept)
    assert values.equal(patch.apply(patch.apply(value, operations), undo), kept)


@pytest.mark.rule("COMMIT-9")
@given(cases())
@steady
def test_a_patch_that_fails_has_no_inverse_and_says_so_alike(case: tuple[Doc, list[Op]]) -> None:
    value, operations = case
    expected = outcome(value, operations)
    assume(isinstance(expected, tuple))
    with pytest.raises(PatchFailed) as failed:
        patch.invert(value, operations)
    assert failed.value.facts["index"] == expected[1]


@pytest.mark.rule("COMMIT-9", "PATCH-4")
@given(cases(failing=False))
@steady
def test_the_inverse_stays_on_the_paths_of_the_patch(case: tuple[Doc, list[Op]]) -> None:
    value, operations = case
    print_, undo = patch.footprint(operations), patch.footprint(patch.invert(value, operations))
    assert all(pointer.covered_by_any(path, print_.writes) for path in undo.writes)
    assert all(pointer.covered_by_any(path, print_.writes + print_.reads) for path in undo.reads)


# ---------------------------------------------------------------- differences


@pytest.mark.rule("PATCH-3")
@given(st.data(), VALUES | DOCS)
@settings(steady, max_examples=500)
def test_a_difference_leads_from_the_old_value_to_the_new(data: st.DataObject, old: Doc) -> None:
    new = data.draw(VALUES | DOCS)
    if data.draw(st.booleans()):  # often a close relative
        for operation in data.draw(st.lists(operations_for(old), max_size=3)):
            changed = outcome(new, [operation]) if new is not old else outcome(old, [operation])
            new = new if isinstance(changed, tuple) else changed
    steps = patch.diff(old, new)
    assert values.equal(patch.apply(old, steps), new)
    assert (steps == []) is values.equal(old, new)
    assert sum(map(encoded_length, steps)) <= encoded_length({"op": "replace", "path": "", "value": new})
