"""What each keyword's value must look like, and in which words it is refused (QUERY-3)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

TYPES: Final = ("null", "boolean", "integer", "number", "string", "array", "object")


def _one_of_types(value: Any) -> bool:
    return type(value) is str and value in TYPES


def is_type(value: Any) -> bool:
    return _one_of_types(value) or (is_texts(value) and len(value) > 0 and all(_one_of_types(name) for name in value))


def is_texts(value: Any) -> bool:
    return type(value) is list and all(type(name) is str for name in value) and len(set(value)) == len(value)


def is_number(value: Any) -> bool:
    return type(value) in (int, float)


def is_positive(value: Any) -> bool:
    return is_number(value) and value > 0


def is_count(value: Any) -> bool:
    """A whole number from 0; 2.0 is one."""
    return is_number(value) and value >= 0 and value == int(value)


def is_bool(value: Any) -> bool:
    return type(value) is bool


def is_text(value: Any) -> bool:
    return type(value) is str


def is_list(value: Any) -> bool:
    return type(value) is list


def anything(_value: Any) -> bool:
    return True


Rule = tuple[Callable[[Any], bool], str]

_NUMBER: Rule = (is_number, "a number")
_COUNT: Rule = (is_count, "a whole number from 0")
_BOOL: Rule = (is_bool, "a bool")
_TEXT: Rule = (is_text, "a string")
_NOTE: Rule = (anything, "anything")

ASSERTIONS: Final[Mapping[str, Rule]] = {
    "type": (is_type, f"one or a list of different ones of {', '.join(TYPES)}"),
    "enum": (is_list, "an array"),
    "const": (anything, "anything"),
    "required": (is_texts, "an array of different strings"),
    "minimum": _NUMBER,
    "maximum": _NUMBER,
    "exclusiveMinimum": _NUMBER,
    "exclusiveMaximum": _NUMBER,
    "multipleOf": (is_positive, "a number above 0"),
    "minLength": _COUNT,
    "maxLength": _COUNT,
    "pattern": _TEXT,
    "minItems": _COUNT,
    "maxItems": _COUNT,
    "uniqueItems": _BOOL,
    "minProperties": _COUNT,
    "maxProperties": _COUNT,
    "$ref": _TEXT,
    "x-entity-reference": _BOOL,
    "$schema": _NOTE,
    "$comment": _NOTE,
    "title": _NOTE,
    "description": _NOTE,
    "default": _NOTE,
    "examples": _NOTE,
}

ONE: Final = frozenset(("additionalProperties", "items", "not"))
"""Keywords that hold one subschema."""
SEVERAL: Final = frozenset(("allOf", "anyOf", "oneOf", "prefixItems"))
"""Keywords that hold an array of subschemas, at least one."""
NAMED: Final = frozenset(("properties", "$defs"))
"""Keywords that hold an object of subschemas."""
