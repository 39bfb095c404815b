"""The spaces of a principal where several nodes serve them: one table in the database, which every node reads."""

from __future__ import annotations

import asyncio
from typing import Any, Final

from stemmadb.protocol.errors import Unavailable
from stemmadb.protocol.model.values.ids import Did
from stemmadb.server.log_events import Log
from stemmadb.server.storage.port import StorageFailed
from stemmadb.server.storage.postgres import PostgresStorage

LOG: Final = Log("node")
SPACES_AT_ONCE: Final = 256
AGAIN_SECONDS: Final = 1.0


class DatabaseMembership:
    """Implements `SpaceLists`. Lists that arrive while others are written share the next transaction."""

    def __init__(self, storage: PostgresStorage) -> None:
        self._storage = storage
        self._pending: dict[Did, object] = {}
        """The newest list of each space that is not written yet."""
        self._writing: asyncio.Task[None] | None = None
        self._tries_again = True

    def listed(self, space: Did, roles: object) -> None:
        """The access list of a space, as it is now; written soon, and by the owner of the space alone."""
        self._pending[space] = roles
        if self._writing is None:
            self._writing = asyncio.get_running_loop().create_task(self._write_pending())

    async def _write_pending(self) -> None:
        try:
            while self._pending:
                chosen = dict(list(self._pending.items())[:SPACES_AT_ONCE])
                try:
                    await asyncio.to_thread(self._storage.write_members, chosen)
                except (StorageFailed, Unavailable) as failed:
                    LOG.warning("members_not_written", why=str(failed).split("\n", 1)[0])
                    if not self._tries_again:
                        return
                    await asyncio.sleep(AGAIN_SECONDS)
                    continue
                for space, roles in chosen.items():
                    if self._pending[space] is roles:  # else a newer one came meanwhile
                        del self._pending[space]
        finally:
            self._writing = None

    async def settled(self) -> None:
        """Waits for what was listed so far. What cannot be written now is left: the next owner lists it again."""
        self._tries_again = False
        if self._writing is not None:
            await self._writing

    async def of(self, principal: Did) -> list[dict[str, Any]]:
        """The spaces of a principal, by DID."""
        return await asyncio.to_thread(self._storage.spaces_of, principal)

    async def all(self) -> list[dict[str, Any]]:
        """Every space that is known, for an operator: never its contents."""
        return await asyncio.to_thread(self._storage.listed_spaces)
