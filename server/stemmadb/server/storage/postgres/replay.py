"""Replays: for many entities at once, the few facts their state on a lineage is folded from (HISTORY-3).

One statement serves all entities for a span of the lineage. For each it finds, walking the index of the entity's
facts down from the end of the span: the newest snapshot, the newest fact at or after it that needs none before, and
the newest fact that is not a checkpoint. It never looks further back than the snapshot, however long the history is.
Entities for which a span did not suffice are asked for again in the next older one.

Facts before that beginning, which are wanted for the changes they made, come with a body only if they are patches:
all others change the whole, whatever they say (COMMIT-2).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from stemmadb.protocol.model.log.branch_spans import Span
from stemmadb.protocol.model.values.ids import EntityId, Version
from stemmadb.protocol.model.values.json_values import INT_MAX
from stemmadb.server.storage import positions
from stemmadb.server.storage.port import BoundedReplays, Recorded, Replay, Snapshot
from stemmadb.server.storage.postgres.connection import Row
from stemmadb.server.storage.postgres.packing import int4s, int8s, texts
from stemmadb.server.storage.postgres.read_view import PostgresView
from stemmadb.server.storage.postgres.structure import PostgresStructure
from stemmadb.server.storage.stored_records import kind_name

_IN_SPAN: Final = (
    "space = %(space)s::int AND entity = {} AND branch = %(branch)s::int AND place BETWEEN {} AND %(high)s::bigint"
)
_BEGINS: Final = "(kind = 1 OR kind = 3 OR kind = 4 AND body IS NOT NULL)"  # as `replay.begins_here`
_NEWEST: Final = "ORDER BY space DESC, entity DESC, branch DESC, place DESC LIMIT 1"
_START: Final = "coalesce(greatest(l.snapshot, l.beginning), %(low)s::bigint)"  # what the state is folded from

# For each entity: its id, the least place that is wanted in any case or null, a beginning is known, a change is.
_REPLAYS: Final = f"""
WITH asked AS MATERIALIZED (
  SELECT j.key, e.entity, j.since, j.begun <> 0 AS begun, j.changed <> 0 AS changed,
    (SELECT place FROM snapshot WHERE {_IN_SPAN.format("e.entity", "%(low)s::bigint")} {_NEWEST}) AS snapshot
  FROM unnest(%(ids)s::text[], %(since)s::bigint[], %(begun)s::int[], %(changed)s::int[])
    WITH ORDINALITY AS j (id, since, begun, changed, key)
  JOIN entity AS e ON e.space = %(space)s::int AND e.id = j.id
), located AS MATERIALIZED (
  SELECT key, asked.entity, since, begun, changed, snapshot,
    CASE WHEN NOT begun THEN (SELECT place FROM fact
      WHERE {_IN_SPAN.format("asked.entity", "coalesce(snapshot, %(low)s::bigint)")} AND {_BEGINS} {_NEWEST})
      END AS beginning,
    CASE WHEN NOT changed THEN (SELECT place FROM fact
      WHERE {_IN_SPAN.format("asked.entity", "%(low)s::bigint")} AND kind <> 4 {_NEWEST}) END AS change
  FROM asked
)
SELECT l.key, l.snapshot, l.beginning, l.change, f.place, f.kind, f.hash,
  CASE WHEN f.kind = 2 OR NOT l.begun AND f.place >= {_START} THEN f.body END,
  CASE WHEN NOT l.begun AND f.place = l.snapshot AND l.snapshot > coalesce(l.beginning, 0)
    THEN (SELECT body FROM snapshot WHERE space = %(space)s::int AND place = l.snapshot) END
FROM located AS l CROSS JOIN LATERAL (
  SELECT place, kind, hash, body FROM fact WHERE space = %(space)s::int AND entity = l.entity
    AND branch = %(branch)s::int AND place <= %(high)s::bigint AND place >= greatest(%(low)s::bigint, least(
      CASE WHEN l.begun THEN %(high)s::bigint ELSE {_START} END,
      CASE WHEN l.changed THEN %(high)s::bigint ELSE coalesce(l.change, %(low)s::bigint) END,
      coalesce(l.since, %(high)s::bigint)))
  ORDER BY space, entity, branch, place
) AS f
"""  # noqa: S608  # our own text
_ALL: Final = f"{_REPLAYS} ORDER BY l.key, f.place"
# Sizes are known without reading the values; those of entities beyond the room are neither read nor sent.
_BOUNDED: Final = f"""
SELECT key, snapshot, beginning, change, place, kind, hash,
  CASE WHEN is_read THEN body END, CASE WHEN is_read THEN snapshot_body END, is_read
