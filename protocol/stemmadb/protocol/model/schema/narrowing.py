"""Narrowed schemas: a set of conjuncts that all apply, which is also its identity (QUERY-4)."""

from __future__ import annotations

from typing import Final, TypeAlias

from stemmadb.protocol.errors import LimitExceeded
from stemmadb.protocol.model.schema.compiled import Schema
from stemmadb.protocol.model.schema.compiler import compile as compile_schema
from stemmadb.protocol.model.schema.work import WorkBudget, begun, ended
from stemmadb.protocol.model.values.json_values import Value

Conjuncts: TypeAlias = frozenset[Schema]

CONJUNCTS_MAX: Final = 64
TRUE: Final = compile_schema(True)
EVERYTHING: Final[Conjuncts] = frozenset((TRUE,))


def conjuncts(*schemas: Schema) -> Conjuncts:
    """The set of the schemas without those that say nothing; never empty."""
    return frozenset(schema for schema in schemas if not schema.is_true) or EVERYTHING


def narrow(left: Conjuncts, other: Conjuncts) -> Conjuncts:
    """What both ask for together; narrowing by `true` changes nothing (QUERY-4)."""
    both = conjuncts(*left, *other)
    if len(both) > CONJUNCTS_MAX:
        raise LimitExceeded(bound="conjuncts_max", maximum=CONJUNCTS_MAX, actual=len(both))
    return both


def selects(narrowed: Conjuncts, value: Value, budget: WorkBudget | None = None) -> bool:
    """Whether every conjunct matches, a place that holds a link satisfying everything but `false` (QUERY-3).

    `LimitExceeded` if that is too much work.
    """
    run = begun(budget)
    is_selected = True
    for schema in narrowed:
        if not schema.may_match(value, run):
            is_selected = False
            break
    ended(run)
    return is_selected
