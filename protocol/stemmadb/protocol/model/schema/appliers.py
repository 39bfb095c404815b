"""The functions that apply subschemas to a value or to its parts, made of the judges of those subschemas (QUERY-3).

Each is one call deep, and `resolve` counts on it. They are plain loops: a generator costs more than what it runs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeAlias

Memo: TypeAlias = dict[tuple[int, int], bool]
"""Answers already found in one run, by subschema and value: what is applied twice is judged once."""
Check: TypeAlias = Callable[[Any, Memo], bool]
Kinds: TypeAlias = frozenset[type]


class Judging(Protocol):
    """Whatever answers for a subschema; `run` is looked up when it is called, since it may be made later."""

    run: Check


def passed_on(inner: Judging) -> Check:
    return lambda value, memo: inner.run(value, memo)  # noqa: PLW0108  # `run` may be made later


def properties(named: list[tuple[str, Kinds, Judging]]) -> Check:
    """Each named property that is there; a kind that is accepted outright is not judged."""

    def run(value: dict[str, Any], memo: Memo) -> bool:
        for name, accepted, inner in named:
            if name in value:
                item = value[name]
                if type(item) not in accepted and not inner.run(item, memo):
                    return False
        return True

    return run


def properties_and_others(named: dict[str, Judging], accepted: Kinds, others: Judging) -> Check:
    """Every property, by its name or as one of the others."""

    def run(value: dict[str, Any], memo: Memo) -> bool:
        for name, item in value.items():
            if name in named:
                if not named[name].run(item, memo):
                    return False
            elif type(item) not in accepted and not others.run(item, memo):
                return False
        return True

    return run


def prefix(judges: list[Judging]) -> Check:
    def run(value: list[Any], memo: Memo) -> bool:
        for inner, item in zip(judges, value, strict=False):  # noqa: SIM110
            if not inner.run(item, memo):
                return False
        return True

    return run


def items(start: int, accepted: Kinds, inner: Judging) -> Check:
    """Every item from `start` on."""

    def run(value: list[Any], memo: Memo) -> bool:
        rest = value[start:] if start else value
        if accepted.issuperset(map(type, rest)):
            return True
        for item in rest:  # noqa: SIM110
            if not inner.run(item, memo):
                return False
        return True

    return run


def any_of(branches: list[Judging]) -> Check:
    def run(value: Any, memo: Memo) -> bool:
        for branch in branches:  # noqa: SIM110
            if branch.run(value, memo):
                return True
        return False

    return run


def negation(inner: Judging) -> Check:
    return lambda value, memo: not inner.run(value, memo)


def exactly_one(judges: list[Judging]) -> Check:
    def run(value: Any, memo: Memo) -> bool:
        found = False
        for inner in judges:
            if inner.run(value, memo):
                if found:
                    return False
                found = True
        return found

    return run


def at_most_one(judges: list[Judging]) -> Check:
    def run(value: Any, memo: Memo) -> bool:
        found = False
        for inner in judges:
            if inner.run(value, memo):
                if found:
                    return False
                found = True
        return True

    return run