FROM (SELECT r.*, key = %(first)s::int OR coalesce(sum(coalesce(octet_length(body), 0)
    + coalesce(octet_length(snapshot_body), 0))
    OVER (ORDER BY key GROUPS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), 0) < %(room)s::bigint AS is_read
  FROM ({_REPLAYS}) AS r (key, snapshot, beginning, change, place, kind, hash, body, snapshot_body)) AS sized
ORDER BY key, place
"""  # noqa: S608  # our own text


class _Search:
    """What is known of one entity so far; its facts newest span first."""

    __slots__ = ("begun", "changed", "facts", "since", "snapshot")

    def __init__(self, since: int | None) -> None:
        self.since = since
        self.begun = False
        self.changed = False
        self.snapshot: Snapshot | None = None
        self.facts: list[list[Recorded]] = []

    def is_done(self, span: Span) -> bool:
        """Whether nothing in older spans is wanted any more."""
        return self.begun and self.changed and (self.since is None or self.since >= positions.first(span.after + 1))

    def replay(self) -> Replay:
        return Replay(self.snapshot, tuple([fact for part in reversed(self.facts) for fact in part]))


def replays(
    view: PostgresView,
    structure: PostgresStructure,
    spans: Sequence[Span],
    ids: Sequence[EntityId],
    since: Mapping[EntityId, Version] | None,
    bytes_max: int = INT_MAX,
) -> BoundedReplays:
    """What the state of each entity at the newest end of the spans is folded from, up to so many bytes of values."""
    after = since or {}
    searches = {id_: _Search(positions.first(after[id_] + 1) if id_ in after else None) for id_ in ids}
    left, unread, room = list(searches), list[EntityId](), bytes_max
    for span in spans:
        if not left:
            break
        number = structure.number(span.branch)
        if number is not None:
            count, size = _search(view, number, span, left, searches, first=ids[0], room=room)
            left, unread, room = left[:count], [*left[count:], *unread], room - size
            left = [id_ for id_ in left if not searches[id_].is_done(span)]
    for id_ in unread:
        del searches[id_]
    return BoundedReplays({id_: one.replay() for id_, one in searches.items() if one.facts}, tuple(unread))


def _search(
    view: PostgresView,
    number: int,
    span: Span,
    left: Sequence[EntityId],
    searches: Mapping[EntityId, _Search],
    *,
    first: EntityId,
    room: int,
) -> tuple[int, int]:
    """How many of those that are left were looked at, and the bytes of their values. The first one always is."""
    low, high = positions.bounds(span)
    asked = [searches[id_] for id_ in left]
    values = {
        "ids": texts(left),
        "since": int8s([one.since for one in asked]),
        "begun": int4s([one.begun for one in asked]),
        "changed": int4s([one.changed for one in asked]),
        "branch": number,
        "low": low,
        "high": high,
    }
    is_bounded = room < INT_MAX
    if is_bounded:
        values |= {"first": int(left[0] == first), "room": max(room, 0)}
    parts: dict[int, list[Row]] = {}
    count, size = len(left), 0
    for row in view.rows(_BOUNDED if is_bounded else _ALL, values):
        if is_bounded and not row[9]:
            count = row[0] - 1
            break
        parts.setdefault(row[0] - 1, []).append(row[:9])
        size += (len(row[7] or b"") + len(row[8] or b"")) if is_bounded else 0
    for key, part in parts.items():
        _take(searches[left[key]], span, left[key], part)
    return count, size


def _take(search: _Search, span: Span, id_: EntityId, rows: Sequence[Row]) -> None:
    """Adds what a span gave for one entity, oldest first."""
    part: list[Recorded] = []
    for _, _, _, _, number, kind, hash_, body, snapshot in rows:
        version, index = Version(number >> positions.INDEX_BITS), number & positions.INDEX_MAX
        part.append(Recorded(version, index, span.branch, id_, kind_name(number, kind), hash_, body))
        if snapshot is not None:
            search.snapshot = Snapshot(span.branch, id_, positions.place_of(number), snapshot)
    _, found_snapshot, beginning, change, *_ = rows[0]
    search.begun = search.begun or beginning is not None or found_snapshot is not None
    search.changed = search.changed or change is not None
    search.facts.append(part)
