"""Drops the snapshots of a log, so that a test reads what replay gives without them (SNAP-1)."""

from __future__ import annotations

from stemmadb.server.storage.memory.storage import MemoryLog
from stemmadb.server.storage.port import SpaceLog
from stemmadb.server.storage.postgres import PostgresLog
from stemmadb.server.storage.sqlite import SqliteLog


def drop_snapshots(log: SpaceLog) -> None:
    """In a transaction of the log's own, as any other write; no product code has a reason to do this."""
    if isinstance(log, SqliteLog):
        with log._changing() as connection:
            connection.execute("DELETE FROM snapshot")
    elif isinstance(log, PostgresLog):
        with log._changing() as postgres:
            postgres.change("DELETE FROM snapshot WHERE space = %s::int", (log.number,))
    else:
        assert isinstance(log, MemoryLog), "a backend that tests know"
        with log._changing("drop_snapshots") as contents:
            contents.snapshots.clear()
