"""The client for scripts and notebooks: the names of `stemmadb.client`, without `async` and `await`.

from stemmadb.client.sync import connect

with connect("ws://127.0.0.1:8420") as db:
    space = db.space("todo")
    with space.transaction() as tx:
        tx.set("urn:todo:1", {"title": "write the spec", "done": False})
    tx.confirmed()
    for change in space.watch("urn:todo:*"):
        print(change.version, change.entered, change.updated, change.left)
        break

Everything happens on a thread of its own, so it works where an event loop runs already. Ctrl-C ends a call cleanly.
Functions given to `transact`, iterables given to `blobs.put` and progress callbacks run on the calling thread;
callbacks given to `on_rejected` and `on_lost` on one that is theirs. Calls that wait take a `timeout`.
"""

from __future__ import annotations

from stemmadb.client.keys.identity import Identity
from stemmadb.client.notes import Note
from stemmadb.client.reading.plain import DELETED
from stemmadb.client.session.settings import ClientSettings
from stemmadb.client.status import SpaceStatus
from stemmadb.client.sync.database import Database, connect
from stemmadb.client.sync.live_map import LiveMap
from stemmadb.client.sync.refusals import PendingCommit, Refused
from stemmadb.client.sync.space import Space
from stemmadb.client.sync.transactions import Transaction
from stemmadb.client.sync.watches import Watch
from stemmadb.client.watching import Change
from stemmadb.protocol.errors import Conflict, Rejected, StemmaError

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
