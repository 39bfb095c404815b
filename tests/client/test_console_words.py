"""Lines of the console as words: shell quotes, JSON that stands unquoted, and what a line without an end is."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from json_values import values
from stemmadb.client.console import words
from stemmadb.client.console.prompt import continuation
from stemmadb.protocol.errors import Malformed


def texts(line: str) -> list[str]:
    return [word.text for word in words.split(line)]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("", []),
        ("   ", []),
        ("get urn:todo:1  /title", ["get", "urn:todo:1", "/title"]),
        ('at "10 minutes ago"', ["at", "10 minutes ago"]),
        ("at '10 minutes ago'", ["at", "10 minutes ago"]),
        ("a'b c'd", ["ab cd"]),
        (r'say "a \"quoted\" \\ word"', ["say", r'a "quoted" \ word']),
        (r'say "C:\new"', ["say", r"C:\new"]),
        ('set urn:a {"b": "c d"} --note x', ["set", "urn:a", '{"b": "c d"}', "--note", "x"]),
        ('set urn:a [1, [2, "]"], {"}": "{"}]', ["set", "urn:a", '[1, [2, "]"], {"}": "{"}]']),
        ('set urn:a {"q": "\\"} {"}', ["set", "urn:a", '{"q": "\\"} {"}']),
        ('query {\n "a":\t1\n}', ["query", '{\n "a":\t1\n}']),
    ],
)
def test_a_line_is_split_into_words(line: str, expected: list[str]) -> None:
    assert texts(line) == expected


@given(value=values)
def test_any_json_object_or_array_stands_unquoted(value: object) -> None:
    written = json.dumps([value])
    name, word, rest = words.split(f"set {written} after")
    assert (name.text, rest.text) == ("set", "after")
    assert word.raw == written
    assert (word.start, word.end) == (4, 4 + len(written))


@given(text=st.text(alphabet=st.characters(exclude_characters="\"'\\{}[]", exclude_categories=["Cs"])))
def test_a_quoted_text_is_one_word(text: str) -> None:
    assert texts(f'at "{text}"') == ["at", text]


@pytest.mark.parametrize("line", ["set urn:a {", 'set urn:a {"b": "c', "at 'yest", "[[1]", '{"a": "}'])
def test_a_line_that_ends_inside_of_a_word_is_not_finished(line: str) -> None:
    assert not words.is_finished(line)
    with pytest.raises(Malformed, match=r"The line is not finished: .+\."):
        words.split(line)


@pytest.mark.parametrize("line", ["get a", '{"a": 1]', "]", "get urn:a }"])
def test_a_line_that_no_next_one_can_mend_is_finished(line: str) -> None:
    assert words.is_finished(line)


def test_brackets_that_do_not_fit_are_told() -> None:
    with pytest.raises(Malformed, match=r"']' at letter 8 closes nothing"):
        words.split('{"a": 1]')


@pytest.mark.parametrize(
    ("raw", "value"), [('"a b"', "a b"), ("1", 1), ("null", None), ('{"a": [true]}', {"a": [True]}), ("-1.5", -1.5)]
)
def test_a_value_is_json(raw: str, value: object) -> None:
    assert words.value_of(words.split(f"set {raw}")[1]) == value


@pytest.mark.parametrize("raw", ["hello", "{a: 1}", "NaN", "'text'", '{"a": 1, "a": 2}'])
def test_what_is_no_json_is_told_with_its_place(raw: str) -> None:
    with pytest.raises(Malformed, match=r"The value is not JSON"):
        words.value_of(words.split(f"set {raw}")[1])


def test_a_quoted_word_is_never_an_option() -> None:
    assert [word.is_option for word in words.split("log --all '--all' -- -x")] == [False, True, False, False, False]


@pytest.mark.parametrize(
    ("line", "waits"),
    [
        ("set urn:a {", "}"),
        ('set urn:a {"a": [1', "]"),
        ("get 'urn", "'"),
        ('set urn:a {"a', '"'),
        ("ls", ""),
        ("set urn:a {]", ""),
    ],
)
def test_an_open_line_says_what_it_waits_for(line: str, waits: str) -> None:
    assert words.waits_for(line) == waits
    assert waits in continuation(line)
    assert continuation(line).startswith("... ")
