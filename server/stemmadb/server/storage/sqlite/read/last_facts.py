"""The newest fact of many entities at once, and the state it leaves, without reading a value (QUERY-10).

As in `replay.py` one statement serves all entities for a span of the lineage, and those without a fact there are
asked for again in the next older one. The fact that settles a state is looked for among the newest few of its span;
where it is none of them, the state is left open.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from stemmadb.protocol.model.log.branch_spans import Span
from stemmadb.protocol.model.values.ids import EntityId, Version
from stemmadb.server.storage import positions
from stemmadb.server.storage.last_facts import LOOKED_BACK_MAX, state_of
from stemmadb.server.storage.port import LastFact
from stemmadb.server.storage.sqlite.connection import as_json
from stemmadb.server.storage.sqlite.read.read_view import ReadView
from stemmadb.server.storage.sqlite.read.stored_structure import StoredStructure
from stemmadb.server.storage.stored_records import kind_name

_OF_ENTITY = (
    "FROM fact INDEXED BY fact_entity WHERE entity = e.entity AND branch = :branch AND place BETWEEN :low AND "
)
_LAST: Final = f"""
SELECT j.key, f.place, f.hash, f.kind, f.body IS NOT NULL,
  CASE WHEN f.kind = 2 AND f.body IS NOT NULL OR f.kind = 4 AND f.body IS NULL THEN (
    SELECT kind * 2 + (body IS NOT NULL) FROM (
      SELECT place, kind, body {_OF_ENTITY} f.place - 1 ORDER BY place DESC LIMIT {LOOKED_BACK_MAX - 1})
    WHERE NOT (kind = 2 AND body IS NOT NULL OR kind = 4 AND body IS NULL) LIMIT 1) END
FROM json_each(:asked) AS j CROSS JOIN entity AS e ON e.id = j.value
CROSS JOIN fact AS f ON f.place = (SELECT place {_OF_ENTITY} :high ORDER BY place DESC LIMIT 1)
"""  # noqa: S608  # our own text


def last_facts(
    view: ReadView, structure: StoredStructure, spans: Sequence[Span], ids: Iterable[EntityId]
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


def _find(view: ReadView, number: int, span: Span, left: list[EntityId], found: dict[EntityId, LastFact]) -> None:
    low, high = positions.bounds(span)
    rows = view.rows(_LAST, {"asked": as_json(left), "branch": number, "low": low, "high": high})
    for key, place, hash_, kind, has_body, settling in rows:
        looked_at = [(kind_name(place, kind), bool(has_body))]
        if settling is not None:
            looked_at.append((kind_name(place, settling >> 1), bool(settling & 1)))
        version, index = Version(place >> positions.INDEX_BITS), place & positions.INDEX_MAX
        found[left[key]] = LastFact(version, index, hash_, state_of(looked_at))
