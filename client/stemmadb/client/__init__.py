"""The client of StemmaDB: local-fast writes that are never silently lost, live queries, and all of history.

from stemmadb.client import connect

async with connect("ws://127.0.0.1:8420") as db:
    space = await db.space("todo")
    async with space.transaction() as tx:
        tx.set("urn:todo:1", {"title": "write the spec", "done": False})
    await tx.confirmed()
"""

from __future__ import annotations

from stemmadb.client.database import Database, connect
from stemmadb.client.keys.identity import Identity
from stemmadb.client.reading.plain import DELETED
from stemmadb.client.session.refused import Refused
from stemmadb.client.session.settings import ClientSettings
from stemmadb.client.space import Space
from stemmadb.client.status import PendingCommit, SpaceStatus
from stemmadb.client.transactions import Transaction
from stemmadb.client.watches import Watch
from stemmadb.client.watching import Change
from stemmadb.protocol.errors import Conflict, Rejected, StemmaError

__all__ = [
    "DELETED",
    "Change",
    "ClientSettings",
    "Conflict",
    "Database",
    "Identity",
    "PendingCommit",
    "Refused",
    "Rejected",
    "Space",
    "SpaceStatus",
    "StemmaError",
    "Transaction",
    "Watch",
    "connect",
]
