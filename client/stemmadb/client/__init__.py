"""The client of StemmaDB: local-fast writes that are never silently lost, live queries, and all of history.

from stemmadb.client import connect

async with connect("ws://127.0.0.1:8420") as db:
    space = await db.space("todo")
    async with space.transaction() as tx:
        tx.set("urn:todo:1", {"title": "write the spec", "done": False})
    await tx.confirmed()
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from stemmadb.client.database import Database, connect
    from stemmadb.client.keys.identity import Identity
    from stemmadb.client.live_map import LiveMap
    from stemmadb.client.notes import Note
    from stemmadb.client.reading.plain import DELETED
    from stemmadb.client.session.refused import Refused
    from stemmadb.client.session.settings import ClientSettings
    from stemmadb.client.space import Space
    from stemmadb.client.status import PendingCommit, SpaceStatus
    from stemmadb.client.transactions import Transaction
    from stemmadb.client.watches import Watch
    from stemmadb.client.watching import Change
    from stemmadb.protocol.errors import Conflict, Rejected, StemmaError
else:
    # The same for Python, which loads each when it is asked for: the command line is inside this package, and most of
    # what it does needs no connection.
    _HOMES = {
        "DELETED": "stemmadb.client.reading.plain",
        "Change": "stemmadb.client.watching",
        "ClientSettings": "stemmadb.client.session.settings",
        "Conflict": "stemmadb.protocol.errors",
        "Database": "stemmadb.client.database",
        "Identity": "stemmadb.client.keys.identity",
        "Note": "stemmadb.client.notes",
        "LiveMap": "stemmadb.client.live_map",
        "PendingCommit": "stemmadb.client.status",
        "Refused": "stemmadb.client.session.refused",
        "Rejected": "stemmadb.protocol.errors",
        "Space": "stemmadb.client.space",
        "SpaceStatus": "stemmadb.client.status",
        "StemmaError": "stemmadb.protocol.errors",
        "Transaction": "stemmadb.client.transactions",
        "Watch": "stemmadb.client.watches",
        "connect": "stemmadb.client.database",
    }

    def __getattr__(name: str) -> object:
        home = _HOMES.get(name)
        if home is None:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        found = globals()[name] = getattr(import_module(home), name)
        return found

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})


__all__ = [
    "DELETED",
    "Change",
    "ClientSettings",
    "Conflict",
    "Database",
    "Identity",
    "LiveMap",
    "Note",
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
