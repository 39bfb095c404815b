"""JSON Schema by a page of obvious code, straight from the draft, and random schemas and values to try it with."""

from __future__ import annotations

import re
from collections.abc import Callable
from fractions import Fraction
from typing import Any
from urllib.parse import unquote

from hypothesis import strategies as st

NOTES = {"$schema", "$comment", "title", "description", "default", "examples", "$defs"}
CHILDREN = {"properties", "additionalProperties", "items", "prefixItems"}
PLAIN, MAY, MUST = "plain", "may", "must"
OPPOSITE = {PLAIN: PLAIN, MAY: MUST, MUST: MAY}
Conjunct = tuple[Any, tuple[Any, ...]]
"""A root document, and the subschemas of it that apply together."""
Found = tuple[tuple[str, ...], str | None, list[Conjunct]]


# ---------------------------------------------------------------- matching


def follow(schema: Any, root: Any) -> Any:
    """What a subschema that is nothing but a `$ref` stands for."""
    while isinstance(schema, dict) and set(schema) - NOTES == {"$ref"}:
        schema = target(schema["$ref"], root)
    return schema


def target(ref: str, root: Any) -> Any:
    found = root
    for token in unquote(ref[1:]).split("/")[1:]:
        name = token.replace("~1", "/").replace("~0", "~")
        found = found[int(name)] if isinstance(found, list) else found[name]
    return found


def same(one: Any, other: Any) -> bool:
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    return bool(one == other)


def is_link(value: Any) -> bool:
    """Well enough for the links that are drawn here: they all begin with `urn:` where they are well formed."""
    match value:
        case {"/": {"link@1": {"id": str(id_)}}}:
            return id_.startswith("urn:")
    return False


def valid(schema: Any, value: Any, root: Any, mode: str = PLAIN) -> bool:
    schema = follow(schema, root)
    if isinstance(schema, bool) or not set(schema) - NOTES:
        return schema is not False
    if mode != PLAIN and is_link(value):
        return mode == MAY
    return all(holds(value, schema, root, mode) for holds in (types, amounts, texts, arrays, objects, combinations))


def types(value: Any, s: dict[str, Any], _root: Any, _mode: str) -> bool:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    names = {
        "null": value is None,
        "boolean": isinstance(value, bool),
        "integer": number and value == int(value),
        "number": number,
        "string": isinstance(value, str),
        "array": isinstance(value, list),
        "object": isinstance(value, dict),
    }
    wanted = s.get("type", list(names))
    return (
        any(names[name] for name in ([wanted] if isinstance(wanted, str) else wanted))
        and ("const" not in s or same(value, s["const"]))
        and ("enum" not in s or any(same(value, member) for member in s["enum"]))
    )


def exact(number: int | float) -> Fraction:
    small = number == int(number) and -(2**63) <= number < 2**63
    return Fraction(int(number)) if small else Fraction(repr(number))


def amounts(value: Any, s: dict[str, Any], _root: Any, _mode: str) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return True
    return (
        ("minimum" not in s or value >= s["minimum"])
        and ("maximum" not in s or value <= s["maximum"])
        and ("exclusiveMinimum" not in s or value > s["exclusiveMinimum"])
        and ("exclusiveMaximum" not in s or value < s["exclusiveMaximum"])
        and ("multipleOf" not in s or (exact(value) / exact(s["multipleOf"])).denominator == 1)
    )


def texts(value: Any, s: dict[str, Any], _root: Any, _mode: str) -> bool:
    if not isinstance(value, str):
        return True
    found = "pattern" not in s or re.search(s["pattern"], value) is not None
    return s.get("minLength", 0) <= len(value) <= s.get("maxLength", len(value)) and found


