"""What may be stored, and when two values are equal."""

from __future__ import annotations

import copy
import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from json_values import values as any_value
from stemmadb.protocol.errors import InvalidValue
from stemmadb.protocol.model.values import json_values


def nested(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


def holding_itself() -> Any:
    loop: list[Any] = []
    loop.append(loop)
    return loop


@pytest.mark.rule("MODEL-3")
@pytest.mark.parametrize(
    "value", [None, True, 0, -(2**63), 2**63 - 1, 1.5, "", "ü😀", [], {}, {"": [{}]}, nested(64)]
)
def test_json_is_taken_as_it_is(value: Any) -> None:
    assert json_values.check(value) is value


@pytest.mark.rule("MODEL-3")
@pytest.mark.parametrize(
    ("value", "path", "why"),
    [
        (math.nan, "", "finite"),
        ({"a": [0, math.inf]}, "/a/1", "finite"),
        ({"a/b": -math.inf}, "/a~1b", "finite"),
        ([2**63], "/0", "64 bits"),
        ([-(2**63) - 1], "/0", "64 bits"),
        ({"k": "\ud800"}, "/k", "surrogate"),
        ({"\udfff": 1}, "", "surrogate"),
        ({"k": {1: 2}}, "/k", "a key is int"),
        ({"k": (1,)}, "/k", "tuple"),
        ({"k": b"x"}, "/k", "bytes"),
        ({"k": {1, 2}}, "/k", "set"),
        ([object()], "/0", "object"),
        (nested(65), "/0" * 64, "deeper than 64"),
        (nested(10_000), "/0" * 64, "deeper than 64"),
        (holding_itself(), "/0" * 64, "deeper than 64"),
    ],
)
def test_anything_else_is_refused_with_the_path_of_the_offence(value: Any, path: str, why: str) -> None:
    with pytest.raises(InvalidValue, match=why) as caught:
        json_values.check(value)
    assert caught.value.facts["path"] == path


@pytest.mark.rule("MODEL-3")
def test_a_value_shared_within_itself_is_refused_in_bounded_time(monkeypatch: pytest.MonkeyPatch) -> None:
    from stemmadb.protocol.model.values.limits import Limits

    monkeypatch.setattr(json_values, "DEFAULTS", Limits(value_bytes_max=1000))
    value: Any = 0
    for _ in range(40):
        value = [value, value]
    with pytest.raises(InvalidValue, match="more than 1000 items"):
        json_values.check(value)


@pytest.mark.rule("MODEL-3")
@pytest.mark.parametrize(
    ("left", "right", "same"),
    [
        (1, 1.0, True),
        (True, 1, False),
        (False, 0, False),
        (0, -0.0, True),
        ([True], [1], False),
        ({"a": [1, {"b": False}]}, {"a": [1, {"b": 0}]}, False),
        ({"a": 1, "b": 2}, {"b": 2.0, "a": 1}, True),
        ([1, 2], [2, 1], False),
        ("1", 1, False),
        (None, False, False),
        (2**53 + 1, float(2**53), False),
        ({}, [], False),
    ],
)
def test_numbers_compare_by_value_and_a_bool_never_equals_a_number(left: Any, right: Any, same: bool) -> None:
    assert json_values.equal(left, right) is same
    assert json_values.equal(right, left) is same


def naive_equal(left: Any, right: Any) -> bool:
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(naive_equal(left[key], right[key]) for key in left)
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(naive_equal, left, right))
    return bool(left == right)


@pytest.mark.rule("MODEL-3")
@given(any_value, any_value, st.booleans())
@settings(derandomize=True, deadline=None, max_examples=300)
def test_equality_is_the_obvious_recursion(left: Any, right: Any, same: bool) -> None:
    other = copy.deepcopy(left) if same else right
    assert json_values.equal(left, other) is naive_equal(left, other)


@pytest.mark.rule("MODEL-3")
@pytest.mark.parametrize(
    ("value", "depth"), [(1, 0), ("x", 0), ([], 1), ({}, 1), ([[], {"a": [1]}], 3), ({"a": {"b": 1}, "c": 2}, 2)]
)
def test_depth_counts_nested_containers(value: Any, depth: int) -> None:
    assert json_values.depth(value) == depth
