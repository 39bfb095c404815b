"""The newest fact of many entities at once, and the state it leaves, without reading a value (QUERY-10).

One statement serves all entities for a span of the lineage, as in `replay.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from stemmadb.protocol.model.log.branch_spans import Span
from stemmadb.protocol.model.values.ids import EntityId, Version
from stemmadb.server.storage import positions
from stemmadb.server.storage.last_facts import LOOKED_BACK_MAX, state_of
from stemmadb.server.storage.port import LastFact
from stemmadb.server.storage.postgres.packing import texts
from stemmadb.server.storage.postgres.read_view import PostgresView
from stemmadb.server.storage.postgres.structure import PostgresStructure
from stemmadb.server.storage.stored_records import kind_name

_OPEN: Final = "(kind = 2 AND body IS NOT NULL OR kind = 4 AND body IS NULL)"
"""Such a fact leaves the state to the one before it."""
_LAST: Final = f"""
SELECT j.key, f.place, f.hash, f.kind, f.has_body, CASE WHEN f.is_open THEN (
  SELECT kind * 2 + (body IS NOT NULL)::int FROM (
    SELECT place, kind, body FROM fact WHERE space = %(space)s::int AND entity = e.entity
      AND branch = %(branch)s::int AND place BETWEEN %(low)s::bigint AND f.place - 1
    ORDER BY space DESC, entity DESC, branch DESC, place DESC LIMIT {LOOKED_BACK_MAX - 1}) AS earlier
  WHERE NOT {_OPEN} ORDER BY place DESC LIMIT 1) END
FROM unnest(%(ids)s::text[]) WITH ORDINALITY AS j (id, key)
JOIN entity AS e ON e.space = %(space)s::int AND e.id = j.id
CROSS JOIN LATERAL (
  SELECT place, hash, kind, body IS NOT NULL AS has_body, {_OPEN} AS is_open
  FROM fact WHERE space = %(space)s::int AND entity = e.entity AND branch = %(branch)s::int
    AND place BETWEEN %(low)s::bigint AND %(high)s::bigint
  ORDER BY space DESC, entity DESC, branch DESC, place DESC LIMIT 1) AS f
"""  # noqa: S608  # our own text


def last_facts(
    view: PostgresView, structure: PostgresStructure, spans: Sequence[Span], ids: Iterable[EntityId]
) -> dict[EntityId, LastFact]:
    """For each entity with a fact in the spans the newest one."""
    found: dict[EntityId, LastFact] = {}
    left = list(dict.fromkeys(ids))
    for span in spans:
        if not left:
            break
        number = structure.number(span.branch)
        if number is not None:
            _find(view, number, span, left, found)
            left = [id_ for id_ in left if id_ not in found]
    return found


def _find(view: PostgresView, number: int, span: Span, left: list[EntityId], found: dict[EntityId, LastFact]) -> None:
    low, high = positions.bounds(span)
    rows = view.rows(_LAST, {"ids": texts(left), "branch": number, "low": low, "high": high})
    for key, place, hash_, kind, has_body, settling in rows:
        looked_at = [(kind_name(place, kind), bool(has_body))]
        if settling is not None:
            looked_at.append((kind_name(place, settling >> 1), bool(settling & 1)))
        version, index = Version(place >> positions.INDEX_BITS), place & positions.INDEX_MAX
        found[left[key - 1]] = LastFact(version, index, hash_, state_of(looked_at))
