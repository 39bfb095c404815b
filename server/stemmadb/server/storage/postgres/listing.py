"""Listing: which entities there are, and which changed where."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from stemmadb.protocol.model.log.branch_spans import Span
from stemmadb.protocol.model.values.ids import EntityId, Version
from stemmadb.server.storage import positions
from stemmadb.server.storage.postgres.connection import Row
from stemmadb.server.storage.postgres.read_view import PostgresView
from stemmadb.server.storage.postgres.structure import PostgresStructure

FEW_VERSIONS: Final = 1_000
"""Up to so many versions are looked through without asking whether there is a shorter way."""
PAGE: Final = 1_000
"""Versions that are looked through with one statement."""

_UNDER: Final = "e.id >= %(prefix)s AND (%(prefix_end)s::text IS NULL OR e.id < %(prefix_end)s)"
_SOURCES: Final = ("commit", "touched")
"""Where a branch was written: the commits made on it, and the space-wide ones with a fact on it."""
_WRITTEN: Final = f"""
WITH v AS MATERIALIZED (
  SELECT version FROM {{}} WHERE space = %(space)s::int AND branch = %(branch)s::int AND version > %(after)s
    AND version <= %(upto)s ORDER BY space DESC, branch DESC, version DESC LIMIT {PAGE}
), w AS (
  SELECT f.entity, max(f.place) AS place FROM v JOIN fact AS f ON f.space = %(space)s::int
    AND f.place BETWEEN v.version << 20 AND v.version << 20 | 1048575 AND f.branch = %(branch)s::int
  GROUP BY f.entity
)
SELECT NULL::int, NULL::text, count(*), min(version), NULL::bigint FROM v
UNION ALL SELECT w.entity, e.id, NULL, NULL, w.place FROM w JOIN entity AS e ON e.space = %(space)s::int
  AND e.entity = w.entity AND {_UNDER}
ORDER BY 5 DESC NULLS FIRST
"""  # noqa: S608  # our own text
_CHANGED_OF_ENTITIES: Final = (
    f"SELECT e.entity, e.id FROM entity AS e WHERE e.space = %(space)s::int AND {_UNDER} "  # noqa: S608
    "AND EXISTS (SELECT 1 FROM fact WHERE space = %(space)s::int AND entity = e.entity AND branch = %(branch)s::int "
    "AND place BETWEEN %(low)s AND %(high)s) LIMIT %(limit)s"
)
_COUNT: Final = (
    "SELECT count(*) FROM (SELECT 1 FROM entity AS e "  # noqa: S608
    f"WHERE e.space = %(space)s::int AND {_UNDER} LIMIT %(count_max)s) AS few"
)
_IDS: Final = (
    f"SELECT e.id FROM entity AS e WHERE e.space = %(space)s::int AND e.id > %(after)s AND {_UNDER} "  # noqa: S608
    "ORDER BY e.space, e.id LIMIT %(limit)s"
)


def ids(view: PostgresView, prefix: str, after: EntityId | None, limit: int) -> list[EntityId]:
    """Entities under a prefix that were ever written, in the order of their UTF-8 bytes."""
    values = {"after": "" if after is None else after, "limit": limit} | _under(prefix)
    return [id_ for (id_,) in view.rows(_IDS, values)]


def changed(
    view: PostgresView, structure: PostgresStructure, spans: Sequence[Span], prefix: str
) -> Iterator[EntityId]:
    """The entities under a prefix with a fact in the spans, each once; costs what was written there."""
    seen: set[int] = set()
    for span, number in _known(structure, spans):
        for entity, id_ in _by_version(view, span, number, prefix):
            if entity not in seen:
                seen.add(entity)
                yield id_


def changed_after(
    view: PostgresView, structure: PostgresStructure, spans: Sequence[Span], prefix: str, after: Version, limit: int
) -> list[EntityId]:
    """At most `limit` entities under the prefix with a later fact in the spans, by the shorter of two ways."""
    later = [Span(span.branch, max(span.after, after), span.upto) for span in spans if span.upto > after]
    versions = sum(span.upto - span.after for span in later)
    is_shorter = versions > FEW_VERSIONS and _entities(view, prefix, versions) < versions
    found: dict[EntityId, None] = {}
    for span, number in _known(structure, later):
        rows = (
            _by_entity(view, span, number, prefix, limit) if is_shorter else _by_version(view, span, number, prefix)
        )
        for _, id_ in rows:
            found[id_] = None
            if len(found) == limit:
                return list(found)
    return list(found)


def _by_version(view: PostgresView, span: Span, number: int, prefix: str) -> Iterator[Row]:
    """The newest first."""
    for source in _SOURCES:
        upto = min(span.upto, positions.VERSION_MAX)
        while True:
            values = {"branch": number, "after": span.after, "upto": upto} | _under(prefix)
            (_, _, count, oldest, _), *rows = view.rows(_WRITTEN.format(source), values)
            yield from ((entity, id_) for entity, id_, *_ in rows)
            if count < PAGE:
                break
            upto = oldest - 1


def _by_entity(view: PostgresView, span: Span, number: int, prefix: str, limit: int) -> list[Row]:
    low, high = positions.bounds(span)
    values = {"branch": number, "low": low, "high": high, "limit": limit} | _under(prefix)
    return view.rows(_CHANGED_OF_ENTITIES, values)


def _entities(view: PostgresView, prefix: str, count_max: int) -> int:
    """How many entities are under a prefix, counted no further than to that number."""
    row = view.row(_COUNT, {"count_max": count_max} | _under(prefix))
    assert row is not None, "an aggregate has one row"
    return int(row[0])


def _known(structure: PostgresStructure, spans: Iterable[Span]) -> Iterator[tuple[Span, int]]:
    for span in spans:
        number = structure.number(span.branch)
        if number is not None:
            yield span, number


def _under(prefix: str) -> dict[str, object]:
    return {"prefix": prefix, "prefix_end": prefix_end(prefix)}


def prefix_end(prefix: str) -> str | None:
    """What all ids under a prefix are less than; None if there is no such text."""
    end = positions.upper_bound(prefix)
    return end if isinstance(end, str) else None
