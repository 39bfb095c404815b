"""Matching: cases of each keyword, equality with the naive oracle, and the cache of compiled schemas."""

from __future__ import annotations

from typing import Any

import pytest

import schema_oracle
from stemmadb.protocol.errors import InvalidSchema, LimitExceeded
from stemmadb.protocol.model import schema
from stemmadb.protocol.model.schema import compiler

VALID: list[tuple[Any, Any]] = [
    ({"type": "integer"}, 1.0),
    ({"type": ["string", "null"]}, None),
    ({"type": ["integer", "number"]}, 1.5),
    ({"const": 1}, 1.0),
    ({"const": {"a": [1, None]}}, {"a": [1.0, None]}),
    ({"const": 2**53}, 2.0**53),
    ({"enum": [[], 0.0]}, 0),
    ({"uniqueItems": True}, [1, True, "1", [1], [True], {"a": 1}, {"a": True}, None, 0, False]),
    ({"uniqueItems": True}, ["a", "b"]),
    ({"uniqueItems": False}, [1, 1]),
    ({"minLength": 2, "maxLength": 2}, "\U0001f600é"),
    ({"minLength": 2.0}, "ab"),
    ({"multipleOf": 0.0001}, 0.0075),
    ({"multipleOf": 0.5}, 1e308),
    ({"multipleOf": 0.01}, 19.99),
    ({"multipleOf": 3}, 9007199254740993),
    ({"multipleOf": 10}, 1e23),
    ({"multipleOf": 2.0}, 4),
    ({"multipleOf": 7}, "not a number"),
    ({"prefixItems": [{"type": "string"}], "items": {"type": "null"}}, ["a", None]),
    ({"prefixItems": [True, False]}, [1]),
    ({"items": {"type": "integer"}}, [1, 2.0]),
    ({"properties": {"a": False}}, {"b": 1}),
    ({"properties": {"a": True}, "additionalProperties": False}, {"a": 1}),
    ({"additionalProperties": {"type": "string"}}, {"a": "x", "b": "y"}),
    ({"oneOf": [{"type": "string"}, {"minLength": 2}]}, "a"),
    ({"$ref": "#/$defs/a~1b%25", "$defs": {"a/b%": {"type": "null"}}}, None),
    ({"properties": {"next": {"$ref": "#"}}, "required": ["id"]}, {"id": 1, "next": {"id": 2}}),
    ({"properties": {"$ref": {"type": "string"}}}, {"$ref": "x"}),
]
INVALID: list[tuple[Any, Any]] = [
    (False, None),
    ({"type": "integer"}, 1.5),
    ({"type": "integer"}, True),
    ({"type": "number"}, False),
    ({"const": 1}, True),
    ({"const": False}, 0),
    ({"const": 2**53 + 1}, 2.0**53),
    ({"enum": [1, [0]]}, [False]),
    ({"enum": []}, None),
    ({"enum": [{"a": True}]}, {"a": 1}),
    ({"uniqueItems": True}, [1, 2, 1.0]),
    ({"uniqueItems": True}, [{"a": 1, "b": 2}, {"b": 2.0, "a": 1}]),
    ({"uniqueItems": True}, [["ab", "c"], ["ab", "c"]]),
    ({"maxLength": 1}, "ab"),
    ({"multipleOf": 0.0001}, 0.00751),
    ({"multipleOf": 0.123456789}, 1e308),
    ({"multipleOf": 2}, 9007199254740993),
    ({"multipleOf": 1000}, 9.223372036854775e18),  # it is 9223372036854774784, as the integer is that it equals
    ({"exclusiveMinimum": 1}, 1.0),
    ({"exclusiveMaximum": 1}, 1),
    ({"maximum": 2**53}, 2**53 + 1),
    ({"minimum": 2.0**53 + 2}, 2**53 + 1),
    ({"minItems": 1}, []),
    ({"maxItems": 1}, [1, 2]),
    ({"prefixItems": [True], "items": False}, [1, 2]),
    ({"items": {"type": "integer"}}, [1, 2.5]),
    ({"minProperties": 1}, {}),
    ({"maxProperties": 0}, {"a": 1}),
    ({"required": ["a"]}, {"b": 1}),
    ({"properties": {"a": False}}, {"a": 1}),
    ({"properties": {"a": {"minimum": 1}}, "additionalProperties": True}, {"a": 0}),
    ({"additionalProperties": {"type": "string"}}, {"a": 1}),
    ({"properties": {"a": {"type": "null"}}, "additionalProperties": {"type": "string"}}, {"a": "x"}),
    ({"allOf": [{"type": "string"}, {"minLength": 2}]}, "a"),
    ({"anyOf": [{"type": "string"}, {"minimum": 2}]}, 1),
    ({"oneOf": [{"type": "string"}, {"minLength": 1}]}, "ab"),
    ({"oneOf": [False, False]}, 1),
    ({"not": {}}, None),
    ({"$ref": "#/$defs/a", "maximum": 3, "$defs": {"a": {"minimum": 1}}}, 4),
    ({"$ref": "#/$defs/a", "maximum": 3, "$defs": {"a": {"minimum": 1}}}, 0),
    ({"properties": {"next": {"$ref": "#"}}, "required": ["id"]}, {"id": 1, "next": {"no": 2}}),
]


