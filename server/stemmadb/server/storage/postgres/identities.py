"""Identities: which writes were accepted before, and how far sessions have come (COMMIT-5, COMMIT-11)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from stemmadb.protocol.model.log.commit_record import Identity
from stemmadb.protocol.model.log.state import KnownCommit
from stemmadb.protocol.model.values.ids import Did, Hash, Local, Version
from stemmadb.server.storage.postgres.packing import byteas, texts
from stemmadb.server.storage.postgres.read_view import PostgresView
from stemmadb.server.storage.postgres.rows import local_of
from stemmadb.server.storage.stored_identities import session_of

_SESSION: Final = (
    "JOIN principal AS p ON p.space = %(space)s::int AND p.did = j.did "
    "JOIN session AS s ON s.space = %(space)s::int AND s.principal = p.principal AND s.id = j.id"
)
_ACCEPTED: Final = (
    "SELECT j.key, c.version, c.request "  # noqa: S608  # our own text
    "FROM unnest(%(dids)s::text[], %(ids)s::bytea[], %(locals)s::bytea[]) "
    f"WITH ORDINALITY AS j (did, id, local, key) {_SESSION} "
    "JOIN commit AS c ON c.space = %(space)s::int AND c.session = s.session AND c.local = j.local"
)
_HIGHEST: Final = (
    "SELECT j.key, (SELECT local FROM commit WHERE space = %(space)s::int AND session = s.session "  # noqa: S608
    "ORDER BY space DESC, session DESC, local DESC LIMIT 1) "
    f"FROM unnest(%(dids)s::text[], %(ids)s::bytea[]) WITH ORDINALITY AS j (did, id, key) {_SESSION} "
    "WHERE j.id <> ''::bytea"
)


def accepted(view: PostgresView, identities: Iterable[Identity]) -> dict[Identity, KnownCommit]:
    """Those of the identities that were accepted, found with one question."""
    asked = list(dict.fromkeys(identities))
    if not asked:
        return {}
    sessions = [session_of(identity) for identity in asked]
    values = {
        "dids": texts([did for did, _ in sessions]),
        "ids": byteas([id_ for _, id_ in sessions]),
        "locals": byteas([local_of(identity) for identity in asked]),
    }
    rows = view.rows(_ACCEPTED, values)
    return {asked[key - 1]: KnownCommit(Version(version), Hash(request)) for key, version, request in rows}


def highest_locals(view: PostgresView, sessions: Iterable[tuple[Did, bytes]]) -> dict[tuple[Did, bytes], Local]:
    asked = list(dict.fromkeys(sessions))
    found = dict.fromkeys(asked, Local(0))
    if asked:
        values = {"dids": texts([did for did, _ in asked]), "ids": byteas([id_ for _, id_ in asked])}
        for key, local in view.rows(_HIGHEST, values):
            if local is not None:
                found[asked[key - 1]] = Local(int.from_bytes(local, "big"))
    return found
