"""The append: one statement, one round trip, one transaction, for one space or many.

A row of `tip` that somebody holds is skipped, and one that changed is compared again in its newest version; both
leave the space out of the answer. The hash is compared because versions and terms can repeat after a promotion with
loss. Names are looked up one by one (LATERAL with LIMIT): a join that reads a whole table would be planned as long as
the table is small, and the plan kept when it is large.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, Final, NamedTuple, TypeAlias

from stemmadb.server.storage.postgres.connection import PgConnection
from stemmadb.server.storage.postgres.packing import Packed, byteas, int4s, int8s, texts
from stemmadb.server.storage.postgres.rows import AppendRows

Packing: TypeAlias = tuple[Callable[[Any], Packed], ...]
"""How each column of a table is packed."""

_TIP: Final = """
WITH want AS (SELECT * FROM unnest(%s::int[], %s::bigint[], %s::bigint[], %s::bytea[], %s::bigint[], %s::bytea[],
    %s::bigint[], %s::bigint[]) AS w (space, owner, term, previous, expected, hash, version, time)),
locked AS MATERIALIZED (
  SELECT w.* FROM want AS w JOIN tip AS t ON t.space = w.space AND t.owner = w.owner AND t.term = w.term
    AND t.version = w.expected AND t.hash = w.previous ORDER BY w.space FOR NO KEY UPDATE OF t SKIP LOCKED
), moved AS (
  UPDATE tip AS t SET version = l.version, hash = l.hash, time = l.time FROM locked AS l WHERE t.space = l.space
  RETURNING t.space
)"""
_ENTITIES: Final = """, e AS MATERIALIZED (
  SELECT u.space, u.number, coalesce(k.entity, u.number) AS stored, u.id, k.entity IS NULL AS is_new
  FROM unnest(%s::int[], %s::int[], %s::text[]) AS u (space, number, id)
  LEFT JOIN LATERAL (SELECT entity FROM entity WHERE space = u.space AND id = u.id LIMIT 1) AS k ON true
), new_entity AS (
  INSERT INTO entity (space, entity, id)
  SELECT space, number, id FROM e WHERE is_new AND space IN (SELECT space FROM locked)
)"""
_SESSIONS: Final = """, p AS MATERIALIZED (
  SELECT u.space, u.number, coalesce(k.principal, u.number) AS stored, u.did, k.principal IS NULL AS is_new
  FROM unnest(%s::int[], %s::int[], %s::text[]) AS u (space, number, did)
  LEFT JOIN LATERAL (SELECT principal FROM principal WHERE space = u.space AND did = u.did LIMIT 1) AS k ON true
), new_principal AS (
  INSERT INTO principal (space, principal, did)
  SELECT space, number, did FROM p WHERE is_new AND space IN (SELECT space FROM locked)
), s AS MATERIALIZED (
  SELECT u.space, u.number, coalesce(k.session, u.number) AS stored, coalesce(p.stored, u.principal) AS principal,
    u.id, k.session IS NULL AS is_new
  FROM unnest(%s::int[], %s::int[], %s::int[], %s::bytea[]) AS u (space, number, principal, id)
  LEFT JOIN p ON p.space = u.space AND p.number = u.principal
  LEFT JOIN LATERAL (SELECT session FROM session WHERE space = u.space
    AND principal = coalesce(p.stored, u.principal) AND id = u.id LIMIT 1) AS k ON true
), new_session AS (
  INSERT INTO session (space, session, principal, id)
  SELECT space, number, principal, id FROM s WHERE is_new AND space IN (SELECT space FROM locked)
)"""
_COMMITS: Final = """, c AS (
  INSERT INTO commit (space, version, session, local, branch, time, hash, request, arguments, note, note_salt,
    note_digest)
  SELECT u.space, u.version, {session}, u.local, u.branch, u.time, u.hash, u.request, u.arguments, u.note,
    u.note_salt, u.note_digest
  FROM unnest(%s::int[], %s::bigint[], %s::int[], %s::bytea[], %s::int[], %s::bigint[], %s::bytea[], %s::bytea[],
    %s::bytea[], %s::bytea[], %s::bytea[], %s::bytea[])
    AS u (space, version, session, local, branch, time, hash, request, arguments, note, note_salt, note_digest)
  {join} WHERE u.space IN (SELECT space FROM locked)
)"""
_FACTS: Final = """, f AS (
  INSERT INTO fact (space, place, entity, branch, kind, parent, hash, salt, body, digest)
  SELECT u.space, u.place, {entity}, u.branch, u.kind::smallint, u.parent, u.hash, u.salt, u.body, u.digest
  FROM unnest(%s::int[], %s::bigint[], %s::int[], %s::int[], %s::int[], %s::bigint[], %s::bytea[], %s::bytea[],
    %s::bytea[], %s::bytea[]) AS u (space, place, entity, branch, kind, parent, hash, salt, body, digest)
  {join} WHERE u.space IN (SELECT space FROM locked)
)"""
_MOVED: Final = "\nSELECT 'moved', space, NULL::int, NULL::int FROM moved"
_RENUMBERED: Final = " UNION ALL SELECT '{0}', space, number, stored FROM {0} WHERE NOT is_new"

_WANTED: Final[Packing] = (int4s, int8s, int8s, byteas, int8s, byteas, int8s, int8s)
_ENTITY: Final[Packing] = (int4s, int4s, texts)
_PRINCIPAL: Final[Packing] = (int4s, int4s, texts)
_SESSION: Final[Packing] = (int4s, int4s, int4s, byteas)
_COMMIT: Final[Packing] = (int4s, int8s, int4s, byteas, int4s, int8s, *[byteas] * 6)
_FACT: Final[Packing] = (int4s, int8s, int4s, int4s, int4s, int8s, *[byteas] * 4)


class Move(NamedTuple):
    """How the end of a space moves, and from where: the row must be as the owner left it."""

    space: int
    owner: int
    term: int
    previous: bytes
    expected: int
    hash: bytes
    version: int
    time: int


class Appended(NamedTuple):
    """The spaces that were appended to, and names that had another number: by kind and space, number to number."""

    moved: frozenset[int]
    renumbered: dict[tuple[str, int], dict[int, int]]


def append(connection: PgConnection, moves: Sequence[Move], rows: AppendRows) -> Appended:
    values: list[Packed] = _packed(_WANTED, list(zip(*moves, strict=True)))
    has_entities, has_sessions = bool(len(rows.entities)), bool(len(rows.sessions))
    if has_entities:
        values += _packed(_ENTITY, rows.entities.cells)
    if has_sessions:
        values += _packed(_PRINCIPAL, rows.principals.cells) + _packed(_SESSION, rows.sessions.cells)
    values += _packed(_COMMIT, rows.commits.cells) + _packed(_FACT, rows.facts.cells)
    found = connection.rows(statement(has_entities=has_entities, has_sessions=has_sessions), values, prepare=True)
    renumbered: dict[tuple[str, int], dict[int, int]] = {}
    for kind, space, number, stored in found:
        if kind != "moved":
            renumbered.setdefault((kind, space), {})[number] = stored
    return Appended(frozenset(space for kind, space, _, _ in found if kind == "moved"), renumbered)


@lru_cache(maxsize=4)
def statement(*, has_entities: bool, has_sessions: bool) -> str:
    """Nearly always no session is new: each table that is not looked into makes it cheaper."""
    parts = [_TIP]
    entity, session, join_entity, join_session = "u.entity", "u.session", "", ""
    answer = _MOVED
    if has_entities:
        parts.append(_ENTITIES)
        entity = "coalesce(e.stored, u.entity)"
        join_entity = "LEFT JOIN e ON e.space = u.space AND e.number = u.entity"
        answer += _RENUMBERED.format("e")
    if has_sessions:
        parts.append(_SESSIONS)
        session = "coalesce(s.stored, u.session)"
        join_session = "LEFT JOIN s ON s.space = u.space AND s.number = u.session"
        answer += _RENUMBERED.format("p") + _RENUMBERED.format("s")
    parts.append(_COMMITS.format(session=session, join=join_session))
    parts.append(_FACTS.format(entity=entity, join=join_entity))
    return "".join(parts) + answer


def _packed(kinds: Packing, columns: Sequence[Sequence[Any]]) -> list[Packed]:
    return [pack(column) for pack, column in zip(kinds, columns, strict=True)]
