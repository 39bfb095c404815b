"""A watch, as an app iterates it: the first change brings what is there, the next ones what happens."""

from __future__ import annotations

import asyncio
import weakref
from types import TracebackType
from typing import Literal, TypeAlias

from stemmadb.client.cache.records import AsOf
from stemmadb.client.session.subscriptions import Subscription, Subscriptions
from stemmadb.client.watching import Change
from stemmadb.protocol.errors import GoingAway
from stemmadb.protocol.model.query.query import Query
from stemmadb.protocol.model.query.window import Window

WatchState: TypeAlias = Literal["filling", "live", "offline", "ended"]


class Watch:
    """An async iterator of visible changes; own writes are among them at once.

        async for change in space.watch("urn:todo:*"):
            print(change.version, change.entered, change.updated, change.left)

    It ends with `close`, with the client, or when nobody holds it any more. As a context manager it ends with the
    block. While it lives, what it shows is held here, and reading it needs no server.
    """

    def __init__(self, subscriptions: Subscriptions, query: Query) -> None:
        self._subscriptions = subscriptions
        self._subscription = subscriptions.watch(query)
        loop = asyncio.get_running_loop()
        self._finalizer = weakref.finalize(self, _forget, loop, subscriptions, self._subscription)
        self._finalizer.atexit = False

    @property
    def is_filled(self) -> bool:
        """Whether all of it has come from the server."""
        return self._subscription.watcher.is_filled

    @property
    def state(self) -> WatchState:
        """`filling` until all of it has come, then `live`; `offline` while there is no server to tell of changes."""
        watcher = self._subscription.watcher
        if watcher.error is not None:
            return "ended"
        if not watcher.is_filled:
            return "filling"
        return "live" if self.as_of is None else "offline"

    @property
    def as_of(self) -> AsOf | None:
        """While it is offline: the version that is shown, and when the client heard of it. None once it is live."""
        return self._subscriptions.as_of()

    def __aiter__(self) -> Watch:
        return self

    async def __anext__(self) -> Change:
        try:
            return await self._subscription.next()
        except GoingAway:
            raise StopAsyncIteration from None

    async def next(self) -> Change:
        """The next change; `GoingAway` if the client was closed."""
        return await self._subscription.next()

    def close(self) -> None:
        """Ends the watch; a caller that waits for a change gets `GoingAway`."""
        if self._finalizer.detach() is not None:
            self._subscriptions.unwatch(self._subscription)
            self._subscription.watcher.end(GoingAway("The watch was closed."))
            self._subscription.wake()

    async def __aenter__(self) -> Watch:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


def window_of(watch: Watch) -> Window | None:
    """The order and the bounds of its rows, if it has any."""
    return watch._subscription.watcher.window


def _forget(loop: asyncio.AbstractEventLoop, subscriptions: Subscriptions, subscription: Subscription) -> None:
    """Called when nobody holds the watch, on whichever thread found that out."""
    if not loop.is_closed():
        loop.call_soon_threadsafe(subscriptions.unwatch, subscription)
