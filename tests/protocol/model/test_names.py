"""Ids, branch names, pointers and references: what each accepts and how each refuses."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stemmadb.protocol.errors import InvalidId, InvalidName, InvalidPointer, InvalidReference
from stemmadb.protocol.model.values import ids, pointer, reference


@pytest.mark.rule("MODEL-2")
@pytest.mark.parametrize(
    "text", ["urn:todo:1", "did:key:z6Mk", "https://example.org/a?b=c#d", "x:y", "urn:ü:é", "urn:" + "a" * 508]
)
def test_an_entity_id_is_a_uri(text: str) -> None:
    assert ids.entity_id(text) == text


@pytest.mark.rule("MODEL-2")
@pytest.mark.parametrize(
    "text",
    [
        "",
        "todo",
        ":x",
        "urn:",
        "1a:b",
        "urn:a b",
        "urn:a\n",
        "urn:<x>",
        "urn:\x00",
        "urn:\ud800",
        "urn:" + "a" * 509,
        "urn:" + "ü" * 300,
    ],
)
def test_what_is_no_uri_or_too_long_is_no_entity_id(text: str) -> None:
    with pytest.raises(InvalidId) as caught:
        ids.entity_id(text)
    caught.value.message.encode()


@pytest.mark.rule("MODEL-2")
@pytest.mark.skipif(unicodedata.unidata_version != "14.0.0", reason="the rule names the categories of Unicode 14.0")
def test_an_id_holds_no_character_that_cannot_be_seen() -> None:
    """Every code point beyond ASCII, against its category: the rule is written out."""
    for code in range(0x80, 0x110000):
        character = chr(code)
        is_noncharacter = 0xFDD0 <= code <= 0xFDEF or code & 0xFFFE == 0xFFFE
        is_unseen = is_noncharacter or unicodedata.category(character) in {"Cc", "Cf", "Zs", "Zl", "Zp", "Cs"}
        assert _is_accepted(ids.entity_id, f"urn:{character}") is not is_unseen, hex(code)
        assert _is_accepted(ids.id_prefix, f"urn:{character}") is not is_unseen, hex(code)


def _is_accepted(check: Callable[[str], str], text: str) -> bool:
    try:
        check(text)
    except InvalidId:
        return False
    return True


@pytest.mark.rule("MODEL-2")
@pytest.mark.parametrize("code", [0x80, 0x9F, 0xA0, 0x2028, 0x202E, 0x3000, 0xFEFF, 0xFFFE, 0x1FFFE, 0xE0041])
def test_an_unseen_character_is_refused_whatever_the_unicode_of_the_runtime(code: int) -> None:
    assert not _is_accepted(ids.entity_id, f"urn:{chr(code)}")


@pytest.mark.rule("MODEL-2")
def test_a_prefix_may_be_empty_and_may_not_hold_what_no_id_holds() -> None:
    assert ids.id_prefix("") == ""
    assert ids.id_prefix("urn:todo:") == "urn:todo:"
    for wrong in ("urn: ", "{", "\ud800", "u" * 513):
        with pytest.raises(InvalidId):
            ids.id_prefix(wrong)


@pytest.mark.rule("MODEL-2")
@pytest.mark.parametrize("text", ["main", "feature/x-1", "A.b_c", "a" * 128])
def test_a_branch_name_is_short_and_plain(text: str) -> None:
    assert ids.branch_name(text) == text


@pytest.mark.rule("WIRE-1")
def test_main_is_the_same_object_however_its_name_was_made() -> None:
    """Messages leave a default out only if it is the same object: a request has the same bytes in every process."""
    ids.branch_name.cache_clear()
    assert ids.branch_name("".join(["ma", "in"])) is ids.MAIN


@pytest.mark.rule("MODEL-2")
@pytest.mark.parametrize("text", ["", "a b", "ü", "a" * 129, "a\n", "a:b", "\ud800"])
def test_anything_else_is_no_branch_name(text: str) -> None:
    with pytest.raises(InvalidName):
        ids.branch_name(text)


@pytest.mark.rule("PATCH-1")
@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("", ()),
        ("/", ("",)),
        ("/a/b", ("a", "b")),
        ("/a~1b/m~0n", ("a/b", "m~n")),
        ("/~01", ("~1",)),
        ("//", ("", "")),
    ],
)
def test_pointers_are_those_of_rfc_6901(text: str, tokens: tuple[str, ...]) -> None:
    assert pointer.parse(text) == tokens
    assert pointer.write(tokens) == text


@pytest.mark.rule("PATCH-1")
@pytest.mark.parametrize("text", ["a", "a/b", "/~", "/~2", "/a~", "#/a", " /a"])
def test_a_bad_pointer_is_named(text: str) -> None:
    with pytest.raises(InvalidPointer) as caught:
        pointer.parse(text)
    assert caught.value.facts["pointer"] == text


@pytest.mark.rule("PATCH-1")
@pytest.mark.parametrize(
    ("token", "index"),
    [
        ("0", 0),
        ("3", 3),
        ("4", None),
        ("01", None),
        ("-1", None),
        ("1e0", None),
        ("-", None),
        ("", None),
        ("9" * 5000, None),
        ("٣", None),
    ],
)
def test_an_index_is_written_one_way(token: str, index: int | None) -> None:
    assert pointer.index(token, 3) == index


tokens = st.lists(st.sampled_from(["a", "b", "a/b", "~", "~1", "", "0"]), max_size=4)


@pytest.mark.rule("COMMIT-2", "PATCH-4")
@given(tokens, tokens)
@settings(derandomize=True, deadline=None, max_examples=500)
def test_overlap_and_ancestors_on_texts_are_prefixes_of_tokens(one: list[str], other: list[str]) -> None:
    left, right = pointer.write(one), pointer.write(other)
    assert pointer.parse(left) == tuple(one)
    inside = other[: len(one)] == one
    assert pointer.overlaps(left, right) is (inside or one[: len(other)] == other)
    assert (left in pointer.ancestors(right)) is inside


@pytest.mark.rule("PATCH-4")
def test_parent_and_last_take_a_pointer_apart() -> None:
    assert (pointer.parent("/a/b~1c"), pointer.last("/a/b~1c")) == ("/a", "b~1c")
    assert (pointer.parent("/a"), pointer.last("/a")) == ("", "a")
    assert (pointer.parent(""), pointer.last("")) == ("", "")


@pytest.mark.rule("FACT-4")
@given(st.binary(min_size=32, max_size=32))
@settings(derandomize=True, deadline=None, max_examples=200)
def test_a_reference_and_its_hash_are_one_to_one(raw: bytes) -> None:
    text = reference.write(raw)
    assert text.startswith("b3:")
    assert text == text.lower()
    assert "=" not in text
    assert reference.read(text) == raw


@pytest.mark.rule("FACT-4")
@pytest.mark.parametrize(
    "text",
    [
        "",
        "b3:",
        "b3:" + "a" * 51,
        "b3:" + "a" * 53,
        "b3:" + "A" * 52,
        "b2:" + "a" * 52,
        "b3:" + "a" * 51 + "b",
        "b3:" + "1" * 52,
        "b3:" + "a" * 52 + "\n",
        "\ud800",
    ],
)
def test_any_other_text_is_no_reference(text: Any) -> None:
    with pytest.raises(InvalidReference):
        reference.read(text)
