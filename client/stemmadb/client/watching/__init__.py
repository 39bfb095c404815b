"""Watching on the client: what is shown becomes visible changes, told once and in order (NURSERY-4). Pure."""

from __future__ import annotations

from stemmadb.client.watching.change import Change
from stemmadb.client.watching.shelf import Shelf
from stemmadb.client.watching.watcher import Watcher

__all__ = ["Change", "Shelf", "Watcher"]
