"""Which node serves a space: the one that the database says, or this one if no live node owns it."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping

from stemmadb.protocol.model.values.ids import Did
from stemmadb.server.serving.ownership.port import SERVED_HERE, Owner, ServedBy
from stemmadb.server.storage.postgres import PostgresStorage


class NodeOwnership:
    """Implements `Ownership`."""

    is_single = False

    def __init__(self, storage: PostgresStorage) -> None:
        self._storage = storage

    def known(self, space: Did) -> Owner | None:
        """Ours as long as we are alive and its log is open; whoever owns others is asked for each connection."""
        is_ours = not self._storage.is_draining and self._storage.is_open(space) and self.is_alive()
        return SERVED_HERE if is_ours else None

    async def claim(self, spaces: Collection[Did]) -> Mapping[Did, Owner]:
        if self._storage.is_draining or not self.is_alive():
            return {}
        owners = await asyncio.to_thread(self._storage.claim, spaces)
        return {
            space: SERVED_HERE if address is None else ServedBy(address)
            for space, address in owners.items()
            if address != ""  # a command has it, which takes no connections
        }

    def is_alive(self) -> bool:
        return self._storage.node.is_alive
