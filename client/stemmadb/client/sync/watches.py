"""A watch that blocks: the first change brings what is there, the next ones what happens."""

from __future__ import annotations

from types import TracebackType

from stemmadb.client import watches
from stemmadb.client.cache.records import AsOf
from stemmadb.client.sync.patience import within
from stemmadb.client.sync.portal import Portal
from stemmadb.client.sync.streams import BlockingStream
from stemmadb.client.watching import Change
from stemmadb.protocol.errors import OutOfOrder


class Watch:
    """An iterator of visible changes; own writes are among them at once.

        for change in space.watch("urn:todo:*"):
            print(change.version, change.entered, change.updated, change.left)

    It ends with `close`, with the client, or when nobody holds it any more. As a context manager it ends with the
    block. While it lives, what it shows is held here, and reading it needs no server.
    """

    def __init__(self, watch: watches.Watch, portal: Portal) -> None:
        self._watch = watch
        self._portal = portal
        self._changes = BlockingStream(portal, watch)

    @property
    def is_filled(self) -> bool:
        """Whether all of it has come from the server."""
        return self._watch.is_filled

    @property
    def state(self) -> watches.WatchState:
        """`filling` until all of it has come, then `live`; `offline` while there is no server to tell of changes."""
        return self._watch.state

    @property
    def as_of(self) -> AsOf | None:
        """While it is offline: the version that is shown, and when the client heard of it. None once it is live."""
        return self._watch.as_of

    def __iter__(self) -> Watch:
        return self

    def __next__(self) -> Change:
        try:
            return next(self._changes)
        except OutOfOrder:
            if not self._portal.is_closed:
                raise
            raise StopIteration from None

    def next(self, *, timeout: float | None = None) -> Change:
        """The next change; `GoingAway` if the watch or the client was closed.

        `TimedOut` if there is none within `timeout` seconds; nothing is lost by that.
        """
        return self._portal.call(lambda: within(timeout, self._watch.next()))

    def close(self) -> None:
        """Ends the watch; a caller that waits for a change gets `GoingAway`."""
        if not self._portal.is_closed:
            self._portal.touch(self._watch.close)

    def __enter__(self) -> Watch:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()
