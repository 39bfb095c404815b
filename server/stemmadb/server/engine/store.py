"""The store: the spaces of one storage, opened when they are asked for and closed when others need the room."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Collection, Coroutine, Iterator
from contextlib import asynccontextmanager
from typing import Any, Final

from stemmadb.protocol import errors
from stemmadb.protocol.model.values.ids import Did, TimeMs
from stemmadb.protocol.model.values.limits import DEFAULTS, Limits
from stemmadb.server.counters import Counts
from stemmadb.server.engine.base import executors, settings
from stemmadb.server.engine.base.executors import Executors
from stemmadb.server.engine.base.head_cache import HeadCache
from stemmadb.server.engine.base.inputs import Inputs
from stemmadb.server.engine.base.settings import Settings
from stemmadb.server.engine.read.past_states import PastCache
from stemmadb.server.engine.space import OpenSpace
from stemmadb.server.log_events import Log
from stemmadb.server.storage.port import DiskFull, NoDescriptors, Storage, StorageFailed

LOG: Final = Log("store")


ROOM_ON_SHORTAGE: Final = 8
"""Spaces that are closed when descriptors have run out, so that the next ones need not close one each."""


def _nothing() -> None:
    """Nobody keeps a space open without need."""


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
        workers: Executors | None = None,
        limits: Limits = DEFAULTS,
        settings: Settings = settings.DEFAULTS,
        counts: Counts | None = None,
    ) -> None:
        self._storage = storage
        self._executors = workers or executors.threads(
            writers=settings.writer_threads, readers=settings.reader_threads
        )
        self.now = now
        self._inputs = Inputs(now, salts, limits, settings, counts or Counts())
        self._cache = HeadCache(settings.cache_bytes_max)
        self._past = PastCache(settings.past_bytes_max)
        self._open: OrderedDict[Did, OpenSpace] = OrderedDict()
        self._changing: dict[Did, asyncio.Task[None]] = {}
        """Spaces being opened or closed: a log is opened only once the one before it is closed."""
        self._quiet: set[Did] = set()
        """Spaces that nobody used at the last look, nor asked for since."""
        self._looking: asyncio.TimerHandle | None = None
        self.release: Callable[[], None] = _nothing
        """Called when there is no room for another space: callers release the leases they do not need."""
        self._is_closed = False
        self._losses = 0
        """How often all spaces were lost: what was being opened meanwhile was lost as well."""

    async def space(self, did: Did, create: bool = False) -> OpenSpace:
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
        self._quiet.discard(did)
        return self._open[did]

    @asynccontextmanager
    async def lease(self, did: Did, create: bool = False) -> AsyncIterator[OpenSpace]:
        """The space, which stays open until the end of the block."""
        space = await self.space(did, create)
        with space.lease():
            yield space

    def close_unused(self, did: Did) -> None:
        """Closes the space now if it is not in use: the caller does not expect to come back."""
        space = self._open.get(did)
        if space is not None and not space.is_in_use:
            self._close_space(did)

    def lose(self, did: Did) -> None:
        """Another process writes the log now: what is known of it is read again before anything is answered."""
        space = self._open.get(did)
        if space is not None:
            space.lose()
            if not space.is_in_use:
                self._close_space(did)

    def lose_all(self) -> None:
        self._losses += 1
        for did in tuple(self._open):
            self.lose(did)

    @property
    def open_spaces(self) -> tuple[Did, ...]:
        return tuple(self._open)

    async def close_spaces(self, dids: Collection[Did]) -> None:
        """Closes these whether they are in use or not, once what has come so far is finished."""
        closing = [self._close_space(did) for did in dids if did in self._open]
        if closing:
            await asyncio.wait(closing)

    async def close(self) -> None:
        """Finishes what has come so far and closes all spaces and threads."""
        self._is_closed = True
        if self._looking is not None:
            self._looking.cancel()
        while self._changing or self._open:
            for did in list(self._open):
                self._begin(did, self._open.pop(did).close())
            await asyncio.wait(self._changing.values())
        self._executors.close()

    async def _open_space(self, did: Did, create: bool) -> None:
        space = OpenSpace(did, self._storage, self._executors, self._cache.share(), self._past.share(), self._inputs)
        await self._make_room()
        losses = self._losses
        try:
            try:
                await space.open(create=create)
            except NoDescriptors:
                LOG.warning("no_descriptors", open_spaces=len(self._open))
                await self._make_room(at_least=ROOM_ON_SHORTAGE)
                await space.open(create=create)
        except DiskFull:
            raise errors.StorageFull from None
        except StorageFailed:
            raise errors.Unavailable from None
        if losses != self._losses:
            await space.close()
            raise errors.Unavailable
        self._open[did] = space
        if self._looking is None:
            self._look_later()

    async def _make_room(self, at_least: int = 0) -> None:
        """For one more: closes the unused spaces that were asked for longest ago, and waits until they are closed."""
        excess = max(len(self._open) + 1 - self._inputs.settings.open_spaces_max, at_least)
        if excess <= 0:
            return
        if len(unused := self._unused()) < excess:
            self.release()
            unused = self._unused()
        closing = [self._close_space(did) for did in unused[:excess]]
        if closing:
            await asyncio.wait(closing)

    def _unused(self) -> list[Did]:
        return [did for did, space in self._open.items() if not space.is_in_use]

    def _close_space(self, did: Did) -> asyncio.Task[None]:
        self._quiet.discard(did)
        return self._begin(did, self._open.pop(did).close())

    def _look_later(self) -> None:
        seconds = self._inputs.settings.space_idle_ms / 1_000
        self._looking = asyncio.get_running_loop().call_later(seconds, self._close_idle)

    def _close_idle(self) -> None:
        """Closes the spaces that were unused at the last look too; looks again while any is open."""
        self._looking = None
        unused = set(self._unused())
        for did in unused & self._quiet:
            self._close_space(did)
        self._quiet = unused & self._open.keys()
        if self._open:
            self._look_later()

    def _begin(self, did: Did, change: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = self._changing[did] = asyncio.get_running_loop().create_task(change)
        task.add_done_callback(lambda task: self._end(did, task))
        return task

    def _end(self, did: Did, task: asyncio.Task[None]) -> None:
        if self._changing.get(did) is task:  # it may have been opened, and be closing again already
            del self._changing[did]
        _ = task.cancelled() or task.exception()  # the caller that began it gets it, if it still waits