def arrays(value: Any, s: dict[str, Any], root: Any, mode: str) -> bool:
    if not isinstance(value, list):
        return True
    prefix = s.get("prefixItems", [])
    pairs = [(i, j) for i in range(len(value)) for j in range(i)]
    return (
        s.get("minItems", 0) <= len(value) <= s.get("maxItems", len(value))
        and not (s.get("uniqueItems") and any(same(value[i], value[j]) for i, j in pairs))
        and all(valid(inner, item, root, mode) for inner, item in zip(prefix, value, strict=False))
        and all(valid(s.get("items", True), item, root, mode) for item in value[len(prefix) :])
    )


def objects(value: Any, s: dict[str, Any], root: Any, mode: str) -> bool:
    if not isinstance(value, dict):
        return True
    named, others = s.get("properties", {}), s.get("additionalProperties", True)
    return (
        s.get("minProperties", 0) <= len(value) <= s.get("maxProperties", len(value))
        and all(name in value for name in s.get("required", []))
        and all(valid(named.get(name, others), item, root, mode) for name, item in value.items())
    )


def combinations(value: Any, s: dict[str, Any], root: Any, mode: str) -> bool:
    def count(branches: list[Any], how: str) -> int:
        return sum(valid(branch, value, root, how) for branch in branches)

    one_of = s.get("oneOf")
    return (
        ("$ref" not in s or valid(target(s["$ref"], root), value, root, mode))
        and all(valid(part, value, root, mode) for part in s.get("allOf", []))
        and ("anyOf" not in s or count(s["anyOf"], mode) > 0)
        and (one_of is None or (count(one_of, mode) > 0 and count(one_of, OPPOSITE[mode]) < 2))
        and ("not" not in s or not valid(s["not"], value, root, OPPOSITE[mode]))
    )


# ---------------------------------------------------------------- reach


def parts(schema: Any, root: Any, chosen: Callable[[Any], bool]) -> list[Any]:
    """A subschema and all that contributes with it."""
    schema = follow(schema, root)
    if isinstance(schema, bool):
        return [schema]
    inner = schema.get("allOf", []) + ([target(schema["$ref"], root)] if "$ref" in schema else [])
    inner = inner + [branch for branch in schema.get("anyOf", []) + schema.get("oneOf", []) if chosen(branch)]
    return [schema, *(part for one in inner for part in parts(one, root, chosen))]


def below(conjunct: Conjunct, value: Any, key: str | int) -> Conjunct | None:
    """What one conjunct says of a child; None if it does not reach it."""
    root, together = conjunct
    every = [part for one in together for part in parts(one, root, lambda _: True)]
    if not any(isinstance(part, dict) and CHILDREN & part.keys() for part in every):
        return (True, (True,))
    now = [part for one in together for part in parts(one, root, lambda b: valid(b, value, root, MAY))]
    said = [child for part in now if isinstance(part, dict) for child in said_of(part, key)]
    if not said or any(follow(child, root) is False for child in said):
        return None
    return root, tuple(said)


def said_of(part: dict[str, Any], key: str | int) -> list[Any]:
    if isinstance(key, str):
        named = part.get("properties", {})
        return [named[key]] if key in named else [part[k] for k in ("additionalProperties",) if k in part]
    prefix = part.get("prefixItems", [])
    return [prefix[key]] if key < len(prefix) else [part["items"]] if "items" in part else []


def reached(conjuncts: list[Conjunct], value: Any, path: tuple[str, ...] = ()) -> list[Found]:
    """Path, id (None if broken) and the conjuncts of the target, for each link."""
    if any(follow(one, root) is False for root, together in conjuncts for one in together):
        return []
    match value:
        case str() if any(marked(one, root, value) for root, together in conjuncts for one in together):
            return [(path, value if value.startswith("urn:") else None, [(True, (True,))])]
        case {"/": {"link@1": {"id": id_, **rest}}} if len(value) == 1:
            own = rest.get("schema", True)
            id_ = id_ if is_link(value) else None
            return [] if own is False else [(path, id_, [*conjuncts, (own, (own,))])]
        case dict():
            children: list[tuple[str | int, Any]] = list(value.items())
        case list():
            children = list(enumerate(value))
        case _:
            return []
    found: list[Found] = []
    for key, child in children:
        inner = [below(conjunct, value, key) for conjunct in conjuncts]
        if None not in inner:
            found += reached([one for one in inner if one is not None], child, (*path, str(key)))
    return found


