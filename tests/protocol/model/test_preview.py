"""A preview shows the beginning of a value, says what it left out, and never grows (QUERY-9)."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stemmadb.protocol.model.query.preview import (
    LEVELS_MAX,
    OMITTED_BYTES_MAX,
    OMITTED_MAX,
    PREVIEW_BYTES_MAX,
    json_size,
    preview,
)
from stemmadb.protocol.model.values import pointer

LEAVES = st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.text(max_size=300)
VALUES = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=30) | st.dictionaries(st.text(max_size=40), inner, max_size=30)
)


def leaves(value: Any, path: tuple[str, ...] = ()) -> dict[str, Any]:
    """Every leaf by its path; an empty object or array is one."""
    if isinstance(value, dict) and value:
        return {p: leaf for key, one in value.items() for p, leaf in leaves(one, (*path, key)).items()}
    if isinstance(value, list) and value:
        return {p: leaf for index, one in enumerate(value) for p, leaf in leaves(one, (*path, str(index))).items()}
    return {pointer.write(path): value}


def is_below(path: str, others: tuple[str, ...]) -> bool:
    return any(path == one or path.startswith(one + "/") for one in others)


@pytest.mark.rule("QUERY-9")
@given(VALUES)
def test_what_is_kept_is_in_the_value_and_what_is_not_is_omitted(value: Any) -> None:
    shown = preview(value)
    assert shown.size == len(json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode())
    if shown.size <= PREVIEW_BYTES_MAX:
        assert (shown.value, shown.truncated, shown.omitted) == (value, False, ())
        return
    assert shown.truncated
    assert shown.omitted
    assert len(shown.omitted) <= OMITTED_MAX
    assert sum(len(path.encode()) for path in shown.omitted) <= OMITTED_BYTES_MAX
    if not shown.has_value:
        assert not isinstance(value, dict | list)
        return
    assert json_size(shown.value) <= PREVIEW_BYTES_MAX
    whole, kept = leaves(value), leaves(shown.value)
    emptied = {path for path, leaf in kept.items() if leaf in ({}, []) and path not in whole}
    assert {path: leaf for path, leaf in kept.items() if path not in emptied}.items() <= whole.items()
    assert not [path for path in kept if path not in emptied and is_below(path, shown.omitted)]


@pytest.mark.rule("QUERY-9")
def test_members_are_kept_in_their_order_and_shortened_from_within() -> None:
    shown = preview({"title": "a", "text": "x" * 600, "done": False, "tags": list(range(400)), "by": {"name": "ada"}})
    assert isinstance(shown.value, dict)
    assert list(shown.value) == ["title", "done", "tags"]
    tags = shown.value["tags"]
    assert isinstance(tags, list)
    assert tags == list(range(len(tags)))
    assert shown.omitted == ("/text", f"/tags/{len(tags)}", "/by")


@pytest.mark.rule("QUERY-9")
@pytest.mark.parametrize(
    "value", ["x" * 511, "x" * 100_000, {"a" * 600: 1}, [["y" * 600]], {str(n): n for n in range(10_000)}]
)
def test_large_values_of_every_kind(value: Any) -> None:
    shown = preview(value)
    assert shown.truncated
    assert not shown.has_value or json_size(shown.value) <= PREVIEW_BYTES_MAX
    assert shown.omitted or isinstance(value, dict)


@pytest.mark.rule("QUERY-9")
def test_a_preview_does_not_go_down_without_bound() -> None:
    value: Any = "z" * 600
    for _ in range(60):
        value = {"a": value, "b": 1}
    shown = preview(value)
    assert json_size(shown.value) <= PREVIEW_BYTES_MAX
    assert shown.omitted == ("/a" * LEVELS_MAX,) or shown.truncated
