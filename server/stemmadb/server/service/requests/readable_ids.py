"""Limits requests to the ids that the caller may read, so that no list even passes over the others (ACL-2)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from stemmadb.protocol.model.query.query import Prepared, Start
from stemmadb.protocol.model.values.ids import EntityId
from stemmadb.server.service.base.request_context import Caller


def prefixes_within(caller: Caller, prefix: str) -> tuple[str, ...]:
    """The prefixes that cover what the caller may read under one: in order, and none within another."""
    if not caller.is_narrow:
        return (prefix,)
    kept: list[str] = []
    for one in sorted({_narrower(prefix, mine) for mine in caller.rights.prefixes if _meet(prefix, mine)}):
        if not kept or not one.startswith(kept[-1]):
            kept.append(one)
    return tuple(kept)


def limit_to_readable(caller: Caller, prepared: Prepared) -> Prepared:
    """The query with each listing limited to readable ids; named roots stay, to be found missing (QUERY-5)."""
    if not caller.is_narrow:
        return prepared
    return replace(
        prepared, starts=tuple(readable for start in prepared.starts for readable in _readable_starts(caller, start))
    )


def lies_behind(prefix: str, after: EntityId | None) -> bool:
    """Whether every id under the prefix comes before that place."""
    return after is not None and after > prefix and not after.startswith(prefix)


def _readable_starts(caller: Caller, start: Start) -> Iterator[Start]:
    if not start.listing:
        yield start
        return
    for prefix in prefixes_within(caller, start.name):
        yield start._replace(name=prefix)


def _meet(one: str, other: str) -> bool:
    return one.startswith(other) or other.startswith(one)


def _narrower(one: str, other: str) -> str:
    return one if one.startswith(other) else other
