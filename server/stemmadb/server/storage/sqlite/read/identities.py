"""Identities: which writes were accepted before, and how far a session has come (COMMIT-5, COMMIT-11)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from stemmadb.protocol.model.log.commit_record import Identity, LocalIdentity
from stemmadb.protocol.model.log.state import KnownCommit
from stemmadb.protocol.model.values.ids import Did, Hash, Local, Version
from stemmadb.server.storage.sqlite.connection import as_json
from stemmadb.server.storage.sqlite.read.read_view import ReadView
from stemmadb.server.storage.stored_identities import session_of

# Bytes go through JSON as hexadecimal text, and a local as a number: that tells the two kinds apart.
_ACCEPTED: Final = (
    "SELECT j.key, c.version, c.request FROM json_each(?) AS j CROSS JOIN principal AS p ON p.did = j.value ->> 0 "
    "CROSS JOIN session AS s ON s.principal = p.principal AND s.id = unhex(j.value ->> 1) "
    'CROSS JOIN "commit" AS c INDEXED BY commit_identity ON c.session = s.session AND c.local = '
    "CASE typeof(j.value ->> 2) WHEN 'text' THEN unhex(j.value ->> 2) ELSE j.value ->> 2 END"
)
_HIGHEST: Final = (  # an integer sorts before every blob, which an operation id is
    'SELECT c.local FROM principal AS p CROSS JOIN session AS s CROSS JOIN "commit" AS c '
    "WHERE p.did = ? AND s.principal = p.principal AND s.id = ? AND c.session = s.session AND c.local < x'' "
    "ORDER BY c.local DESC LIMIT 1"
)


def accepted(view: ReadView, identities: Iterable[Identity]) -> dict[Identity, KnownCommit]:
    """Those of the identities that were accepted, found with one question."""
    asked = list(dict.fromkeys(identities))
    rows = view.rows(_ACCEPTED, (as_json([_key(identity) for identity in asked]),)) if asked else []
    return {asked[position]: KnownCommit(Version(version), Hash(request)) for position, version, request in rows}


def _key(identity: Identity) -> tuple[str, str, int | str]:
    principal, session = session_of(identity)
    number = identity.local if isinstance(identity, LocalIdentity) else identity.operation.hex()
    return principal, session.hex(), number


def highest_local(view: ReadView, principal: Did, session: bytes) -> Local:
    row = view.row(_HIGHEST, (principal, session))
    return Local(0) if row is None else Local(row[0])
