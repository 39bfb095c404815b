"""A live map for code that blocks: a mapping that a watch keeps current."""

from __future__ import annotations

from collections.abc import Callable, ItemsView, Iterator, Mapping, ValuesView
from functools import partial
from types import TracebackType

from stemmadb.client import live_map
from stemmadb.client.cache.records import AsOf
from stemmadb.client.sync.callbacks import CallbackThread
from stemmadb.client.sync.patience import within
from stemmadb.client.sync.portal import Portal
from stemmadb.client.watches import WatchState
from stemmadb.client.watching import Change
from stemmadb.protocol.model.values.ids import Version
from stemmadb.protocol.model.values.json_values import Value


class LiveMap(Mapping[str, Value]):
    """What matches a query, by id, always as it is now; own writes are in it at once.

    with space.live("urn:todo:*", order="-/rank", limit=20) as todos:
        todos.ready()
        for id, todo in todos.items():
            print(id, todo)

    Every look is at one moment: what is iterated does not change meanwhile.
    """

    def __init__(self, live: live_map.LiveMap, portal: Portal, callbacks: CallbackThread) -> None:
        self._live = live
        self._portal = portal
        self._callbacks = callbacks

    def _copy(self) -> dict[str, Value]:
        if self._portal.is_closed:
            return dict(self._live)
        return self._portal.touch(dict, self._live)

    def __getitem__(self, id_: str) -> Value:
        return self._copy()[id_]

    def __iter__(self) -> Iterator[str]:
        return iter(self._copy())

    def __len__(self) -> int:
        return len(self._live)

    def items(self) -> ItemsView[str, Value]:
        return self._copy().items()

    def values(self) -> ValuesView[Value]:
        return self._copy().values()

    @property
    def version(self) -> Version:
        """The confirmed version of the last change."""
        return self._live.version

    @property
    def state(self) -> WatchState:
        """`filling`, `live`, `offline` or `ended`, as of a watch."""
        return self._live.state

    @property
    def as_of(self) -> AsOf | None:
        """While it is offline: the version that is shown, and when the client heard of it."""
        return self._live.as_of

    def ready(self, *, timeout: float | None = None) -> None:
        """Returns once all of it is here; `TimedOut` after `timeout` seconds."""
        self._portal.call(lambda: within(timeout, self._live.ready))

    def on_change(self, callback: Callable[[Change], object]) -> Callable[[], None]:
        """Calls it with each change, where callbacks of `on_rejected` are called; returns how to stop that."""
        callbacks = self._callbacks
        stop = self._portal.touch(self._live.on_change, lambda change: callbacks.call(callback, change))
        return partial(_stop, self._portal, stop)

    def close(self) -> None:
        """Ends it; what it showed last stays in it."""
        if not self._portal.is_closed:
            self._portal.touch(self._live.close)

    def __enter__(self) -> LiveMap:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return repr(self._live)


def _stop(portal: Portal, stop: Callable[[], None]) -> None:
    if not portal.is_closed:
        portal.touch(stop)
