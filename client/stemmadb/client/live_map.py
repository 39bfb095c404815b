"""A live map: the answer of a query as a mapping that a watch keeps current."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator, Iterator, Mapping
from types import TracebackType

from stemmadb.client.cache.records import AsOf
from stemmadb.client.session.notifier import call_back, registered
from stemmadb.client.watches import Watch, WatchState, window_of
from stemmadb.client.watching import Change
from stemmadb.protocol.errors import GoingAway, StemmaError
from stemmadb.protocol.model.values.ids import EMPTY_SPACE, EntityId, Version
from stemmadb.protocol.model.values.json_values import Value


class LiveMap(Mapping[str, Value]):
    """What matches a query, by id, always as it is now; own writes are in it at once.

        async with space.live("urn:todo:*", order="-/rank", limit=20) as todos:
            await todos.ready
            todos.on_change(lambda change: print(len(todos)))

    It iterates in the order of the query, or by id. It ends with its block, with `close`, or with the client; what it
    showed last stays in it.
    """

    def __init__(self, watch: Watch) -> None:
        self._watch = watch
        self._window = window_of(watch)
        self._values: dict[str, Value] = {}
        self._ids: list[str] | None = None
        """The ids in order, made when somebody asks."""
        self._callbacks: dict[object, Callable[[Change], object]] = {}
        self._ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.version: Version = EMPTY_SPACE
        """The confirmed version of the last change."""
        self.error: StemmaError | None = None
        """Why it is over, if it is and not by `close`."""
        self._task = asyncio.get_running_loop().create_task(self._follow())

    # ------------------------------------------------------------ reading

    def __getitem__(self, id_: str) -> Value:
        return self._values[id_]

    def __iter__(self) -> Iterator[str]:
        if self._ids is None:
            self._ids = sorted(self._values, key=self._sort_key)
        return iter(self._ids)

    def __len__(self) -> int:
        return len(self._values)

    def _sort_key(self, id_: str) -> tuple[object, str]:
        key: object = () if self._window is None else self._window.row(EntityId(id_), self._values[id_]).key
        return key, id_

    # ------------------------------------------------------------ following

    @property
    def ready(self) -> Ready:
        """`await live.ready` returns once all of it is here; raises why it never will be."""
        return Ready(self._ready)

    @property
    def state(self) -> WatchState:
        """`filling`, `live`, `offline` or `ended`, as of a watch."""
        return self._watch.state

    @property
    def as_of(self) -> AsOf | None:
        """While it is offline: the version that is shown, and when the client heard of it."""
        return self._watch.as_of

    def on_change(self, callback: Callable[[Change], object]) -> Callable[[], None]:
        """Calls it with each change, after the map has it; returns how to stop that.

        It may be a coroutine function, which then runs in a task.
        """
        return registered(self._callbacks, callback)

    async def _follow(self) -> None:
        try:
            async for change in self._watch:
                self._apply(change)
            self._end(GoingAway("The live map was closed."))
        except StemmaError as error:
            self.error = error
            self._end(error)

    def _apply(self, change: Change) -> None:
        self._values |= change.entered | change.updated
        for id_ in change.left:
            del self._values[id_]
        self._ids, self.version = None, change.version
        if not self._ready.done():
            self._ready.set_result(None)
        for callback in tuple(self._callbacks.values()):
            call_back(callback, change)

    def _end(self, error: StemmaError) -> None:
        if not self._ready.done():
            self._ready.set_exception(error)
            self._ready.exception()  # nobody need wait for it

    # ------------------------------------------------------------ the end

    def close(self) -> None:
        """Ends it; closing twice does no harm."""
        self._watch.close()

    async def __aenter__(self) -> LiveMap:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"LiveMap({self.state}, {len(self)} entities, version {self.version})"


class Ready:
    """What `LiveMap.ready` is: awaited as often as wanted, by as many as want."""

    def __init__(self, future: asyncio.Future[None]) -> None:
        self._future = future

    def __await__(self) -> Generator[None, None, None]:
        yield from asyncio.shield(self._future).__await__()