def usable(document: Any) -> Any:
    """The compiled schema; None for one that recurses too much, the only thing wrong with those that are drawn."""
    try:
        return schema.compile(document)
    except LimitExceeded as refused:
        if refused.facts["bound"] != "schema_calls_max":
            raise
    except InvalidSchema as refused:
        if "recurses for ever" not in refused.facts["why"]:
            raise
    return None


@pytest.mark.rule("QUERY-3")
@pytest.mark.parametrize(("document", "value"), VALID)
def test_what_the_draft_calls_valid_matches(document: Any, value: Any) -> None:
    assert schema.matches(value, document)
    assert schema.selects(frozenset((schema.compile(document),)), value)


@pytest.mark.rule("QUERY-3", "MODEL-3")
@pytest.mark.parametrize(("document", "value"), INVALID)
def test_what_the_draft_calls_invalid_does_not_match(document: Any, value: Any) -> None:
    assert not schema.matches(value, document)
    assert not schema.selects(frozenset((schema.compile(document),)), value)


@pytest.mark.rule("QUERY-3")
@pytest.mark.parametrize("seed", range(4))
def test_matching_equals_the_draft_read_naively(seed: int) -> None:
    draw = schema_oracle.Draw(seed)
    for _ in range(500):
        document, drawn = draw.document(), [draw.value() for _ in range(6)]
        compiled = usable(document)
        for value in drawn if compiled is not None else []:
            expected = schema_oracle.valid(document, value, document)
            assert compiled.matches(value) is expected, (document, value)
            assert schema.selects(frozenset((compiled,)), value) is expected, (document, value)


@pytest.mark.rule("QUERY-3")
def test_a_schema_that_was_changed_in_place_is_not_taken_for_what_it_was() -> None:
    document: dict[str, Any] = {"enum": [1]}
    assert schema.matches(1, document)
    document["enum"][0] = True
    assert not schema.matches(1, document)
    document["enum"][0] = 1.0
    assert schema.matches(1, document)


@pytest.mark.rule("QUERY-3")
def test_a_compiled_schema_does_not_change_with_the_document_it_was_made_of() -> None:
    document: dict[str, Any] = {"const": [1]}
    compiled = schema.compile(document)
    document["const"].append(2)
    assert compiled.matches([1])


