"""Questions cut to the ids that the asker may read, so that no list even passes over the others (ACL-2)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from stemmadb.protocol.model.ids import EntityId
from stemmadb.protocol.model.query import Prepared, Start
from stemmadb.server.service.asking import Asker


def prefixes_within(asker: Asker, prefix: str) -> tuple[str, ...]:
    """The prefixes that cover what the asker may read under one: in order, and none within another."""
    if not asker.is_narrow:
        return (prefix,)
    kept: list[str] = []
    for one in sorted({_narrower(prefix, mine) for mine in asker.rights.prefixes if _meet(prefix, mine)}):
        if not kept or not one.startswith(kept[-1]):
            kept.append(one)
    return tuple(kept)


def cut_to(asker: Asker, prepared: Prepared) -> Prepared:
    """The query with each listing cut to what the asker may read; named roots stay, to be found missing (QUERY-5)."""
    if not asker.is_narrow:
        return prepared
    return replace(prepared, starts=tuple(cut for start in prepared.starts for cut in _cut(asker, start)))


def lies_behind(prefix: str, after: EntityId | None) -> bool:
    """Whether every id under the prefix comes before that place."""
    return after is not None and after > prefix and not after.startswith(prefix)


def _cut(asker: Asker, start: Start) -> Iterator[Start]:
    if not start.listing:
        yield start
        return
    for prefix in prefixes_within(asker, start.name):
        yield start._replace(name=prefix)


def _meet(one: str, other: str) -> bool:
    return one.startswith(other) or other.startswith(one)


def _narrower(one: str, other: str) -> str:
    return one if one.startswith(other) else other
