"""JSON Schema by a page of obvious code, straight from the draft, and random schemas and values to try it with."""

from __future__ import annotations

import re
from collections.abc import Callable
from fractions import Fraction
from random import Random
from typing import Any
from urllib.parse import unquote

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
            if not is_link(value):
                return [(path, None, conjuncts)]
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
PATTERNS = ["^a", "b$", "a+b?", "^$", "[^a]", "^urn:x:[0-9]$"]
REFS = ["#", "#/$defs/x", "#/$defs/x", "#/$defs/y%7E1"]


class Draw:
    """Random values and schemas, the same for the same seed."""

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)
        self._pick = self._random.choice

    def value(self, links: bool = False, depth: int = 0) -> Any:
        if links and self._random.random() < 0.3:
            return self.link()
        kind = self._random.random() + depth * 0.2
        if kind < 0.35:
            return {name: self.value(links, depth + 1) for name in self._some(NAMES, 0)}
        if kind < 0.6:
            return [self.value(links, depth + 1) for _ in range(self._random.randrange(4))]
        return self._pick([None, True, False, self._pick(NUMBERS), self._pick(NUMBERS), self._pick(TEXTS)])

    def link(self) -> Any:
        body: dict[str, Any] = {"id": self._pick(["urn:x:1", "urn:x:2", "no id"])}
        if self._random.random() < 0.4:
            body["schema"] = self._pick([True, False, {"type": "string"}, {"items": True}])
        return {"/": {"link@1": body}}

    def document(self) -> Any:
        """Every `$ref` in it has a target, though some recurse for ever."""
        root = self.schema()
        definitions = {"x": self.schema(1), "y/": self.schema(1)}
        return {**(root if isinstance(root, dict) else {"allOf": [root]}), "$defs": definitions}

    def schema(self, depth: int = 0) -> Any:
        if depth > 3 or self._random.random() < 0.15:
            return self._pick([True, True, False, {}, {"type": self._pick(TYPES)}, {"$ref": self._pick(REFS)}])
        keywords = [self._pick(KEYWORDS) for _ in range(self._random.randint(1, 3))]
        return {keyword: self._said(keyword, depth + 1) for keyword in keywords}

    def _some(self, names: list[str], least: int) -> list[str]:
        return self._random.sample(names, self._random.randint(least, len(names)))

    def _said(self, keyword: str, depth: int) -> Any:
        if keyword in ("additionalProperties", "items", "not"):
            return self.schema(depth)
        if keyword in ("prefixItems", "allOf", "anyOf", "oneOf"):
            return [self.schema(depth) for _ in range(self._random.randint(1, 2))]
        if keyword == "properties":
            return {name: self.schema(depth) for name in self._some(NAMES, 1)}
        return self._asserted(keyword)

    def _asserted(self, keyword: str) -> Any:
        match keyword:
            case "type":
                return self._pick([self._pick(TYPES), self._some(TYPES, 1)])
            case "const":
                return self.value(depth=1)
            case "enum":
                return [self.value(depth=1) for _ in range(3)]
            case "required":
                return self._some(NAMES, 0)
            case "minimum" | "maximum" | "exclusiveMinimum" | "exclusiveMaximum":
                return self._pick(NUMBERS)
            case "multipleOf":
                return self._pick([number for number in NUMBERS if number > 0])
            case "uniqueItems" | "x-entity-reference":
                return self._random.random() < 0.8
            case "pattern" | "$ref":
                return self._pick(PATTERNS if keyword == "pattern" else REFS)
        return "a note" if keyword == "title" else self._pick([0, 1, 2, 2.0, 3])


KEYWORDS = [
    *(
        "type",
        "const",
        "enum",
        "required",
        "minimum",
        "maximum",
        "exclusiveMinimum",
        "exclusiveMaximum",
        "multipleOf",
    ),
    *("minLength", "maxLength", "pattern", "minItems", "maxItems", "uniqueItems", "minProperties", "maxProperties"),
    *("properties", "properties", "properties", "additionalProperties", "items", "items", "prefixItems", "not"),
    *("allOf", "allOf", "anyOf", "anyOf", "oneOf", "oneOf", "$ref", "$ref", "x-entity-reference", "title"),
]
