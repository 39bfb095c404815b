"""The pure rules of agent memory: names, times, ids, texts, embeddings."""

from __future__ import annotations

import math
import struct
from datetime import datetime
from typing import get_args

import msgspec
import pytest
from blake3 import blake3
from hypothesis import given
from hypothesis import strategies as st

from stemmadb.memory.rules import calls, ids, instants, namespaces, records, texts
from stemmadb.memory.rules.instants import Millis
from stemmadb.memory.rules.namespaces import Namespace
from stemmadb.memory.rules.refusals import InvalidRequest

NOW = Millis(1_763_458_200_000)
MOMENTS = st.integers(0, 4_000_000_000_000).map(Millis)


# ---------------------------------------------------------------- times


@given(MOMENTS)
def test_a_time_that_is_written_is_read_as_the_same_time(at: Millis) -> None:
    assert instants.read(instants.write(at), "t") == at


@given(st.datetimes(datetime(1971, 1, 1), datetime(2200, 1, 1)), st.integers(-14 * 60, 14 * 60))
def test_an_offset_is_counted_as_python_counts_it(moment: datetime, minutes: int) -> None:
    sign, (hours, rest) = "-" if minutes < 0 else "+", divmod(abs(minutes), 60)
    text = f"{moment:%Y-%m-%dT%H:%M:%S}{sign}{hours:02d}:{rest:02d}"
    assert instants.read(text, "t") == round(datetime.fromisoformat(text).timestamp()) * 1_000


@pytest.mark.parametrize(
    "text",
    ["", "now", "2026-11-18", "2026-11-18T10:00:00", "2026-13-01T00:00:00Z", "2026-02-30T00:00:00Z",
     "2026-11-18T24:00:01Z", "2026-11-18T10:00:00+25:00", "\uff12026-11-18T10:00:00Z", None, 5, True],
)  # fmt: skip
def test_what_is_no_time_is_refused_with_the_field(text: object) -> None:
    with pytest.raises(InvalidRequest) as refused:
        instants.read(text, "expires_at")
    assert refused.value.field == "expires_at"


def test_fractions_are_cut_to_milliseconds_and_a_leap_second_is_the_one_before() -> None:
    assert instants.write(instants.read("2016-12-31T23:59:60.99999Z", "t")) == "2016-12-31T23:59:59.999Z"
    assert instants.read("1969-12-31T23:59:59.500Z", "t") == -500


@pytest.mark.rule("MEM-3")
def test_expired_from_the_very_millisecond_on() -> None:
    assert not instants.is_past(Millis(NOW + 1), NOW)
    assert instants.is_past(NOW, NOW)
    assert not instants.is_past(None, NOW)


# ---------------------------------------------------------------- names and ids


def test_names_of_256_characters_are_taken_and_of_257_refused() -> None:
    longest = "org:" + "a" * 252
    assert namespaces.read_name(longest) == longest
    with pytest.raises(InvalidRequest, match="257"):
        namespaces.read_name(longest + "a")


@pytest.mark.parametrize("name", ["", "org", "org:", ":x", "Org:x", "org:ü", "org:a b", "org:x\n", None, 5])
def test_names_outside_the_pattern_are_refused(name: object) -> None:
    with pytest.raises(InvalidRequest):
        namespaces.read_name(name)


@given(st.text())
def test_every_repository_has_a_valid_namespace_of_its_own(repo_id: str) -> None:
    name = namespaces.of_repository(repo_id)
    assert namespaces.read_name(name) == name
    if name != f"custom:{repo_id}":
        assert name.startswith("custom:h.")


def test_a_repository_cannot_take_the_hashed_name_of_another() -> None:
    hashed = namespaces.of_repository("a b")
    assert namespaces.of_repository(hashed.removeprefix("custom:")) != hashed


@pytest.mark.rule("MEM-1")
def test_the_id_of_a_memory_says_its_namespace_and_uuid() -> None:
    nsh, uuid = ids.namespace_hash("org:global"), ids.read_memory_id("550E8400-e29b-41d4-a716-446655440000")
    assert len(nsh) == 26
    assert ids.parts_of(ids.memory_entity(nsh, uuid)) == (nsh, uuid)
    for other in (ids.vector_entity(nsh, uuid), "urn:memory:x", "urn:memory:" + nsh + ":no-uuid", "urn:note:1"):
        assert ids.parts_of(other) is None


@given(st.lists(st.text(max_size=5), min_size=4, max_size=4), st.lists(st.text(max_size=5), min_size=4, max_size=4))
def test_calls_have_the_same_id_only_if_all_their_parts_are_the_same(one: list[str], other: list[str]) -> None:
    assert (ids.call_entity(*one) == ids.call_entity(*other)) == (one == other)


def test_a_key_that_is_no_text_names_a_call_too() -> None:
    """A header may hold any bytes, which Python reads as lone surrogates."""
    assert ids.call_entity("\udcff", "plugin", "write", "space") != ids.call_entity(
        "\udcfe", "plugin", "write", "space"
    )


