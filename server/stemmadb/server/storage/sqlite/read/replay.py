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
from contextlib import closing
from itertools import groupby
from operator import itemgetter
from typing import Final

from stemmadb.protocol.model.log.branch_spans import Span
from stemmadb.protocol.model.values.ids import EntityId, Hash, Version
from stemmadb.protocol.model.values.json_values import INT_MAX
from stemmadb.server.storage import positions
from stemmadb.server.storage.port import BoundedReplays, Recorded, Replay, Snapshot
from stemmadb.server.storage.sqlite.connection import Cell, Row, as_json
from stemmadb.server.storage.sqlite.read.read_view import ReadView
from stemmadb.server.storage.sqlite.read.stored_structure import StoredStructure
from stemmadb.server.storage.stored_records import kind_name

_IN_SPAN = "entity = {} AND branch = :branch AND place BETWEEN {} AND :high"
_BEGINS = "(kind = 1 OR kind = 3 OR kind = 4 AND body IS NOT NULL)"  # as `replay.begins_here`
_NEWEST = "ORDER BY place DESC LIMIT 1"
_START = "coalesce(max(l.snapshot, l.beginning), l.snapshot, l.beginning, :low)"  # what the state is folded from

# Each item asked for: [id, the least place that is wanted in any case or null, a beginning is known, a change is].
_REPLAYS = f"""
WITH asked AS MATERIALIZED (
  SELECT j.key AS key, e.entity AS entity, j.value ->> 1 AS since, j.value ->> 2 AS begun, j.value ->> 3 AS changed,
    (SELECT place FROM snapshot INDEXED BY snapshot_entity WHERE {_IN_SPAN.format("e.entity", ":low")} {_NEWEST})
      AS snapshot
  FROM json_each(:asked) AS j CROSS JOIN entity AS e ON e.id = j.value ->> 0
), located AS MATERIALIZED (
  SELECT key, asked.entity AS entity, since, begun, changed, snapshot,
    CASE WHEN NOT begun THEN (SELECT place FROM fact INDEXED BY fact_entity
      WHERE {_IN_SPAN.format("asked.entity", "ifnull(snapshot, :low)")} AND {_BEGINS} {_NEWEST}) END AS beginning,
    CASE WHEN NOT changed THEN (SELECT place FROM fact INDEXED BY fact_entity
      WHERE {_IN_SPAN.format("asked.entity", ":low")} AND kind <> 4 {_NEWEST}) END AS change
  FROM asked
)
SELECT l.key, l.snapshot, l.beginning, l.change, f.place, f.kind, f.hash,
  CASE WHEN f.kind = 2 OR NOT l.begun AND f.place >= {_START} THEN f.body END,
  CASE WHEN NOT l.begun AND f.place = l.snapshot AND l.snapshot > ifnull(l.beginning, 0)
    THEN (SELECT body FROM snapshot WHERE place = l.snapshot) END
FROM located AS l CROSS JOIN fact AS f INDEXED BY fact_entity
  ON f.entity = l.entity AND f.branch = :branch AND f.place <= :high AND f.place >= max(:low, min(
    CASE WHEN l.begun THEN :high ELSE {_START} END,
    CASE WHEN l.changed THEN :high ELSE ifnull(l.change, :low) END,
    ifnull(l.since, :high)))
"""  # noqa: S608  # our own text

_LAST = """
SELECT f.place, f.kind, f.hash, f.body
FROM entity AS e CROSS JOIN fact AS f INDEXED BY fact_entity ON f.entity = e.entity
WHERE e.id = ? AND f.branch = ? AND f.place BETWEEN ? AND ? ORDER BY f.place DESC LIMIT 1
"""
_WHOLE: Final = (1, 3)
"""The kinds of facts that begin a state whatever came before: a set and a delete."""


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


class _Reading:
    """How much may still be read."""

    def __init__(self, first: EntityId | None, bytes_max: int) -> None:
        self._first = first
        self._left = bytes_max
        self.is_bounded = bytes_max < INT_MAX

    def begins(self, id_: EntityId) -> bool:
        """Whether the entity is still read; the first one always is."""
        return self._left > 0 or id_ == self._first

    def took(self, size: int) -> None:
        self._left -= size


