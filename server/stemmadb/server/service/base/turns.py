"""Turns: what each principal does one after the other, whatever the others do."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from stemmadb.protocol.model.values.ids import Did


class Turns:
    """Used from one event loop. Holds nothing of a principal that waits for nothing."""

    def __init__(self) -> None:
        self._locks: dict[Did, tuple[asyncio.Lock, int]] = {}

    @asynccontextmanager
    async def turn(self, principal: Did) -> AsyncIterator[None]:
        """Waits until the turns of this principal that were asked for before are over."""
        lock, users = self._locks.get(principal) or (asyncio.Lock(), 0)
        self._locks[principal] = (lock, users + 1)
        try:
            async with lock:
                yield
        finally:
            lock, users = self._locks[principal]
            if users == 1:
                del self._locks[principal]
            else:
                self._locks[principal] = (lock, users - 1)

    def __len__(self) -> int:
        return len(self._locks)
