"""Which spaces name a principal in their access list, for all nodes: the table `member`.

Only the owner of a space replaces its rows. Writers of one space take turns under an advisory lock and then look who
the owner is, so that a node that has lost the space cannot put an older list over that of its successor. The rows of
`tip` are not locked: appends wait for nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from stemmadb.protocol.model.values.ids import Did
from stemmadb.server.storage.postgres import schema
from stemmadb.server.storage.postgres.connection import PgConnection
from stemmadb.server.storage.postgres.packing import int4s, texts

_NUMBERS: Final = "SELECT space, did FROM space WHERE did = ANY (%s)"
_TURN: Final = "SELECT pg_advisory_xact_lock(%s::int, space) FROM unnest(%s) AS u (space)"
_OWNED: Final = "SELECT space FROM tip WHERE space = ANY (%s) AND owner = %s"
_REMOVE: Final = """
DELETE FROM member AS m WHERE m.space = ANY (%(owned)s) AND NOT EXISTS (
  SELECT FROM unnest(%(spaces)s, %(principals)s) AS u (space, principal)
  WHERE u.space = m.space AND u.principal = m.principal)
"""
_PUT: Final = """
INSERT INTO member AS m (principal, space, role)
SELECT principal, space, role FROM unnest(%(principals)s, %(spaces)s, %(roles)s) AS u (principal, space, role)
ON CONFLICT (principal, space) DO UPDATE SET role = excluded.role WHERE m.role <> excluded.role
"""
_OF: Final = (
    "SELECT s.did, m.role FROM member AS m JOIN space AS s ON s.space = m.space WHERE m.principal = %s ORDER BY s.did"
)
_ALL: Final = (
    "SELECT s.did, count(*) FROM member AS m JOIN space AS s ON s.space = m.space GROUP BY s.did ORDER BY s.did"
)


def write(connection: PgConnection, node: int, lists: Mapping[Did, object]) -> None:
    """Replaces what is known of these spaces, of those that the node owns."""
    numbers = {space: lists[Did(did)] for space, did in connection.rows(_NUMBERS, (texts(list(lists)),))}
    spaces = sorted(numbers)
    with connection.transaction():
        connection.rows(_TURN, (schema.LOCK, int4s(spaces)))
        owned = sorted(space for (space,) in connection.rows(_OWNED, (int4s(spaces), node)))
        rows = [(space, principal, role) for space in owned for principal, role in _roles(numbers[space]).items()]
        values = {
            "owned": int4s(owned),
            "spaces": int4s([space for space, _, _ in rows]),
            "principals": texts([principal for _, principal, _ in rows]),
            "roles": texts([role for _, _, role in rows]),
        }
        connection.change(_REMOVE, values)
        connection.change(_PUT, values)


def of(connection: PgConnection, principal: Did) -> list[tuple[str, str]]:
    """The spaces of a principal with its role in each, by DID."""
    return [(did, role) for did, role in connection.rows(_OF, (principal,))]


def all_spaces(connection: PgConnection) -> list[tuple[str, int]]:
    """Every space that is known, with the number of its principals."""
    return [(did, count) for did, count in connection.rows(_ALL)]


def _roles(roles: object) -> dict[str, str]:
    return {str(principal): str(role) for principal, role in roles.items()} if isinstance(roles, dict) else {}
