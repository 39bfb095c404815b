"""The store: the spaces of one storage, opened when they are asked for and closed when others need the room."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager
from typing import Any

from stemmadb.protocol import errors
from stemmadb.protocol.model.ids import Did, TimeMs
from stemmadb.protocol.model.limits import DEFAULTS, Limits
from stemmadb.server.counting import Counts
from stemmadb.server.engine import lanes, settings
from stemmadb.server.engine.cache import HeadCache
from stemmadb.server.engine.inputs import Inputs
from stemmadb.server.engine.lanes import Lanes
from stemmadb.server.engine.past_states import PastCache
from stemmadb.server.engine.settings import Settings
from stemmadb.server.engine.space import Space
from stemmadb.server.storage.port import Storage


class Store:
    """Used from one event loop. Threads and the cache of heads are bounded for all spaces together.

    A store does not close the storage it was given, which may serve others.
    """

    def __init__(
        self,
        storage: Storage,
        *,
        now: Callable[[], TimeMs],
        salts: Iterator[bytes],
        workers: Lanes | None = None,
        limits: Limits = DEFAULTS,
        settings: Settings = settings.DEFAULTS,
        counts: Counts | None = None,
    ) -> None:
        self._storage = storage
        self._lanes = workers or lanes.threads(writers=settings.writer_threads, readers=settings.reader_threads)
        self._inputs = Inputs(now, salts, limits, settings, counts or Counts())
        self._cache = HeadCache(settings.cache_bytes_max)
        self._past = PastCache(settings.past_bytes_max)
        self._open: OrderedDict[Did, Space] = OrderedDict()
        self._changing: dict[Did, asyncio.Task[None]] = {}
        """Spaces being opened or closed: a log is opened only once the one before it is closed."""
        self._is_closed = False

    async def space(self, did: Did, create: bool = False) -> Space:
        """The space, open; `UnknownSpace` if there is none and it is not to be made.

        It may be closed for others' sake as soon as nobody uses it; `lease` keeps it.
        """
        while did not in self._open:
            if self._is_closed:
                raise errors.Unavailable
            others = self._changing.get(did)
            if others is not None:
                await asyncio.wait([others])
                continue
            # Shielded, since others may be waiting for the same space.
            await asyncio.shield(self._begin(did, self._open_space(did, create)))
        self._open.move_to_end(did)
        return self._open[did]

    @asynccontextmanager
    async def lease(self, did: Did, create: bool = False) -> AsyncIterator[Space]:
        """The space, which stays open until the end of the block."""
        space = await self.space(did, create)
        with space.lease():
            yield space

    async def close(self) -> None:
        """Finishes what has come so far and closes all spaces and threads."""
        self._is_closed = True
        while self._changing or self._open:
            for did in list(self._open):
                self._begin(did, self._open.pop(did).close())
            await asyncio.wait(self._changing.values())
        self._lanes.close()

    async def _open_space(self, did: Did, create: bool) -> None:
        space = Space(did, self._storage, self._lanes, self._cache.share(), self._past.share(), self._inputs)
        await space.open(create=create)
        self._make_room()
        self._open[did] = space

    def _make_room(self) -> None:
        """For one more: closes those that were asked for longest ago and that nobody uses."""
        excess = len(self._open) + 1 - self._inputs.settings.open_spaces_max
        unused = [did for did, space in self._open.items() if not space.is_in_use]
        for did in unused[: max(0, excess)]:
            self._begin(did, self._open.pop(did).close())

    def _begin(self, did: Did, change: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = self._changing[did] = asyncio.get_running_loop().create_task(change)
        task.add_done_callback(lambda task: self._end(did, task))
        return task

    def _end(self, did: Did, task: asyncio.Task[None]) -> None:
        if self._changing.get(did) is task:  # it may have been opened, and be closing again already
            del self._changing[did]
        _ = task.cancelled() or task.exception()  # whoever began it is told, if still there
