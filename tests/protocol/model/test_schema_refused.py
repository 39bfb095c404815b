"""Schemas that cannot be used: one typed error each, with the place, in bounded time and memory."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from stemmadb.protocol.errors import InvalidSchema, LimitExceeded
from stemmadb.protocol.model import schema
from stemmadb.protocol.model.schema import compiler
from stemmadb.protocol.model.values.limits import DEFAULTS


def nested(levels: int) -> Any:
    document: Any = True
    for _ in range(levels):
        document = {"not": document}
    return document


def holding_itself() -> Any:
    loop: dict[str, Any] = {}
    loop["not"] = loop
    return loop


def chain(keyword: str, levels: int) -> dict[str, Any]:
    """Definitions that each apply the next one by the keyword."""
    definitions: dict[str, Any] = {f"d{levels}": {"type": "integer"}}
    for level in range(levels):
        inner: Any = {"$ref": f"#/$defs/d{level + 1}"}
        applied = {"properties": {"a": inner}, "anyOf": [inner], "not": inner, "$ref": inner["$ref"]}[keyword]
        definitions[f"d{level}"] = {keyword: applied, "minimum": 0}
    return {"$ref": "#/$defs/d0", "$defs": definitions}


REFUSED: list[tuple[Any, str, str]] = [
    ({"bogus": 1}, "/bogus", "'bogus' is not a keyword"),
    ({"properties": {"a/b": {"format": "date"}}}, "/properties/a~1b/format", "'format' is not a keyword"),
    ({"$defs": {"unused": {"$id": "x"}}}, "/$defs/unused/$id", "'$id' is not a keyword"),
    ({"type": "foo"}, "/type", "'type' must be one or a list"),
    ({"type": []}, "/type", "'type' must be"),
    ({"type": ["null", "null"]}, "/type", "'type' must be"),
    ({"type": [1]}, "/type", "'type' must be"),
    ({"type": ["foo"]}, "/type", "'type' must be"),
    ({"required": [1]}, "/required", "an array of different strings"),
    ({"required": ["a", "a"]}, "/required", "an array of different strings"),
    ({"required": "a"}, "/required", "an array of different strings"),
    ({"minLength": -1}, "/minLength", "a whole number from 0"),
    ({"maxItems": 1.5}, "/maxItems", "a whole number from 0"),
    ({"maxProperties": True}, "/maxProperties", "a whole number from 0"),
    ({"minimum": "1"}, "/minimum", "a number"),
    ({"minimum": True}, "/minimum", "a number"),
    ({"multipleOf": 0}, "/multipleOf", "a number above 0"),
    ({"multipleOf": -0.5}, "/multipleOf", "a number above 0"),
    ({"uniqueItems": 1}, "/uniqueItems", "a bool"),
    ({"enum": {}}, "/enum", "an array"),
    ({"pattern": 5}, "/pattern", "a string"),
    ({"x-entity-reference": "yes"}, "/x-entity-reference", "a bool"),
    ({"properties": []}, "/properties", "an object of schemas"),
    ({"properties": {"a": 5}}, "/properties/a", "an object or a bool"),
    ({"items": []}, "/items", "an object or a bool"),
    ({"anyOf": []}, "/anyOf", "at least one"),
    ({"allOf": {}}, "/allOf", "at least one"),
    ({"allOf": [1]}, "/allOf/0", "an object or a bool"),
    ({"pattern": "("}, "/pattern", "the pattern cannot be used"),
    ({"$ref": 5}, "/$ref", "a string"),
    ({"$ref": "#/$defs/no"}, "/$ref", "there is no schema at '#/$defs/no'"),
    ({"$ref": "#/$defs", "$defs": {}}, "/$ref", "there is no schema"),
    ({"$ref": "#/anyOf/01", "anyOf": [True, True]}, "/$ref", "there is no schema"),
    ({"$ref": "#/anyOf/2", "anyOf": [True, True]}, "/$ref", "there is no schema"),
    ({"$ref": "#/enum/0", "enum": [True]}, "/$ref", "there is no schema"),
    ({"$ref": "#/items/items", "items": {}}, "/$ref", "there is no schema"),
    ({"$ref": "#anchor"}, "/$ref", "'#' and a JSON Pointer"),
    ({"$ref": "#/~2"}, "/$ref", "'#' and a JSON Pointer"),
    ({"$ref": "#/%ff"}, "/$ref", "'#' and a JSON Pointer"),
    ({"$ref": "https://example.org/schema"}, "/$ref", "its own document"),
    ({"$ref": "other.json#/a"}, "/$ref", "its own document"),
    ({"$ref": "#"}, "", "recurses for ever"),
    ({"allOf": [{"$ref": "#"}]}, "/allOf/0", "recurses for ever"),
    ({"not": {"$ref": "#/not"}}, "/not", "recurses for ever"),
    (
        {"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"oneOf": [True, {"$ref": "#/$defs/a"}]}}},
        "/$defs/b/oneOf/1",
        "for ever",
    ),
    ({"const": float("inf")}, "/const", "not finite"),
    ({"const": 2**63}, "/const", "64 bits"),
    ({"const": 2**64}, "/const", "64 bits"),
    ({"title": "\ud800"}, "/title", "lone surrogate"),
    ({"const": {1: 2}}, "/const", "a key is int"),
    ({"const": b"x"}, "/const", "bytes"),
    ({"const": object()}, "/const", "object is not a JSON type"),
    (None, "", "not NoneType"),
    ([], "", "not list"),
    (1, "", "not int"),
]


@pytest.mark.rule("QUERY-3")
@pytest.mark.parametrize(("document", "path", "why"), REFUSED)
def test_a_schema_that_cannot_be_used_is_refused_with_its_place(document: Any, path: str, why: str) -> None:
    for _ in range(2):  # nothing of a refusal is remembered
        with pytest.raises(InvalidSchema) as refused:
            schema.compile(document)
        assert refused.value.facts["path"] == path
        assert why in refused.value.facts["why"]


@pytest.mark.rule("QUERY-3")
def test_what_cannot_be_read_back_is_not_json() -> None:
    with pytest.raises(InvalidSchema, match="not JSON"):
        schema.compile({"const": msgspec.Raw(b"\xc1")})


@pytest.mark.rule("QUERY-3")
def test_a_failure_that_is_not_the_schemas_is_not_blamed_on_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_stack_left(_schema: object) -> bytes:
        raise RecursionError

    monkeypatch.setattr(compiler, "_encode", no_stack_left)
    with pytest.raises(RecursionError):
        schema.compile(True)
    with pytest.raises(InvalidSchema):
        schema.compile({"const": object()})


@pytest.mark.rule("QUERY-3")
@pytest.mark.parametrize("document", [nested(65), nested(900), nested(10_000), holding_itself()])
def test_a_schema_nested_too_deep_is_refused_by_its_bound(document: Any) -> None:
    with pytest.raises(LimitExceeded) as refused:
        schema.compile(document)
    assert refused.value.facts["bound"] == "depth_max"


@pytest.mark.rule("QUERY-3")
def test_a_schema_of_the_greatest_depth_is_used() -> None:
    assert schema.matches(1, nested(64))
    assert not schema.matches(1, nested(63))


@pytest.mark.rule("QUERY-3")
def test_a_schema_of_a_mebibyte_is_used_and_one_byte_more_is_refused() -> None:
    room = DEFAULTS.schema_bytes_max - len('{"title":""}')
    assert schema.matches(1, {"title": "x" * room})
    with pytest.raises(LimitExceeded) as refused:
        schema.compile({"title": "x" * (room + 1)})
    assert refused.value.facts["bound"] == "schema_bytes_max"
    assert refused.value.facts["actual"] == DEFAULTS.schema_bytes_max + 1


@pytest.mark.rule("QUERY-3")
def test_a_schema_of_more_items_than_bytes_allow_is_refused() -> None:
    shared: Any = {"type": "null"}
    for _ in range(25):
        shared = {"allOf": [shared, shared]}
    with pytest.raises(LimitExceeded) as refused:
        schema.compile({"const": float("nan"), "title": object(), "allOf": [shared]})
    assert refused.value.facts["bound"] == "schema_bytes_max"


@pytest.mark.rule("QUERY-3")
def test_a_large_schema_is_used_whole() -> None:
    document = {"properties": {f"k{number}": {"const": number} for number in range(20_000)}}
    compiled = schema.compile(document)
    assert compiled.matches({"k19999": 19999})
    assert not compiled.matches({"k19999": 0})


@pytest.mark.rule("QUERY-3")
def test_a_long_name_is_cut_where_an_error_shows_it() -> None:
    with pytest.raises(InvalidSchema) as refused:
        schema.compile({"properties": {"k" * 500_000: {"b" * 500: 1}}})
    assert len(refused.value.message) < 500


@pytest.mark.rule("QUERY-3")
def test_long_chains_of_refs_are_followed_without_recursion() -> None:
    mere = {f"d{level}": {"$ref": f"#/$defs/d{level + 1}"} for level in range(3_000)}
    assert not schema.matches("x", {"$ref": "#/$defs/d0", "$defs": {**mere, "d3000": {"type": "integer"}}})
    assert not schema.matches("x", chain("$ref", 3_000))
    assert schema.matches({"a": {"a": 1}}, chain("properties", 3_000))


@pytest.mark.rule("QUERY-3")
@pytest.mark.parametrize("keyword", ["anyOf", "not"])
def test_a_schema_that_needs_too_many_calls_inside_one_another_is_refused(keyword: str) -> None:
    assert isinstance(schema.matches(1, chain(keyword, 340)), bool)
    with pytest.raises(LimitExceeded) as refused:
        schema.compile(chain(keyword, 360))
    assert refused.value.facts["bound"] == "schema_calls_max"


@pytest.mark.rule("QUERY-3")
def test_a_recursive_schema_that_combines_too_much_at_each_step_is_refused() -> None:
    inner: dict[str, Any] = {"$ref": "#"}
    for _ in range(5):
        inner = {"anyOf": [False, inner]}
    with pytest.raises(LimitExceeded) as refused:
        schema.compile({"properties": {"a": inner}})
    assert refused.value.facts["bound"] == "schema_calls_max"
