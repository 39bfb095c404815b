"""The links that a schema reaches inside a value, and the schema that goes on with each (QUERY-2, QUERY-4)."""

from __future__ import annotations

from typing import Final, TypeAlias

import msgspec

from stemmadb.protocol.errors import InvalidSchema, LimitExceeded
from stemmadb.protocol.model.schema.appliers import Memo
from stemmadb.protocol.model.schema.compiled import Schema
from stemmadb.protocol.model.schema.compiler import compile as compile_schema
from stemmadb.protocol.model.schema.links import SIGIL, BrokenLink, Link, link_of, reference
from stemmadb.protocol.model.schema.narrowing import EVERYTHING, Conjuncts, conjuncts, narrow
from stemmadb.protocol.model.schema.plan import plans
from stemmadb.protocol.model.values import Value

Path: TypeAlias = tuple[str, ...]

_CONTAINERS: Final = frozenset((dict, list))
_WITH_TEXTS: Final = frozenset((dict, list, str))


class Reached(msgspec.Struct, frozen=True):
    """A link at `path` inside the value, and what is asked of its target."""

    path: Path
    link: Link | BrokenLink
    conjuncts: Conjuncts


def reach(narrowed: Conjuncts, value: Value) -> list[Reached]:
    """All links that the schema reaches inside the value, in the value's own order; none is followed.

    `LimitExceeded` if a link's own schema would make more conjuncts than there may be.
    """
    found: list[Reached] = []
    if not any(schema.is_false for schema in narrowed):
        _walk(tuple(narrowed), value, (), found, {})
    return found


def _walk(schemas: tuple[Schema, ...], value: Value, path: Path, found: list[Reached], memo: Memo) -> None:
    if type(value) is str:
        if any(plans(schema).at(value, memo).marked for schema in schemas):
            found.append(Reached(path, reference(value), EVERYTHING))
    elif type(value) is dict and SIGIL in value and (link := link_of(value)) is not None:
        _arrive(frozenset(schemas), link, path, found)
    elif schemas[0].is_true:
        _walk_all(value, path, found)
    elif type(value) is dict or type(value) is list:
        _walk_children(schemas, value, path, found, memo)


def _walk_children(
    schemas: tuple[Schema, ...], value: dict[str, Value] | list[Value], path: Path, found: list[Reached], memo: Memo
) -> None:
    here = [plans(schema).at(value, memo) for schema in schemas]
    kinds = _WITH_TEXTS if any(plan.marks_below for plan in here) else _CONTAINERS
    for key, item in value.items() if isinstance(value, dict) else enumerate(value):
        if type(item) in kinds:
            below = [schema for plan in here if (schema := plan.child(key)) is not None]
            if len(below) == len(here):
                inner = tuple(conjuncts(*below)) if len(below) > 1 else (below[0],)
                _walk(inner, item, (*path, str(key)), found, memo)


def _walk_all(value: Value, path: Path, found: list[Reached]) -> None:
    """Below `true` everything is reached and nothing is marked; the value is not a link itself."""
    for key, item in (
        value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    ):
        if type(item) is dict and SIGIL in item and (link := link_of(item)) is not None:
            _arrive(EVERYTHING, link, (*path, str(key)), found)
        elif type(item) in _CONTAINERS:
            _walk_all(item, (*path, str(key)), found)


def _arrive(here: Conjuncts, link: Link | BrokenLink, path: Path, found: list[Reached]) -> None:
    if isinstance(link, BrokenLink) or link.schema is None:
        found.append(Reached(path, link, here))
        return
    try:
        own = compile_schema(link.schema)
    except (InvalidSchema, LimitExceeded) as bad:
        found.append(Reached(path, BrokenLink(id=link.id, why=bad.message), here))
        return
    if not own.is_false:
        found.append(Reached(path, link, narrow(here, frozenset((own,)))))
