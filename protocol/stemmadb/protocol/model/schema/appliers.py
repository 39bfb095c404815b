"""The functions that apply subschemas to a value or to its parts, made of the judges of those subschemas (QUERY-3).

Each is one call deep, and `resolve` counts on it. They are plain loops: a generator costs more than what it runs.
Each pays for what it goes through, a unit for each judge that it calls; a loop over a value pays before it begins.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeAlias

from stemmadb.protocol.model.schema.work import SchemaRun, refill, spend

Check: TypeAlias = Callable[[Any, SchemaRun], bool]
Kinds: TypeAlias = frozenset[type]

_BRANCH, _COUNTED = 2, 3  # units of work for a branch: there may be thousands, too many for the processor's caches


class Judging(Protocol):
    """Whatever answers for a subschema; `run` is looked up when it is called, since it may be made later."""

    run: Check


def paying(units: int) -> Check:
    """Always true: pays for other checks that would cost more than the judge that runs them has paid."""

    def run(_value: Any, memo: SchemaRun) -> bool:
        spend(memo, units)
        return True

    return run


def passed_on(inner: Judging) -> Check:
    return lambda value, memo: inner.run(value, memo)  # noqa: PLW0108  # `run` may be made later


def properties(named: list[tuple[str, Kinds, Judging]]) -> Check:
    """Each named property that is there; a kind that is accepted outright is not judged."""
    units = 1 + len(named) // 2  # those that are not there cost little

    def run(value: dict[str, Any], memo: SchemaRun) -> bool:
        memo.left -= units
        if memo.left < 0:
            refill(memo)
        for name, accepted, inner in named:
            if name in value:
                item = value[name]
                if type(item) not in accepted and not inner.run(item, memo):
                    return False
        return True

    return run


def properties_and_others(named: dict[str, Judging], accepted: Kinds, others: Judging) -> Check:
    """Every property, by its name or as one of the others."""

    def run(value: dict[str, Any], memo: SchemaRun) -> bool:
        memo.left -= len(value)
        if memo.left < 0:
            refill(memo)
        for name, item in value.items():
            if name in named:
                if not named[name].run(item, memo):
                    return False
            elif type(item) not in accepted and not others.run(item, memo):
                return False
        return True

    return run


def prefix(judges: list[Judging]) -> Check:
    units = 1 + len(judges)

    def run(value: list[Any], memo: SchemaRun) -> bool:
        spend(memo, units)
        for inner, item in zip(judges, value, strict=False):  # noqa: SIM110
            if not inner.run(item, memo):
                return False
        return True

    return run


def items(start: int, accepted: Kinds, inner: Judging) -> Check:
    """Every item from `start` on; gives back what it paid for items behind one that fails."""

    def run(value: list[Any], memo: SchemaRun) -> bool:
        rest = value[start:] if start else value
        if accepted:
            memo.left -= 1 + (len(rest) >> 3)  # looking at the types alone is that much cheaper
            if memo.left < 0:
                refill(memo)
            if accepted.issuperset(map(type, rest)):
                return True
        spend(memo, 1 + len(rest))
        for done, item in enumerate(rest, 1):
            if not inner.run(item, memo):
                memo.left += len(rest) - done
                return False
        return True

    return run


def any_of(branches: list[Judging]) -> Check:
    def run(value: Any, memo: SchemaRun) -> bool:
        for tried, branch in enumerate(branches, 1):
            if branch.run(value, memo):
                spend(memo, _BRANCH * tried)
                return True
        spend(memo, _BRANCH * len(branches))
        return False

    return run


def negation(inner: Judging) -> Check:
    return lambda value, memo: not inner.run(value, memo)


def exactly_one(judges: list[Judging]) -> Check:
    return _counting(judges, least=1)


def at_most_one(judges: list[Judging]) -> Check:
    return _counting(judges, least=0)


def _counting(judges: list[Judging], *, least: int) -> Check:
    """Whether those that hold are at least so many and at most one."""

    def run(value: Any, memo: SchemaRun) -> bool:
        spend(memo, _COUNTED * len(judges))
        found = 0
        for inner in judges:
            if inner.run(value, memo):
                found += 1
                if found > 1:
                    return False
        return found >= least

    return run
