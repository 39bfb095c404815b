"""Patches against oracles and laws, on random values and random operations, valid and invalid.

Hypothesis chooses seeds and the cases are built from them in plain code, which is a hundred times faster than drawing
every part of a case, so that thousands fit in a second.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Callable
from typing import Any

import jsonpatch
import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stemmadb.protocol.errors import InvalidPointer, LimitExceeded, PatchFailed
from stemmadb.protocol.model import patch
from stemmadb.protocol.model.values import json_values, pointer
from stemmadb.protocol.model.values.json_values import INT_MAX, INT_MIN

Doc = Any
Op = dict[str, Any]

# Few keys, so that paths meet; among them those that look like an index, need escapes or are empty.
KEYS = ["a", "b", "0", "1", "-", "a/b", "m~n", "", "é"]
SCALARS = [None, True, False, 0, 1, -3, 127, 128, 300, INT_MAX, INT_MIN, 0.5, 1.0, -1e308, "", "x", "é" * 20]
ODD_PATHS = ["", "/", "/a", "/0", "/-", "/a/-", "/b/0", "/01", "/-1", "/1e0", "/a/b/c", "a", "/~2", "/99"]
KINDS = ["add", "add", "replace", "remove", "move", "copy", "test", "splice", "splice", "increment"]


def holds_for_seeds(examples: int) -> Callable[[Callable[[random.Random], None]], Callable[[], None]]:
    """The law is checked for this many random generators, the same ones in each run."""

    def decorate(law: Callable[[random.Random], None]) -> Callable[[], None]:
        @given(st.integers(0, 2**64 - 1))
        @settings(derandomize=True, deadline=None, max_examples=examples)
        def test(seed: int) -> None:
            law(random.Random(seed))

        test.__name__, test.__qualname__, test.__doc__ = law.__name__, law.__qualname__, law.__doc__
        return test

    return decorate


def any_value(rng: random.Random, depth: int = 3) -> Doc:
    kind = rng.randrange(10) if depth else 0
    if kind < 5:
        return rng.choice(SCALARS)
    return any_array(rng, depth) if kind < 7 else any_object(rng, depth)


def any_array(rng: random.Random, depth: int = 3, size_max: int = 4) -> list[Doc]:
    return [any_value(rng, depth - 1) for _ in range(rng.randint(0, size_max))]


def any_object(rng: random.Random, depth: int = 3) -> dict[str, Doc]:
    return {key: any_value(rng, depth - 1) for key in rng.sample(KEYS, rng.randint(0, 5))}


def any_doc(rng: random.Random) -> Doc:
    return any_object(rng, 4) if rng.random() < 0.7 else any_array(rng, 4)


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
    """What is at a place; None where there is nothing."""
    try:
        for token in pointer.parse(path):
            value = value[token] if isinstance(value, dict) else value[list(map(str, range(len(value)))).index(token)]
    except (KeyError, IndexError, ValueError, TypeError, InvalidPointer):
        return None
    return value


def any_path(rng: random.Random, value: Doc) -> str:
    """A place in the value, or a new one in it, or an odd one."""
    here = rng.choice(places(value))
    dice = rng.random()
    return (
        here if dice < 0.7 else f"{here}/{pointer.escape(rng.choice(KEYS))}" if dice < 0.9 else rng.choice(ODD_PATHS)
    )


def place_of(rng: random.Random, value: Doc, *kinds: type) -> str:
    fitting = [path for path in places(value) if type(pick(value, path)) in kinds]
    return rng.choice(fitting) if fitting and rng.random() < 0.9 else any_path(rng, value)


def any_operation(rng: random.Random, value: Doc) -> Op:
    """An operation that mostly fits the value."""
    kind = rng.choice(KINDS)
    path = any_path(rng, value)
    if kind in ("add", "replace"):
        return {"op": kind, "path": path, "value": any_value(rng)}
    if kind == "test":
        return {"op": kind, "path": path, "value": any_value(rng) if rng.random() < 0.2 else pick(value, path)}
    if kind in ("move", "copy"):
        return {"op": kind, "path": path, "from": any_path(rng, value)}
    if kind == "increment":
        by = rng.choice([1, 2, -5, 0, 0.5, INT_MIN, -1e308])
        return {"op": kind, "path": place_of(rng, value, int, float), "by": by}
    if kind == "splice":
        added = any_array(rng, size_max=20 if rng.random() < 0.1 else 2)
        cut = {"index": rng.randint(0, 3), "remove": rng.randint(0, 2), "add": added}
        return {"op": kind, "path": place_of(rng, value, list), **cut}
    return {"op": kind, "path": path}


def any_case(rng: random.Random, *, failing: bool = True) -> tuple[Doc, list[Op]]:
    """A value and a patch, each operation chosen for what those before it made; `failing` lets the last one fail."""
    value = now = any_doc(rng)
    operations: list[Op] = []
    for _ in range(rng.randint(1, 6)):
        operation = any_operation(rng, now)
        after = outcome(now, [operation])
        if not isinstance(after, tuple):
            now = after
            operations.append(operation)
        elif failing and rng.random() < 0.5:
            return value, [*operations, operation]
        if encoded_length(now) > 2_000:  # copies of copies
            break
    return value, operations


def outcome(value: Doc, operations: list[Op]) -> Doc:
    """The new value, or a tuple, which no value is, with the index that failed."""
    try:
        return patch.apply(value, operations)
    except PatchFailed as failed:
        return ("failed", failed.facts["patch_index"])


def same(left: Doc, right: Doc) -> bool:
    """Equal, also where both are failures."""
    return left == right if isinstance(left, tuple) or isinstance(right, tuple) else json_values.equal(left, right)


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
    target = pick(value, operation["path"])
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


@pytest.mark.rule("PATCH-1", "PATCH-3")
@holds_for_seeds(1500)
def test_a_patch_gives_what_the_naive_oracle_gives_or_fails_at_the_same_operation(rng: random.Random) -> None:
    value, operations = any_case(rng)
    ours, theirs = outcome(value, operations), oracle(value, operations)
    assert same(ours, theirs), (value, operations, ours, theirs)


# ---------------------------------------------------------------- applying


@pytest.mark.rule("PATCH-2")
@holds_for_seeds(600)
def test_neither_the_old_value_nor_the_operations_are_ever_changed(rng: random.Random) -> None:
    value, operations = any_case(rng)
    everything: Doc = [value, operations]
    before = copy.deepcopy(everything)
    result = outcome(value, operations)
    assert json_values.equal(everything, before), before
    if not isinstance(result, tuple):  # and a patch of the result reaches nothing that the first one shared
        everything, before = [*everything, result], [*before, copy.deepcopy(result)]
        for path in places(result)[:12]:
            outcome(result, [{"op": "add", "path": f"{path}/{key}", "value": 1} for key in ("0", "a")])
        assert json_values.equal(everything, before), before


@pytest.mark.rule("PATCH-1")
@holds_for_seeds(1000)
def test_the_size_kept_is_the_length_of_the_encoding(rng: random.Random) -> None:
    value, operations = any_case(rng)
    after = outcome(value, operations)
    bounds: Any = {"size_max": 1_000_000, "depth_max": 1_000}
    if isinstance(after, tuple):
        with pytest.raises(PatchFailed):
            patch.apply_sized(value, encoded_length(value), operations, **bounds)
    else:
        result, size = patch.apply_sized(value, encoded_length(value), operations, **bounds)
        assert same(result, after), (value, operations)
        assert size == encoded_length(result), (value, operations)


@pytest.mark.rule("PATCH-1")
@holds_for_seeds(600)
def test_a_bound_is_passed_exactly_when_one_of_the_steps_passes_it(rng: random.Random) -> None:
    value, operations = any_case(rng, failing=False)
    states = [value]
    for operation in operations:
        states.append(patch.apply(states[-1], [operation]))
    sizes, depths = [encoded_length(state) for state in states], [json_values.depth(state) for state in states]
    size_max, depth_max = max(sizes) - rng.randint(0, 1), max(depths) - rng.randint(0, 1)
    if sizes[0] > size_max or depths[0] > depth_max:
        return
    if max(sizes) == size_max and max(depths) == depth_max:
        patch.apply_sized(value, sizes[0], operations, size_max=size_max, depth_max=depth_max)
        return
    with pytest.raises(LimitExceeded) as passed:
        patch.apply_sized(value, sizes[0], operations, size_max=size_max, depth_max=depth_max)
    assert passed.value.facts["actual"] > passed.value.facts["maximum"]
    assert (
        passed.value.facts["maximum"]
        == {"value_bytes_max": size_max, "depth_max": depth_max}[passed.value.facts["bound"]]
    )


# ---------------------------------------------------------------- footprints


def clear(writes: tuple[str, ...], touched: tuple[str, ...]) -> bool:
    return not any(pointer.overlaps(left, right) for left in writes for right in touched)


def apart(one: patch.Footprint, other: patch.Footprint) -> bool:
    """Nothing that one writes overlaps what the other writes or reads."""
    return clear(one.writes, other.writes + other.reads) and clear(other.writes, one.reads)


def some_operations(rng: random.Random, value: Doc) -> tuple[list[Op], patch.Footprint]:
    while True:
        operations = [any_operation(rng, value) for _ in range(rng.randint(1, 2))]
        try:
            return operations, patch.footprint(operations)
        except PatchFailed:
            continue


@pytest.mark.rule("PATCH-4")
@holds_for_seeds(1000)
def test_patches_with_footprints_apart_commute(rng: random.Random) -> None:
    value = any_doc(rng)
    (one, ones), *others = [some_operations(rng, value) for _ in range(6)]
    for other in (operations for operations, touched in others if apart(ones, touched)):
        works = not isinstance(outcome(value, one), tuple) and not isinstance(outcome(value, other), tuple)
        forth, back = outcome(value, [*one, *other]), outcome(value, [*other, *one])
        assert isinstance(forth, tuple) is isinstance(back, tuple) is not works, (value, one, other)
        assert not works or same(forth, back), (value, one, other)


@pytest.mark.rule("PATCH-4", "COMMIT-3")
@holds_for_seeds(100)
def test_increments_of_one_integer_commute(rng: random.Random) -> None:
    steps: list[Op] = [{"op": "increment", "path": "/n", "by": rng.randint(-99, 99)} for _ in range(5)]
    assert patch.apply({"n": 1}, steps) == patch.apply({"n": 1}, rng.sample(steps, 5))


# ---------------------------------------------------------------- inverses


@pytest.mark.rule("COMMIT-9")
@holds_for_seeds(1500)
def test_the_inverse_leads_back(rng: random.Random) -> None:
    value, operations = any_case(rng, failing=False)
    kept = copy.deepcopy(value)
    undo = patch.invert(value, operations)
    assert same(value, kept), (kept, operations)
    assert same(outcome(patch.apply(value, operations), undo), kept), (value, operations, undo)


@pytest.mark.rule("COMMIT-9")
@holds_for_seeds(500)
def test_a_patch_that_fails_has_no_inverse_and_says_so_alike(rng: random.Random) -> None:
    value, operations = any_case(rng)
    after = outcome(value, operations)
    if isinstance(after, tuple):
        with pytest.raises(PatchFailed) as failed:
            patch.invert(value, operations)
        assert failed.value.facts["patch_index"] == after[1]


def is_within(path: str, places: tuple[str, ...]) -> bool:
    return not set(places).isdisjoint(pointer.ancestors(path))


@pytest.mark.rule("COMMIT-9", "PATCH-4")
@holds_for_seeds(800)
def test_the_inverse_stays_on_the_paths_of_the_patch(rng: random.Random) -> None:
    value, operations = any_case(rng, failing=False)
    does, undoes = patch.footprint(operations), patch.footprint(patch.invert(value, operations))
    assert all(is_within(path, does.writes) for path in undoes.writes), (value, operations)
    assert all(is_within(path, does.writes + does.reads) for path in undoes.reads), (value, operations)


# ---------------------------------------------------------------- differences


@pytest.mark.rule("PATCH-3")
@holds_for_seeds(1000)
def test_a_difference_leads_from_the_old_value_to_the_new(rng: random.Random) -> None:
    old, operations = any_case(rng, failing=False)
    new = patch.apply(old, operations) if rng.random() < 0.8 else any_value(rng)
    steps = patch.diff(old, new)
    assert same(outcome(old, steps), new), (old, new, steps)
    assert (steps == []) is json_values.equal(old, new), (old, new)
    if isinstance(old, dict) and isinstance(new, dict):
        assert all(step["path"] != "" for step in steps), (old, new, steps)
