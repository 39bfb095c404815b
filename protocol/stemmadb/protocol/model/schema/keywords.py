"""The assertions of one subschema as small functions, sorted by the type of value that they concern (QUERY-3)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import NoneType
from typing import Any, Final

from stemmadb.protocol.model.schema.appliers import Check, paying
from stemmadb.protocol.model.schema.equality import all_differ, identity, multiple_of
from stemmadb.protocol.model.schema.node import IGNORED, SchemaNode
from stemmadb.protocol.model.schema.work import begun

KINDS: Final = (dict, list, str, int, float, bool, NoneType)
"""The types of a value, each exactly: a bool is not an int here."""
_KINDS_OF_TYPE: Final[dict[str, tuple[type, ...]]] = {
    "null": (NoneType,),
    "boolean": (bool,),
    "integer": (int, float),
    "number": (int, float),
    "string": (str,),
    "array": (list,),
    "object": (dict,),
}

# What costs more than a unit of work
_LONG: Final = 1024  # characters compared
_MANY: Final = 8  # names looked up

_TYPE_AND_NOTES: Final = IGNORED | {"type"}


def checks(node: SchemaNode, kind: type) -> list[Check] | None:
    """What the node asserts of a value of this kind by itself, the cheapest first; None if it allows none."""
    raw = node.raw
    if node.is_false or ("type" in raw and not _allows(raw["type"], kind)):
        return None
    found: list[Check] = []
    if kind is float and "type" in raw and "number" not in _names(raw["type"]):
        found.append(lambda value, _: value.is_integer())
    found += _OF_KIND.get(kind, _nothing)(node)
    if "const" in raw:
        found += _among([raw["const"]], kind)
    if "enum" in raw:
        found += _among(raw["enum"], kind)
    return found


def outright(node: SchemaNode) -> frozenset[type]:
    """The kinds of which every value is valid, where that can be told from `type` alone."""
    if "type" not in node.raw or not node.raw.keys() <= _TYPE_AND_NOTES:
        return frozenset()
    names = _names(node.raw["type"])
    return frozenset(
        kind for name in names for kind in _KINDS_OF_TYPE[name] if kind is not float or "number" in names
    )


def _names(types: str | list[str]) -> list[str]:
    return [types] if isinstance(types, str) else types


def _allows(types: str | list[str], kind: type) -> bool:
    return any(kind in _KINDS_OF_TYPE[name] for name in _names(types))


def _same_kind(kind: type, other: type) -> bool:
    return kind is other or (kind in (int, float) and other in (int, float))


def _among(given: list[Any], kind: type) -> Iterator[Check]:
    """Of one kind Python's own equality is JSON's for scalars; arrays and objects go by their identity."""
    members = [member for member in given if _same_kind(kind, type(member))]
    if kind is dict or kind is list:
        identities = {identity(member, begun()) for member in members}
        yield lambda value, memo: identity(value, memo) in identities
        return
    if kind is str and (longest := max(map(len, members), default=0)) > _LONG:
        yield paying(longest // _LONG)
    if len(members) == 1:
        only = members[0]
        yield lambda value, _: value == only  # two scalars: the answer is a bool
    else:
        allowed = frozenset(members)
        yield lambda value, _: value in allowed


def _nothing(_node: SchemaNode) -> Iterator[Check]:
    return iter(())


def _of_text(node: SchemaNode) -> Iterator[Check]:
    raw = node.raw
    if "minLength" in raw or "maxLength" in raw:
        yield _length_within(raw.get("minLength", 0), raw.get("maxLength"))
    if node.search is not None:
        yield node.search


def _of_list(node: SchemaNode) -> Iterator[Check]:
    raw = node.raw
    if "minItems" in raw or "maxItems" in raw:
        yield _length_within(raw.get("minItems", 0), raw.get("maxItems"))
    if raw.get("uniqueItems"):
        yield all_differ


def _of_object(node: SchemaNode) -> Iterator[Check]:
    raw = node.raw
    if "minProperties" in raw or "maxProperties" in raw:
        yield _length_within(raw.get("minProperties", 0), raw.get("maxProperties"))
    if raw.get("required"):
        required = frozenset(raw["required"])
        if len(required) > _MANY:
            yield paying(len(required) // _MANY)
        yield _all_there(required)


def _all_there(names: frozenset[str]) -> Check:
    def run(value: dict[str, Any], _: Any) -> bool:
        for name in names:  # noqa: SIM110  # for a few names faster than comparing sets
            if name not in value:
                return False
        return True

    return run


def _length_within(least: int | float, most: int | float | None) -> Check:
    if most is None:
        return lambda value, _: len(value) >= least
    return lambda value, _: least <= len(value) <= most


def _of_number(node: SchemaNode) -> Iterator[Check]:
    for keyword, maker in _BOUNDS.items():
        if keyword in node.raw:
            yield maker(node.raw[keyword])
    if "multipleOf" in node.raw:
        yield multiple_of(node.raw["multipleOf"])


_BOUNDS: Final[dict[str, Callable[[int | float], Check]]] = {
    "minimum": lambda bound: lambda value, _: value >= bound,
    "maximum": lambda bound: lambda value, _: value <= bound,
    "exclusiveMinimum": lambda bound: lambda value, _: value > bound,
    "exclusiveMaximum": lambda bound: lambda value, _: value < bound,
}
_OF_KIND: Final[dict[type, Callable[[SchemaNode], Iterator[Check]]]] = {
    dict: _of_object, list: _of_list, str: _of_text, int: _of_number, float: _of_number,
}  # fmt: skip
