"""The `pattern` keyword: ECMA-262 as the draft asks for, in linear time."""

from __future__ import annotations

from typing import Any

import pytest

from stemmadb.protocol.errors import InvalidSchema, LimitExceeded
from stemmadb.protocol.model import schema

LINE_ENDS = "\n\r\u2028\u2029"
SPACES = "\t\n\v\f\r \u00a0\u1680\u2028\u2029\u202f\u205f\u3000\ufeff" + "".join(map(chr, range(0x2000, 0x200B)))

FOUND: list[tuple[str, str]] = [
    ("b", "abc"),
    ("^a|c$", "bc"),
    (r"^\$\{x\}$", "${x}"),
    (r"^\d\w\s$", "1_\u00a0"),
    (r"^\D\W\S$", "aé\u0300"),
    (r"[^\d\W]", "a"),
    (r"^[\s\S]$", "\n"),
    (r"a\b", "aé"),
    (r"\Bb", "ab"),
    (r"^\x41\u0042\u{43}\cA\0\t\n\v\f\r$", "ABC\x01\0\t\n\v\f\r"),
    (r"^\ud83d\ude00$", "\U0001f600"),
    (r"^[\ud83d\ude00-\u{1F602}]$", "\U0001f601"),
    (r"^\p{Lu}\P{L}\p{Script=Greek}$", "A1\u03b1"),
    (r"^[\p{L}\-x]+$", "é-x"),
    (r"^[a\-z]$", "-"),
    (r"^[a-]$", "-"),
    (r"^[\b]$", "\b"),
    (r"^[[&&~]+$", "[&~"),
    ("^[^]$", "\n"),
    ("^(?:a)(b)(?<name>c)$", "abc"),
    ("^a{2}b{1,}c{0,1}?d??$", "aab"),
    ("^(a|)$", ""),
    (r"^\/\-\@$", "/-@"),
    ("^.$", "\U0001f600"),
    ("#x y", "#x y"),
    ("a{1000}", "a" * 1000),
]
NOT_FOUND: list[tuple[str, str]] = [
    ("^a$", "a\n"),
    ("^b", "a\nb"),
    ("[]", "a"),
    (r"^\w$", "é"),
    (r"^\d$", "\u0663"),
    (r"^a\b", "ab"),
    (r"(?:)\bé", "é"),
    ("A", "a"),
    ("^(a+)+$", "a" * 100_000 + "b"),
    ("^(a|a)*$", "a" * 100_000 + "b"),
    ("(x+x+)+y", "x" * 100_000),
]
REFUSED: list[tuple[str, str]] = [
    ("a(?=b)", "linear time"),
    ("a(?!b)", "linear time"),
    ("(?<=a)b", "linear time"),
    ("(?<!a)b", "linear time"),
    (r"(a)\1", "linear time"),
    (r"(?<n>a)\k<n>", "linear time"),
    ("(?i)a", "does not begin a group"),
    ("(?P<n>a)", "does not begin a group"),
    ("(", "not a regular expression"),
    (")", "not a regular expression"),
    ("[", "not closed"),
    ("[a", "not closed"),
    ("[a-", "not closed"),
    ("]", r"must be written '\]'"),
    ("a}", r"must be written '\}'"),
    ("*a", "repeats nothing"),
    ("a**", "repeats nothing"),
    ("a{,2}", "repeats nothing"),
    ("^*", "repeats nothing"),
    ("(*)", "repeats nothing"),
    ("a{2,1}", "not a regular expression"),
    ("a{1000000}", "repeats nothing"),
    ("(a{1000}){1000}", "too large"),
    ("(" * 3_000 + ")" * 3_000, "too large"),
    ("[b-a]", "from a lower"),
    (r"[\d-z]", "from a lower"),
    (r"[a-\d]", "from a lower"),
    ("\\", "is not an escape"),
    (r"\Z", "is not an escape"),
    (r"\a", "is not an escape"),
    (r"\01", "is not an escape"),
    (r"\c1", "is not an escape"),
    (r"\xg0", "is not an escape"),
    (r"\é", "is not an escape"),
    (r"\p{Nonsense}", "not a regular expression"),
    (r"\p", "is not an escape"),
    (r"\ud800", "is not a character"),
    (r"\u{110000}", "is not a character"),
]


@pytest.mark.rule("QUERY-3")
@pytest.mark.parametrize(("pattern", "text"), FOUND)
def test_a_pattern_is_found_as_ecma_262_has_it(pattern: str, text: str) -> None:
    assert schema.matches(text, {"pattern": pattern})


@pytest.mark.rule("QUERY-3")
@pytest.mark.parametrize(("pattern", "text"), NOT_FOUND)
def test_a_pattern_is_not_found_where_ecma_262_does_not_find_it(pattern: str, text: str) -> None:
    assert not schema.matches(text, {"pattern": pattern})


@pytest.mark.rule("QUERY-3")
@pytest.mark.parametrize(("pattern", "why"), REFUSED)
def test_a_pattern_that_cannot_be_used_says_why(pattern: str, why: str) -> None:
    with pytest.raises(InvalidSchema) as refused:
        schema.compile({"items": {"pattern": pattern}})
    assert refused.value.facts["path"] == "/items/pattern"
    assert why in refused.value.facts["why"]


@pytest.mark.rule("QUERY-3")
def test_the_classes_of_spaces_and_line_ends_are_those_of_ecma_262() -> None:
    spaces, dot = schema.compile({"pattern": r"^\s$"}), schema.compile({"pattern": "^.$"})
    others = [chr(code) for code in (*range(0x20, 0x300), *range(0x1670, 0x1690), *range(0x1FF0, 0x2070), 0x180E)]
    assert all(spaces.matches(char) for char in SPACES)
    assert not any(spaces.matches(char) for char in others if char not in SPACES)
    assert not any(dot.matches(char) for char in LINE_ENDS)
    assert all(dot.matches(char) for char in others if char not in LINE_ENDS)


@pytest.mark.rule("QUERY-3")
def test_a_schema_has_a_bounded_number_of_different_patterns() -> None:
    def of(count: int) -> dict[str, Any]:
        return {"anyOf": [{"pattern": f"^{number % count}$"} for number in range(count + 5)]}

    assert schema.matches("255", of(256))
    with pytest.raises(LimitExceeded) as refused:
        schema.compile(of(257))
    assert refused.value.facts == {"bound": "schema_patterns_max", "maximum": 256, "actual": 257}
