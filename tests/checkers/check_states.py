"""Checks what everybody holds: a watcher has what the query gives afresh, and in the end all hold the same."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping
from operator import eq
from typing import TypeVar

from violations import Violation

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


def differing(
    held: Mapping[K, V], fresh: Mapping[K, V], *, who: Hashable, same: Callable[[V, V], bool] = eq
) -> Iterator[Violation]:
    """What a watcher holds is the query run afresh at the same version (WATCH-1)."""
    for id_ in sorted(held.keys() | fresh.keys(), key=repr):
        if id_ not in fresh:
            yield Violation("held", f"{who} holds {id_} = {held[id_]!r}, and the query does not have it")
        elif id_ not in held:
            yield Violation("missing", f"{who} lacks {id_} = {fresh[id_]!r}")
        elif not same(held[id_], fresh[id_]):
            yield Violation("differs", f"{who} holds {id_} = {held[id_]!r}, and the query gives {fresh[id_]!r}")


def diverged(
    views: Mapping[str, Mapping[K, V]], truth: Mapping[K, V], *, same: Callable[[V, V], bool] = eq
) -> Iterator[Violation]:
    """Once everything has healed every view is what is durable (NURSERY-1)."""
    for who, view in views.items():
        for violation in differing(view, truth, who=who, same=same):
            yield Violation("diverged", violation.what)
