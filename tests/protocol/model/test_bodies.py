"""Bodies: msgpack read exactly, within bounds, with the path of the first offence."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from typing import Any

import msgpack
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from json_values import values as any_value
from stemmadb.protocol.errors import InvalidValue, LimitExceeded, StemmaError
from stemmadb.protocol.model.values import body, json_values, scan
from stemmadb.protocol.model.values.limits import Limits


def packed(value: Any) -> bytes:
    data: bytes = msgpack.packb(value)
    return data


@pytest.mark.rule("MODEL-4")
@given(any_value)
@settings(derandomize=True, deadline=None, max_examples=400)
def test_what_any_msgpack_library_writes_is_read_back_with_its_size(value: Any) -> None:
    data = packed(value)
    read, size = body.read(data)
    assert json_values.equal(read, value)
    assert repr(read) == repr(msgpack.unpackb(data))
    assert size == len(body.encode(read)) == len(data)
    assert repr(scan.read(data)) == repr(read)


@pytest.mark.rule("MODEL-4")
def test_an_encoding_that_is_not_minimal_is_read_and_measured_as_minimal() -> None:
    long_forms = (
        b"\xde\x00\x02" + b"\xd9\x01a" + b"\xd3" + (5).to_bytes(8, "big") + b"\xda\x00\x01b" + b"\xca\x3f\xc0\x00\x00"
    )
    assert body.read(long_forms) == ({"a": 5, "b": 1.5}, len(body.encode({"a": 5, "b": 1.5})))


@pytest.mark.rule("MODEL-3")
@pytest.mark.parametrize(
    ("data", "path", "why"),
    [
        (b"", "", "ends in the middle"),
        (b"\xc1", "", "0xc1"),
        (packed(float("nan")), "", "finite"),
        (packed([1, {"x": float("inf")}]), "/1/x", "finite"),
        (b"\xca\x7f\x80\x00\x00", "", "finite"),
        (packed([2**63]), "/0", "64 bits"),
        (packed({"a": b"raw"}), "/a", "binary"),
        (packed({"a": msgpack.ExtType(4, b"x")}), "/a", "extension"),
        (packed([msgpack.Timestamp(5)]), "/0", "extension"),
        (packed({"m": {1: 2}}), "/m", "a key is int"),
        (packed({b"k": 1}), "", "binary"),
        (b"\x81\xc0\x01", "", "a key is NoneType"),
        (b"\x81\x91\x01\x01", "", "a key is list"),
        (b"\x82\xa1a\x01\xa1a\x02", "", "'a' occurs twice"),
        (b"\x81\xa1m\x82\xa1a\x01\xd9\x01a\x02", "/m", "'a' occurs twice"),
        (b"\xa3\xed\xa0\x80", "", "UTF-8"),
        (b"\x01\x01", "", "1 bytes follow"),
        (b"\xdd\xff\xff\xff\xff", "", "declares 4294967295 items"),
        (b"\xdf\x7f\xff\xff\xff\xa1a\x01", "", "declares 2147483647 items"),
        (b"\xdb\xff\xff\xff\xffabc", "", "ends in the middle"),
        (b"\xdc\x00", "", "ends in the middle"),
        (b"\x92\x01", "", "declares 2 items"),
        (b"\x91" * 65 + b"\x01", "/0" * 64, "deeper than 64"),
        (b"\x91" * 10_000 + b"\x01", "/0" * 64, "deeper than 64"),
        (b"\x91" * 64 + b"\x90", "/0" * 64, "deeper than 64"),
        (b"\x91" * 64 + b"\x80", "/0" * 64, "deeper than 64"),
        (b"\x81\xa1a" * 10_000 + b"\x01", "/a" * 64, "deeper than 64"),
    ],
)
def test_what_is_not_json_is_refused_with_its_path(data: bytes, path: str, why: str) -> None:
    with pytest.raises(InvalidValue, match=why) as caught:
        body.read(data)
    assert caught.value.facts["path"] == path


@pytest.mark.rule("MODEL-3")
@pytest.mark.parametrize("depth", [5, 6, 7, 8, 63, 64])
def test_every_depth_up_to_the_bound_is_read(depth: int) -> None:
    data = b"\x91" * depth + b"\x01"
    assert json_values.depth(body.read(data)[0]) == depth
    with pytest.raises(InvalidValue, match=f"deeper than {depth - 1}"):
        body.read(data, depth_max=depth - 1)


@pytest.mark.rule("MODEL-3")
@pytest.mark.parametrize(
    "head", [b"\xdd\xff\xff\xff\xff", b"\xdf\xff\xff\xff\xff", b"\xdb\xff\xff\xff\xff", b"\xc6\xff\xff\xff\xff"]
)
def test_a_huge_declared_length_costs_no_memory(head: bytes) -> None:
    tracemalloc.start()
    with pytest.raises(InvalidValue):
        body.read(head + b"\xc0" * 1000)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 1_000_000


@pytest.mark.rule("MODEL-3")
@given(
    st.binary(max_size=40)
    | st.builds(lambda v, i, b: _spoilt(packed(v), i, b), any_value, st.integers(0), st.binary(max_size=2))
)
@settings(derandomize=True, deadline=None, max_examples=800)
def test_any_bytes_are_read_alike_by_both_readers_or_refused_by_both(data: bytes) -> None:
    exact, fast = outcome_of(scan.read, data), outcome_of(lambda raw: body.read(raw)[0], data)
    assert exact == fast


def outcome_of(read: Callable[[bytes], Any], data: bytes) -> tuple[str, Any]:
    try:
        value = read(data)
    except InvalidValue as refusal:
        return "refused", refusal.facts
    assert json_values.check(value) is value
    return "read", repr(value)


def _spoilt(data: bytes, at: int, by: bytes) -> bytes:
    at %= len(data) + 1
    return data[:at] + by + data[at + 1 :]


@pytest.mark.rule("MODEL-3")
def test_a_value_is_bounded_in_bytes() -> None:
    limits = Limits(value_bytes_max=10)
    assert body.read_value(packed("x" * 9), limits) == ("x" * 9, 10)
    for read in (body.read_value, body.read_patch):
        with pytest.raises(LimitExceeded) as caught:
            read(packed("x" * 10), limits)
        assert caught.value.facts == {"bound": "value_bytes_max", "maximum": 10, "actual": 11}


@pytest.mark.rule("PATCH-1")
@pytest.mark.parametrize("wrong", [1, "x", {}, [1], [[]], [{}, None]])
def test_a_patch_is_a_list_of_operations(wrong: Any) -> None:
    with pytest.raises(InvalidValue, match="a list of operations"):
        body.read_patch(packed(wrong))


@pytest.mark.rule("PATCH-1")
def test_a_patch_is_bounded_in_operations_and_may_bring_values_of_full_depth() -> None:
    deep: Any = 1
    for _ in range(64):
        deep = [deep]
    splice = [{"op": "splice", "path": "", "index": 0, "remove": 0, "add": [deep]}]
    assert body.read_patch(packed(splice)) == splice
    many = [{"op": "test", "path": "", "value": 1}] * 3
    assert body.read_patch(packed(many), Limits(patch_operations_max=3)) == many
    with pytest.raises(LimitExceeded, match="patch_operations_max"):
        body.read_patch(packed(many), Limits(patch_operations_max=2))


@pytest.mark.rule("MODEL-4")
def test_every_refusal_is_one_of_ours() -> None:
    for first in range(256):
        for rest in (b"", b"\x00", b"\xff" * 9):
            try:
                body.read(bytes([first]) + rest)
            except StemmaError:
                continue


@pytest.mark.rule("MODEL-3")
def test_very_many_containers_are_counted_before_they_are_made() -> None:
    assert len(body.read(b"\xdd" + (400_000).to_bytes(4, "big") + b"\x80" * 400_000)[0]) == 400_000  # type: ignore[arg-type]
    swollen = b"\xdd" + (2_000_000).to_bytes(4, "big") + b"\x80" * 2_000_000
    with pytest.raises(LimitExceeded) as caught:
        body.read(swollen)
    assert caught.value.facts["bound"] == "exact_items_max"


@pytest.mark.rule("MODEL-3")
def test_a_long_text_of_bytes_that_look_like_containers_is_one_item() -> None:
    text = "\u0400" * 600_000  # d0 80, again and again
    assert body.read(packed(text))[0] == text


@pytest.mark.rule("MODEL-3")
def test_the_path_of_an_offence_is_short_enough_to_tell() -> None:
    with pytest.raises(InvalidValue) as caught:
        body.read(b"\x81" + packed("~" * 100_000) + b"\xc1")
    assert len(caught.value.message) < 1_000


@pytest.mark.rule("COMMIT-8")
def test_a_stored_body_is_read_whatever_the_bounds_and_damage_is_told() -> None:
    deep: Any = b"\x91" * 200 + b"\x01"
    assert json_values.depth(body.read_stored(deep)) == 200
    for damaged in (b"", b"\xc1", b"\xa1\xff", b"\x91" * 100_000):
        with pytest.raises(InvalidValue, match="damaged"):
            body.read_stored(damaged)
