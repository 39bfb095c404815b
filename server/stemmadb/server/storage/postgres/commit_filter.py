"""The commits that pass a filter, by the index that leads to the fewest candidates."""

from __future__ import annotations

import heapq
from typing import Final

from stemmadb.protocol.model.values.ids import TimeMs, Version
from stemmadb.server.storage.port import LogFilter
from stemmadb.server.storage.postgres.listing import prefix_end
from stemmadb.server.storage.postgres.read_view import PostgresView
from stemmadb.server.storage.postgres.structure import PostgresStructure

CANDIDATES_MAX: Final = 10_000
"""Up to so many candidates are collected by an index of their own; more are met soon enough by going through all."""

_SPACE: Final = "space = %(space)s::int"
_SESSIONS: Final = (
    f"SELECT session FROM session WHERE {_SPACE} "  # noqa: S608  # our own text
    f"AND principal IN (SELECT principal FROM principal WHERE {_SPACE}{{}}){{}}"
)
_BY_SESSION: Final = f"SELECT version FROM commit WHERE {_SPACE} AND session IN ({{}})"  # noqa: S608
_UNDER: Final = "e.id >= %(prefix)s AND (%(prefix_end)s::text IS NULL OR e.id < %(prefix_end)s)"
_BY_PREFIX: Final = (
    f"SELECT f.place >> 20 FROM entity AS e JOIN fact AS f ON f.{_SPACE} AND f.entity = e.entity "  # noqa: S608
    f"WHERE e.{_SPACE} AND {_UNDER}"
)
_HAS_PREFIX: Final = (
    f"EXISTS (SELECT 1 FROM fact AS f JOIN entity AS e ON e.{_SPACE} AND e.entity = f.entity "  # noqa: S608
    f"WHERE f.{_SPACE} AND f.place BETWEEN c.version << 20 AND c.version << 20 | 1048575 AND {_UNDER})"
)
_COMMITS: Final = "commit AS c"
_TOUCHED: Final = f"touched AS t JOIN commit AS c ON c.{_SPACE} AND c.version = t.version AND t.{_SPACE}"


def versions(view: PostgresView, structure: PostgresStructure, wanted: LogFilter, limit: int) -> list[Version]:
    """The versions of at most `limit` commits that pass, in the filter's order."""
    return [version for version, _ in times(view, structure, wanted, limit)]


def times(
    view: PostgresView, structure: PostgresStructure, wanted: LogFilter, limit: int
) -> list[tuple[Version, TimeMs]]:
    """The same with the time of each."""
    low, high = _range(view, wanted)
    branch = None if wanted.branch is None else structure.number(wanted.branch)
    if low > high or (wanted.branch is not None and branch is None):
        return []
    values = _values(wanted, low, high, branch, limit)
    held = _conditions(view, wanted, values)
    is_newest = wanted.order == "newest"
    if branch is None:
        return _select(view, _COMMITS, held, values, is_newest=is_newest)
    found = (
        _select(view, _COMMITS, [*held, "c.branch = %(branch)s::int"], values, is_newest=is_newest),
        _select(view, _TOUCHED, [*held, "t.branch = %(branch)s::int"], values, is_newest=is_newest),
    )
    return list(heapq.merge(*found, reverse=is_newest))[:limit]


def _select(
    view: PostgresView, source: str, held: list[str], values: dict[str, object], *, is_newest: bool
) -> list[tuple[Version, TimeMs]]:
    order = "DESC" if is_newest else "ASC"
    where = " AND ".join([f"c.{_SPACE}", *held])
    sql = f"SELECT c.version, c.time FROM {source} WHERE {where} ORDER BY c.version {order} LIMIT %(limit)s"  # noqa: S608
    return [(version, time) for version, time in view.rows(sql, values)]


def _range(view: PostgresView, wanted: LogFilter) -> tuple[int, int]:
    """The versions that can pass: times never fall, so a range of times is one of versions."""
    low, high = 1, int(view.tip.version)
    if wanted.upto is not None:
        high = min(high, wanted.upto)
    if wanted.since is not None:
        low = max(low, view.versions_at([TimeMs(wanted.since - 1)])[0] + 1)
    if wanted.until is not None:
        high = min(high, view.versions_at([wanted.until])[0])
    if wanted.after is not None:
        if wanted.order == "newest":
            high = min(high, wanted.after - 1)
        else:
            low = max(low, wanted.after + 1)
    return low, high


def _values(wanted: LogFilter, low: int, high: int, branch: int | None, limit: int) -> dict[str, object]:
    prefix = wanted.prefix or ""
    return {
        "low": low,
        "high": high,
        "branch": branch,
        "author": wanted.author,
        "session": wanted.session,
        "prefix": prefix,
        "prefix_end": prefix_end(prefix),
        "limit": limit,
    }


def _conditions(view: PostgresView, wanted: LogFilter, values: dict[str, object]) -> list[str]:
    held = ["c.version BETWEEN %(low)s AND %(high)s"]
    if wanted.author is not None or wanted.session is not None:
        sessions = _sessions(wanted)
        candidates = _BY_SESSION.format(sessions)
        is_few = _is_few(view, candidates, values)
        held.append(f"c.version IN ({candidates})" if is_few else f"c.session + 0 IN ({sessions})")
    if wanted.prefix is not None:
        is_few = _is_few(view, _BY_PREFIX, values)
        held.append(f"c.version IN ({_BY_PREFIX})" if is_few else _HAS_PREFIX)
    if wanted.structural:
        held.append("c.arguments IS NOT NULL")
    if wanted.ordinary:
        held.append("c.arguments IS NULL")
    return held


def _sessions(wanted: LogFilter) -> str:
    """The sessions of an author, or of that id, or both; no id names what is filed for operation ids."""
    author = "" if wanted.author is None else " AND did = %(author)s"
    named = "" if wanted.session is None else " AND id = %(session)s AND id <> ''::bytea"
    return _SESSIONS.format(author, named)


def _is_few(view: PostgresView, candidates: str, values: dict[str, object]) -> bool:
    sql = f"SELECT count(*) FROM ({candidates} LIMIT {CANDIDATES_MAX + 1}) AS few"  # noqa: S608  # our own text
    row = view.row(sql, values)
    assert row is not None, "an aggregate has one row"
    return bool(row[0] <= CANDIDATES_MAX)
