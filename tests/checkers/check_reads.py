"""Checks what reads answered: no older than what was acknowledged before, and the past is the same for ever."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass
from itertools import accumulate
from operator import eq
from typing import Generic, TypeVar

from violations import Violation

S = TypeVar("S")
T_co = TypeVar("T_co", covariant=True)


@dataclass(frozen=True, slots=True)
class Told:
    """The moment at which somebody knew that a version is durable."""

    at: float
    version: int


@dataclass(frozen=True, slots=True)
class ServerRead:
    """A read that the server answered: when it was asked, and the version it was answered at."""

    began: float
    version: int
    who: Hashable = None


@dataclass(frozen=True, slots=True)
class Observed(Generic[T_co]):
    """What somebody saw at a moment of the past (a branch and a version, say), whenever that was."""

    moment: Hashable
    state: T_co


def stale(told: Iterable[Told], reads: Iterable[ServerRead]) -> Iterator[Violation]:
    """A server read is no older than any commit that was acknowledged before it began, to anyone."""
    ordered = sorted(told, key=lambda one: one.at)
    moments = [one.at for one in ordered]
    highest = list(accumulate((one.version for one in ordered), max))
    for read in reads:
        before = bisect_left(moments, read.began)
        if before and read.version < highest[before - 1]:
            what = f"{read.who} read {read.version} at {read.began:.6f}, when {highest[before - 1]} was acknowledged"
            yield Violation("stale", what)


def changed_past(
    observed: Iterable[Observed[S]], *, same: Callable[[S, S], bool] = eq, gone: Callable[[S], bool] | None = None
) -> Iterator[Violation]:
    """A state of the past is the same whenever it is read; it may only be `gone` (erased, compacted), for ever."""
    first: dict[Hashable, S] = {}
    for one in observed:
        if one.moment not in first:
            first[one.moment] = one.state
        elif not same(first[one.moment], one.state):
            if gone is None or not gone(one.state):
                yield Violation("past", f"{one.moment} was {first[one.moment]!r} and is {one.state!r}")
            first[one.moment] = one.state
