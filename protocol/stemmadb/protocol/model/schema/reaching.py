"""The links that a schema reaches inside a value, and the schema that goes on with each (QUERY-2, QUERY-4)."""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from stemmadb.protocol.errors import InvalidSchema, LimitExceeded
from stemmadb.protocol.model.values import Value

from .compiler import compile as compile_schema
from .compiled import Schema
from .narrowing import EVERYTHING, TRUE, Conjuncts, conjuncts, narrow
from .keywords import Memo
from .links import SIGIL, BrokenLink, Link, link_of, reference
from .plan import plan_at

Path: TypeAlias = tuple[str, ...]


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
    if type(value) is dict:
        if SIGIL in value and (link := link_of(value)) is not None:
            _arrive(schemas, link, path, found)
            return
        pairs = value.items()
    elif type(value) is list:
        pairs = enumerate(value)  # type: ignore[assignment]
    else:
        if type(value) is str and any(plan_at(schema, value, memo).marked for schema in schemas):
            found.append(Reached(path, reference(value), EVERYTHING))
        return
    plans = [plan_at(schema, value, memo) for schema in schemas]
    for key, item in pairs:
        if type(item) in (dict, list, str):
            below = [plan.child(key) for plan in plans]
            if None not in below:
                _walk(tuple(conjuncts(*below)), item, (*path, str(key)), found, memo)  # type: ignore[arg-type]


def _arrive(schemas: tuple[Schema, ...], link: Link | BrokenLink, path: Path, found: list[Reached]) -> None:
    here = frozenset(schemas)
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


__all__ = ["TRUE", "Reached", "reach"]
