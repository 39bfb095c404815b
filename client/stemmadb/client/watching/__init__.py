"""Watches on the client: visible changes of a query, published once and in order (NURSERY-4).

`watcher` follows one query over the nursery's views, `change` is what an app gets, and `plain` and `traversed`
compute the answers of queries without and with schemas and links.

Pure: no I/O, no clock. Imports the nursery and the protocol.
"""

from __future__ import annotations

from stemmadb.client.watching.change import Change
from stemmadb.client.watching.overlay import WatchOverlay
from stemmadb.client.watching.watcher import Watcher

__all__ = ["Change", "WatchOverlay", "Watcher"]
