"""The secret of HTTP in the file of a space: backups have it, and an erasure removes it (HTTP-9)."""

from __future__ import annotations

import apsw

from stemmadb.protocol.model.values.ids import Version
from stemmadb.server.storage.port import HttpKey
from stemmadb.server.storage.sqlite.connection import query


def keep(connection: apsw.Connection, fresh: bytes) -> HttpKey:
    """What is kept, or `fresh` from now on; inside a transaction. It is stored behind the version it was made at."""
    rows = query(connection, "SELECT value FROM meta WHERE key = 'http_key'")
    if not rows:
        ((version,),) = query(connection, 'SELECT coalesce(max(version), 0) FROM "commit"')
        assert isinstance(version, int)
        rows = [(version.to_bytes(8, "big") + fresh,)]
        connection.execute("INSERT INTO meta (key, value) VALUES ('http_key', ?)", rows[0])
    ((stored,),) = rows
    assert isinstance(stored, bytes)
    return HttpKey(stored[8:], Version(int.from_bytes(stored[:8], "big")))
