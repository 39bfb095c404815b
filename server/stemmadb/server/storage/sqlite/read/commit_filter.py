"""The commits that pass a filter, by the index that leads to the fewest candidates."""

from __future__ import annotations

import heapq
from typing import Final

from stemmadb.protocol.model.values.ids import TimeMs, Version
from stemmadb.server.storage import positions
from stemmadb.server.storage.port import LogFilter
from stemmadb.server.storage.sqlite.connection import Cell
from stemmadb.server.storage.sqlite.read.read_view import ReadView
from stemmadb.server.storage.sqlite.read.stored_structure import StoredStructure

CANDIDATES_MAX: Final = 10_000
"""Up to so many candidates are collected by an index of their own; more are met soon enough by going through all."""

_SESSIONS = "SELECT session FROM session WHERE principal IN (SELECT principal FROM principal{}){}"
_BY_SESSION = 'SELECT version FROM "commit" INDEXED BY commit_identity WHERE session IN ({})'
_BY_PREFIX = (
    "SELECT f.place >> 20 FROM entity AS e CROSS JOIN fact AS f INDEXED BY fact_entity ON f.entity = e.entity "
    "WHERE e.id >= :prefix AND e.id < :prefix_end"
)
_HAS_PREFIX = (
    "EXISTS (SELECT 1 FROM fact AS f CROSS JOIN entity AS e ON e.entity = f.entity "
    "WHERE f.place BETWEEN c.version << 20 AND c.version << 20 | 1048575 AND e.id >= :prefix AND e.id < :prefix_end)"
)
_BY_VERSION = '"commit" AS c'
_BY_BRANCH = '"commit" AS c INDEXED BY commit_branch'
_STRUCTURAL = '"commit" AS c INDEXED BY commit_structural'
_TOUCHED = 'touched AS t CROSS JOIN "commit" AS c ON c.version = t.version'


def versions(view: ReadView, structure: StoredStructure, wanted: LogFilter, limit: int) -> list[Version]:
    """The versions of at most `limit` commits that pass, in the filter's order."""
    return [version for version, _ in times(view, structure, wanted, limit)]


def times(view: ReadView, structure: StoredStructure, wanted: LogFilter, limit: int) -> list[tuple[Version, TimeMs]]:
    """The same with the time of each."""
    low, high = _range(view, wanted)
    branch = None if wanted.branch is None else structure.number(wanted.branch)
    if low > high or (wanted.branch is not None and branch is None):
        return []
    values = _values(wanted, low, high, branch, limit)
    conditions = _conditions(view, wanted, values)
    is_newest = wanted.order == "newest"
    if branch is None:
        return _select(
            view, _STRUCTURAL if wanted.structural else _BY_VERSION, conditions, values, is_newest=is_newest
        )
    made_on = _STRUCTURAL if wanted.structural else _BY_BRANCH
    found = (
        _select(view, made_on, [*conditions, "c.branch = :branch"], values, is_newest=is_newest),
        _select(view, _TOUCHED, [*conditions, "t.branch = :branch"], values, is_newest=is_newest),
    )
    return list(heapq.merge(*found, reverse=is_newest))[:limit]


def _select(
    view: ReadView, source: str, conditions: list[str], values: dict[str, Cell], *, is_newest: bool
) -> list[tuple[Version, TimeMs]]:
    order = "DESC" if is_newest else "ASC"
    where = " AND ".join(conditions)
    sql = f"SELECT c.version, c.time FROM {source} WHERE {where} ORDER BY c.version {order} LIMIT :limit"  # noqa: S608
    return [(version, time) for version, time in view.rows(sql, values)]


def _range(view: ReadView, wanted: LogFilter) -> tuple[int, int]:
    """The versions that can pass: times never fall, so a range of times is one of versions."""
    low, high = 1, int(view.tip.version)
    if wanted.upto is not None:
        high = min(high, wanted.upto)
    if wanted.since is not None:
        low = max(low, view.version_at(TimeMs(wanted.since - 1)) + 1)
    if wanted.until is not None:
        high = min(high, view.version_at(wanted.until))
    if wanted.after is not None:
        if wanted.order == "newest":
            high = min(high, wanted.after - 1)
        else:
            low = max(low, wanted.after + 1)
    return low, high


def _values(wanted: LogFilter, low: int, high: int, branch: int | None, limit: int) -> dict[str, Cell]:
    prefix = wanted.prefix or ""
    return {
        "low": low,
        "high": high,
        "branch": branch,
        "author": wanted.author,
        "session": wanted.session,
        "prefix": prefix,
        "prefix_end": positions.upper_bound(prefix),
        "limit": limit,
    }


def _conditions(view: ReadView, wanted: LogFilter, values: dict[str, Cell]) -> list[str]:
    conditions = ["c.version BETWEEN :low AND :high"]
    if wanted.author is not None or wanted.session is not None:
        sessions = _sessions(wanted)
        candidates = _BY_SESSION.format(sessions)
        is_few = _is_few(view, candidates, values)
        conditions.append(f"c.version IN ({candidates})" if is_few else f"+c.session IN ({sessions})")
    if wanted.prefix is not None:
        is_few = _is_few(view, _BY_PREFIX, values)
        conditions.append(f"c.version IN ({_BY_PREFIX})" if is_few else _HAS_PREFIX)
    if wanted.structural:
        conditions.append("c.arguments IS NOT NULL")
    if wanted.ordinary:
        conditions.append("c.arguments IS NULL")
    return conditions


def _sessions(wanted: LogFilter) -> str:
    """The sessions of an author, or of that id, or both; no id names what is filed for operation ids."""
    author = "" if wanted.author is None else " WHERE did = :author"
    named = "" if wanted.session is None else " AND id = :session AND id <> x''"
    return _SESSIONS.format(author, named)


def _is_few(view: ReadView, candidates: str, values: dict[str, Cell]) -> bool:
    sql = f"SELECT count(*) FROM ({candidates} LIMIT {CANDIDATES_MAX + 1})"  # noqa: S608  # our own text
    row = view.row(sql, values)
    assert row is not None, "an aggregate has one row"
    return bool(row[0] <= CANDIDATES_MAX)