@pytest.mark.rule("QUERY-3")
def test_the_cache_is_bounded_in_number_for_small_and_for_large_schemas() -> None:
    for number in range(compiler.SMALL_CACHED_MAX + 10):
        assert schema.matches(number, {"const": number})
    for number in range(compiler.LARGE_CACHED_MAX + 2):
        assert schema.matches(number, {"const": number, "title": "x" * compiler.SMALL_BYTES_MAX})
    assert compiler._small.cache_info().currsize == compiler.SMALL_CACHED_MAX
    assert compiler._large.cache_info().currsize == compiler.LARGE_CACHED_MAX


@pytest.mark.rule("QUERY-4")
def test_schemas_are_equal_by_content_and_not_by_the_order_of_keys() -> None:
    one = schema.compile({"type": "object", "properties": {"a": {"minimum": 1}, "b": True}})
    same = schema.compile({"properties": {"b": True, "a": {"minimum": 1}}, "type": "object"})
    assert one == same
    assert hash(one) == hash(same)
    assert one.key == same.key
    assert one != schema.compile({"type": "object", "properties": {"a": {"minimum": 2}, "b": True}})
    assert one != "no schema"
    assert repr(one) == f"Schema({one.key.hex()[:12]})"


@pytest.mark.rule("QUERY-4")
@pytest.mark.parametrize(
    "document", [{}, {"title": "t", "$defs": {"a": False}}, {"$ref": "#/$defs/a", "$defs": {"a": {}}}]
)
def test_whatever_says_nothing_is_the_schema_true(document: Any) -> None:
    assert schema.compile(document) == schema.compile(True)
    assert frozenset((schema.compile(document),)) == schema.EVERYTHING


@pytest.mark.rule("QUERY-4")
def test_a_subschema_with_a_ref_is_told_apart_by_the_document_it_refers_to() -> None:
    def child(definition: Any) -> schema.Conjuncts:
        document = {"properties": {"a": {"$ref": "#/$defs/x", "minimum": 0}}, "$defs": {"x": definition}}
        found = schema.reach(frozenset((schema.compile(document),)), {"a": {"/": {"link@1": {"id": "urn:x:1"}}}})
        return found[0].conjuncts

    assert child({"type": "string"}) == child({"type": "string"})
    assert child({"type": "string"}) != child({"type": "integer"})


@pytest.mark.rule("QUERY-3")
def test_schemas_that_come_back_to_a_value_by_many_ways_judge_it_once() -> None:
    levels = 60
    for keyword in ("anyOf", "allOf", "oneOf"):
        definitions: dict[str, Any] = {f"d{levels}": {"type": "string"}}
        for level in range(levels):
            inner = {"$ref": f"#/$defs/d{level + 1}"}
            definitions[f"d{level}"] = {keyword: [inner, {**inner, "minLength": 1}]}
        document = {"$ref": "#/$defs/d0", "$defs": definitions}
        assert not schema.matches(1, document)
        assert not schema.selects(frozenset((schema.compile(document),)), 1)


@pytest.mark.rule("QUERY-3")
def test_one_of_inside_one_of_is_judged_once_each_way() -> None:
    document: Any = {"type": "string"}
    for _ in range(30):
        document = {"oneOf": [document, False]}
    assert schema.matches("a", document)
    assert schema.selects(frozenset((schema.compile(document),)), "a")
    assert not schema.selects(frozenset((schema.compile({"not": document["oneOf"][0]}),)), "a")


@pytest.mark.rule("QUERY-3")
def test_a_recursive_schema_follows_a_value_to_its_greatest_depth() -> None:
    inner: dict[str, Any] = {"$ref": "#"}
    for _ in range(4):
        inner = {"anyOf": [False, inner]}
    document = {"type": ["object", "string"], "properties": {"a": inner}}
    value: Any = "end"
    for _ in range(64):
        value = {"a": value}
    assert schema.matches(value, document)
    assert schema.selects(frozenset((schema.compile(document),)), value)
    assert schema.reach(frozenset((schema.compile(document),)), value) == []
