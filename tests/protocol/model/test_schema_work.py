"""The bound of work: any schema on any value answers or is refused, by counting and not by a clock."""

from __future__ import annotations

from typing import Any

import pytest

from stemmadb.protocol.errors import LimitExceeded
from stemmadb.protocol.model import schema
from stemmadb.protocol.model.schema import compiler, work
from stemmadb.protocol.model.schema.pattern import _Translation, searcher
from stemmadb.protocol.model.schema.weight import Cost

TIGHT = 20_000
AB = "abbabaabbbabaaaababbbabbaabaabab" * 3_200
MANY = range(3_000)
HARD = "[ab]*a[ab]{2500}c"
NO_END = 1 << 30

TOO_MUCH: dict[str, tuple[Any, Any]] = {
    "anyOf, none matches": ({"anyOf": [{"anyOf": [{"minimum": 9 + number} for number in MANY]}] * 4}, 5),
    "anyOf, the last matches": ({"items": {"anyOf": [*({"minimum": n + 9} for n in MANY), True]}}, [5] * 9),
    "oneOf": ({"items": {"oneOf": [*({"minimum": number + 9} for number in MANY), True]}}, [5] * 9),
    "allOf": ({"items": {"allOf": [{"minimum": -number} for number in MANY]}}, [5] * 20),
    "not": ({"items": {"not": {"anyOf": [{"minimum": number + 9} for number in MANY]}}}, [5] * 9),
    "properties": ({"items": {"properties": {f"p{number}": False for number in MANY}}}, [{}] * 20),
    "prefixItems": ({"items": {"prefixItems": [{"minimum": 1}] * 3_000}}, [[1]] * 9),
    "additionalProperties": (
        {"additionalProperties": {"minimum": 0}},
        {str(number): 1 for number in range(TIGHT + 1)},
    ),
    "items": ({"items": {"minimum": 0}}, [1] * TIGHT),
    "items by type": ({"items": {"items": {"type": "integer"}}}, [[1] * 5_000] * 40),
    "items in items": ({"items": {"items": {"minimum": 0}}}, [[] for _ in range(TIGHT // 2 + 1)]),
    "uniqueItems of texts": ({"uniqueItems": True}, [str(number) for number in range(2 * TIGHT + 2)]),
    "uniqueItems of arrays": ({"uniqueItems": True}, [[number] for number in range(4_000)]),
    "const, an object": ({"const": {}}, {str(number): 1 for number in range(4_000)}),
    "const, long texts in an array": ({"const": []}, ["a" * 256 * TIGHT]),
    "const, a long text": (
        {"items": {"const": "a" * 100_000}},
        ["a" * 100_000] * 300,
    ),
    "required": ({"items": {"required": [str(n) for n in MANY]}}, [{str(n): 1 for n in MANY}] * 60),
    "multipleOf": ({"items": {"multipleOf": 1e-300}}, [1.5e300] * 401),
    "pattern": ({"pattern": HARD}, AB[:1_000]),
    "patterns": ({"items": {"pattern": "^[ab]+$"}}, [AB] * 4),
}


@pytest.fixture
def tight(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(work, "JUDGEMENTS_MAX", TIGHT)


def selects(value: Any, document: Any) -> bool:
    return schema.selects(frozenset((schema.compile(document),)), value)


def reach(document: Any, value: Any) -> list[schema.Reached]:
    return schema.reach(frozenset((schema.compile(document),)), value)


def weighed(pattern: str) -> Cost:
    translation = _Translation(pattern)
    translation.run()
    return translation.weight.cost()


def link(**members: Any) -> dict[str, Any]:
    return {"/": {"link@1": {"id": "urn:x:1", **members}}}


def check_refused(refused: pytest.ExceptionInfo[LimitExceeded], maximum: int = work.JUDGEMENTS_MAX) -> None:
    assert refused.value.facts["bound"] == "schema_judgements_max"
    assert refused.value.facts["maximum"] == maximum
    assert refused.value.facts["actual"] > maximum


@pytest.mark.rule("QUERY-3")
@pytest.mark.usefixtures("tight")
@pytest.mark.parametrize("name", TOO_MUCH)
def test_whatever_loops_pays_for_its_work(name: str) -> None:
    document, value = TOO_MUCH[name]
    for judge in (schema.matches, selects):
        with pytest.raises(LimitExceeded) as refused:
            judge(value, document)
        check_refused(refused, TIGHT)


@pytest.mark.rule("QUERY-3")
@pytest.mark.usefixtures("tight")
def test_items_behind_the_one_that_fails_cost_nothing() -> None:
    document = {"anyOf": [{"items": {"maximum": number}} for number in range(10)]}
    assert not schema.matches([99] * 15_000, document)


@pytest.mark.rule("QUERY-3")
@pytest.mark.usefixtures("tight")
def test_branches_behind_the_one_that_matches_cost_nothing() -> None:
    document = {"items": {"anyOf": [{"minimum": 1}, *({"minimum": number + 9} for number in MANY)]}}
    assert schema.matches([5] * 5_000, document)


@pytest.mark.rule("QUERY-3")
@pytest.mark.usefixtures("tight")
def test_a_link_is_read_once_however_many_subschemas_ask() -> None:
    document = {"not": {"anyOf": [{"minimum": number} for number in MANY]}}
    assert selects(link(path="/a" * 100_000), document)
    with pytest.raises(LimitExceeded):
        selects([link() for _ in range(2_000)], {"items": {"minimum": 1}})


@pytest.mark.rule("QUERY-3")
def test_answers_that_are_remembered_are_bounded_by_their_number() -> None:
    shared = {"items": {"$ref": "#/$defs/s"}}
    document = {"$defs": {"s": {"properties": {"a": {"type": "integer"}}}}, "allOf": [shared, dict(shared)]}
    assert schema.matches([{"a": number} for number in range(1_000)], document)
    with pytest.raises(LimitExceeded) as refused:
        schema.matches([{} for _ in range(work.JUDGEMENTS_MAX // work.REMEMBERED)], document)
    check_refused(refused)


@pytest.mark.rule("QUERY-3")
@pytest.mark.parametrize(
    ("document", "text"),
    [
        ({"pattern": HARD}, AB),
        ({"anyOf": [{"pattern": f"[ab]*a[ab]{{{2500 - n}}}c"} for n in range(8)]}, AB[:50_000]),
    ],
)
def test_a_pattern_that_would_take_seconds_is_refused_before_it_is_searched_for(document: Any, text: str) -> None:
    with pytest.raises(LimitExceeded) as refused:
        schema.matches(text, document)
    check_refused(refused)
    assert not schema.matches(text[:2_000], document)


@pytest.mark.rule("QUERY-3")
@pytest.mark.parametrize(
    "pattern", ["^[a-z]+$", "^(?:a|b)*$", "b.*a", "abba", r"^\S[^]*$", "[ab]*a[ab]{5}", "^[ab]{40}"]
)
def test_common_patterns_are_searched_for_in_the_largest_texts(pattern: str) -> None:
    assert schema.matches(AB * 80, {"pattern": pattern})


@pytest.mark.rule("QUERY-3")
@pytest.mark.parametrize(
    ("pattern", "cost"),
    [
        ("abc", Cost(0, NO_END)),
        ("a rather long text", Cost(0, NO_END)),
        ("^abc", Cost(0, 4)),
        ("^abc|d", Cost(0, NO_END)),
        ("^(?:abc|d)", Cost(0, 5)),
        ("^ab*", Cost(0, NO_END)),
        ("^ab+", Cost(0, NO_END)),
        ("^ab?", Cost(0, 3)),
        ("^a{2,}", Cost(0, NO_END)),
        ("^a{2,4}", Cost(0, 5)),
        ("^a{0}", Cost(0, 2)),
        ("[ab]{8}", Cost(0, NO_END)),
        ("[ab]{9}", Cost(24 + 9, NO_END)),
        ("[ab]{3,9}", Cost(24 + 18, NO_END)),
        ("(?:a{3}){3}", Cost(24 + 12, NO_END)),
        (r"\b.\d\x41[ab]{6}$", Cost(24 + 11, NO_END)),
    ],
)
def test_a_pattern_weighs_what_it_is_when_its_repetitions_are_written_out(pattern: str, cost: Cost) -> None:
    assert weighed(pattern) == cost


@pytest.mark.rule("QUERY-3")
def test_a_text_that_is_not_ascii_costs_its_bytes_and_an_anchored_pattern_what_it_can_read() -> None:
    def paid(pattern: str, text: str) -> int:
        run = work.begun()
        searcher(pattern)(text, run)
        return work.spent(run)

    assert paid("^[ab]+$", "a" * 1_600) == 100
    assert paid("^[ab]+$", "a" * 1_599 + "é") == 300
    assert paid("[ab]{24}", "a" * 100) == 200
    assert paid("^[ab]{24}", "a" * 100) == 51
    assert paid("[ab]{24}", "a" * 8) == 0


@pytest.mark.rule("QUERY-3")
def test_thousands_of_branches_on_a_thousand_items_are_refused() -> None:
    document = {"items": {"anyOf": [*({"minimum": 10**9 + number} for number in range(20_000)), {"type": "integer"}]}}
    with pytest.raises(LimitExceeded) as refused:
        schema.matches([5] * 1_000, document)
    check_refused(refused)


@pytest.mark.rule("QUERY-2")
@pytest.mark.usefixtures("tight")
def test_reaching_through_thousands_of_branches_is_refused() -> None:
    document: Any = {"items": {"anyOf": [{"properties": {f"a{number}": True}} for number in MANY]}}
    value: list[Any] = [{"a1": [], "b": link()} for _ in range(300)]
    with pytest.raises(LimitExceeded) as refused:
        reach(document, value)
    check_refused(refused, TIGHT)
    assert reach({"items": {"anyOf": document["items"]["anyOf"][:20]}}, value[:20]) == []


@pytest.mark.rule("QUERY-2")
def test_links_that_carry_many_different_schemas_are_refused() -> None:
    value: list[Any] = [link(schema={"pattern": f"^[a-z]{{2}}{number}$"}) for number in range(1_000)]
    with pytest.raises(LimitExceeded) as refused:
        reach(True, value)
    check_refused(refused)
    assert len(reach(True, value[:400])) == 400
    assert len(reach(True, [link(schema={"pattern": "^a$"}) for _ in range(1_000)])) == 1_000
    with pytest.raises(LimitExceeded):
        reach(True, [link(schema={"no keyword": number}) for number in range(8_000)])


@pytest.mark.rule("QUERY-2")
@pytest.mark.parametrize(
    ("document", "value"),
    [
        (True, [[[]] for _ in range(4_000)]),
        (True, [link() for _ in range(2_000)]),
        ({"items": {"items": True}}, [[[]] for _ in range(2_000)]),
        ({"items": {"maximum": 1}}, [[] for _ in range(2_000)]),
        ({"items": {"x-entity-reference": True}}, ["urn:x:1"] * 1_000),
        ({"properties": {str(n): {"properties": {"a": True}} for n in MANY}}, {"0": {"a": []}}),
        ({"anyOf": [{"properties": {str(n): True for n in MANY}}]}, {"0": []}),
        ({"$defs": {"d": {"allOf": [{"minLength": n} for n in MANY]}}, "$ref": "#/$defs/d", "items": True}, [[]]),
    ],
)
@pytest.mark.usefixtures("tight")
def test_a_walk_pays_for_places_links_and_plans(document: Any, value: Any) -> None:
    with pytest.raises(LimitExceeded) as refused:
        reach(document, value)
    check_refused(refused, TIGHT)


@pytest.mark.rule("QUERY-2")
@pytest.mark.usefixtures("tight")
def test_what_a_walk_costs_does_not_depend_on_what_is_cached() -> None:
    def costs() -> list[int]:
        found = []
        for document, value in walks:
            with pytest.raises(LimitExceeded) as refused:
                reach(document, value)
            found.append(refused.value.facts["actual"])
        return found

    branches = [{"required": [f"a{n}"], "properties": {f"a{n}": {"items": True}}} for n in range(30)]
    walks: list[tuple[Any, Any]] = [
        ({"items": {"anyOf": branches}}, [{f"a{n % 30}": [[]], f"a{n * 7 % 30}": []} for n in range(4_000)]),
        (True, [link(schema={"pattern": f"^{number}$"}) for number in range(600)]),
    ]
    first = costs()
    assert costs() == first
    compiler._small.cache_clear()
    compiler._large.cache_clear()
    assert costs() == first
