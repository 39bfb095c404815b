"""Links, narrowing, selection with links, and reach: worked cases, vectors, and equality with the naive oracle."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import schema_oracle
from stemmadb.protocol.errors import InvalidSchema, LimitExceeded
from stemmadb.protocol.model import schema
from stemmadb.protocol.model.schema import plan

VECTORS = json.loads((Path(__file__).parents[2] / "vectors" / "schemas.json").read_text())


def link(id_: str = "urn:x:1", **members: Any) -> dict[str, Any]:
    return {"/": {"link@1": {"id": id_, **members}}}


def conjuncts(*documents: Any) -> schema.Conjuncts:
    return schema.conjuncts(*map(schema.compile, documents))


def paths(value: Any, *documents: Any) -> list[str]:
    return ["/".join(found.path) for found in schema.reach(conjuncts(*documents), value)]


# ---------------------------------------------------------------- links


@pytest.mark.rule("QUERY-2")
def test_a_sigil_link_is_read_with_all_its_members() -> None:
    assert schema.link_of(link()) == schema.EntityLink("urn:x:1")
    full = link("urn:x:2", path="/a~1b", space="did:key:z6Mk", schema={"type": "string"})
    assert schema.link_of(full) == schema.EntityLink("urn:x:2", "/a~1b", "did:key:z6Mk", {"type": "string"})


@pytest.mark.rule("QUERY-2")
@pytest.mark.parametrize(
    "value",
    [
        None,
        "urn:x:1",
        [],
        {},
        {"a": 1},
        {"/": "bafy"},
        {"/": {}},
        {"/": {"link@2": {"id": "urn:x:1"}}},
        {"/": {"link@1": {"id": "urn:x:1"}, "more": 1}},
        {"/": {"link@1": {"id": "urn:x:1"}}, "beside": 1},
    ],
)
def test_anything_else_is_data_and_not_a_link(value: Any) -> None:
    assert schema.link_of(value) is None


@pytest.mark.rule("QUERY-2", "QUERY-5")
@pytest.mark.parametrize(
    ("value", "id_", "why"),
    [
        ({"/": {"link@1": "urn:x:1"}}, None, "must be an object"),
        ({"/": {"link@1": {}}}, None, "needs an 'id'"),
        (link(5), None, "needs an 'id'"),  # type: ignore[arg-type]
        (link("no uri"), "no uri", "not an entity id"),
        (link("urn:" + "x" * 600), "urn:" + "x" * 600, "at most 512"),
        (link(path="a"), "urn:x:1", "'path' is not a JSON Pointer"),
        (link(path="/~2"), "urn:x:1", "'path' is not a JSON Pointer"),
        (link(path=["a"]), "urn:x:1", "'path' must be a string"),
        (link(space=5), "urn:x:1", "'space' must be a string"),
        (link(schema=[]), "urn:x:1", "'schema' must be an object or a bool"),
        (link(schema=None), "urn:x:1", "'schema' must be an object or a bool"),
        (link(extra=1), "urn:x:1", "only 'id', 'path', 'space' and 'schema'"),
    ],
)
def test_what_is_written_as_a_link_and_cannot_be_followed_is_broken(value: Any, id_: str | None, why: str) -> None:
    found = schema.link_of(value)
    assert isinstance(found, schema.BrokenLink)
    assert found.id == id_
    assert why in found.why


# ---------------------------------------------------------------- narrowing


@pytest.mark.rule("QUERY-4")
def test_narrowing_is_the_union_and_true_changes_nothing() -> None:
    text, short = conjuncts({"type": "string"}), conjuncts({"maxLength": 3})
    assert schema.narrow(text, short) == conjuncts({"maxLength": 3}, {"type": "string"})
    assert schema.narrow(text, text) == text
    assert schema.narrow(text, schema.EVERYTHING) == text
    assert schema.narrow(schema.EVERYTHING, text) == text
    assert schema.narrow(schema.EVERYTHING, schema.EVERYTHING) == schema.EVERYTHING
    assert conjuncts(True, {"title": "t"}) == schema.EVERYTHING


@pytest.mark.rule("QUERY-4", "QUERY-6")
def test_the_number_of_conjuncts_is_bounded() -> None:
    most = conjuncts(*({"minimum": number} for number in range(64)))
    assert schema.narrow(most, conjuncts({"minimum": 0})) == most
    with pytest.raises(LimitExceeded) as refused:
        schema.narrow(most, conjuncts({"minimum": 64}))
    assert refused.value.facts == {"bound": "conjuncts_max", "maximum": 64, "actual": 65}


# ---------------------------------------------------------------- selection

A = {"properties": {"a": {"type": "string"}}}


@pytest.mark.rule("QUERY-2", "QUERY-3")
@pytest.mark.parametrize(
    ("document", "value", "selected"),
    [
        ({"type": "string"}, link(), True),
        (False, link(), False),
        ({"$ref": "#/$defs/no", "$defs": {"no": False}}, link(), False),
        (A, {"a": link()}, True),
        (A, {"a": {"/": {"link@1": {"id": "no uri"}}}}, False),
        (A, {"a": {"/": "data"}}, False),
        ({"properties": {"a": False}}, {"a": link()}, False),
        ({"required": ["b"]}, {"a": link()}, False),
        ({"additionalProperties": {"type": "integer"}}, {"a": link(), "b": 1}, True),
        ({"additionalProperties": {"type": "integer"}}, {"a": link(), "b": "x"}, False),
        ({"items": {"type": "integer"}}, [1, link()], True),
        ({"prefixItems": [{"type": "null"}]}, [link()], True),
        # `not`, `oneOf`: a link never counts against a value
        ({"not": A}, {"a": link()}, True),
        ({"not": {"not": A}}, {"a": link()}, True),
        ({"not": {"properties": {"a": True}}}, {"a": link()}, False),
        ({"not": {"properties": {"a": {"type": ["object", "null"]}}}}, {"a": link()}, True),
        ({"oneOf": [A, {"properties": {"a": {"type": "number"}}}]}, {"a": link()}, True),
        ({"oneOf": [{"required": ["a"]}, {"minProperties": 1}]}, {"a": link()}, False),
        ({"not": {"oneOf": [A, {"required": ["b"]}]}}, {"a": link()}, True),
        ({"not": {"oneOf": [{"required": ["a"]}, {"required": ["b"]}]}}, {"a": link()}, False),
        ({"anyOf": [A, False]}, {"a": link()}, True),
        # what looks at a value as a whole takes a link inside it for what is written there
        ({"const": {"a": "x"}}, {"a": link()}, False),
        ({"enum": [{"a": link()}]}, {"a": link()}, True),
        ({"uniqueItems": True}, [link(), link()], False),
        ({"const": 1}, link(), True),
    ],
)
def test_a_link_satisfies_every_subschema_but_false(document: Any, value: Any, selected: bool) -> None:
    assert schema.selects(conjuncts(document), value) is selected


@pytest.mark.rule("QUERY-3", "QUERY-4")
def test_every_conjunct_must_select() -> None:
    narrowed = conjuncts({"minimum": 1}, {"maximum": 3})
    assert [number for number in range(6) if schema.selects(narrowed, number)] == [1, 2, 3]


@pytest.mark.rule("QUERY-3")
def test_matching_takes_a_link_for_the_object_it_is() -> None:
    assert not schema.matches(link(), {"type": "string"})
    assert schema.matches(link(), {"type": "object", "required": ["/"]})


# ---------------------------------------------------------------- reach

BOTH: Any = {"a": link("urn:x:a"), "b": link("urn:x:b")}


@pytest.mark.rule("QUERY-2")
@pytest.mark.parametrize(
    ("document", "value", "expected"),
    [
        (True, BOTH, ["a", "b"]),
        ({}, [1, [link()], {"x": [link()]}], ["1/0", "2/x/0"]),
        (True, link(), [""]),
        (False, BOTH, []),
        (False, link(), []),
        ({"required": ["a"]}, BOTH, ["a", "b"]),
        ({"properties": {"a": True}}, BOTH, ["a"]),
        ({"properties": {"a": {}}, "additionalProperties": True}, BOTH, ["a", "b"]),
        ({"properties": {"a": False}, "additionalProperties": True}, BOTH, ["b"]),
        ({"properties": {"a": True}, "additionalProperties": False}, BOTH, ["a"]),
        ({"properties": {"z": True}}, BOTH, []),
        ({"properties": {"z": True}}, [link()], []),
        ({"items": True}, BOTH, []),
        ({"prefixItems": [True]}, [link(), link()], ["0"]),
        ({"prefixItems": [False], "items": {"type": "string"}}, [link(), link()], ["1"]),
        ({"prefixItems": [True, {"properties": {}}]}, [{"x": link()}, {"x": link()}], ["0/x"]),
        # allOf, $ref and the branches that match contribute; not does not
        ({"allOf": [{"properties": {"a": True}}, {"properties": {"b": True}}]}, BOTH, ["a", "b"]),
        ({"allOf": [{"type": "object"}, {"properties": {"b": True}}]}, BOTH, ["b"]),
        ({"allOf": [{"properties": {"a": True}}, {"properties": {"a": False}}]}, BOTH, []),
        ({"allOf": [{"properties": {"a": True}}, {"additionalProperties": False}]}, BOTH, []),
        ({"allOf": [{"prefixItems": [True]}, {"items": False}]}, [link()], []),
        ({"$ref": "#/$defs/x", "title": "t", "$defs": {"x": {"properties": {"a": True}}}}, BOTH, ["a"]),
        (
            {"$ref": "#/$defs/x", "properties": {"b": True}, "$defs": {"x": {"properties": {"a": True}}}},
            BOTH,
            ["a", "b"],
        ),
        ({"anyOf": [{"required": ["z"], "properties": {"a": True}}, {"properties": {"b": True}}]}, BOTH, ["b"]),
        ({"oneOf": [{"required": ["z"]}, {"properties": {"b": True}}]}, BOTH, ["b"]),
        ({"anyOf": [{"required": ["z"], "properties": {"a": True}}, {"required": ["a"]}]}, BOTH, []),
        ({"not": {"properties": {"a": True}, "required": ["z"]}}, BOTH, ["a", "b"]),
        # parts speak together of a child, one level down as well
        (
            {
                "allOf": [
                    {"properties": {"c": {"properties": {"a": True}}}},
                    {"properties": {"c": {"properties": {"b": True}}}},
                ]
            },
            {"c": BOTH},
            ["c/a", "c/b"],
        ),
        ({"properties": {"next": {"$ref": "#"}, "a": True}}, {"next": {"next": BOTH}}, ["next/next/a"]),
        # strings that name entities
        ({"x-entity-reference": True}, "urn:x:1", [""]),
        ({"x-entity-reference": False}, "urn:x:1", []),
        ({"items": {"x-entity-reference": True}}, ["urn:x:1", 5, "urn:x:2"], ["0", "2"]),
        ({"properties": {"a": {"allOf": [{"x-entity-reference": True}]}}}, {"a": "urn:x:1", "b": "urn:x:2"}, ["a"]),
        ({"anyOf": [{"x-entity-reference": True, "maxLength": 3}, {}]}, "urn:x:1", []),
        # what stands inside a link is never walked
        (True, link(schema={"const": link()}), [""]),
        (True, {"/": {"link@1": {"no": link()}}}, [""]),
        (True, {"/": {"other": link()}}, ["//other"]),
    ],
)
def test_a_schema_reaches_the_links_that_it_speaks_of(document: Any, value: Any, expected: list[str]) -> None:
    assert paths(value, document) == expected


@pytest.mark.rule("QUERY-4")
def test_across_conjuncts_a_child_must_be_reached_by_every_one() -> None:
    some = {"properties": {"a": {"type": "string"}}}
    assert paths(BOTH, some, {"required": ["a"]}) == ["a"]
    assert paths(BOTH, some, {"properties": {"b": True}}) == []
    assert paths(BOTH, {"minProperties": 1}, False) == []
    (found,) = schema.reach(conjuncts(some, {"properties": {"a": {"maxLength": 3}}}), BOTH)
    assert found.conjuncts == conjuncts({"type": "string"}, {"maxLength": 3})
    (found,) = schema.reach(conjuncts(some, {"required": ["a"]}), BOTH)
    assert found.conjuncts == conjuncts({"type": "string"})


@pytest.mark.rule("QUERY-4")
def test_following_a_link_narrows_by_the_schema_it_carries() -> None:
    def target(value: Any, document: Any) -> schema.Conjuncts:
        return schema.reach(conjuncts(document), value)[0].conjuncts

    own = {"maxLength": 3}
    assert target(link(schema=own), {"type": "string"}) == conjuncts({"type": "string"}, own)
    assert target(link(schema=True), {"type": "string"}) == conjuncts({"type": "string"})
    assert target([link(schema=own)], True) == conjuncts(own)
    assert target([link()], True) == schema.EVERYTHING
    assert target({"a": "urn:x:1"}, {"properties": {"a": {"x-entity-reference": True}}}) == schema.EVERYTHING
    assert schema.reach(schema.EVERYTHING, link(schema=False)) == []


@pytest.mark.rule("QUERY-2", "QUERY-5")
def test_a_broken_link_is_reached_as_broken() -> None:
    def found(value: Any, document: Any = True) -> Any:
        (one,) = schema.reach(conjuncts(document), value)
        return one.link

    assert isinstance(found({"/": {"link@1": {}}}), schema.BrokenLink)
    assert found("no uri", {"x-entity-reference": True}) == schema.BrokenLink(
        "no uri", "it is not a URI with a scheme"
    )
    assert found("urn:x:1", {"x-entity-reference": True}) == schema.EntityLink("urn:x:1")
    refused = found(link(schema={"bogus": 1}))
    assert isinstance(refused, schema.BrokenLink)
    assert refused.id == "urn:x:1"
    assert "'bogus' is not a keyword" in refused.why
    assert isinstance(found(link(schema={"title": "x" * 2_000_000})), schema.BrokenLink)


@pytest.mark.rule("QUERY-4", "QUERY-6")
def test_a_link_that_would_make_too_many_conjuncts_is_refused() -> None:
    most = conjuncts(*({"minimum": number} for number in range(64)))
    with pytest.raises(LimitExceeded):
        schema.reach(most, link(schema={"maximum": 1}))


@pytest.mark.rule("QUERY-2")
def test_parts_that_apply_together_to_a_child_are_one_conjunct() -> None:
    document = {"allOf": [{"properties": {"a": {"minimum": 1}}}, {"properties": {"a": {"maximum": 3}}}]}
    turned = {"allOf": [{"properties": {"a": {"maximum": 3}}}, {"properties": {"a": {"minimum": 1}}}]}
    (found,) = schema.reach(conjuncts(document), BOTH)
    (same,) = schema.reach(conjuncts(turned), BOTH)
    assert found.conjuncts == same.conjuncts
    assert len(found.conjuncts) == 1
    (both,) = found.conjuncts
    assert [number for number in range(6) if both.matches(number)] == [1, 2, 3]
    assert schema.selects(found.conjuncts, 2)


@pytest.mark.rule("QUERY-2")
def test_what_is_worked_out_about_branches_is_bounded() -> None:
    names = [f"n{number}" for number in range(7)]
    compiled = schema.compile({"anyOf": [{"required": [name], "properties": {name: True}} for name in names]})
    for chosen in range(1, 2 * plan.PLANS_MAX):
        value: Any = {name: link() for bit, name in enumerate(names) if chosen >> bit & 1}
        assert [found.path for found in schema.reach(frozenset((compiled,)), value)] == [(name,) for name in value]
    assert len(plan.plans(compiled)._by_parts) <= plan.PLANS_MAX


@pytest.mark.rule("QUERY-2", "QUERY-3", "QUERY-4")
@pytest.mark.parametrize("seed", range(4))
def test_selection_and_reach_equal_the_rules_read_naively(seed: int) -> None:
    draw = schema_oracle.Draw(seed)
    for case in range(500):
        documents = [draw.document() for _ in range(1 + case % 2)]
        drawn = [draw.value(links=True) for _ in range(4)]
        try:
            narrowed = conjuncts(*documents)
        except (InvalidSchema, LimitExceeded):  # it recurses for ever, or nearly
            continue
        naive: Naive = [(document, (document,)) for document in documents]
        for value in drawn:
            assert schema.selects(narrowed, value) is _selects(naive, value), (documents, value)
            _compare_reach(narrowed, naive, value, drawn[0])


Naive = list[schema_oracle.Conjunct]


def _compare_reach(narrowed: schema.Conjuncts, naive: Naive, value: Any, target: Any) -> None:
    """The same links, and behind each the same judgement and reach of some target."""
    found, expected = schema.reach(narrowed, value), schema_oracle.reached(naive, value)
    assert [_shown(one) for one in found] == [(path, id_) for path, id_, _ in expected], (naive, value)
    for one, (_, _, goes_on) in zip(found, expected, strict=True):
        assert schema.selects(one.conjuncts, target) is _selects(goes_on, target), (naive, value, target)
        further = [_shown(again) for again in schema.reach(one.conjuncts, target)]
        assert further == [(path, id_) for path, id_, _ in schema_oracle.reached(goes_on, target)], (
            naive,
            value,
            target,
        )


def _shown(found: schema.Reached) -> tuple[tuple[str, ...], str | None]:
    return found.path, found.link.id if isinstance(found.link, schema.EntityLink) else None


def _selects(naive: Naive, value: Any) -> bool:
    return all(
        schema_oracle.valid(one, value, root, schema_oracle.MAY) for root, together in naive for one in together
    )


# ---------------------------------------------------------------- vectors


@pytest.mark.rule("QUERY-3")
@pytest.mark.parametrize(
    "case", [case for case in VECTORS["cases"] if "matches" in case], ids=lambda case: case["comment"]
)
def test_the_vectors_of_matching_hold(case: Any) -> None:
    assert schema.matches(case["value"], case["schema"]) is case["matches"]


@pytest.mark.rule("QUERY-3")
@pytest.mark.parametrize(
    "case", [case for case in VECTORS["cases"] if "refused" in case], ids=lambda case: case["comment"]
)
def test_the_vectors_of_refusal_hold(case: Any) -> None:
    with pytest.raises(InvalidSchema) as refused:
        schema.compile(case["schema"])
    assert refused.value.facts["path"] == case["refused"]


@pytest.mark.rule("QUERY-2", "QUERY-4")
@pytest.mark.parametrize(
    "case", [case for case in VECTORS["cases"] if "reaches" in case], ids=lambda case: case["comment"]
)
def test_the_vectors_of_reach_hold(case: Any) -> None:
    narrowed = conjuncts(*case["conjuncts"])
    assert schema.selects(narrowed, case["value"]) is case["selects"]
    found = schema.reach(narrowed, case["value"])
    assert len(found) == len(case["reaches"])
    for one, expected in zip(found, case["reaches"], strict=True):
        assert list(one.path) == expected["at"]
        assert (one.link.id if isinstance(one.link, schema.EntityLink) else None) == expected["id"]
        assert one.conjuncts == conjuncts(*expected["conjuncts"])
