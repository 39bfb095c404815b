"""JSON of no known shape: good values are cleared without a walk, bad ones named within bounds (MODEL-3)."""

from __future__ import annotations

import math
import tracemalloc
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from json_values import values as any_value
from stemmadb.protocol.errors import InvalidValue, Malformed
from stemmadb.protocol.model.values import body, json_values
from stemmadb.protocol.model.values.body import encode
from stemmadb.protocol.model.values.limits import DEFAULTS
from stemmadb.protocol.wire.codec import untyped
from stemmadb.protocol.wire.codec.json_codec import JsonCodec
from stemmadb.protocol.wire.codec.msgpack_codec import MsgpackCodec
from wire_raw import query


def nested(levels: int, inner: Any = 1) -> Any:
    for _ in range(levels):
        inner = [inner]
    return inner


def encoded(value: Any, depth_max: int = 64) -> bytes:
    return untyped.encoded(value, "body", depth_max=depth_max)


@pytest.mark.rule("WIRE-1")
def test_a_good_value_is_not_walked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_values, "check", None)
    value = {"a": [0] * 1_000, "b": [{"c": [1.5, None, True, "ä"]}]}
    assert encoded(value) == encode(value)
    untyped.check(value, "schema", DEFAULTS)


@pytest.mark.rule("MODEL-3")
def test_the_walk_takes_no_memory_of_its_own() -> None:
    flat = [0] * 20_000
    value = [flat, nested(60, flat), dict.fromkeys(map(str, range(20_000)), "x")]
    tracemalloc.start()
    json_values.check(value)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 50_000


def walked(value: Any, depth_max: int) -> InvalidValue | None:
    try:
        json_values.check(value, depth_max)
    except InvalidValue as offence:
        return offence
    return None


ODD = st.sampled_from([math.inf, 2**63, -(2**63) - 1, 2**70, "\ud800", b"x"])
MIXED = st.recursive(any_value | ODD, lambda inner: st.lists(inner, max_size=3), max_leaves=8)


@pytest.mark.rule("MODEL-3")
@given(MIXED, st.integers(1, 9))
@settings(derandomize=True, deadline=None, max_examples=300)
def test_what_is_cleared_is_what_the_walk_takes(value: Any, depth_max: int) -> None:
    offence = walked(value, depth_max)
    if offence is None:
        assert encoded(value, depth_max) == encode(value)
        return
    with pytest.raises(InvalidValue) as caught:
        encoded(value, depth_max)
    assert caught.value.facts == {**offence.facts, "path": "body" + offence.facts["path"]}


@pytest.mark.rule("MODEL-3")
@pytest.mark.parametrize("depth_max", [2, 6, 7, 64, 70])
def test_the_depth_is_the_one_of_the_limits_given(depth_max: int) -> None:
    assert encoded(nested(depth_max), depth_max) == encode(nested(depth_max))
    with pytest.raises(InvalidValue, match=f"deeper than {depth_max}"):
        encoded(nested(depth_max + 1), depth_max)


@pytest.mark.rule("MODEL-3")
def test_a_depth_that_no_stack_reaches_is_malformed() -> None:
    with pytest.raises(Malformed, match="nested too deep"):
        encoded(nested(5_000), 10_000)


@pytest.mark.rule("MODEL-3")
def test_what_is_walked_has_a_bounded_number_of_items(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(untyped, "_WALKED_MAX", 58)
    for value in (nested(7, [0] * 50), [0] * 56 + ["\u00e4"]):
        assert encoded(value) == encode(value)
    with pytest.raises(InvalidValue, match="more than 58 items"):
        encoded(nested(7, [0] * 51))
    with pytest.raises(InvalidValue, match="more than 58 items"):
        encoded([0] * 58 + ["\ud800"])
    assert encoded([0] * 100) == encode([0] * 100)


@pytest.mark.rule("MODEL-3")
def test_a_value_of_very_many_containers_is_not_copied_to_be_cleared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(body, "CONTAINERS_MAX", 20)
    monkeypatch.setattr(untyped, "_WALKED_MAX", 30)
    taken: list[Any] = [[{}] * 18, [{}] * 29, ["x" * 100], [[], "\u00c1" * 20]]
    for value in taken:
        assert encoded(value) == encode(value)
    with pytest.raises(InvalidValue, match="more than 30 items"):
        encoded([{}] * 30)
    assert encoded([0] * 30) == encode([0] * 30)


@pytest.mark.rule("WIRE-4")
@pytest.mark.parametrize("key", ["k" * 900_000, "/" * 900_000])
def test_the_place_of_an_offence_is_quoted_within_bounds(key: str) -> None:
    with pytest.raises(Malformed) as caught:
        MsgpackCodec().read_client(query({key: math.nan}))
    assert caught.value.facts["path"].startswith("query/roots/0/schema/")
    assert len(caught.value.message) < 500
    with pytest.raises(InvalidValue) as offence:
        JsonCodec().read_client(
            '{"type":"commit","local":1,"nonce":"AAAAAAAAAAAAAAAAAAAAAA==","content":{"operations":'
            f'[{{"op":"set","id":"urn:a:1","body":{{"{key}":1e400}}}}]}}}}'
        )
    assert offence.value.facts["path"].startswith("content/operations/0/body/")
    assert len(offence.value.message) < 500