def replays(
    view: ReadView,
    structure: StoredStructure,
    spans: Sequence[Span],
    ids: Sequence[EntityId],
    since: Mapping[EntityId, Version] | None,
    bytes_max: int = INT_MAX,
) -> BoundedReplays:
    """What the state of each entity at the newest end of the spans is folded from, up to so many bytes of values."""
    if since is None and spans and len(ids) == 1 and (found := _whole(view, structure, spans[0], ids[0])) is not None:
        return BoundedReplays({ids[0]: found})
    after = since or {}
    searches = {id_: _Search(positions.first(after[id_] + 1) if id_ in after else None) for id_ in ids}
    left, unread, reading = list(searches), list[EntityId](), _Reading(ids[0] if ids else None, bytes_max)
    for span in spans:
        if not left:
            break
        number = structure.number(span.branch)
        if number is not None:
            count = _search(view, number, span, left, searches, reading)
            left, unread = left[:count], [*left[count:], *unread]
            left = [id_ for id_ in left if not searches[id_].is_done(span)]
    for id_ in unread:
        del searches[id_]
    return BoundedReplays({id_: one.replay() for id_, one in searches.items() if one.facts}, tuple(unread))


def _whole(view: ReadView, structure: StoredStructure, span: Span, id_: EntityId) -> Replay | None:
    """The replay of one entity whose last fact set or deleted it, which is what most reads ask for; None otherwise.

    It is what the long statement finds, at a fourth of its cost: that fact alone.
    """
    number = structure.number(span.branch)
    rows = [] if number is None else view.rows(_LAST, (id_, number, *positions.bounds(span)))
    if not rows or rows[0][1] not in _WHOLE:
        return None
    return Replay(None, (_recorded(rows[0][0], rows[0][1], span, id_, *rows[0][2:]),))


def _search(
    view: ReadView,
    number: int,
    span: Span,
    left: Sequence[EntityId],
    searches: Mapping[EntityId, _Search],
    reading: _Reading,
) -> int:
    """How many of those that are left were looked at."""
    low, high = positions.bounds(span)
    asked = [(id_, (one := searches[id_]).since, one.begun, one.changed) for id_ in left]
    values: dict[str, Cell] = {"asked": as_json(asked), "branch": number, "low": low, "high": high}
    parts, count = _bounded(view, values, left, reading) if reading.is_bounded else (_all(view, values), len(left))
    for key, part in parts.items():
        _take(searches[left[key]], span, left[key], part)
    return count


def _all(view: ReadView, values: Mapping[str, Cell]) -> dict[int, list[Row]]:
    """The rows of each entity, by its number among those that were asked for."""
    parts: dict[int, list[Row]] = {}
    for row in view.rows(_REPLAYS, values):
        parts.setdefault(row[0], []).append(row)
    return parts


def _bounded(
    view: ReadView, values: Mapping[str, Cell], left: Sequence[EntityId], reading: _Reading
) -> tuple[dict[int, list[Row]], int]:
    """The same as far as there is room, and how many entities that is. The outer loop is over them: numbers rise."""
    parts: dict[int, list[Row]] = {}
    with closing(view.stream(_REPLAYS, values)) as rows:
        for key, part in groupby(rows, key=itemgetter(0)):
            if not reading.begins(left[key]):
                return parts, key
            parts[key] = list(part)
            reading.took(sum(len(row[7] or b"") + len(row[8] or b"") for row in parts[key]))
    return parts, len(left)


def _take(search: _Search, span: Span, id_: EntityId, rows: Sequence[Row]) -> None:
    """Adds what a span gave for one entity, oldest first."""
    part: list[Recorded] = []
    for _, _, _, _, number, kind, hash_, body, snapshot in rows:
        part.append(_recorded(number, kind, span, id_, hash_, body))
        if snapshot is not None:
            search.snapshot = Snapshot(span.branch, id_, positions.place_of(number), snapshot)
    _, found_snapshot, beginning, change, *_ = rows[0]
    search.begun = search.begun or beginning is not None or found_snapshot is not None
    search.changed = search.changed or change is not None
    search.facts.append(part)


def _recorded(number: int, kind: int, span: Span, id_: EntityId, hash_: Hash, body: bytes | None) -> Recorded:
    version, index = Version(number >> positions.INDEX_BITS), number & positions.INDEX_MAX
    return Recorded(version, index, span.branch, id_, kind_name(number, kind), hash_, body)