@pytest.mark.parametrize("text", ["", "x", "550e8400e29b41d4a716446655440000", 5, None])
def test_what_is_no_uuid_is_refused(text: object) -> None:
    with pytest.raises(InvalidRequest):
        ids.read_memory_id(text)


# ---------------------------------------------------------------- namespaces


def namespace(**fields: object) -> Namespace:
    return Namespace(**({"name": "org:x", "kind": "org", "created_at": Millis(1)} | fields))  # type: ignore[arg-type]


@pytest.mark.rule("MEM-2")
def test_putting_a_namespace_again_keeps_when_it_was_created() -> None:
    again = namespaces.upserted(
        namespace(metadata={"a": 1}), name="org:x", kind="team", metadata=None, expires_at=None, now=NOW
    )
    assert (again.created_at, again.kind, again.metadata) == (1, "team", None)


@pytest.mark.rule("MEM-2", "MEM-3")
@pytest.mark.parametrize("before", [None, namespace(expires_at=NOW), namespace(deleting=True)])
def test_a_namespace_that_is_absent_expired_or_deleted_begins_anew(before: Namespace | None) -> None:
    assert not namespaces.is_present(before, NOW)
    made = namespaces.upserted(before, name="org:x", kind="org", metadata=None, expires_at=None, now=NOW)
    assert made.created_at == NOW
    assert namespaces.is_present(made, NOW)


@pytest.mark.rule("MEM-3")
def test_a_memory_is_found_only_while_it_and_its_namespace_are_there() -> None:
    memory = records.Memory(ns="org:x", kind="fact", text="t", via="http", created_at=Millis(1))
    assert records.is_visible(memory, namespace(), NOW)
    assert not records.is_visible(memory, namespace(expires_at=NOW), NOW)
    assert not records.is_visible(memory, None, NOW)
    expired = records.Memory(ns="org:x", kind="fact", text="t", via="http", created_at=Millis(1), expires_at=NOW)
    assert not records.is_visible(expired, namespace(), NOW)
    assert records.is_visible(expired, namespace(), Millis(NOW - 1))


# ---------------------------------------------------------------- records


@given(st.text(min_size=1), st.sampled_from(get_args(records.MemoryKind)), st.none() | MOMENTS, st.booleans())
def test_a_memory_is_read_back_as_it_was_stored(
    text: str, kind: records.MemoryKind, expires: Millis | None, pin: bool
) -> None:
    memory = records.Memory(
        ns="org:x",
        kind=kind,
        text=text,
        via="http",
        created_at=NOW,
        expires_at=expires,
        pin=pin,
    )
    assert records.memory_of(records.stored(memory)) == memory


@pytest.mark.parametrize("value", [None, 5, [], {}, {"v": 2}, {"v": 1, "ns": "org:x", "kind": "odd", "text": "t"}])
def test_what_somebody_else_wrote_under_the_id_of_a_memory_is_none(value: object) -> None:
    assert records.memory_of(value) is None


@given(st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False), min_size=1, max_size=20))
def test_an_embedding_is_read_back_number_by_number(numbers: list[float]) -> None:
    vector = records.read_embedding(numbers)
    assert vector.dims == len(numbers)
    assert list(struct.unpack(f"<{vector.dims}f", records.floats_of(vector))) == numbers


@pytest.mark.parametrize(
    "given_", [None, [], "12", [True], ["1"], [math.nan], [math.inf], [1e300], [10**400], {}, [None], 5]
)
def test_an_embedding_that_cannot_be_compared_is_refused(given_: object) -> None:
    with pytest.raises(InvalidRequest):
        records.read_embedding(given_)


@pytest.mark.parametrize("text", ["", "  \n\t", "\ud800", None, 5])
def test_text_that_says_nothing_or_cannot_be_stored_is_refused(text: object) -> None:
    with pytest.raises(InvalidRequest):
        texts.checked(text, "content")


def test_nul_and_any_character_are_text() -> None:
    assert texts.checked("a\0b", "content") == "a\0b"


@pytest.mark.rule("MEM-4")
def test_the_hash_of_arguments_needs_the_key_of_the_call_and_no_order() -> None:
    text = {"name": "org:a", "text": "a zebra"}
    made = calls.hash_arguments("key 1", text)
    assert made == calls.hash_arguments("key 1", dict(reversed(text.items())))
    others = [calls.hash_arguments("key 2", text), calls.hash_arguments("key 1", text | {"text": "a horse"})]
    stored = ids.call_entity("key 1", "plugin", "write", "space").removeprefix(ids.CALLS)
    encoded = msgspec.json.encode(text, order="sorted")
    others += [blake3(encoded).hexdigest(), blake3(encoded, key=bytes.fromhex(stored)).hexdigest()]
    assert made not in others
