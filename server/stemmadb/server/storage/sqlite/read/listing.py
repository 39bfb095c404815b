"""Listing: which entities there are, and which changed where."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from stemmadb.protocol.model.log.branch_spans import Span
from stemmadb.protocol.model.values.ids import EntityId, Version
from stemmadb.server.storage import positions
from stemmadb.server.storage.sqlite.connection import Cell, Row
from stemmadb.server.storage.sqlite.read.read_view import ReadView
from stemmadb.server.storage.sqlite.read.stored_structure import StoredStructure

FEW_VERSIONS: Final = 1_000
"""Up to so many versions are looked through without asking whether there is a shorter way."""

_UNDER = "e.id >= :prefix AND e.id < :prefix_end"
_SOURCES = ('"commit" AS v INDEXED BY commit_branch', "touched AS v")
"""Where a branch was written: the commits made on it, and the space-wide ones with a fact on it."""
_WRITTEN = (
    f"SELECT e.entity, e.id FROM {{}} CROSS JOIN fact AS f "  # noqa: S608  # our own text
    "ON f.place BETWEEN v.version << 20 AND v.version << 20 | 1048575 AND f.branch = :branch "
    f"CROSS JOIN entity AS e ON e.entity = f.entity AND {_UNDER} "
    "WHERE v.branch = :branch AND v.version > :after AND v.version <= :upto ORDER BY v.version DESC"
)
_CHANGED_OF_ENTITIES = (
    f"SELECT e.entity, e.id FROM entity AS e WHERE {_UNDER} "  # noqa: S608  # our own text
    "AND EXISTS (SELECT 1 FROM fact INDEXED BY fact_entity WHERE entity = e.entity AND branch = :branch "
    "AND place BETWEEN :after + 1 << 20 AND :upto << 20 | 1048575) LIMIT :limit"
)


def ids(view: ReadView, prefix: str, after: EntityId | None, limit: int) -> list[EntityId]:
    """Entities under a prefix that were ever written, in the order of their UTF-8 bytes."""
    sql = "SELECT id FROM entity WHERE id >= ? AND id > ? AND id < ? ORDER BY id LIMIT ?"
    values = (prefix, "" if after is None else after, positions.upper_bound(prefix), limit)
    return [id_ for (id_,) in view.rows(sql, values)]


def changed(view: ReadView, structure: StoredStructure, spans: Sequence[Span], prefix: str) -> Iterator[EntityId]:
    """The entities under a prefix with a fact in the spans, each once; costs what was written there."""
    seen: set[int] = set()
    for span, number in _known(structure, spans):
        for entity, id_ in _by_version(view, _values(span, number, prefix)):
            if entity not in seen:
                seen.add(entity)
                yield id_


def changed_after(
    view: ReadView, structure: StoredStructure, spans: Sequence[Span], prefix: str, after: Version, limit: int
) -> list[EntityId]:
    """At most `limit` entities under the prefix with a later fact in the spans, by the shorter of two ways."""
    later = [Span(span.branch, max(span.after, after), span.upto) for span in spans if span.upto > after]
    versions = sum(span.upto - span.after for span in later)
    ask = _by_entity if versions > FEW_VERSIONS and _entities(view, prefix, versions) < versions else _by_version
    found: dict[EntityId, None] = {}
    for span, number in _known(structure, later):
        for _, id_ in ask(view, _values(span, number, prefix) | {"limit": limit}):
            found[id_] = None
            if len(found) == limit:
                return list(found)
    return list(found)


def _by_version(view: ReadView, values: dict[str, Cell]) -> Iterator[Row]:
    """The newest first."""
    for source in _SOURCES:
        yield from view.stream(_WRITTEN.format(source), values)


def _by_entity(view: ReadView, values: dict[str, Cell]) -> Iterator[Row]:
    return view.stream(_CHANGED_OF_ENTITIES, values)


def _entities(view: ReadView, prefix: str, count_max: int) -> int:
    """How many entities are under a prefix, counted no further than to that number."""
    sql = f"SELECT count(*) FROM (SELECT 1 FROM entity AS e WHERE {_UNDER} LIMIT :count_max)"  # noqa: S608
    values: dict[str, Cell] = {"prefix": prefix, "prefix_end": positions.upper_bound(prefix), "count_max": count_max}
    row = view.row(sql, values)
    assert row is not None, "an aggregate has one row"
    return int(row[0])


def _known(structure: StoredStructure, spans: Iterable[Span]) -> Iterator[tuple[Span, int]]:
    for span in spans:
        number = structure.number(span.branch)
        if number is not None:
            yield span, number


def _values(span: Span, number: int, prefix: str) -> dict[str, Cell]:
    return {
        "branch": number,
        "after": span.after,
        "upto": span.upto,
        "prefix": prefix,
        "prefix_end": positions.upper_bound(prefix),
    }