def marked(schema: Any, root: Any, value: Any) -> bool:
    contributing = parts(schema, root, lambda branch: valid(branch, value, root, MAY))
    return any(isinstance(part, dict) and part.get("x-entity-reference") is True for part in contributing)


# ---------------------------------------------------------------- what to try

NAMES = ["a", "b", "c"]
NUMBERS = [0, 1, 2, 3, -1, 1.0, 2.0, 0.5, 0.1, 0.3, 1.5, -0.0, 2**53 + 1, 2.0**53, 2**63 - 1, 1e22, 1e308, 0.0075]
TEXTS = ["", "a", "ab", "é", "urn:x:1", "urn:x:2", "\U0001f600"]
TYPES = ["null", "boolean", "integer", "number", "string", "array", "object"]


def links(own: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    bodies = st.fixed_dictionaries({"id": st.sampled_from(["urn:x:1", "urn:x:2", "no id"])}, optional={"schema": own})
    return bodies.map(lambda body: {"/": {"link@1": body}})


def values(leaves: st.SearchStrategy[Any] | None = None) -> st.SearchStrategy[Any]:
    scalars = st.sampled_from([None, True, False, *NUMBERS, *TEXTS])
    return st.recursive(
        scalars if leaves is None else st.one_of(scalars, leaves),
        lambda inner: st.one_of(
            st.lists(inner, max_size=3), st.dictionaries(st.sampled_from(NAMES), inner, max_size=3)
        ),
        max_leaves=6,
    )


def _keywords(inner: st.SearchStrategy[Any]) -> dict[str, st.SearchStrategy[Any]]:
    number, count = st.sampled_from(NUMBERS), st.sampled_from([0, 1, 2, 2.0, 3])
    several = st.lists(inner, min_size=1, max_size=2)
    return {
        "type": st.one_of(st.sampled_from(TYPES), st.lists(st.sampled_from(TYPES), min_size=1, unique=True)),
        "const": values(),
        "enum": st.lists(values(), max_size=3),
        "required": st.lists(st.sampled_from(NAMES), max_size=2, unique=True),
        **dict.fromkeys(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"), number),
        "multipleOf": st.sampled_from([number for number in NUMBERS if number > 0]),
        **{f"{end}{what}": count for end in ("min", "max") for what in ("Length", "Items", "Properties")},
        "pattern": st.sampled_from(["^a", "b$", "a+b?", "^$", "[^a]", "^urn:x:[0-9]$"]),
        "uniqueItems": st.booleans(),
        "properties": st.dictionaries(st.sampled_from(NAMES), inner, min_size=1, max_size=3),
        **dict.fromkeys(("additionalProperties", "items", "not"), inner),
        **dict.fromkeys(("prefixItems", "allOf", "anyOf", "oneOf"), several),
        "$ref": st.sampled_from(["#", "#/$defs/x", "#/$defs/y%7E1"]),
        "x-entity-reference": st.booleans(),
        "title": st.just("a note"),
    }


def schemas() -> st.SearchStrategy[Any]:
    """Documents in which every `$ref` has a target, though some recurse for ever."""

    def with_keywords(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
        each = [value.map(lambda v, name=name: {name: v}) for name, value in _keywords(inner).items()]  # type: ignore[misc]
        return st.lists(st.one_of(each), min_size=1, max_size=4).map(
            lambda ones: {k: v for o in ones for k, v in o.items()}
        )

    inner = st.recursive(st.sampled_from([True, False, {}, {"type": "string"}]), with_keywords, max_leaves=8)
    return st.builds(_document, inner, inner, inner)


def _document(root: Any, x: Any, y: Any) -> Any:
    return {**(root if isinstance(root, dict) else {"allOf": [root]}), "$defs": {"x": x, "y/": y}}
